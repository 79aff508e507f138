"""Multiplier bootstrap with a split budget.

Fang, Xu and Yang (2018, Journal of Machine Learning Research 19(78)) bootstrap SGD online. They run B
perturbed paths next to the path of the estimate,

    theta_i^(k) = theta_{i-1}^(k) - eta_i w_i^(k) g(X_i, theta_{i-1}^(k)),   k = 1..B,

with step sizes eta_i, the gradient g at the record X_i, and weights w >= 0 of mean and variance 1, here
Exponential(1). Under local privacy each of the B + 1 paths asks the user about another gradient. Each answer
has the budget eps/(B + 1). All answers about one record are eps-LDP together (sequential composition). This
cost is why Dette and Graw, Section 1, want a bootstrap with one path. They give eps/B to each of the B paths.
The path of the estimate needs a share too, so here each has eps/(B + 1).
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

WEIGHT = Variate("exponential")
"""w_i of a perturbed path. The stream of the mechanism draws it after the noise."""


class BudgetSplit(DecayingSteps, RecordSgd):
    """LDP-SGD with perturbed paths, which share the budget.

    A replicate simulates B + 1 paths, so n should be at most about 10^5. The B + 1 answers about one record
    have the budget eps of the mechanism together.

    Parameters
    ----------
    perturbations : int in [2, 1000]
        Number B of perturbed paths. Each of the B + 1 paths has the budget eps/(B + 1).
    """

    cites: ClassVar = ("fang2018",)
    kind: Literal["budget_split"] = "budget_split"
    perturbations: Annotated[int, Field(ge=2, le=1000)] = 20

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if mechanism.replaces_data():
            return "all its paths have the same users, and sampling by private bits simulates no users"
        notion = mechanism.privacy().notion
        splits = isinstance(mechanism, Gaussian) or (notion == "eps-LDP" and hasattr(mechanism, "epsilon"))
        if notion != "none" and not splits:
            return "it splits epsilon of eps-LDP, or mu of gaussian"
        return None

    def perturbed_paths(self) -> int:
        return self.perturbations

    def randomiser(self, mechanism: Mechanism) -> Mechanism:
        paths = self.perturbations + 1
        if isinstance(mechanism, Gaussian):
            return mechanism.shared(paths)  # mu composes in squares
        epsilon = getattr(mechanism, "epsilon", None)
        return mechanism if epsilon is None else mechanism.model_copy(update={"epsilon": epsilon / paths})


def randomise(kernel, g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace g by w_i A(g). ``kernel.answer`` is A of the mechanism, and the last variate is w_i."""
    kernel.answer(g, noise, at, lane, mechanism, counts)
    for j in range(kernel.D):
        g[j * LANES + lane] *= noise[(kernel.NOISE_PLANES - 1) * STRIDE + at]
