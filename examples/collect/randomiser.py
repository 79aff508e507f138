"""Randomised response with the operating system's random source and an exact rational probability.

The true bit is sent with probability K / 2^64, K = floor(2^64 e^eps / (1 + e^eps)), its complement
otherwise: rounding K down makes the report eps-differentially private with eps at most as stated. K is
computed in integers and fractions, so that no floating-point number decides a report, and ``secrets``
draws from the operating system's cryptographic generator, whose numbers cannot be predicted.
"""

from __future__ import annotations

import secrets
from fractions import Fraction

__all__ = ["keep_weight", "randomised"]

BITS = 64
TERMS = 80


def keep_weight(epsilon: Fraction) -> int:
    """floor(2^64 / (1 + e^-eps)), from bounds of the exponential series on both sides.

    Parameters
    ----------
    epsilon : Fraction in (0, 16]
    """
    if not 0 < epsilon <= 16:
        raise ValueError(f"epsilon must lie in (0, 16], not {epsilon}")
    term = total = Fraction(1)
    for k in range(1, TERMS):
        term = term * epsilon / k
        total += term
    # total < e^eps < total + 2 term, since the terms left out fall by more than half each.
    low = (total * 2**BITS) / (total + 1)
    high = ((total + 2 * term) * 2**BITS) / (total + 2 * term + 1)
    if int(low) != int(high):
        raise ValueError(f"more terms are needed for epsilon = {epsilon}")
    return int(low)


def randomised(bit: int, weight: int) -> int:
    """The bit with probability weight / 2^64, else its complement."""
    keep = secrets.randbelow(2**BITS) < weight
    return bit if keep else 1 - bit
