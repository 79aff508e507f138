"""Addresses of random numbers: study seed, role, key, replicate, position.

Two kinds of stream:

* sequential: xoshiro256++ seeded with the SHA-256 digest of the first four parts of the address;
  the position is the place in the stream. Data, mechanism noise and bootstrap multipliers.
* counter-addressed: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) keyed with the same digest,
  whose position is any 128-bit counter, for example (tree, level, index) of a node. Nothing before
  it has to be drawn.

So a replicate's numbers depend neither on the number of replicates, nor on which batch, worker or
machine computes it, nor on what else the study contains.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

LANES = 32  # replicates in lockstep: four vector registers of eight doubles, or eight of four
CHUNK = 128
"""Draws per plane and lane: a plane has 32 KiB. Part of the address of a random number (a normal's partner
lies half a chunk away), so STREAM_VERSION must be raised with it. LANES is a matter of speed alone."""

PLANE = CHUNK * LANES

STRIDE = PLANE + LANES
"""From plane to plane in a kernel. At a distance of 32 KiB the same draw of all planes would fall into
the same sets of the first-level cache, which from ten planes on costs a kernel half its speed."""

STREAM_VERSION = 1
"""Incremented if an address gives other bits. Stored in every part."""


def address_digests(seed: int, role: str, key: str, replicates: Iterable[int]) -> list[bytes]:
    """SHA-256 of ldpflow/VERSION/SEED/ROLE/KEY/REPLICATE: 256 bits, the size of one generator's state."""
    common = hashlib.sha256(f"ldpflow/{STREAM_VERSION}/{seed}/{role}/{key}/".encode())
    found = []
    for replicate in replicates:
        whole = common.copy()
        whole.update(f"{replicate}".encode())
        found.append(whole.digest())
    return found


def lane_states(seed: int, role: str, key: str, replicates: Iterable[int]) -> NDArray[np.uint64]:
    """Initial generator states of up to LANES replicates, shape (4 * LANES,), word-major.

    Lanes without a replicate repeat the first one's.
    """
    digests = address_digests(seed, role, key, replicates)
    digests += digests[:1] * (LANES - len(digests))
    states = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
    return np.ascontiguousarray(states.reshape(LANES, 4).T).reshape(-1)


def counter_keys(seed: int, role: str, key: str, replicate: int) -> tuple[int, int]:
    """The two 32-bit key words of a replicate's counter-addressed stream."""
    (digest,) = address_digests(seed, role, key, [replicate])
    words = np.frombuffer(digest, dtype="<u4")
    return int(words[0]), int(words[1])


def lane_keys(seed: int, role: str, key: str, replicates: Iterable[int]) -> NDArray[np.uint64]:
    """Key words of up to LANES counter-addressed streams, shape (2 * LANES,), first words first."""
    first = lane_states(seed, role, key, replicates)[:LANES]
    return np.concatenate([first & np.uint64(0xFFFFFFFF), first >> np.uint64(32)])
