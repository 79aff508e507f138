"""DP-AMBSSGD without the A, a fixed clipping norm: what adaptive clipping is compared with.

The same steps, batches and noise as dp_ambssgd (see there) with zeta fixed beforehand and no records
spent on a threshold. A batch is 1/(2 alpha^2)-zCDP and 1/alpha-GDP; batches are disjoint.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from mpmath import mp, mpf
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms.dp_ambssgd import recursion  # noqa: F401 (its kernel function)
from ldpflow.algorithms.regression import MinibatchRegression
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.mechanisms.mechanism import CLIPPED, THRESHOLD
from ldpflow.privacy import clipping
from ldpflow.problems import Problem
from ldpflow.problems.least_squares import LeastSquares


class DpMbssgd(MinibatchRegression):
    """Mini-batch SGD with clipping at a fixed norm.

    Parameters
    ----------
    clip : float > 0, optional
        zeta; c_zeta R sqrt(||w*||_H^2 + sigma^2), the scale of the first gradients, unless given.
    c_zeta : float > 0
        Factor of that default.
    """

    measures: ClassVar = (CLIPPED, THRESHOLD)

    cites: ClassVar = ("varshney2022",)
    kind: Literal["dp_mbssgd"] = "dp_mbssgd"
    clip: Annotated[float, Field(gt=0, le=1e9)] | None = None
    c_zeta: Annotated[float, Field(gt=0, le=1e3)] = 2.0

    def batches(self, horizon: int) -> tuple[int, int]:
        return 0, self.records(horizon)

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        assert isinstance(problem, LeastSquares) and horizon is not None
        clip = self.clip
        if clip is None:
            with constants.workdps(30):
                size = mp.sqrt(mpf(problem.signal()) ** 2 + mpf(problem.error_variance()))
                clip = float(self.c_zeta * self.scale(problem) * size)
        return self.model_copy(update={"clip": clip}).with_schedule(problem, horizon)

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return self.statement(clipping.run_epsilon(self.alpha(), self.delta, self.accounting, False, 1))

    def kernel_parameters(self, horizon: int | None) -> dict[str, float]:
        assert horizon is not None and self.clip is not None
        _, b = self.batches(horizon)
        given = {
            "eta": self.step_constant(),
            "theta0": self.theta0,
            "b": float(b),
            "noise": 2.0 * self.alpha() / b,
            "fixed": self.clip,
        }
        threshold = ("s", "scale", "finest", "doublings", "queries", "spread", "level", "overlap")
        return given | dict.fromkeys(threshold, 0.0)
