"""The Gaussian mechanism: user k sends the gradient g plus (Delta/mu_k) N(0, I), which is mu_k-GDP.

Here Delta = sup ||g(x, theta) - g(x', theta)||_2. mu-GDP (Dong, Roth and Su, 2022): telling two
neighbouring inputs apart is at least as hard as telling N(0, 1) from N(mu, 1). Budgets may differ between
users. User k has mu_k-GDP, and the whole transcript is max_k mu_k-GDP (parallel composition). Budgets must
not depend on data. Random budgets are drawn from public randomness. Simulated noise is seeded and in floating
point. It protects no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from mpmath import mp, mpf
from pydantic import Field, model_validator

from ldpflow.components.mechanisms.mechanism import MU, Mechanism, PrivacyStatement
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, isotropic
from ldpflow.numerics import constants
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters

# One extremely small budget would move an iterate out of reach.
Budget = Annotated[float, Field(ge=1e-3, le=1e6), MU]


class Gaussian(Mechanism):
    """Gaussian noise calibrated to the L2 sensitivity of the gradient.

    Parameters
    ----------
    mu : float in [1e-3, 1e6]
        Budget of each user, or with ``mu_min`` the largest budget.
    mu_min : float, optional
        Smallest budget, if users have independent budgets that are uniform on [mu_min, mu].
    budgets : tuple of float, optional
        List of budgets, in place of mu and mu_min. User k has budgets[(k - 1) mod length].
    """

    cites: ClassVar = ("dong2022",)
    kind: Literal["gaussian"] = "gaussian"
    mu: Budget = 1.0
    mu_min: Budget | None = None
    budgets: Annotated[tuple[Budget, ...], Field(min_length=2, max_length=4096)] | None = None

    @model_validator(mode="after")
    def check_budgets(self) -> Self:
        if self.budgets is not None and (self.mu_min is not None or self.mu != 1.0):
            raise ValueError("budgets excludes mu and mu_min")
        if self.mu_min is not None and not self.mu_min < self.mu:
            raise ValueError("mu_min must be below mu")
        return self

    @classmethod
    def missing_settings(cls, given: Mapping[str, object]) -> list[str]:
        """A study with a list of budgets needs no mu."""
        return [] if "budgets" in given or "mu" in given else ["mu"]

    def unsuitable(self, problem: Problem) -> str | None:
        if math.isinf(problem.l2_sensitivity()):
            return "its gradient is unbounded; clipped_gaussian clips it"
        return None

    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        noise = (Variate("normal"),) * problem.dimension
        if self.mu_min is not None:
            return (*noise, Variate("uniform", role="budgets"))
        if self.budgets is not None:
            return (*noise, Variate("position", role="position"))
        return noise

    def kernel_parameters(self, problem: Problem) -> Parameters:
        """Delta/mu for each budget. For random budgets: Delta and the law of the budgets."""
        sensitivity = problem.l2_sensitivity()
        if self.mu_min is not None:
            law = {"sensitivity": sensitivity, "least": self.mu_min, "width": self.mu - self.mu_min}
            return {"scales": (), **law}
        return {"scales": tuple(sensitivity / mu for mu in self.budgets or (self.mu,))}

    def mean_inverse_square(self) -> float:
        """Mean of mu_k^-2 over users."""
        with constants.workdps(40):
            if self.budgets is not None:
                return float(sum(mpf(mu) ** -2 for mu in self.budgets) / len(self.budgets))
            return float(1 / (mpf(self.mu_min or self.mu) * mpf(self.mu)))

    def shared(self, answers: int) -> Gaussian:
        """The mechanism for one of several answers of a user: budget mu_k/sqrt(answers) (composition)."""
        with constants.workdps(40):
            share = 1 / mp.sqrt(answers)
            if self.budgets is not None:
                budgets = tuple(float(mpf(mu) * share) for mu in self.budgets)
                return self.model_copy(update={"budgets": budgets})
            ends = {"mu": self.mu, "mu_min": self.mu_min}
            changed = {name: float(mpf(mu) * share) for name, mu in ends.items() if mu is not None}
            return self.model_copy(update=changed)

    def smallest(self) -> float:
        return min(self.budgets or (self.mu_min or self.mu,))

    def noise_covariance(self, problem: Problem) -> Matrix:
        return isotropic(problem.dimension, problem.l2_sensitivity() ** 2 * self.mean_inverse_square())

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("mu-GDP (local)", mu=max(self.budgets or (self.mu,)))


def randomise(kernel, g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace g by A(g) = g + (Delta/mu_k) (N_1, ..., N_d).

    After the standard normals N_j, ``noise`` has a uniform variate (random budgets) or the user's number
    (list of budgets).
    """
    if len(mechanism.scales) == 1:
        scale = mechanism.scales[0]
    elif len(mechanism.scales) == 0:
        budget = mechanism.least + mechanism.width * noise[kernel.D * STRIDE + at]
        scale = mechanism.sensitivity / budget
    else:
        scale = mechanism.scales[int(noise[kernel.D * STRIDE + at]) % len(mechanism.scales)]
    for j in range(kernel.D):
        g[j * LANES + lane] += scale * noise[j * STRIDE + at]
