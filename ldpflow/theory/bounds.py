"""Ingredients of the non-asymptotic bounds of one-pass SGD under per-user Gaussian LDP.

Source: "Non-asymptotic analysis of SGD under local differential privacy guarantee" (2024), Theorems 3
to 6. The forms in this package are corrected ones, valid for every n; those that end in ``_printed`` are
what the paper's proofs end with, kept for comparison and known to fail or to say nothing in places.
Step k has size eta_k = eta k^-alpha (gamma and c elsewhere in this package). The gradient has
||g||_2 <= C0, the noise of user k the covariance (2 C0/mu_k)^2 I. Distances are squared.

The printed noise constant is 64 where the exact one is 4: E||A_k||^2 = 4 C0^2 d/mu_k^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldpflow.errors import InputError

__all__ = ["Setting", "at", "psi"]

Array = NDArray[np.float64]


def psi(beta: float, n: ArrayLike) -> Array:
    """psi_beta(n) = (n^beta - 1)/beta, log n for beta = 0; sum k^-a <= 1 + psi_{1-a}(n)."""
    log_n = np.log(np.asarray(n, dtype=float))
    if abs(beta) < 1e-12:
        return np.asarray(log_n)
    return np.asarray(np.expm1(beta * log_n) / beta)


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

    def moments(self, n: int, budgets: ArrayLike | None = None) -> Array:
        """E||g_k + A_k||^2, at most, for k = 1, ..., n; all users at ``mu`` unless given."""
        mu = np.broadcast_to(self.mu if budgets is None else np.asarray(budgets, float)[:n], (n,))
        return self.bound**2 * (1 + 4 * self.dimension / mu**2)


def at(values: Array, n: ArrayLike) -> Array:
    """Entries n of a sequence that starts at 0."""
    return np.asarray(values[np.asarray(n, dtype=np.int64)])
