"""Equal batches, EBS (Singh, Shukla and Vats, 2025).

    b = smallest power of two >= c n^beta, at least 2;  a = floor(n/b), r = n - a b
    r <= 1:  V = b/(a - 1) sum_k (X_k - thetabar)^2
    r >= 2:  V = b/a sum_k (X_k - thetabar)^2 + (sum of the last r iterates - r thetabar)^2 / n

beta is (gamma + 1)/2 ("half") or (2 gamma + 1)/3 ("third"), X_k the mean of batch k, thetabar that of all n
iterates. The second line is the authors' adjustment for the rest. Their default c = .1 makes batches that
are shorter than what a path remembers, about n^gamma/(c_step G) steps; lengths such as 3n^0.75 are for
that case. The t option, t with a - 1 degrees, is ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import (
    Array,
    Intervals,
    PathIntervalMethod,
    average,
    defined,
    in_order,
    normal_intervals,
    symmetric,
    undefined,
)
from ldpflow.intervals.record import PathRecord, PathSource
from ldpflow.intervals.shared_settings import BLOCK_C, BatchRule, Quantile

__all__ = [
    "BatchFactor",
    "EqualBatches",
    "batch_size",
    "batch_times",
    "equal_batch_variance",
    "short_batches",
]

BatchFactor = Annotated[float, Field(ge=1e-6, le=1e6), BLOCK_C]

DEFAULT_C = 0.1


class EqualBatches(PathIntervalMethod):
    """Interval with the variance of equal batches.

    Parameters
    ----------
    block_rule : str
        Batch length b: ``half`` and ``third`` as above, ``3n^0.75`` for 3 floor(n^0.75), or a number.
    block_c : float > 0, optional
        c of the rules half and third; 0.1 unless given.
    quantile : str
        ``normal``, or ``t`` with a - 1 degrees of freedom.
    """

    title: ClassVar[str] = "equal batches (Singh, Shukla and Vats, 2025)"

    undefined_where: ClassVar[str] = (
        "there are fewer than two batches, or the estimated variance is not positive"
    )

    around_average: ClassVar[bool | None] = True

    kind: Literal["EBS"] = "EBS"
    block_rule: BatchRule = "half"
    block_c: BatchFactor | None = None
    quantile: Quantile = "normal"

    @model_validator(mode="after")
    def factor_of_a_rule(self) -> EqualBatches:
        if self.block_c is not None and self.block_rule not in ("half", "third"):
            raise ValueError(f"block_c is a factor of the rules half and third, not of {self.block_rule}")
        return self

    def size(self, steps: int, gamma: float) -> int:
        """b."""
        return batch_size(steps, gamma, self.block_rule, self.block_c)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return batch_times(steps, self.size(steps, algorithm.step_exponent()))

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent",) if self.block_rule in ("half", "third") else ()

    def times_settings(self) -> tuple[object, ...]:
        return (self.block_rule, self.block_c)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return steps // self.size(steps, algorithm.step_exponent()) + 1

    def unsuitable_at(self, source: PathSource, n: int) -> str | None:
        return short_batches(f"EBS, {self.block_rule}", source, n, self.size)

    def intervals(self, record: PathRecord, n: int, levels: Sequence[float]) -> Intervals:
        algorithm = record.algorithm
        steps = record.steps(n)
        estimate = average(record, steps)
        size = self.size(steps, algorithm.step_exponent())
        count = steps // size
        if count < 2:
            return undefined(estimate, levels)
        se = np.sqrt(defined(equal_batch_variance(record, steps, size)) / steps)
        if self.quantile == "normal":
            return normal_intervals(estimate, se, levels)
        widths = [constants.student_quantile(0.5 + x / 2.0, float(count - 1)) * se for x in levels]
        return Intervals(estimate, se, *symmetric(estimate, widths))


@lru_cache(maxsize=1024)
def batch_size(steps: int, gamma: float, rule: str, c: float | None) -> int:
    """b in exact arithmetic, at least 1; gamma, c and powers are the decimals that were typed."""
    if rule in ("half", "third"):
        with constants.workdps(40):
            g = mpf(repr(gamma))
            beta = (g + 1) / 2 if rule == "half" else (2 * g + 1) / 3
            wanted = mpf(repr(DEFAULT_C if c is None else c)) * mpf(steps) ** beta
            nearest = mp.nint(wanted)
            if abs(wanted - nearest) <= mpf("1e-9") * wanted:
                wanted = nearest
            size = 2
            while size < wanted:
                size *= 2
            return size
    power = re.fullmatch(r"(\d*)n\^(.*)", rule)
    if power is None:
        return int(rule)
    return int(power[1] or 1) * constants.floor_power(steps, float(power[2]))


def batch_times(steps: int, size: int) -> NDArray[np.int64]:
    """Ends of full batches, and ``steps``."""
    ends = np.arange(1, steps // size + 1, dtype=np.int64) * size
    return ends if len(ends) and ends[-1] == steps else np.append(ends, steps)


def equal_batch_variance(record: PathRecord, steps: int, size: int) -> Array:
    """V from the full batches of ``size`` steps, at least two, and the rest; shape (d, R)."""
    return record.once(("equal batches", steps, size), lambda: of_equal_batches(record, steps, size))


def of_equal_batches(record: PathRecord, steps: int, size: int) -> Array:
    """The same, computed."""
    count, rest = divmod(steps, size)
    sums = record.sums_at(np.arange(count + 1, dtype=np.int64) * size)
    last = record.sum_at(steps)
    mean = last / float(steps)
    deviations = (sums[1:] - sums[:-1]) - float(size) * mean
    squares = in_order(deviations * deviations) / float(size)
    if rest <= 1:
        return squares / float(count - 1)
    left_over = (last - sums[-1]) - float(rest) * mean
    result: Array = squares / float(count) + left_over * left_over / float(steps)
    return result


def short_batches(name: str, source: PathSource, n: int, size: Callable[[int, float], int]) -> str | None:
    """A warning where batches are shorter than four times what a path remembers, n^gamma/(c G) steps.

    c G is the smallest of a coordinate's own step constant and curvature.
    """
    steps, gamma = source.steps(n), source.algorithm.step_exponent()
    own = [row[j] for j, row in enumerate(source.problem.curvature())]
    factors = source.algorithm.step_factors() or (1.0,) * len(own)
    curvature = min(factor * value for factor, value in zip(factors, own, strict=True))
    if not (gamma > 0.0 and curvature > 0.0):
        return None
    memory = float(steps) ** gamma / (source.algorithm.step_constant() * curvature)
    length = size(steps, gamma)
    if not length < 4.0 * memory:
        return None
    return (
        f"{name}: batches of {length:,} steps at n = {n:,}, where a path remembers about {memory:,.0f}; "
        "expect intervals that are too short (block_rule makes batches longer)"
    )
