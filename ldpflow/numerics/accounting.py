"""Privacy of noise: conversions between notions, random batches, shuffling, one-pass regression.

Logarithms are natural. Numbers that decide a noise scale, and so every row, are computed in 40 digits. scipy
and dp_accounting (it takes a second) are loaded where they are needed: reading a study needs neither.

Gaussian differential privacy. A mechanism is mu-GDP if telling any two neighbouring inputs apart is at
least as hard as telling N(0, 1) from N(mu, 1) (Dong, Roth and Su, 2022, JRSS-B 84(1)). The unit is one
record, one user's whole contribution.

Zero-concentrated differential privacy. A sum of Gaussian mechanisms is (z, rho z)-RDP at every order z > 1
(Bun and Steinke, 2016; Mironov, 2017), which gives (rho + 2 sqrt(rho log(1/delta)), delta)-DP.

Random batches, for replaced records. Every step draws b of N records without replacement and adds
N(0, sigma^2 S^2) to their sum, S being the sum's sensitivity. At integer orders a >= 2 a step is
(a, r)-RDP with

    r <= 1/(a-1) log(1 + g^2 C(a,2) min(4 (e^{e(2)} - 1), 2 e^{e(2)})
                       + sum_{j=3}^a g^j C(a,j) min(2 e^{(j-1) e(j)}, 4 sqrt(B(2 floor(j/2)) B(2 ceil(j/2)))))

for g = b/N, e(j) = j / (2 sigma^2), B(l) = sum_i (-1)^i C(l,i) e^{(i-1) e(i)} (Wang, Balle and
Kasiviswanathan, 2019, Theorems 9 and 27), and r is at most its value without sampling. T steps add up, and
(a, r)-RDP gives (Canonne, Kamath and Steinke, 2020, Proposition 12)

    epsilon = r + log((a-1)/a) - (log delta + log a)/(a-1).

dp_accounting has this bound without B above order 256 and without the comparison with no sampling: at g =
.001, sigma = 20, T = 100 and delta = 1e-5 its epsilon is .0174, and .0086 here.

Shuffling. n users' records are permuted uniformly at random and answered one after the other by
(eps_0, delta_0) local randomisers, which may depend on earlier answers. Everything released is then
(eps, delta)-DP in the central sense (Feldman, McMillan and Talwar, 2021, "Hiding among the clones",
Theorem 3.8) with

    eps   = log(1 + (e^eps_0 - 1)/(e^eps_0 + 1) (8 sqrt(e^eps_0 log(4/delta'))/sqrt(n) + 8 e^eps_0/n))
    delta = delta' + (e^eps + 1)(1 + e^-eps_0/2) n delta_0

provided that eps_0 <= log(n / (16 log(2/delta'))).

One-pass regression with clipped gradients (Varshney, Thakurta and Jain, 2022, Section 3). Neighbours differ
in the content of one record; adding or removing one would shift the batches and is not covered. A batch
releases noisy counts of a threshold set (DP-STAT) and a noisy clipped gradient, each 1/(2 alpha^2)-zCDP.
Batches are disjoint and used once, so nothing adds up over them. Three ways of accounting:

* ``disjoint``: threshold and gradient sets are disjoint too, so the run is 1/(2 alpha^2)-zCDP. Needs the
  corrected algorithm.
* ``gdp``: as ``disjoint``, stated as 1/alpha-GDP, which is what Gaussian noise gives without loss.
* ``paper``: the two costs added, 1/alpha^2 (Theorem 3.6).
"""

from __future__ import annotations

import math
from bisect import bisect_left
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


def check_epsilon(epsilon: float) -> None:
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise InputError("epsilon", epsilon, "a finite number >= 0")


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta for which mu-GDP implies (eps, delta)-DP.

    delta = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2) (Dong, Roth and Su, Corollary 2.13).
    mu-GDP is equivalent to this curve at all eps >= 0. At eps = 0 it is the total variation distance.
    """
    from scipy import special

    check_positive("mu", mu)
    check_epsilon(epsilon)
    first = special.log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
    return float(math.exp(first) * -math.expm1(min(second - first, 0.0)))


def epsilon_of(delta: float, mu: float) -> float:
    """The smallest eps for which mu-GDP implies (eps, delta)-DP. 0 if delta is large enough."""
    import dp_accounting

    check_positive("mu", mu)
    check_probability("delta", delta)
    return float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta))


def mu_of_pure(epsilon: float) -> float:
    """The smallest mu such that every eps-DP mechanism is mu-GDP: 2 Phi^-1(e^eps/(1 + e^eps)).

    The bridge by which Laplace and randomised response are compared with Gaussian noise.
    """
    from scipy import special

    check_positive("epsilon", epsilon)
    return float(-2 * special.ndtri(special.expit(-epsilon)))


def zcdp_of(mu: float) -> float:
    """rho of the zero-concentrated DP that mu-GDP implies: mu^2/2."""
    check_positive("mu", mu)
    return mu**2 / 2


def zcdp_epsilon(rho: float, delta: float) -> float:
    """epsilon = rho + 2 sqrt(rho log(1/delta)), the guarantee of rho z RDP at delta."""
    with workdps(DIGITS):
        r = mpf(rho)
        return float(r + 2 * mp.sqrt(r * mp.log(1 / mpf(delta))))


def zcdp_noise_multiplier(epsilon: float, delta: float, c: float) -> float:
    """The least sigma with which a mechanism of RDP c z / (2 sigma^2) is (epsilon, delta)-DP.

    ``c`` is the cost of a whole transcript, for example of :func:`ldpflow.numerics.tree.tree_cost`.
    """
    with workdps(DIGITS):
        rest = mp.log(1 / mpf(delta))
        root = mp.sqrt(rest + mpf(epsilon)) - mp.sqrt(rest)
        return float(mp.sqrt(mpf(c) / 2) / root)


def zcdp_printed_multiplier(epsilon: float, delta: float, factor: float) -> float:
    """sigma = factor sqrt(log(1/delta)) / epsilon, the rule printed by Tran and Cutkosky (2022).

    ``factor`` is 2 in their Theorem 4 and 4 in their Theorem 8. The first is sufficient with c = 1 for
    epsilon <= 2.343 log(1/delta) only; the paper asks for delta >= exp(-epsilon), which is the wrong way
    round.
    """
    with workdps(DIGITS):
        return float(factor * mp.sqrt(mp.log(1 / mpf(delta))) / mpf(epsilon))


ORDERS = (*range(2, 65), *range(68, 129, 4), *range(144, 513, 16))
DIFFERENCES = 64  # up to this order the alternating sums B are computed, which takes many digits
GRID = 1024


def log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@lru_cache(maxsize=64)
def log_differences(sigma: float) -> list[float]:
    """log B(l) for even l up to DIFFERENCES, with many digits against cancellation."""
    with workdps(120):
        unit = 1 / (2 * mpf(sigma) ** 2)
        moments = [mp.exp(i * (i - 1) * unit) for i in range(DIFFERENCES + 1)]
        return [
            float(mp.log(mp.fsum((-1) ** i * mp.binomial(size, i) * moments[i] for i in range(size + 1))))
            for size in range(2, DIFFERENCES + 1, 2)
        ]


def sampled_rdp(order: int, rate: float, sigma: float) -> float:
    """r of one step at an integer order, with batches of a share ``rate`` of the records."""
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
    """epsilon of T steps at delta, the best over ORDERS."""
    best = math.inf
    for a in ORDERS:
        rdp = steps * sampled_rdp(a, rate, sigma)
        best = min(best, rdp + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1))
    return max(best, 0.0)


@lru_cache(maxsize=1024)
def sampled_noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The least sigma for (epsilon, delta), rounded up to a multiple of 1/1024.

    Rounding keeps the last digits of a library's logarithm out of the rows.
    """

    def is_enough(count: int) -> bool:
        return sampled_epsilon(rate, count / GRID, steps, delta) <= epsilon

    high = GRID
    while not is_enough(high):
        high *= 2
    return bisect_left(range(high), True, lo=1, key=is_enough) / GRID


UNPROVED = "Amplification by shuffling is not proved beyond."


def largest_local_epsilon(n: int, delta: float) -> float:
    """log(n / (16 log(2/delta))), the largest eps_0 of the theorem."""
    with workdps(DIGITS):
        return float(mp.log(mpf(n) / (16 * mp.log(2 / mpf(delta)))))


def central_epsilon(epsilon0: mpf, delta: mpf, n: int) -> mpf:
    e = mp.exp(epsilon0)
    rest = 8 * mp.sqrt(e * mp.log(4 / delta)) / mp.sqrt(n) + 8 * e / n
    return mp.log(1 + (e - 1) / (e + 1) * rest)


def shuffled_guarantee(epsilon0: float, delta0: float, n: int, delta: float) -> tuple[float, float]:
    """(eps, delta) of n shuffled (eps_0, delta_0) local randomisers; ``delta`` is delta'."""
    if epsilon0 > (largest := largest_local_epsilon(n, delta)):
        allowed = f"at most {largest:.4g} for n = {n:,} and delta' = {delta:g}"
        raise InputError("epsilon0", epsilon0, allowed, UNPROVED)
    with workdps(DIGITS):
        e0 = mpf(epsilon0)
        epsilon = central_epsilon(e0, mpf(delta), n)
        extra = (mp.exp(epsilon) + 1) * (1 + mp.exp(-e0) / 2) * n * mpf(delta0)
        return float(epsilon), float(mpf(delta) + extra)


def shuffled_noise_multiplier(epsilon: float, delta: float, n: int) -> tuple[float, float]:
    """Noise multiplier of shuffled Gaussian randomisers, and the eps_0 of each.

    delta' = delta/2; the other half goes to delta_0 = (delta/2)/((e^eps + 1)(1 + e^-eps_0/2) n). eps_0 <= 1
    is the largest with the first formula equal to ``epsilon``, and alpha = sqrt(2 log(1.25/delta_0))/eps_0,
    the classical calibration, which holds for eps_0 <= 1.
    """
    with workdps(DIGITS):
        half = mpf(delta) / 2
        high = min(mpf(1), mpf(largest_local_epsilon(n, float(half))))
        if high <= 0:
            hint = "Amplification by shuffling is not proved for so few."
            raise InputError("grid.n", n, "more users", hint)
        reached = central_epsilon(high, half, n)
        if mpf(epsilon) > reached:
            allowed = f"at most {float(reached):.4g} with n = {n:,} and delta = {delta:g}"
            raise InputError("algorithm.epsilon", epsilon, allowed, UNPROVED)
        local = bisect(lambda e0: central_epsilon(e0, half, n) <= mpf(epsilon), 0, high, halvings=120)
        delta0 = half / ((mp.exp(mpf(epsilon)) + 1) * (1 + mp.exp(-local) / 2) * n)
        return float(mp.sqrt(2 * mp.log(mpf("1.25") / delta0)) / local), float(local)


def clipping_noise_multiplier(epsilon: float, delta: float, accounting: Accounting) -> float:
    """The least alpha with which a run is (epsilon, delta)-DP under an accounting."""
    if accounting != "gdp":
        # A run is (z, c z/(2 alpha^2))-RDP.
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
    """zCDP of a whole run with noise multiplier alpha.

    In the algorithm as ``printed`` one record is in both sets, and DP-STAT makes one query more than its
    noise is made for: (1 + (M + 1)/M)/(2 alpha^2), under any accounting.
    """
    if printed:
        return 0.5 / alpha**2 + (doublings + 1) / (2.0 * doublings * alpha * alpha)
    return (1.0 if accounting == "paper" else 0.5) / alpha**2


def run_epsilon(alpha: float, delta: float, accounting: Accounting, printed: bool, doublings: int) -> float:
    if accounting == "gdp" and not printed:
        return epsilon_of(delta, 1.0 / alpha)
    return zcdp_epsilon(run_rho(alpha, accounting, printed, doublings), delta)
