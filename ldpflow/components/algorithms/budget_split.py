"""Multiplier bootstrap with a split budget.

Fang, Xu and Yang (2018, Journal of Machine Learning Research 19(78)) bootstrap SGD online by running
B perturbed paths next to the path itself,

    theta_i^(k) = theta_{i-1}^(k) - eta_i w_i^(k) g(X_i, theta_{i-1}^(k)),   k = 1..B,

with weights w >= 0 of mean and variance 1, here Exponential(1). Under local privacy every path asks
the user about another gradient: B + 1 answers, each with eps/(B + 1), so that one record is
eps-LDP in total (sequential composition). Dette and Graw, Section 1, name this as the reason for a
bootstrap that needs one path only. They speak of B paths with eps/B. The path of the estimate needs
a share too, hence B + 1 here.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ldpflow.components.algorithms.algorithm import DecayingSteps
from ldpflow.components.algorithms.ldp_sgd import RecordSgd
from ldpflow.components.mechanisms import Mechanism
from ldpflow.components.mechanisms.gaussian import Gaussian
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Problem
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters

WEIGHT = Variate("exponential")
"""w_i of a perturbed path, drawn from the mechanism's stream after its noise."""


class BudgetSplit(DecayingSteps, RecordSgd):
    """LDP-SGD with perturbed paths, each with a share of the budget.

    A replicate costs B + 1 paths: meant for n up to about 10^5. Their B + 1 answers about a record have the
    mechanism's eps in total.

    Parameters
    ----------
    perturbations : int in [2, 1000]
        Perturbed paths B; each of the B + 1 paths gets eps/(B + 1).
    """

    cites: ClassVar = ("fang2018",)
    kind: Literal["budget_split"] = "budget_split"
    perturbations: Annotated[int, Field(ge=2, le=1000)] = 20

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if mechanism.replaces_data():
            return "its paths share their users, and a mechanism with private bits simulates no users"
        return None

    def perturbed_paths(self) -> int:
        return self.perturbations

    def randomiser(self, mechanism: Mechanism) -> Mechanism:
        if isinstance(mechanism, Gaussian):
            return mechanism.shared(self.perturbations + 1)  # mu composes in squares
        if "epsilon" not in type(mechanism).model_fields:
            return mechanism
        epsilon: float = mechanism.model_dump()["epsilon"]
        return mechanism.model_copy(update={"epsilon": epsilon / (self.perturbations + 1)})

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        return {"c": self.c, "gamma": self.gamma, "theta0": self.theta0, "radius": 0.0}


def randomise(kernel, g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """w_i A(g) of a perturbed path. ``answer`` is the mechanism's A, the last plane holds the weight."""
    kernel.answer(g, noise, at, lane, mechanism, counts)
    for j in range(kernel.D):
        g[j * LANES + lane] *= noise[(kernel.NOISE_PLANES - 1) * STRIDE + at]
