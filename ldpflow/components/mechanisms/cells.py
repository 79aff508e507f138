"""One report for several quantiles: randomised response over the cells between the iterates.

The iterates theta_1 <= .. <= theta_Q cut the line into k = Q + 1 cells. A user reports the cell that holds
the value by generalised randomised response: the true cell with probability p' = e^eps q', and each other
cell with probability q' = 1/(e^eps + Q). With C_q = 1{the reported cell lies below theta_q}

    A_q = (C_q - q q')/(p' - q') - tau_q,   E A_q = F(theta_q) - tau_q.

F is the distribution function of the values. For Q = 1 the report is that of randomised response.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.mechanisms.mechanism import EPSILON, Mechanism, PrivacyStatement
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.numerics import constants
from ldpflow.numerics.streams import LANES
from ldpflow.settings import Parameters


class Cells(Mechanism):
    """Generalised randomised response over the cells between the iterates, eps-LDP.

    Parameters
    ----------
    epsilon : float in [1e-6, 30]
        Budget of the report of a user.
    sampling : str
        What is simulated. ``data``: the user's value, then the report. ``private_bit``: the report alone,
        from its law given the iterates.
    """

    cites: ClassVar = ("warner1965", "wang2017")
    kind: Literal["cells"] = "cells"
    epsilon: Annotated[float, Field(ge=1e-6, le=30), EPSILON] = 1.0
    sampling: Literal["data", "private_bit"] = "data"

    def unsuitable(self, problem: Problem) -> str | None:
        if problem.levels() is None:
            return "cells needs a problem that estimates quantiles of one value"
        if self.sampling == "private_bit" and problem.bit_law() is None:
            return "sampling = 'private_bit' needs a law whose distribution function is implemented"
        return None

    def replaces_data(self) -> bool:
        return self.sampling == "private_bit"

    def reads_bit(self) -> bool:
        return True

    def variates(self, problem: Problem) -> tuple[Variate, ...]:
        return (Variate("uniform"),)

    def kernel_parameters(self, problem: Problem) -> Parameters:
        taus = problem.levels()
        assert taus is not None
        with constants.workdps(40):
            odds = mp.exp(mpf(self.epsilon))
            total = odds + len(taus)
            gap = (odds - 1) / total
            shifts = [mpf(q + 1) / total for q in range(len(taus))]
            levels = [mpf(tau) for tau in taus]
            return {
                "keep": float(odds / total),
                # A_q for a report below theta_q and for a report above theta_q.
                "below": tuple(float((1 - s) / gap - t) for s, t in zip(shifts, levels, strict=True)),
                "above": tuple(float(-s / gap - t) for s, t in zip(shifts, levels, strict=True)),
            }

    def noise_covariance(self, problem: Problem) -> Matrix:
        """Covariance that the report adds at theta*.

        It is S, the covariance of A, minus that of the bits 1{X <= theta_q}. For q <= r,
        S_qr = B_q (1 - B_r)/(p' - q')^2, and B_q = q q' + (p' - q') tau_q is the probability that the report
        lies below theta_q.
        """
        taus = problem.levels()
        assert taus is not None
        with constants.workdps(40):
            excess = mp.expm1(mpf(self.epsilon))
            total = excess + 1 + len(taus)
            share = [(q + 1 + mpf(tau) * excess) / total for q, tau in enumerate(taus)]
            scale = (total / excess) ** 2

            def noise(q: int, r: int) -> float:
                low, high = min(q, r), max(q, r)
                plain = mpf(taus[low]) * (1 - mpf(taus[high]))
                return float(scale * share[low] * (1 - share[high]) - plain)

            return [[noise(q, r) for r in range(len(taus))] for q in range(len(taus))]

    def privacy(self) -> PrivacyStatement:
        return PrivacyStatement("eps-LDP", epsilon=self.epsilon)


def randomise(kernel, g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace the bits 1{X <= theta_q} in g by A(g). Cell 0 lies below theta_1, and cell Q above theta_Q.

    Let U be uniform. If U < p', the true cell is reported. Otherwise U lies in the m-th interval of length
    q' above p', and the report is the m-th cell after the true one. Cell 0 follows cell Q.
    """
    cell = np.float64(kernel.D)
    for j in range(kernel.D):
        cell -= g[j * LANES + lane]
    u = noise[at]
    other = (1.0 - mechanism.keep) / kernel.D
    if not u < mechanism.keep:
        cell += 1.0 + min(np.floor((u - mechanism.keep) / other), kernel.D - 1.0)
        cell -= kernel.D + 1.0 if cell > kernel.D else 0.0
    for j in range(kernel.D):
        g[j * LANES + lane] = mechanism.below[j] if cell <= j else mechanism.above[j]


def randomise_probability(kernel, g, noise, at, lane, mechanism, counts):  # type: ignore[no-untyped-def]
    """Replace P(X <= theta_q) in g by A(g). The report lies below theta_q if U < q q' + (p' - q') g_q."""
    u = noise[at]
    other = (1.0 - mechanism.keep) / kernel.D
    gap = mechanism.keep - other
    for j in range(kernel.D):
        below = u < (j + 1.0) * other + gap * g[j * LANES + lane]
        g[j * LANES + lane] = mechanism.below[j] if below else mechanism.above[j]
