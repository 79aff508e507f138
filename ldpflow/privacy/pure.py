"""Pure differential privacy: its (epsilon, delta) curve, its composition, and its Renyi form.

Of all eps-DP mechanisms randomised response is the easiest to tell apart: whatever holds for k of its
reports holds for k reports of any eps-DP mechanism, chosen one after the other (Kairouz, Oh and
Viswanath, 2015, The composition theorem for differential privacy, Theorem 3.3). Formulas here are those
of randomised response with p = e^eps/(1 + e^eps), exact for it and valid for all others. The unit is one
record. For setting up and reporting, not for inner loops; natural logarithms.
"""

from __future__ import annotations

import math

from ldpflow.errors import InputError
from ldpflow.privacy.gaussian import positive, share

__all__ = [
    "RENYI_ORDERS",
    "composed_delta",
    "composed_epsilon",
    "epsilon_of_renyi",
    "laplace_renyi",
    "nonresponse_epsilon",
    "renyi",
]

RENYI_ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 128.0, 256.0)
"""Orders at which a Renyi guarantee is turned into (epsilon, delta)."""

LARGEST_COUNT = 100_000


def count_of(reports: int) -> int:
    """Refuse a number of reports that is no count, or that a sum over all outcomes is too long for."""
    if isinstance(reports, bool) or int(reports) != reports or not 1 <= reports <= LARGEST_COUNT:
        raise InputError("reports", reports, f"a whole number from 1 to {LARGEST_COUNT:,}")
    return int(reports)


def composed_delta(epsilon: float, reports: int, at: float) -> float:
    """The smallest delta for which k eps-DP reports are (at, delta)-DP together.

    delta = sum over l of C(k, l) max(0, p^(k-l) (1-p)^l - e^at p^l (1-p)^(k-l)), the exact value for
    randomised response (Kairouz, Oh and Viswanath, 2015, Theorem 3.3).

    Parameters
    ----------
    epsilon : float > 0
        Budget of one report.
    reports : int >= 1
        k, reports about one user.
    at : float >= 0
        epsilon of the pair (epsilon, delta).

    Returns
    -------
    float in [0, 1]
    """
    positive("epsilon", epsilon)
    k = count_of(reports)
    if not (at >= 0 and math.isfinite(at)):
        raise InputError("epsilon", at, "a finite number >= 0")
    log_p = -math.log1p(math.exp(-epsilon))
    log_q = log_p - epsilon
    terms = []
    log_choose = 0.0
    for l in range(k + 1):
        # ln of p^(k-l) q^l less ln of e^at p^l q^(k-l)
        gap = (k - 2 * l) * epsilon - at
        if gap <= 0:
            break
        whole = log_choose + (k - l) * log_p + l * log_q
        terms.append(math.exp(whole) * -math.expm1(-gap))
        log_choose += math.log(k - l) - math.log(l + 1)
    return min(1.0, math.fsum(terms))


def composed_epsilon(epsilon: float, reports: int, delta: float) -> float:
    """The smallest epsilon for which k eps-DP reports are (epsilon, delta)-DP together.

    The inverse of :func:`composed_delta`, by bisection; k eps where delta is 0.
    """
    positive("epsilon", epsilon)
    k = count_of(reports)
    if delta != 0.0:
        share("delta", delta)
    low, high = 0.0, k * epsilon
    if delta == 0.0:
        return high
    if composed_delta(epsilon, k, 0.0) <= delta:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if composed_delta(epsilon, k, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def nonresponse_epsilon(epsilon: float, below: float, above: float) -> float:
    """epsilon of the outcome of an invitation: no answer, or answers that are eps-DP together.

    With r_1 and r_0 the probabilities that a user answers whose value lies below or above a point,

        max(eps + |log(r_1/r_0)|, |log((1 - r_1)/(1 - r_0))|),

    the largest logarithm of a ratio of probabilities over all outcomes: an answer, by the side that answers
    more and by the other one, or none. Exact for randomised response, whose answer may lie on the other side
    of its question for every value, and valid for all others.

    Parameters
    ----------
    epsilon : float > 0
        Of all answers together.
    below, above : float in [0, 1]
        r_1 and r_0.

    Returns
    -------
    float
        Infinite where silence, or an answer, comes from one side alone.
    """
    positive("epsilon", epsilon)
    if below == above:
        return epsilon
    low, high = sorted((below, above))
    if low <= 0.0 or high >= 1.0:
        return math.inf
    return max(epsilon + math.log(high / low), math.log1p(-low) - math.log1p(-high))


def renyi(epsilon: float, order: float) -> float:
    """Renyi divergence of order a > 1 between randomised response's answers to two inputs.

    1/(a - 1) log(p^a (1-p)^(1-a) + (1-p)^a p^(1-a)) (Mironov, 2017, Renyi differential privacy,
    Proposition 5); no eps-DP mechanism has more.
    """
    positive("epsilon", epsilon)
    checked_order(order)
    log_p = -math.log1p(math.exp(-epsilon))
    log_q = log_p - epsilon
    first = order * log_p + (1.0 - order) * log_q
    second = order * log_q + (1.0 - order) * log_p
    return added(first, second) / (order - 1.0)


def laplace_renyi(epsilon: float, order: float) -> float:
    """Renyi divergence of order a > 1 of Laplace noise of scale sensitivity/eps.

    1/(a - 1) log(a/(2a - 1) e^((a-1) eps) + (a - 1)/(2a - 1) e^(-a eps)) (Mironov, 2017,
    Proposition 6), smaller than that of randomised response with the same eps.
    """
    positive("epsilon", epsilon)
    checked_order(order)
    whole = math.log(2.0 * order - 1.0)
    first = math.log(order) - whole + (order - 1.0) * epsilon
    second = math.log(order - 1.0) - whole - order * epsilon
    return added(first, second) / (order - 1.0)


def checked_order(order: float) -> None:
    """Refuse an order that is not above 1."""
    if not (order > 1 and math.isfinite(order)):
        raise InputError("order", order, "a finite number > 1")


def added(first: float, second: float) -> float:
    """log(e^first + e^second)."""
    high, low = max(first, second), min(first, second)
    return high + math.log1p(math.exp(low - high))


def epsilon_of_renyi(divergence: float, order: float, delta: float) -> float:
    """epsilon of a release with this Renyi divergence of order a > 1, at delta.

    r + log((a - 1)/a) - (log delta + log a)/(a - 1) (Canonne, Kamath and Steinke, 2020, The discrete
    Gaussian for differential privacy, Proposition 12).
    """
    share("delta", delta)
    checked_order(order)
    rest = math.log1p(-1.0 / order) - (math.log(delta) + math.log(order)) / (order - 1.0)
    return max(0.0, divergence + rest)
