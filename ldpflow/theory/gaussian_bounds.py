"""Non-asymptotic bounds of one-pass SGD under per-user Gaussian LDP, in their corrected forms.

Source: "Non-asymptotic analysis of SGD under local differential privacy guarantee" (2024), Theorems 3 to 6.
The forms here hold for every n; those that are printed fail or say nothing in places. Step k has size
eta_k = eta k^-alpha (gamma and c elsewhere in this package). The gradient has ||g||_2 <= C0, the noise of
user k the covariance (2 C0/mu_k)^2 I, so E||A_k||^2 = 4 C0^2 d/mu_k^2 (print has 64). Distances are squared.

Theorems 3 and 4 are for a strongly convex loss, last iterate and average. Strong convexity on all of R^d and
a bounded gradient exclude each other: Theorem 3 is about projected iterates, with m the one-point constant
over the ball, or about a quadratic. Theorems 5 and 6 are for a convex loss: excess loss of the last iterate
and of the average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpflow.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """Constants that the bounds depend on.

    Parameters
    ----------
    eta, alpha : float
        Step sizes eta_k = eta k^-alpha.
    bound : float
        C0, bound on the norm of the gradient (half its L2 sensitivity).
    dimension : int
        d.
    mu : float
        The smallest budget of any user: the bounds hold for the worst, while the error depends on
        the mean of mu_k^-2.
    start : float
        Delta_0 = ||theta_0 - theta*||^2.
    convexity : float
        m with <grad F(theta), theta - theta*> >= m ||theta - theta*||^2; 0 where only convex.
    smoothness : float
        M, Lipschitz constant of the gradient.
    """

    eta: float
    alpha: float
    bound: float
    dimension: int
    mu: float
    start: float
    convexity: float = 0.0
    smoothness: float = 1.0

    def __post_init__(self) -> None:
        checks = {
            "eta": self.eta > 0,
            "alpha": 0 <= self.alpha <= 1,
            "bound": self.bound > 0,
            "dimension": self.dimension >= 1,
            "mu": self.mu > 0,
            "start": self.start >= 0,
            "convexity": self.convexity >= 0,
            "smoothness": self.smoothness > 0,
        }
        for name, ok in checks.items():
            if not ok:
                allowed = "in [0, 1]" if name == "alpha" else "a positive number (0 for start, convexity)"
                raise InputError(name, getattr(self, name), allowed)

    def needs_convexity(self) -> None:
        """Refuse m = 0."""
        if self.convexity <= 0:
            raise InputError("convexity", self.convexity, "m > 0, which this bound needs")

    def steps(self, n: int) -> Array:
        """eta_1, ..., eta_n."""
        return self.eta * np.arange(1, n + 1, dtype=float) ** -self.alpha

    def second_moment(self, noise_constant: float = 4.0) -> float:
        """sigma^2 = C0^2 (1 + 4 d/mu^2), the largest E||g_k + A_k||^2."""
        return self.bound**2 * (1 + noise_constant * self.dimension / self.mu**2)

    def energy(self, n: int, budgets: ArrayLike | None = None) -> Array:
        """K_0, ..., K_n with K_n = Delta_0 + sum_{k <= n} eta_k^2 (C0^2 + 4 C0^2 d/mu_k^2)."""
        added = self.steps(n) ** 2 * self.moments(n, budgets)
        return np.concatenate([[self.start], self.start + np.cumsum(added)])

    def starting_excess(self, start: float | None = None) -> float:
        """F(theta_0) - F* where it is known, else its bound M Delta_0/2."""
        return self.smoothness * self.start / 2 if start is None else start

    def moments(self, n: int, budgets: ArrayLike | None = None) -> Array:
        """E||g_k + A_k||^2, at most, for k = 1, ..., n; all users at ``mu`` unless given."""
        mu = np.broadcast_to(self.mu if budgets is None else np.asarray(budgets, float)[:n], (n,))
        return self.bound**2 * (1 + 4 * self.dimension / mu**2)


def at(values: Array, n: ArrayLike) -> Array:
    """Entries n of a sequence that starts at 0."""
    return np.asarray(values[np.asarray(n, dtype=np.int64)])


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
    f0 = s.starting_excess(start)
    result = []
    for k in np.atleast_1d(np.asarray(n, dtype=np.int64)):
        e, total = eta[:k], energy[k]
        r = np.sqrt(e * force * total) + e**2 * force / 2
        chained = 1 / (1 / r + (sums[k - 1] - sums[:k]) / (2 * total))
        first = 0.0 if f0 == 0 else 1 / (1 / f0 + sums[k - 1] / (2 * total))
        result.append(max(first, float(chained.max())))
    return np.array(result).reshape(np.shape(n))


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
