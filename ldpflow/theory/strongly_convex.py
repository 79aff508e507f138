"""Theorems 3 and 4: strongly convex loss, last iterate and average (see .bounds).

Strong convexity on all of R^d and a bounded gradient exclude each other: Theorem 3 is about projected
iterates, with m the one-point constant over the ball, or about a quadratic.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ldpflow.theory.bounds import Array, Setting, at, psi

__all__ = [
    "average_bound",
    "average_bound_printed",
    "distance_bound",
    "distance_bound_closed",
    "distance_bound_printed",
    "distance_bound_unit_exponent",
    "fourth_moment_bound",
    "fourth_moment_bound_closed",
    "fourth_moment_bound_printed",
    "leading_term",
]


def distance_bound(s: Setting, n: ArrayLike, budgets: ArrayLike | None = None) -> Array:
    """Theorem 3 as its recursion, the sharpest form: R_n >= E||theta_n - theta*||^2.

    R_k = max(0, 1 - 2 m eta_k) R_{k-1} + eta_k^2 (C0^2 + 4 C0^2 d/mu_k^2).

    Parameters
    ----------
    s : Setting
    n : int or array of int >= 0
    budgets : array, optional
        mu_1, mu_2, ...; all ``s.mu`` unless given.
    """
    s.needs_convexity()
    last = int(np.max(n))
    r = s.start
    values = [r]
    for eta, moment in zip(s.steps(last).tolist(), s.moments(last, budgets).tolist(), strict=True):
        r = max(0.0, 1 - 2 * s.convexity * eta) * r + eta**2 * moment
        values.append(r)
    return at(np.array(values), n)


def halves(n: Array) -> Array:
    """floor(n/2)."""
    return np.floor(n / 2)


def sum_bound(exponent: float, h: Array) -> Array:
    """1 + psi_{1-exponent}(h) >= sum_{k <= h} k^-exponent; 0 where h = 0."""
    return np.where(h >= 1, 1 + psi(1 - exponent, np.maximum(h, 1)), 0.0)


def distance_bound_closed(s: Setting, n: ArrayLike) -> Array:
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


def distance_bound_unit_exponent(s: Setting, n: ArrayLike) -> Array:
    """Theorem 3 for alpha = 1 and any eta, x = 2 m eta: rate n^-min(1, x).

    (n+1)^-x Delta_0 + sigma^2 eta^2 2^x (n+1)^-x (1 + psi_{x-1}(n)).
    """
    s.needs_convexity()
    k = np.asarray(n, dtype=float)
    x = 2 * s.convexity * s.eta
    noise = s.second_moment() * s.eta**2 * 2**x * (1 + psi(x - 1, k))
    return np.asarray((k + 1) ** -x * (s.start + noise))


def distance_bound_printed(s: Setting, n: ArrayLike, noise_constant: float = 64.0) -> Array:
    """Theorem 3 as printed (2 m eta < 1); with noise_constant = 4 it falls below its own recursion."""
    s.needs_convexity()
    k = np.asarray(n, dtype=float)
    m, eta, a = s.convexity, s.eta, s.alpha
    early = eta**2 * psi(1 - 2 * a, k) * np.exp(-m * eta * k ** (1 - a) / 2)
    moment = s.second_moment(noise_constant)
    return np.exp(-2 * m * eta * psi(1 - a, k)) * s.start + moment * (eta / (m * k**a) + early)


def fourth_moment_bound(
    s: Setting, n: ArrayLike, start: float | None = None, budgets: ArrayLike | None = None
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


def fourth_constants(s: Setting, printed: bool) -> tuple[float, float]:
    """C30 and C40, with the exact E||A||^4 or with the printed tau^4, tau^2 = 64 C0^2 d/mu^2."""
    c0, d = s.bound, s.dimension
    exact = 16 * c0**4 * d * (d + 2) / s.mu**4
    noise = (64 * c0**2 * d / s.mu**2) ** 2 if printed else exact
    return (c0**4 + noise) * (3 + 9 / s.convexity), 4 * (c0**4 + noise)


def fourth_moment_bound_closed(s: Setting, n: ArrayLike, start: float | None = None) -> Array:
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
    s: Setting, n: ArrayLike, start: float | None = None, exact_noise: bool = False
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


def leading_term(curvature: ArrayLike, covariance: ArrayLike, noise_variance: float) -> float:
    """tr(H^-1 (S + s^2 I) H^-1), s^2 = 4 C0^2 mean(mu_k^-2): n E||average - theta*||^2 in the limit."""
    inverse = np.linalg.inv(np.asarray(curvature, dtype=float))
    noise = np.asarray(covariance, dtype=float) + noise_variance * np.eye(len(inverse))
    return float(np.trace(inverse @ noise @ inverse.T))


def average_bound(
    s: Setting,
    n: ArrayLike,
    leading: float,
    distances: ArrayLike,
    fourths: ArrayLike,
    third_order: float,
    smoothness: float | None = None,
    post: bool = False,
) -> Array:
    """Theorem 4, by Minkowski's inequality: E||average - theta*||^2 of unprojected iterates.

    Parameters
    ----------
    s : Setting
        ``convexity`` bounds the smallest eigenvalue of H from below.
    n : int or array of int >= 1
    leading : float
        :func:`leading_term`.
    distances, fourths : array, length max(n) + 1
        Upper bounds (or exact values) of E||delta_k||^2 and E||delta_k||^4, k = 0, 1, ...
    third_order : float
        C1 with ||grad F(theta) - H (theta - theta*)|| <= (C1/2)||theta - theta*||^2; 0 for a quadratic.
    smoothness : float, optional
        M of the last term, ``s.smoothness`` unless given; 0 for a quadratic.
    post : bool
        For (1/n) sum_{k=1}^n theta_k instead of (1/n) sum_{k=0}^{n-1} theta_k.
    """
    s.needs_convexity()
    last = int(np.max(n))
    big_m = s.smoothness if smoothness is None else smoothness
    square = np.asarray(distances, dtype=float)[: last + 1]
    root = np.sqrt(square)
    inverse = 1 / s.steps(last + 1)
    turns = np.concatenate([[0.0, 0.0], np.cumsum(np.diff(inverse)[: last - 1] * root[1:last])])
    fourth = np.concatenate([[0.0], np.cumsum(np.sqrt(np.asarray(fourths, float)[:last]))])
    second = np.concatenate([[0.0], np.cumsum(square[:last])])
    k = np.asarray(n, dtype=np.int64)
    rest = root[0] * inverse[0] + root[k] * inverse[k - 1] + turns[k]
    rest = rest + third_order / 2 * fourth[k] + big_m * np.sqrt(second[k])
    total = np.sqrt(leading / k) + rest / (s.convexity * k)
    if post:
        total = total + (root[k] + root[0]) / k
    return np.asarray(total**2)


def average_bound_printed(
    s: Setting,
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
