"""Printed, closed and further forms of the bounds under Gaussian LDP, which tests alone use.

Those that end in ``_printed`` are what the paper's proofs end with; they fail or say nothing in places. See
ldpflow.results.curves for the source and the notation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ldpflow.errors import InputError
from ldpflow.results.curves import Array, BoundConstants


def psi(beta: float, n: ArrayLike) -> Array:
    """psi_beta(n) = (n^beta - 1)/beta, log n for beta = 0; sum k^-a <= 1 + psi_{1-a}(n)."""
    log_n = np.log(np.asarray(n, dtype=float))
    if abs(beta) < 1e-12:
        return np.asarray(log_n)
    return np.asarray(np.expm1(beta * log_n) / beta)


def halves(n: Array) -> Array:
    """floor(n/2)."""
    return np.floor(n / 2)


def sum_bound(exponent: float, h: Array) -> Array:
    """1 + psi_{1-exponent}(h) >= sum_{k <= h} k^-exponent; 0 where h = 0."""
    return np.where(h >= 1, 1 + psi(1 - exponent, np.maximum(h, 1)), 0.0)


def distance_bound_closed(s: BoundConstants, n: ArrayLike) -> Array:
    """Theorem 3 in closed form, for n >= 1 and 2 m eta <= 1.

    exp(-2 m eta psi_{1-a}(n+1)) Delta_0
      + sigma^2 [eta 2^(a-1)/(m n^a) + eta^2 (1 + psi_{1-2a}(floor(n/2))) exp(-m eta n^(1-a))].
    """
    s.needs_convexity()
    k = np.asarray(n, dtype=float)
    m, eta, a = s.convexity, s.eta, s.alpha
    early = eta**2 * sum_bound(2 * a, halves(k)) * np.exp(-m * eta * k ** (1 - a))
    late = eta * 2 ** (a - 1) / (m * k**a)
    return np.exp(-2 * m * eta * psi(1 - a, k + 1)) * s.start + s.second_moment() * (late + early)


def distance_bound_unit_exponent(s: BoundConstants, n: ArrayLike) -> Array:
    """Theorem 3 for alpha = 1 and any eta, x = 2 m eta: rate n^-min(1, x).

    (n+1)^-x Delta_0 + sigma^2 eta^2 2^x (n+1)^-x (1 + psi_{x-1}(n)).
    """
    s.needs_convexity()
    k = np.asarray(n, dtype=float)
    x = 2 * s.convexity * s.eta
    noise = s.second_moment() * s.eta**2 * 2**x * (1 + psi(x - 1, k))
    return np.asarray((k + 1) ** -x * (s.start + noise))


def distance_bound_printed(s: BoundConstants, n: ArrayLike, noise_constant: float = 64.0) -> Array:
    """Theorem 3 as printed (2 m eta < 1); with noise_constant = 4 it falls below its own recursion."""
    s.needs_convexity()
    k = np.asarray(n, dtype=float)
    m, eta, a = s.convexity, s.eta, s.alpha
    early = eta**2 * psi(1 - 2 * a, k) * np.exp(-m * eta * k ** (1 - a) / 2)
    moment = s.second_moment(noise_constant)
    return np.exp(-2 * m * eta * psi(1 - a, k)) * s.start + moment * (eta / (m * k**a) + early)


def fourth_moment_bound(
    s: BoundConstants, n: ArrayLike, start: float | None = None, budgets: ArrayLike | None = None
) -> Array:
    """The ingredient of Theorem 4 as a recursion: Q_n >= E||theta_n - theta*||^4.

    Q_k = max(0, 1 - 4 m eta_k) Q_{k-1} + eta_k^2 c2 R_{k-1} + 4 eta_k^3 C0^3 sqrt(R_{k-1}) + eta_k^4 k4,
    with s = 2 C0/mu_k, c2 = 6 C0^2 + (2d + 4) s^2, k4 = C0^4 + 2 (d + 2) C0^2 s^2 + d (d + 2) s^4.
    """
    last = int(np.max(n))
    r = distance_bound(s, np.arange(last + 1), budgets).tolist()
    q = s.start**2 if start is None else start
    c0, d = s.bound, s.dimension
    mu = np.broadcast_to(s.mu if budgets is None else np.asarray(budgets, float)[:last], (last,))
    values = [q]
    for k, (eta, budget) in enumerate(zip(s.steps(last).tolist(), mu.tolist(), strict=True)):
        v = (2 * c0 / budget) ** 2
        c2 = 6 * c0**2 + (2 * d + 4) * v
        k4 = c0**4 + 2 * (d + 2) * c0**2 * v + d * (d + 2) * v**2
        q = max(0.0, 1 - 4 * s.convexity * eta) * q + eta**2 * c2 * r[k]
        q += 4 * eta**3 * c0**3 * math.sqrt(r[k]) + eta**4 * k4
        values.append(q)
    return at(np.array(values), n)


def fourth_constants(s: BoundConstants, printed: bool) -> tuple[float, float]:
    """C30 and C40, with the exact E||A||^4 or with the printed tau^4, tau^2 = 64 C0^2 d/mu^2."""
    c0, d = s.bound, s.dimension
    exact = 16 * c0**4 * d * (d + 2) / s.mu**4
    noise = (64 * c0**2 * d / s.mu**2) ** 2 if printed else exact
    return (c0**4 + noise) * (3 + 9 / s.convexity), 4 * (c0**4 + noise)


def fourth_moment_bound_closed(s: BoundConstants, n: ArrayLike, start: float | None = None) -> Array:
    """The same in closed form, for n >= 1, 2 eta^2 <= m and m eta <= 1."""
    s.needs_convexity()
    k = np.asarray(n, dtype=float)
    m, eta, a = s.convexity, s.eta, s.alpha
    c30, c40 = fourth_constants(s, printed=False)
    q0 = s.start**2 if start is None else start
    late = c30 * eta**2 * 4**a * k ** (-2 * a) + c40 * eta**3 * 8**a * k ** (-3 * a)
    h = halves(k)
    early = c30 * eta**3 * sum_bound(3 * a, h) + c40 * eta**4 * sum_bound(4 * a, h)
    return np.exp(-m * eta * psi(1 - a, k + 1)) * q0 + late / m + np.exp(-m * eta * k ** (1 - a) / 2) * early


def fourth_moment_bound_printed(
    s: BoundConstants, n: ArrayLike, start: float | None = None, exact_noise: bool = False
) -> Array:
    """The printed recursion Q_k <= (1 - 2 m eta_k + 2 eta_k^3) Q_{k-1} + C30 eta_k^3 + C40 eta_k^4."""
    s.needs_convexity()
    c30, c40 = fourth_constants(s, printed=not exact_noise)
    q = s.start**2 if start is None else start
    values = [q]
    for eta in s.steps(int(np.max(n))).tolist():
        q = (1 - 2 * s.convexity * eta + 2 * eta**3) * q + c30 * eta**3 + c40 * eta**4
        values.append(q)
    return at(np.array(values), n)


def average_bound_printed(
    s: BoundConstants,
    n: ArrayLike,
    leading: float,
    third_order: float,
    start: float | None = None,
    as_meant: bool = False,
) -> Array:
    """Theorem 4 with the printed constants, for reporting only: neither valid nor informative.

    ``leading`` is tr(H^-1 S H^-1), without noise; ``third_order`` is the printed C1. ``as_meant`` puts
    C1/(4 m n^2) for the prefactor of the last term, which print has as 4 M^2 eta sigma^2/(m n)^2.
    """
    s.needs_convexity()
    m, eta, a, big_m = s.convexity, s.eta, s.alpha, s.smoothness
    sigma = s.second_moment(64.0)
    c30, c40 = fourth_constants(s, printed=True)
    q0 = s.start**2 if start is None else start
    k = np.asarray(n, dtype=float)
    j = np.arange(1, int(np.max(n)) + 1, dtype=float)
    # For alpha < 1/2 the exponents are huge before they fall.
    exponent = -m * eta * j ** (1 - a) / 4 + psi(1 - 2 * a, j) + 4 * eta**3 * psi(1 - 3 * a, j)
    with np.errstate(over="ignore"):
        big_b = np.exp(np.logaddexp.accumulate(exponent))[np.asarray(n, dtype=np.int64) - 1]
        total = leading / k + 4 * a**2 * sigma * psi(a - 1, k) / (m**2 * k**2 * eta)
        total = total + sigma / (m**2 * k ** (2 - a) * eta) + sigma / (m * k)
        total = total + s.start * (
            1 / (m * k**2 * eta**2) + 1 / (m * k ** (2 - 2 * a) * eta**2) + 4 * big_m**2 / (m * k**2)
        )
        total = total + sigma * psi(1 - 2 * a, k) / (m * k ** (2 - 2 * a))
        total = total + third_order * c30 * eta**2 * psi(1 - 2 * a, k) / (k * m) ** 2
        total = total + 2 * third_order * c40 * eta**3 * psi(1 - 3 * a, k) / (k * m) ** 2
        total = total + 4 * big_m**2 * eta * sigma * psi(1 - a, k) / (m * k) ** 2
        weight = 4 * a**2 / (m * k**2 * eta**2) + 4 * big_m**2 / (m * k**2)
        total = total + weight * (s.start + eta**2 * sigma) * big_b
        total = total + third_order * q0 / (4 * m * k**2)
        braces = q0 + c30 * eta**3 * psi(1 - 3 * a, k) + c40 * eta**4 * psi(1 - 4 * a, k)
        printed = 4 * big_m**2 * eta * sigma / (m * k) ** 2
        total = total + (third_order / (4 * m * k**2) if as_meant else printed) * braces * big_b
    return np.asarray(total)


def excess_bound_recursion(s: BoundConstants, n: ArrayLike, start: float | None = None) -> Array:
    """Theorem 5 as its recursion, for eta <= 1/M.

    D_k <= D_{k-1} - (eta_k/K_{k-1}) D_{k-1}^2 + eta_k^2 M sigma^2/2.
    """
    if s.eta * s.smoothness > 1:
        raise InputError("eta", s.eta, f"at most 1/M = {1 / s.smoothness:g}")
    last = int(np.max(n))
    energy = s.energy(last).tolist()
    force = s.smoothness * s.second_moment() / 2
    excess = s.starting_excess(start)
    values = [excess]
    for k, eta in enumerate(s.steps(last).tolist()):
        excess = excess - eta / energy[k] * excess**2 + eta**2 * force
        values.append(excess)
    return at(np.array(values), n)


def excess_bound_repaired(s: BoundConstants, n: ArrayLike) -> Array:
    """The printed form of Theorem 5 with its units repaired, for alpha in (1/3, 1).

    2 sqrt(K) (sqrt(K) + 4 sqrt(M) sigma eta^(3/2))/(eta psi_x(n + 1)), x = alpha/2 up to 2/3 and
    1 - alpha above. Checked on a grid of settings, not proved.
    """
    if not 1 / 3 < s.alpha < 1:
        raise InputError("alpha", s.alpha, "a number in (1/3, 1)")
    k = np.asarray(n, dtype=float)
    sigma = s.second_moment()
    energy = s.start + sigma * s.eta**2 * (1 + psi(1 - 2 * s.alpha, k))
    x = s.alpha / 2 if s.alpha <= 2 / 3 else 1 - s.alpha
    extra = 4 * np.sqrt(s.smoothness * sigma) * s.eta**1.5
    return np.asarray(2 * np.sqrt(energy) * (np.sqrt(energy) + extra) / (s.eta * psi(x, k + 1)))


def excess_bound_printed(s: BoundConstants, n: ArrayLike, noise_constant: float = 64.0) -> Array:
    """Theorem 5 as printed (eta < 1/M): adds 1 to a length, and a real process violates it.

    Infinite at alpha = 1/2, where print divides by 0, up to the branch 1/2 < alpha.
    """
    k = np.asarray(n, dtype=float)
    sigma = s.second_moment(noise_constant)
    a, eta = s.alpha, s.eta
    length = 1 + 4 * np.sqrt(s.smoothness * sigma) * eta**1.5
    with np.errstate(divide="ignore"):
        if a > 0.5:
            x = a / 2 if a <= 2 / 3 else 1 - a
            energy = s.start + sigma * eta**2 * psi(1 - 2 * a, k)
            return np.asarray(2 * np.sqrt(energy) * length / (eta * psi(x, k)))
        scale = np.sqrt(np.float64(1 - 2 * a))
        first = s.start + sigma * eta**2
        return np.asarray(2 * first * length / (eta * scale * psi(1.5 * a - 0.5, k)))


def average_excess_bound_printed(s: BoundConstants, n: ArrayLike, noise_constant: float = 64.0) -> Array:
    """Theorem 6 as printed: sums bounded by psi instead of 1 + psi."""
    k = np.asarray(n, dtype=float)
    sigma = s.second_moment(noise_constant)
    a, eta = s.alpha, s.eta
    energy = s.start + sigma * eta**2 * psi(1 - 2 * a, k)
    return np.asarray(k ** (a - 1) / (2 * eta) * energy + sigma * eta * psi(1 - a, k) / (2 * k))
