"""Philox4x32-10: random bits addressed by a counter instead of drawn in sequence.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from numba import njit

from ldpflow.random.elementary import U64

MASK = U64(0xFFFFFFFF)
MULTIPLIER_0 = U64(0xD2511F53)
MULTIPLIER_1 = U64(0xCD9E8D57)
WEYL_0 = U64(0x9E3779B9)
WEYL_1 = U64(0xBB67AE85)


# Inlined by force: a loop over lanes with a call in it is not vectorised.
@njit(error_model="numpy", forceinline=True)
def philox(key0, key1, c0, c1, c2, c3):  # type: ignore[no-untyped-def]
    """Four 32-bit words (in uint64s) for a 64-bit key and a 128-bit counter, all as words."""
    k0 = U64(key0)
    k1 = U64(key1)
    x0 = U64(c0)
    x1 = U64(c1)
    x2 = U64(c2)
    x3 = U64(c3)
    for _ in range(10):
        p0 = MULTIPLIER_0 * x0
        p1 = MULTIPLIER_1 * x2
        x0 = (p1 >> U64(32)) ^ x1 ^ k0
        x1 = p1 & MASK
        x2 = (p0 >> U64(32)) ^ x3 ^ k1
        x3 = p0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return x0, x1, x2, x3
