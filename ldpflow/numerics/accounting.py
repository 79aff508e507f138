"""Privacy of noise: conversions between notions, random batches, shuffling, one-pass regression.

Logarithms are natural. A noise multiplier is the standard deviation of noise for sensitivity 1. Those of
random batches are computed in double precision and rounded up to a multiple of 1/1024, all others with 40
digits. scipy and dp_accounting take long to import, so the functions that need them import them.

Gaussian differential privacy. A mechanism is mu-GDP if distinguishing any two neighbouring inputs is at least
as hard as distinguishing N(0, 1) from N(mu, 1) (Dong, Roth and Su, 2022, JRSS-B 84(1)).

Zero-concentrated differential privacy (rho-zCDP). A composition of Gaussian mechanisms that are mu_i-GDP is
rho-zCDP with rho = sum_i mu_i^2/2, which means (z, rho z)-Renyi-DP (RDP) at every order z > 1 (Bun and
Steinke, 2016; Mironov, 2017). Then it is (rho + 2 sqrt(rho log(1/delta)), delta)-DP.

Random batches, for neighbours that differ in the content of one record. Every step draws b of N records
without replacement and adds N(0, sigma^2 S^2) to their sum, where S is the sensitivity of the sum. At integer
orders a >= 2 a step is (a, r)-RDP with

    r <= 1/(a-1) log(1 + g^2 C(a,2) min(4 (e^{e(2)} - 1), 2 e^{e(2)})
                       + sum_{j=3}^a g^j C(a,j) min(2 e^{(j-1) e(j)}, 4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2)))))

for binomial coefficients C, g = b/N, e(j) = j / (2 sigma^2), B(l) = sum_i (-1)^i C(l,i) e^{(i-1) e(i)}
(Wang, Balle and Kasiviswanathan, 2019, Theorems 9 and 27). Here r is at most a / (2 sigma^2), its value
without sampling. The r of T steps add up, and (a, r)-RDP gives (Canonne, Kamath and Steinke, 2020,
Proposition 12)

    epsilon = r + log((a-1)/a) - (log delta + log a)/(a-1).

The bound of dp_accounting can be larger: it has no B above order 256 and does not use the value without
sampling. At g = .001, sigma = 20, T = 100 and delta = 1e-5 its epsilon is .0174, and .0086 here.

Shuffling. The records of n users are permuted uniformly at random. (eps_0, delta_0) local randomisers answer
one after the other and may depend on earlier answers. Then all answers together are (eps, delta)-DP in the
central model (Feldman, McMillan and Talwar, 2021, "Hiding among the clones", Theorem 3.8) with

    eps   = log(1 + (e^eps_0 - 1)/(e^eps_0 + 1) (8 sqrt(e^eps_0 log(4/delta'))/sqrt(n) + 8 e^eps_0/n))
    delta = delta' + (e^eps + 1)(1 + e^-eps_0/2) n delta_0

for every delta' in (0, 1) with eps_0 <= log(n / (16 log(2/delta'))).

One-pass regression with clipped gradients (Varshney, Thakurta and Jain, 2022, Section 3). Neighbours differ
in the content of one record. Adding or removing a record is not covered, because it would shift the
batches. A batch releases noisy counts of a threshold set (DP-STAT) and a noisy clipped gradient of a
gradient set. With noise multiplier alpha, each is 1/(2 alpha^2)-zCDP. A record is in one batch, so costs of
batches do not add up. There are three ways of accounting:

* ``disjoint``: a record is in the threshold set or in the gradient set (in the printed algorithm it is in
  both). So the run is 1/(2 alpha^2)-zCDP.
* ``gdp``: the run of ``disjoint`` is 1/alpha-GDP, a tighter statement.
* ``paper``: both costs are added, which gives 1/alpha^2-zCDP (Theorem 3.6).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import lru_cache
from typing import Literal

from mpmath import mp, mpf

from ldpflow.errors import InputError
from ldpflow.numerics.constants import DIGITS, bisect, workdps

Accounting = Literal["disjoint", "gdp", "paper"]


def check_positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise InputError(name, value, "a finite number > 0")


def check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(name, value, "a number in (0, 1)")


def rounded(value: float, up: bool = True) -> str:
    """Four digits of a positive number. They are rounded up, so that they are an upper bound, or down."""
    context = Context(prec=4, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    # Twelve digits first: 3 times 0.1 is 0.3, although its double is larger.
    return f"{float(context.create_decimal(f'{value:.12g}')):.4g}"


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (Dong, Roth and Su, Corollary 2.13).
    """
    from scipy import special

    check_positive("mu", mu)
    first = special.log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


def epsilon_of(delta: float, mu: float) -> float:
    """The smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP."""
    import dp_accounting

    check_positive("mu", mu)
    check_probability("delta", delta)
    return float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta))


def mu_of_pure(epsilon: float) -> float:
    """The smallest mu for which each epsilon-DP mechanism is mu-GDP: 2 Phi^-1(e^epsilon/(1 + e^epsilon))."""
    from scipy import special

    check_positive("epsilon", epsilon)
    if epsilon < 1:  # 1/2 - 1/(1 + e^epsilon) would lose digits
        return float(math.sqrt(8) * special.erfinv(math.tanh(epsilon / 2)))
    return float(-2 * special.ndtri_exp(special.log_expit(-epsilon)))


def zcdp_of(mu: float) -> float:
    """The rho = mu^2/2 for which mu-GDP implies rho-zCDP."""
    check_positive("mu", mu)
    return mu**2 / 2


def zcdp_epsilon(rho: float, delta: float) -> float:
    """epsilon = rho + 2 sqrt(rho log(1/delta)) for which rho-zCDP implies (epsilon, delta)-DP."""
    with workdps(DIGITS):
        r = mpf(rho)
        return float(r + 2 * mp.sqrt(r * mp.log(1 / mpf(delta))))


def zcdp_noise_multiplier(epsilon: float, delta: float, c: float) -> float:
    """The least sigma for (epsilon, delta)-DP of a release that is (z, c z / (2 sigma^2))-RDP for all z > 1.

    :func:`ldpflow.numerics.tree.tree_cost` computes the cost c for trees.
    """
    with workdps(DIGITS):
        rest = mp.log(1 / mpf(delta))
        root = mp.sqrt(rest + mpf(epsilon)) - mp.sqrt(rest)
        return float(mp.sqrt(mpf(c) / 2) / root)


def zcdp_printed_multiplier(epsilon: float, delta: float, factor: float) -> float:
    """sigma = factor sqrt(log(1/delta)) / epsilon, as printed by Tran and Cutkosky (2022).

    ``factor`` is 2 in their Theorem 4 and 4 in their Theorem 8. With factor 2 and cost c = 1 the noise
    suffices if epsilon <= 2.343 log(1/delta). The paper states the wrong condition delta >= exp(-epsilon).
    """
    with workdps(DIGITS):
        return float(factor * mp.sqrt(mp.log(1 / mpf(delta))) / mpf(epsilon))


ORDERS = (*range(2, 65), *range(68, 129, 4), *range(144, 513, 16))
DIFFERENCES = 64  # largest l of the alternating sums B(l)
GRID = 1024  # a noise multiplier is a multiple of 1/GRID


def log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@lru_cache(maxsize=64)
def log_differences(sigma: float) -> list[float]:
    """log B(l) for even l up to DIFFERENCES. The terms of B(l) nearly cancel, so they have 120 digits."""
    with workdps(120):
        unit = 1 / (2 * mpf(sigma) ** 2)
        moments = [mp.exp(i * (i - 1) * unit) for i in range(DIFFERENCES + 1)]
        return [
            float(mp.log(mp.fsum((-1) ** i * mp.binomial(size, i) * moments[i] for i in range(size + 1))))
            for size in range(2, DIFFERENCES + 1, 2)
        ]


def sampled_rdp(order: int, rate: float, sigma: float) -> float:
    """r of one step at an integer order. ``rate`` is g, the share of the records in a batch."""
    plain = order / (2.0 * sigma * sigma)
    if rate >= 1.0:
        return plain
    second = 1.0 / (sigma * sigma)
    least = min(4.0 * math.expm1(second), 2.0 * math.exp(second)) if second < 700 else math.inf
    terms = [2 * math.log(rate) + log_binomial(order, 2) + math.log(least)]
    differences = log_differences(sigma)
    for j in range(3, order + 1):
        size = math.log(2.0) + (j - 1) * j / (2.0 * sigma * sigma)
        if j < DIFFERENCES:
            pair = differences[j // 2 - 1] + differences[-(-j // 2) - 1]
            size = min(size, math.log(4.0) + pair / 2.0)
        terms.append(j * math.log(rate) + log_binomial(order, j) + size)
    top = max(terms)
    if top > 700:
        total = top + math.log(math.fsum(math.exp(t - top) for t in terms))
    else:
        total = math.log1p(math.fsum(math.exp(t) for t in terms))
    return min(plain, total / (order - 1))


def sampled_epsilon(rate: float, sigma: float, steps: int, delta: float) -> float:
    """The least epsilon of T ``steps`` over the orders a in ORDERS."""
    best = math.inf
    for a in ORDERS:
        rdp = steps * sampled_rdp(a, rate, sigma)
        best = min(best, rdp + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1))
    return max(best, 0.0)


@lru_cache(maxsize=1024)
def sampled_noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The least sigma for (epsilon, delta)-DP, rounded up to a multiple of 1/1024.

    Without the rounding, the last digits of a library's logarithm would change the bits of rows.
    """

    def is_enough(count: int) -> bool:
        return sampled_epsilon(rate, count / GRID, steps, delta) <= epsilon

    high = GRID
    while not is_enough(high):
        high *= 2
    return bisect_left(range(high), True, lo=1, key=is_enough) / GRID


UNPROVED = "Amplification by shuffling is not proved for other values."


def largest_local_epsilon(n: int, delta: float) -> float:
    """log(n / (16 log(2/delta))), the largest eps_0 for which Theorem 3.8 holds."""
    with workdps(DIGITS):
        return float(mp.log(mpf(n) / (16 * mp.log(2 / mpf(delta)))))


def central_epsilon(epsilon0: mpf, delta: mpf, n: int) -> mpf:
    e = mp.exp(epsilon0)
    rest = 8 * mp.sqrt(e * mp.log(4 / delta)) / mp.sqrt(n) + 8 * e / n
    return mp.log(1 + (e - 1) / (e + 1) * rest)


def shuffled_guarantee(epsilon0: float, delta0: float, n: int, delta: float) -> tuple[float, float]:
    """(eps, delta) of n shuffled (eps_0, delta_0) local randomisers. The argument ``delta`` is delta'."""
    if epsilon0 > (largest := largest_local_epsilon(n, delta)):
        allowed = f"at most {rounded(largest, up=False)} for n = {n:,} and delta' = {delta:g}"
        raise InputError("epsilon0", epsilon0, allowed, UNPROVED)
    with workdps(DIGITS):
        e0 = mpf(epsilon0)
        epsilon = central_epsilon(e0, mpf(delta), n)
        extra = (mp.exp(epsilon) + 1) * (1 + mp.exp(-e0) / 2) * n * mpf(delta0)
        return float(epsilon), float(mpf(delta) + extra)


def shuffled_noise_multiplier(epsilon: float, delta: float, n: int) -> tuple[float, float]:
    """Noise multiplier alpha of shuffled Gaussian randomisers, and the eps_0 of each.

    delta' = delta/2 and delta_0 = (delta/2)/((e^eps + 1)(1 + e^-eps_0/2) n). eps_0 is the largest value up
    to 1 for which Theorem 3.8 gives at most ``epsilon``. Then alpha = sqrt(2 log(1.25/delta_0))/eps_0, the
    classical calibration, which holds for eps_0 <= 1.
    """
    with workdps(DIGITS):
        half = mpf(delta) / 2
        high = min(mpf(1), mpf(largest_local_epsilon(n, float(half))))
        if high <= 0:
            raise InputError("grid.n", n, "more users", UNPROVED)
        reached = central_epsilon(high, half, n)
        if mpf(epsilon) > reached:
            allowed = f"at most {rounded(float(reached), up=False)} with n = {n:,} and delta = {delta:g}"
            raise InputError("algorithm.epsilon", epsilon, allowed, UNPROVED)
        local = bisect(lambda e0: central_epsilon(e0, half, n) <= mpf(epsilon), 0, high, halvings=120)
        delta0 = half / ((mp.exp(mpf(epsilon)) + 1) * (1 + mp.exp(-local) / 2) * n)
        return float(mp.sqrt(2 * mp.log(mpf("1.25") / delta0)) / local), float(local)


def clipping_noise_multiplier(epsilon: float, delta: float, accounting: Accounting) -> float:
    """The least alpha with which a run is (epsilon, delta)-DP under an accounting."""
    if accounting != "gdp":
        return zcdp_noise_multiplier(epsilon, delta, 1.0 if accounting == "disjoint" else 2.0)
    with workdps(DIGITS):
        e, d = mpf(epsilon), mpf(delta)

        def is_allowed(mu: mpf) -> bool:
            return bool(mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu) <= d)

        high = mpf(1)
        while is_allowed(high):
            high *= 2
        return float(1 / bisect(is_allowed, 0, high, halvings=130))


def run_rho(alpha: float, accounting: Accounting, printed: bool, doublings: int) -> float:
    """rho for which a whole run with noise multiplier alpha is rho-zCDP.

    In the algorithm as ``printed`` a record is in both sets, and DP-STAT makes M + 1 queries with noise for
    M = ``doublings`` queries. Then rho = (1 + (M + 1)/M)/(2 alpha^2) under each accounting.
    """
    if printed:
        return 0.5 / alpha**2 + (doublings + 1) / (2.0 * doublings * alpha * alpha)
    return (1.0 if accounting == "paper" else 0.5) / alpha**2


def run_epsilon(alpha: float, delta: float, accounting: Accounting, printed: bool, doublings: int) -> float:
    if accounting == "gdp" and not printed:
        return epsilon_of(delta, 1.0 / alpha)
    return zcdp_epsilon(run_rho(alpha, accounting, printed, doublings), delta)
