"""Gaussian differential privacy (GDP) and its conversions.

A mechanism is mu-GDP if telling any two neighbouring inputs apart is at least as hard as telling
N(0, 1) from N(mu, 1): its trade-off function is at least G_mu(t) = Phi(Phi^-1(1 - t) - mu). Source:
Dong, Roth and Su (2022), Gaussian differential privacy, JRSS-B 84(1). The unit is one record, one
user's whole contribution. All functions are for setting up and reporting, not for inner loops; scipy is
loaded by those that need it, so that reading a study does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ldpflow.errors import InputError

__all__ = [
    "composed",
    "delta_of",
    "epsilon_of",
    "mu_of",
    "mu_of_pure",
    "pure_of_mu",
    "trade_off",
    "transcript",
    "zcdp_of",
]


def positive(name: str, value: float) -> None:
    """Refuse what is not a positive finite number."""
    if not (value > 0 and math.isfinite(value)):
        raise InputError(name, value, "a finite number > 0")


def share(name: str, value: float) -> None:
    """Refuse what is not a probability strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(name, value, "a number in (0, 1)")


def trade_off(mu: float, alpha: float) -> float:
    """G_mu(alpha): the smallest type II error of a test at level alpha."""
    from scipy import special

    return float(special.ndtr(special.ndtri(1.0 - alpha) - mu))


def log_delta(epsilon: float, mu: float) -> float:
    """log delta(eps) under mu-GDP; -inf where it leaves floating point."""
    from scipy import special

    first = special.log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + special.log_ndtr(-epsilon / mu - mu / 2)
    if second >= first:  # equal up to rounding, far out
        return -math.inf
    return float(first + math.log(-math.expm1(second - first)))


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (eps, delta)-DP.

    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) (Dong, Roth and Su, Corollary 2.13).
    mu-GDP is equivalent to this curve at all eps >= 0. At eps = 0 it is the total variation distance.

    Parameters
    ----------
    epsilon : float >= 0
    mu : float > 0
    """
    positive("mu", mu)
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InputError("epsilon", epsilon, "a finite number >= 0")
    return math.exp(log_delta(epsilon, mu))


def epsilon_of(delta: float, mu: float) -> float:
    """The smallest eps for which mu-GDP implies (eps, delta)-DP; 0 where delta is large enough."""
    from scipy import optimize

    positive("mu", mu)
    share("delta", delta)
    target = math.log(delta)
    if log_delta(0.0, mu) <= target:
        return 0.0
    high = mu * (mu / 2 + math.sqrt(-2 * target) + 1)  # Phi(-high/mu + mu/2) is below delta
    return float(optimize.brentq(lambda e: finite(log_delta(e, mu)) - target, 0.0, high, xtol=1e-13))


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies this (eps, delta)-DP.

    The converse does not hold: one pair (eps, delta) does not imply GDP.
    """
    from scipy import optimize

    share("delta", delta)
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InputError("epsilon", epsilon, "a finite number >= 0")
    target = math.log(delta)
    high = 1.0
    while log_delta(epsilon, high) < target:
        high *= 2
    return float(optimize.brentq(lambda m: finite(log_delta(epsilon, m)) - target, 1e-8, high, xtol=1e-14))


def finite(value: float) -> float:
    """A value that a root search can work with."""
    return max(value, -1e300)


def mu_of_pure(epsilon: float) -> float:
    """The smallest mu such that every eps-DP mechanism is mu-GDP: 2 Phi^-1(e^eps/(1 + e^eps)).

    The bridge by which Laplace and randomised response are compared with Gaussian noise.
    """
    from scipy import special

    positive("epsilon", epsilon)
    return float(-2 * special.ndtri(special.expit(-epsilon)))


def pure_of_mu(mu: float) -> float:
    """The largest eps such that every eps-DP mechanism is mu-GDP: the inverse of mu_of_pure.

    No mu-GDP mechanism is thereby eps-DP: Gaussian noise is eps-DP for no eps.
    """
    from scipy import special

    positive("mu", mu)
    return float(special.log_ndtr(mu / 2) - special.log_ndtr(-mu / 2))


def zcdp_of(mu: float) -> float:
    """rho of the zero-concentrated DP that mu-GDP implies: mu^2/2."""
    positive("mu", mu)
    return mu**2 / 2


def transcript(budgets: Iterable[float]) -> float:
    """The guarantee of a one-pass transcript whose user k has mu_k: max_k mu_k (parallel).

    Changing user k's record alone is hidden by mu_k; this is the statement for any user.
    """
    found = [float(mu) for mu in budgets]
    for mu in found:
        positive("mu", mu)
    if not found:
        raise InputError("budgets", [], "at least one budget")
    return max(found)


def composed(budgets: Iterable[float]) -> float:
    """The guarantee of several releases about one user: sqrt(sum mu^2) (sequential)."""
    found = [float(mu) for mu in budgets]
    for mu in found:
        positive("mu", mu)
    return math.sqrt(math.fsum(mu**2 for mu in found))
