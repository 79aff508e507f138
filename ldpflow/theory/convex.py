"""Theorems 5 and 6: convex loss, excess loss of the last iterate and of the average (see .bounds)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ldpflow.errors import InputError
from ldpflow.theory.bounds import Array, Setting, at, psi

__all__ = [
    "average_excess_bound",
    "average_excess_bound_printed",
    "excess_bound",
    "excess_bound_printed",
    "excess_bound_recursion",
    "excess_bound_repaired",
]


def starting_excess(s: Setting, start: float | None) -> float:
    """F0 = F(theta_0) - F*, or its bound M Delta_0/2."""
    return s.smoothness * s.start / 2 if start is None else start


def excess_bound(s: Setting, n: ArrayLike, start: float | None = None) -> Array:
    """Theorem 5 in closed form, any step size: D_n >= E F(theta_n) - F*, unprojected iterates.

    With r_j = sqrt(eta_j M sigma^2 K_n) + eta_j^2 M sigma^2/2 and E_j = eta_1 + ... + eta_j,
    D_n <= max of [1/F0 + E_n/(2 K_n)]^-1 and of [1/r_j + (E_n - E_j)/(2 K_n)]^-1 over j <= n: either a
    step contracts, 1/D_k >= 1/D_{k-1} + eta_k/(2 K_n), or D_k <= r_k; chain from the last of the latter.
    """
    last = int(np.max(n))
    eta = s.steps(last)
    energy = s.energy(last)
    sums = np.cumsum(eta)
    force = s.smoothness * s.second_moment()
    f0 = starting_excess(s, start)
    result = []
    for k in np.atleast_1d(np.asarray(n, dtype=np.int64)):
        e, total = eta[:k], energy[k]
        r = np.sqrt(e * force * total) + e**2 * force / 2
        chained = 1 / (1 / r + (sums[k - 1] - sums[:k]) / (2 * total))
        first = 0.0 if f0 == 0 else 1 / (1 / f0 + sums[k - 1] / (2 * total))
        result.append(max(first, float(chained.max())))
    return np.array(result).reshape(np.shape(n))


def excess_bound_recursion(s: Setting, n: ArrayLike, start: float | None = None) -> Array:
    """Theorem 5 as its recursion, for eta <= 1/M.

    D_k <= D_{k-1} - (eta_k/K_{k-1}) D_{k-1}^2 + eta_k^2 M sigma^2/2.
    """
    if s.eta * s.smoothness > 1:
        raise InputError("eta", s.eta, f"at most 1/M = {1 / s.smoothness:g}")
    last = int(np.max(n))
    energy = s.energy(last).tolist()
    force = s.smoothness * s.second_moment() / 2
    excess = starting_excess(s, start)
    values = [excess]
    for k, eta in enumerate(s.steps(last).tolist()):
        excess = excess - eta / energy[k] * excess**2 + eta**2 * force
        values.append(excess)
    return at(np.array(values), n)


def excess_bound_repaired(s: Setting, n: ArrayLike) -> Array:
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


def excess_bound_printed(s: Setting, n: ArrayLike, noise_constant: float = 64.0) -> Array:
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


def average_excess_bound(
    s: Setting, n: ArrayLike, post: bool = False, budgets: ArrayLike | None = None
) -> Array:
    """Theorem 6: bound of E F(average) - F*, projection allowed.

    (1/(2n)) [K_n/eta_n + sum_{k<=n} eta_k (C0^2 + 4 C0^2 d/mu_k^2)] for the average of
    theta_0, ..., theta_{n-1}; ``post``, for that of theta_1, ..., theta_n, takes K_{n+1}/eta_{n+1} and
    the sum from 2 to n + 1.
    """
    last = int(np.max(n)) + 1
    eta = s.steps(last)
    energy = s.energy(last, budgets)
    sums = np.concatenate([[0.0], np.cumsum(eta * s.moments(last, budgets))])
    k = np.asarray(n, dtype=np.int64)
    if post:
        return np.asarray((energy[k + 1] / eta[k] + sums[k + 1] - sums[1]) / (2 * k))
    return np.asarray((energy[k] / eta[k - 1] + sums[k]) / (2 * k))


def average_excess_bound_printed(s: Setting, n: ArrayLike, noise_constant: float = 64.0) -> Array:
    """Theorem 6 as printed: sums bounded by psi instead of 1 + psi."""
    k = np.asarray(n, dtype=float)
    sigma = s.second_moment(noise_constant)
    a, eta = s.alpha, s.eta
    energy = s.start + sigma * eta**2 * psi(1 - 2 * a, k)
    return np.asarray(k ** (a - 1) / (2 * eta) * energy + sigma * eta * psi(1 - a, k) / (2 * k))
