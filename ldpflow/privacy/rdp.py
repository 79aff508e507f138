"""Concentrated differential privacy in one number rho, and its (epsilon, delta).

A sum of Gaussian mechanisms is (z, rho z)-RDP at every order z > 1 (zCDP with parameter rho; Bun and
Steinke, 2016; Mironov, 2017), which gives (rho + 2 sqrt(rho log(1/delta)), delta)-DP. Natural
logarithms; constants are computed in 40 digits, because sigma reaches every row.
"""

from __future__ import annotations

from mpmath import mp, mpf

from ldpflow.constants import workdps

DIGITS = 40


def epsilon_of(rho: float, delta: float) -> float:
    """epsilon = rho + 2 sqrt(rho log(1/delta)): what rho z RDP guarantees at delta."""
    with workdps(DIGITS):
        r = mpf(rho)
        return float(r + 2 * mp.sqrt(r * mp.log(1 / mpf(delta))))


def rho_of(epsilon: float, delta: float) -> float:
    """rho = (sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2, the inverse of the above."""
    with workdps(DIGITS):
        rest = mp.log(1 / mpf(delta))
        return float((mp.sqrt(rest + mpf(epsilon)) - mp.sqrt(rest)) ** 2)


def noise_multiplier(epsilon: float, delta: float, c: float) -> float:
    """The least sigma with which a mechanism of RDP c z / (2 sigma^2) is (epsilon, delta)-DP here.

    Parameters
    ----------
    epsilon, delta : float
        The budget of the whole transcript; epsilon > 0, 0 < delta < 1.
    c : float
        What the accountant finds (see :mod:`ldpflow.privacy.tree`).
    """
    with workdps(DIGITS):
        rest = mp.log(1 / mpf(delta))
        root = mp.sqrt(rest + mpf(epsilon)) - mp.sqrt(rest)
        return float(mp.sqrt(mpf(c) / 2) / root)


def printed_noise_multiplier(epsilon: float, delta: float, factor: float) -> float:
    """sigma = factor sqrt(log(1/delta)) / epsilon, the rule printed by Tran and Cutkosky (2022).

    ``factor`` is 2 in their Theorem 4 and 4 in their Theorem 8. The first is sufficient with c = 1
    for epsilon <= 2.343 log(1/delta) only; print asks for delta >= exp(-epsilon), which is the wrong
    way round.
    """
    with workdps(DIGITS):
        return float(factor * mp.sqrt(mp.log(1 / mpf(delta))) / mpf(epsilon))
