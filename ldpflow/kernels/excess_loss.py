"""The kernel of the excess loss: the mean of a problem's loss gap over a set of covariates."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ldpflow.kernels.assembly import part_of
from ldpflow.kernels.module import compiled
from ldpflow.kernels.parameters import layout_of
from ldpflow.kernels.specialise import Case
from ldpflow.problems import Problem
from ldpflow.random import register_array
from ldpflow.random.lockstep import LANES

SIGNATURE = "void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], float64[:, ::1])"


def loss_gap_of(problem: Problem) -> Callable[..., float] | None:
    """A problem's kernel function ``loss_gap``; None without one, and where records are stored ones."""
    return None if problem.stored_records() else part_of(problem, "loss_gap", required=False)


@lru_cache(maxsize=256)
def loss_gap_kernel(problem: Problem) -> Callable[..., None] | None:
    """The compiled kernel, or None without a kernel function ``loss_gap``."""
    loss_gap = loss_gap_of(problem)
    if loss_gap is None:
        return None
    layouts = (("problem", layout_of(problem.kernel_parameters())),)
    return compiled(mean_gap, Case((("D", problem.dimension), ("loss_gap", loss_gap)), layouts), SIGNATURE)


def mean_gap(kernel, theta, covariates, truth, problem, out):  # type: ignore[no-untyped-def]
    """Mean loss gap over the evaluation set, for every point and lane."""
    z = register_array(LANES)
    total = register_array(LANES)
    for p in range(theta.shape[0]):
        for lane in range(LANES):
            total[lane] = 0.0
        for e in range(covariates.shape[0]):
            square = 0.0
            best = 0.0
            for j in range(kernel.D):
                x = covariates[e, j]
                square += x * x
                best += x * truth[j]
            for lane in range(LANES):
                z[lane] = 0.0
            for j in range(kernel.D):
                x = covariates[e, j]
                for lane in range(LANES):
                    z[lane] += x * theta[p, j * LANES + lane]
            for lane in range(LANES):
                total[lane] += kernel.loss_gap(z[lane], best, square, problem)
        for lane in range(LANES):
            out[p, lane] = total[lane] / covariates.shape[0]
