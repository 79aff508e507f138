"""Methods that take the standard error of another one, their base."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.algorithms import Algorithm
from ldpflow.intervals.batch_means import Batches, BatchMeans
from ldpflow.intervals.equal_batches import EqualBatches
from ldpflow.intervals.interval import PathIntervalMethod
from ldpflow.intervals.nonoverlapping_blocks import NonoverlappingBlocks
from ldpflow.intervals.oracle import Oracle
from ldpflow.intervals.overlapping_blocks import OverlappingBlocks
from ldpflow.intervals.record import PathSource
from ldpflow.intervals.shared_settings import (
    BASE,
    BLOCK_C,
    DEGREE,
    SMALL_RUN,
    VARIANCE,
    BatchRule,
)
from ldpflow.intervals.transcript_covariance import TranscriptCovariance
from ldpflow.intervals.transcript_regression import BurnIn, TranscriptRegression
from ldpflow.intervals.transcript_regression_checks import CHECKS
from ldpflow.problems import Problem

__all__ = ["Wrapped"]

BASES: dict[str, type[PathIntervalMethod]] = {
    "oracle": Oracle,
    "TRC": TranscriptCovariance,
    "BM": BatchMeans,
    "EBS": EqualBatches,
    "NOL": NonoverlappingBlocks,
    "OBM": OverlappingBlocks,
    "TR": TranscriptRegression,
}


class Wrapped(PathIntervalMethod):
    """Base class of methods that need what another method needs, and take its se.

    A subclass declares ``base``, the other's kind. The settings below are the other's; those that are
    not given have its defaults.
    """

    diagnostics: ClassVar = CHECKS

    base: Annotated[str, BASE]
    M: Batches | None = None
    block_rule: BatchRule | None = None
    block_c: Annotated[float, Field(ge=1e-6, le=1e9), BLOCK_C] | None = None
    degree: Annotated[int, Field(ge=1, le=3), DEGREE] | None = None
    burn_in: BurnIn | None = None
    variance: Annotated[Literal["known", "residual"], VARIANCE] | None = None
    small_run: Annotated[bool, SMALL_RUN] | None = None

    PASSED_ON: ClassVar[tuple[str, ...]] = (
        "M",
        "block_rule",
        "block_c",
        "degree",
        "burn_in",
        "variance",
        "small_run",
    )

    @model_validator(mode="after")
    def settings_of_the_base(self) -> Wrapped:
        known = BASES[self.base].model_fields
        for name in self.PASSED_ON:
            if getattr(self, name) is not None and name not in known:
                raise ValueError(f"{self.base} has no setting {name}")
        self.base_method()
        return self

    def base_method(self) -> PathIntervalMethod:
        """The method whose standard error is used."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.PASSED_ON}
        return BASES[self.base].model_validate(
            {"kind": self.base} | {name: value for name, value in given.items() if value is not None}
        )

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return self.base_method().times(steps, algorithm)

    def times_settings(self) -> tuple[object, ...]:
        return (self.base, *self.base_method().times_settings())

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return self.base_method().count_times(steps, algorithm)

    def running_sums(self, dimension: int) -> tuple[str, ...]:
        return self.base_method().running_sums(dimension)

    def marked_times(self, steps: int, algorithm: Algorithm, dimension: int) -> tuple[int, ...]:
        return self.base_method().marked_times(steps, algorithm, dimension)

    def impossible(self, problem: Problem) -> str | None:
        return self.base_method().impossible(problem)

    def applies(self, source: PathSource) -> bool:
        return self.base_method().applies(source)

    def lacking(self, source: PathSource) -> str:
        return self.base_method().lacking(source)

    def unsuitable(self, source: PathSource) -> str | None:
        return self.base_method().unsuitable(source)

    def unsuitable_at(self, source: PathSource, n: int) -> str | None:
        return self.base_method().unsuitable_at(source, n)
