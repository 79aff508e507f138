"""Gaussian differential privacy (GDP) and its conversions.

A mechanism is mu-GDP if telling any two neighbouring inputs apart is at least as hard as telling
N(0, 1) from N(mu, 1): its trade-off function is at least G_mu(t) = Phi(Phi^-1(1 - t) - mu). Source:
Dong, Roth and Su (2022), Gaussian differential privacy, JRSS-B 84(1). The unit is one record, one
user's whole contribution. All functions are for setting up and reporting, not for inner loops; scipy and
dp_accounting (a second) are loaded by those that need them, so that reading a study does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ldpflow.errors import InputError


def positive(name: str, value: float) -> None:
    """Refuse what is not a positive finite number."""
    if not (value > 0 and math.isfinite(value)):
        raise InputError(name, value, "a finite number > 0")


def share(name: str, value: float) -> None:
    """Refuse what is not a probability strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InputError(name, value, "a number in (0, 1)")


def not_negative(epsilon: float) -> None:
    """Refuse an epsilon that is negative or infinite."""
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InputError("epsilon", epsilon, "a finite number >= 0")


def trade_off(mu: float, alpha: float) -> float:
    """G_mu(alpha): the smallest type II error of a test at level alpha."""
    from scipy import special

    return float(special.ndtr(special.ndtri(1.0 - alpha) - mu))


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (eps, delta)-DP.

    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) (Dong, Roth and Su, Corollary 2.13).
    mu-GDP is equivalent to this curve at all eps >= 0. At eps = 0 it is the total variation distance.

    Parameters
    ----------
    epsilon : float >= 0
    mu : float > 0
    """
    from scipy import special

    positive("mu", mu)
    not_negative(epsilon)
    first = special.log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


def epsilon_of(delta: float, mu: float) -> float:
    """The smallest eps for which mu-GDP implies (eps, delta)-DP; 0 where delta is large enough."""
    import dp_accounting

    positive("mu", mu)
    share("delta", delta)
    return float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta))


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies this (eps, delta)-DP.

    The converse does not hold: one pair (eps, delta) does not imply GDP.
    """
    import dp_accounting

    not_negative(epsilon)
    share("delta", delta)
    return float(1.0 / dp_accounting.get_sigma_gaussian(epsilon, delta))


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
    found = checked(budgets)
    if not found:
        raise InputError("budgets", [], "at least one budget")
    return max(found)


def composed(budgets: Iterable[float]) -> float:
    """The guarantee of several releases about one user: sqrt(sum mu^2) (sequential)."""
    return math.sqrt(math.fsum(mu**2 for mu in checked(budgets)))


def checked(budgets: Iterable[float]) -> list[float]:
    """Budgets mu, all of them positive."""
    found = [float(mu) for mu in budgets]
    for mu in found:
        positive("mu", mu)
    return found
