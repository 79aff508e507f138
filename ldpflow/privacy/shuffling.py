"""Privacy amplification by shuffling, with explicit constants and inside its valid range only.

n users' records are permuted uniformly at random and answered one after the other by (eps_0, delta_0)
local randomisers, which may depend on earlier answers. Everything released is then (eps, delta)-DP in the
central sense (Feldman, McMillan and Talwar, 2021, "Hiding among the clones", Theorem 3.8) with

    eps   = log(1 + (e^eps_0 - 1)/(e^eps_0 + 1) (8 sqrt(e^eps_0 log(4/delta'))/sqrt(n) + 8 e^eps_0/n))
    delta = delta' + (e^eps + 1)(1 + e^-eps_0/2) n delta_0

provided that eps_0 <= log(n / (16 log(2/delta'))). Natural logarithms, 40 digits.
"""

from __future__ import annotations

from mpmath import mp, mpf

from ldpflow.constants import workdps
from ldpflow.errors import InputError

DIGITS = 40


def largest_local_epsilon(n: int, delta: float) -> float:
    """log(n / (16 log(2/delta))): beyond it the theorem says nothing."""
    with workdps(DIGITS):
        return float(mp.log(mpf(n) / (16 * mp.log(2 / mpf(delta)))))


def central_epsilon(epsilon0: mpf, delta: mpf, n: int) -> mpf:
    """The first formula."""
    e = mp.exp(epsilon0)
    rest = 8 * mp.sqrt(e * mp.log(4 / delta)) / mp.sqrt(n) + 8 * e / n
    return mp.log(1 + (e - 1) / (e + 1) * rest)


def amplified(epsilon0: float, delta0: float, n: int, delta: float) -> tuple[float, float]:
    """(eps, delta) of n shuffled (eps_0, delta_0) local randomisers; ``delta`` is delta'.

    Raises
    ------
    InputError
        If eps_0 is beyond the range of the theorem.
    """
    if epsilon0 > largest_local_epsilon(n, delta):
        raise InputError(
            "epsilon0",
            epsilon0,
            f"at most {largest_local_epsilon(n, delta):.4g} for n = {n:,} and delta' = {delta:g}",
            "Amplification by shuffling is not proved beyond.",
        )
    with workdps(DIGITS):
        e0 = mpf(epsilon0)
        epsilon = central_epsilon(e0, mpf(delta), n)
        extra = (mp.exp(epsilon) + 1) * (1 + mp.exp(-e0) / 2) * n * mpf(delta0)
        return float(epsilon), float(mpf(delta) + extra)


def noise_multiplier(epsilon: float, delta: float, n: int) -> tuple[float, float]:
    """Noise multiplier of shuffled Gaussian randomisers, and the eps_0 of each.

    delta' = delta/2; the other half goes to delta_0 = (delta/2)/((e^eps + 1)(1 + e^-eps_0/2) n). eps_0 <= 1
    is the largest with the first formula equal to ``epsilon``, and alpha = sqrt(2 log(1.25/delta_0))/eps_0,
    the classical calibration, which holds for eps_0 <= 1.

    Raises
    ------
    InputError
        If epsilon is larger than what eps_0 = 1, or the theorem's range, gives.
    """
    with workdps(DIGITS):
        half = mpf(delta) / 2
        high = min(mpf(1), mpf(largest_local_epsilon(n, float(half))))
        if high <= 0:
            raise InputError(
                "grid.n", n, "more users", "Amplification by shuffling is not proved for so few."
            )
        reached = central_epsilon(high, half, n)
        if mpf(epsilon) > reached:
            raise InputError(
                "algorithm.epsilon",
                epsilon,
                f"at most {float(reached):.4g} with n = {n:,} and delta = {delta:g}",
                "Amplification by shuffling is not proved beyond.",
            )
        low = mpf(0)
        for _ in range(120):
            middle = (low + high) / 2
            if central_epsilon(middle, half, n) <= mpf(epsilon):
                low = middle
            else:
                high = middle
        delta0 = half / ((mp.exp(mpf(epsilon)) + 1) * (1 + mp.exp(-low) / 2) * n)
        return float(mp.sqrt(2 * mp.log(mpf("1.25") / delta0)) / low), float(low)
