"""Lugsail, LUG (Vats and Flegal, 2022): a variance estimate overcorrected on purpose.

    V_L = (V_b - kappa V_(b/r))/(1 - kappa),   interval thetabar -+ z sqrt(V_L/n)

A bias -C/b of V_b becomes (kappa r - 1)/(1 - kappa) C/b: with the usual r = 3 and kappa = 1/2 positive and
as large. For EBS, V_(b/r) is EBS with floor(b/r). For BM every batch is cut into r pieces and V_(b/r) is
BM's formula on the pieces, around the same mean. With few batches V_L can be negative: undefined then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.algorithms import Algorithm
from ldpflow.intervals.batch_means import Batches, BatchMeans, batch_variance
from ldpflow.intervals.equal_batches import (
    BatchFactor,
    EqualBatches,
    batch_times,
    equal_batch_variance,
    short_batches,
)
from ldpflow.intervals.interval import (
    Array,
    Intervals,
    PathIntervalMethod,
    average,
    defined,
    normal_intervals,
    undefined,
)
from ldpflow.intervals.record import PathRecord, PathSource
from ldpflow.intervals.shared_settings import BASE, BatchRule
from ldpflow.settings import Setting

__all__ = ["Lugsail"]


class Lugsail(PathIntervalMethod):
    """Interval with the lugsail variance of equal batches or of batch means.

    Parameters
    ----------
    base : str
        ``EBS`` or ``BM``.
    pieces : int >= 2
        r, pieces that a batch is cut into.
    weight : float in [0, 1)
        kappa, of the shorter batches.
    block_rule, block_c
        As in EBS, for that base.
    M : int >= 2, optional
        As in BM, for that base.
    """

    title: ClassVar[str] = "lugsail: a variance overcorrected on purpose (Vats and Flegal, 2022)"

    undefined_where: ClassVar[str] = (
        "there are fewer than two batches, or the estimated variance is not positive"
    )

    around_average: ClassVar[bool | None] = True

    kind: Literal["LUG"] = "LUG"
    base: Annotated[Literal["EBS", "BM"], BASE] = "EBS"
    pieces: Annotated[int, Field(ge=2, le=1000), Setting("count", "r: pieces of a batch in LUG")] = 3
    weight: Annotated[
        float, Field(ge=0, lt=1), Setting("1", "kappa: weight of the shorter batches in LUG")
    ] = 0.5
    block_rule: BatchRule | None = None
    block_c: BatchFactor | None = None
    M: Batches | None = None

    @model_validator(mode="after")
    def settings_of_the_base(self) -> Lugsail:
        if self.base == "BM" and (self.block_rule is not None or self.block_c is not None):
            raise ValueError("block_rule and block_c are settings of the base EBS")
        if self.base == "EBS":
            if self.M is not None:
                raise ValueError("M is a setting of the base BM")
            self.equal_batches()
        return self

    def equal_batches(self) -> EqualBatches:
        """The base EBS."""
        return EqualBatches(block_rule=self.block_rule or "half", block_c=self.block_c)

    def batch_means(self) -> BatchMeans:
        """The base BM."""
        return BatchMeans(M=self.M)

    def unsuitable_at(self, source: PathSource, n: int) -> str | None:
        if self.base == "BM":
            return None
        batches = self.equal_batches()
        return short_batches(f"LUG, {batches.block_rule}", source, n, batches.size)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        gamma = algorithm.step_exponent()
        if self.base == "EBS":
            size = self.equal_batches().size(steps, gamma)
            ends = batch_times(steps, size)
            return np.union1d(ends, batch_times(steps, size // self.pieces)) if size >= self.pieces else ends
        ends = np.unique(self.cut(self.batch_means().ends(steps, gamma)))
        return ends[ends > 0]

    def cut(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """e_(k-1) + floor(j n_k/r) for j = 1, ..., r, with e_0 first."""
        parts = np.arange(1, self.pieces + 1, dtype=np.int64)
        inner = ends[:-1, None] + parts * np.diff(ends)[:, None] // self.pieces
        return np.concatenate([ends[:1], inner.reshape(-1)])

    def steps_read(self) -> tuple[str, ...]:
        return self.batch_means().steps_read() if self.base == "BM" else self.equal_batches().steps_read()

    def times_settings(self) -> tuple[object, ...]:
        return (self.base, self.pieces, self.block_rule, self.block_c, self.M)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        if self.base == "BM":
            return 1 + self.pieces * (self.batch_means().count_times(steps, algorithm) - 1)
        size = self.equal_batches().size(steps, algorithm.step_exponent())
        return steps // size + 1 + (steps // (size // self.pieces) if size >= self.pieces else 0)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.algorithm
        steps = record.steps(n)
        estimate = average(record, steps)
        both = self.variances(record, steps, algorithm.step_exponent())
        if both is None:
            return undefined(estimate, levels)
        long, short = both
        variance = (long - self.weight * short) / (1.0 - self.weight)
        return normal_intervals(estimate, np.sqrt(defined(variance) / steps), levels)

    def variances(self, record: PathRecord, steps: int, gamma: float) -> tuple[Array, Array] | None:
        """V_b and V_(b/r); None where one of them is not defined."""
        if self.base == "EBS":
            size = self.equal_batches().size(steps, gamma)
            if size < self.pieces or steps // size < 2:
                return None
            return (
                equal_batch_variance(record, steps, size),
                equal_batch_variance(record, steps, size // self.pieces),
            )
        ends = self.batch_means().ends(steps, gamma)
        lengths = np.diff(ends)
        if len(lengths) < 2 or (lengths < self.pieces).any():
            return None
        return batch_variance(record, ends), batch_variance(record, self.cut(ends))
