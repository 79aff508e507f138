"""Cheap bootstrap, CHB (Lam and Wang, 2026): a few replications and a t quantile.

    S2 = B^-1 sum_k thetabar*(k)^2,   interval thetabar -+ t_B sqrt(S2)

with thetabar*(1), ..., thetabar*(B) the first B replications of the block bootstrap (BB) with the same
blocks and multipliers. Deviations are from thetabar and not from their mean, so t has B degrees of freedom
and B = 1 is possible. It shares BB's variance, and is too short where BB is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.block_bootstrap import BlockBootstrap
from ldpflow.intervals.interval import (
    Intervals,
    PathIntervalMethod,
    average,
    defined,
    symmetric,
    undefined,
)
from ldpflow.intervals.record import PathRecord, PathSource
from ldpflow.intervals.shared_settings import BETA, MULTIPLIER, REPLICATIONS

__all__ = ["CheapBootstrap"]


class CheapBootstrap(PathIntervalMethod):
    """Interval from a few bootstrap replications.

    Parameters
    ----------
    beta : float in (0, 1)
        Block exponent, as in BB.
    B : int in [1, 100]
        Bootstrap replications.
    multiplier : str
        As in BB.
    """

    title: ClassVar[str] = "cheap bootstrap: few replications and a t quantile (Lam and Wang, 2026)"

    undefined_where: ClassVar[str] = "there are fewer than two blocks, or their sums are equal"

    around_average: ClassVar[bool | None] = True

    kind: Literal["CHB"] = "CHB"
    beta: Annotated[float, Field(gt=0, lt=1), BETA] = 0.75
    B: Annotated[int, Field(ge=1, le=100), REPLICATIONS] = 5
    multiplier: Annotated[Literal["uniform", "rademacher"], MULTIPLIER] = "uniform"

    def bootstrap(self) -> BlockBootstrap:
        """BB with the same blocks and multipliers."""
        return BlockBootstrap(beta=self.beta, multiplier=self.multiplier)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return self.bootstrap().times(steps, algorithm)

    def times_settings(self) -> tuple[object, ...]:
        return self.bootstrap().times_settings()

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return self.bootstrap().count_times(steps, algorithm)

    def unsuitable(self, source: PathSource) -> str | None:
        reason = self.bootstrap().unsuitable(source)
        return None if reason is None else reason.replace("BB", "CHB", 1)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        bootstrap = self.bootstrap()
        steps = record.steps(n)
        estimate = average(record, steps)
        length, count = bootstrap.blocks(steps)
        if count < 2:
            return undefined(estimate, levels)
        deviations = bootstrap.deviations(record, steps)
        replicates = bootstrap.replicates(record, n, deviations, self.B)
        squares = np.zeros_like(estimate)
        for k in range(self.B):
            squares += replicates[:, :, k] * replicates[:, :, k]
        se = np.sqrt(defined(squares / self.B)) / (count * length)
        widths = [constants.student_quantile(0.5 + x / 2.0, float(self.B)) * se for x in levels]
        return Intervals(estimate, se, *symmetric(estimate, widths))
