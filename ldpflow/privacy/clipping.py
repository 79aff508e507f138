"""Accounting of one-pass regression with clipped gradients (Varshney, Thakurta and Jain, 2022, Section 3).

Neighbours differ in the content of one record (replacement; N is public; adding or removing a record
would shift the batches and is not covered). A batch releases noisy counts of a threshold set (DP-STAT)
and a noisy clipped gradient, each 1/(2 alpha^2)-zCDP. Batches are disjoint and used once, so that
nothing adds up over them.

* ``disjoint``: threshold and gradient sets are disjoint too, one record is in one of them: the whole run
  is 1/(2 alpha^2)-zCDP. Needs the corrected algorithm.
* ``gdp``: the same, as 1/alpha-GDP, which is what Gaussian noise gives without loss.
* ``paper``: the two costs added, 1/alpha^2 (Theorem 3.6).
"""

from __future__ import annotations

from typing import Literal

from mpmath import mp, mpf

from ldpflow.constants import workdps
from ldpflow.privacy import gaussian, rdp

Accounting = Literal["disjoint", "gdp", "paper"]
DIGITS = 40


def noise_multiplier(epsilon: float, delta: float, accounting: Accounting) -> float:
    """The least alpha with which a run is (epsilon, delta)-DP under an accounting."""
    if accounting == "gdp":
        return exact_gdp(epsilon, delta)
    # A run is (z, c z/(2 alpha^2))-RDP.
    return rdp.noise_multiplier(epsilon, delta, 1.0 if accounting == "disjoint" else 2.0)


def exact_gdp(epsilon: float, delta: float) -> float:
    """1/mu with mu the largest for (epsilon, delta): bisection in 40 digits, the same on every machine."""
    with workdps(DIGITS):
        e, d = mpf(epsilon), mpf(delta)

        def allowed(mu: mpf) -> bool:
            return bool(mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu) <= d)

        low, high = mpf(0), mpf(1)
        while allowed(high):
            high *= 2
        for _ in range(130):
            mu = (low + high) / 2
            low, high = (mu, high) if allowed(mu) else (low, mu)
        return float(1 / low)


def printed_noise_multiplier(epsilon: float, delta: float) -> float:
    """2 sqrt(log(1/delta) + epsilon)/epsilon, Theorem 3.6.

    The simpler sqrt(8 log(1/delta))/epsilon that is printed beside it, for epsilon <= log(1/delta), is
    ``rdp.printed_noise_multiplier(epsilon, delta, sqrt(8))``.
    """
    with workdps(DIGITS):
        return float(2 * mp.sqrt(mp.log(1 / mpf(delta)) + mpf(epsilon)) / mpf(epsilon))


def statistic_rho(alpha: float, queries: int, doublings: int) -> float:
    """zCDP of DP-STAT: counts of sensitivity 1 with noise alpha^2 ``doublings``; 1/(2 alpha^2) for as many.

    The printed loop makes one query more than its noise is made for.
    """
    return queries / (2.0 * doublings * alpha * alpha)


def run_rho(alpha: float, accounting: Accounting, printed: bool, doublings: int) -> float:
    """zCDP of a whole run with noise multiplier alpha.

    ``printed``: the algorithm as printed, where the record at the seam of the two sets is in both and one
    query too many is made: (1 + (M + 1)/M)/(2 alpha^2), under any accounting.
    """
    if printed:
        return 0.5 / alpha**2 + statistic_rho(alpha, doublings + 1, doublings)
    return (1.0 if accounting == "paper" else 0.5) / alpha**2


def run_epsilon(alpha: float, delta: float, accounting: Accounting, printed: bool, doublings: int) -> float:
    """epsilon of a whole run with noise multiplier alpha (see :func:`run_rho`)."""
    if accounting == "gdp" and not printed:
        return gaussian.epsilon_of(delta, 1.0 / alpha)
    return rdp.epsilon_of(run_rho(alpha, accounting, printed, doublings), delta)
