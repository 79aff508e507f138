"""Methods that take the standard error of another one, their base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, model_validator

from ldpflow.algorithms import Algorithm
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.allowed import OneOf
from ldpflow.errors import LdpflowError
from ldpflow.intervals.batch_means import Batches, BatchMeans
from ldpflow.intervals.equal_batches import EqualBatches
from ldpflow.intervals.interval import Array, Intervals, PathIntervalMethod
from ldpflow.intervals.nonoverlapping_blocks import NonoverlappingBlocks
from ldpflow.intervals.oracle import Oracle
from ldpflow.intervals.overlapping_blocks import OverlappingBlocks
from ldpflow.intervals.record import PathRecord, PathSource, Record
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
from ldpflow.kernels.running_sums import RUNNING_SUMS
from ldpflow.mechanisms import Mechanism
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems import Problem
from ldpflow.problems.quantile import Quantile
from ldpflow.settings import Settings

__all__ = ["Wrapped", "base_of"]

STEPS, LEVEL = 1000, 0.9
"""Steps of the record that a plug-in's base is tried on, and the level."""

BASES: dict[str, type[PathIntervalMethod]] = {
    "oracle": Oracle,
    "TRC": TranscriptCovariance,
    "BM": BatchMeans,
    "EBS": EqualBatches,
    "NOL": NonoverlappingBlocks,
    "OBM": OverlappingBlocks,
    "TR": TranscriptRegression,
}


def base_of(*bundled: str) -> OneOf:
    """The methods that may be a base: some of the bundled ones, and all that plug-ins bring."""
    return OneOf(lambda: (*bundled, *plugin_methods()))


def plugin_methods() -> dict[str, type[PathIntervalMethod]]:
    """Methods of plug-ins that can be a base, by kind."""
    from ldpflow.intervals import INTERVAL_METHODS

    return {
        kind: method
        for kind, method in INTERVAL_METHODS.items()
        if method.__module__.partition(".")[0] != "ldpflow"
        and issubclass(method, PathIntervalMethod)
        and not issubclass(method, Wrapped)
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

    # A base from a plug-in, which travels to other processes with its source.
    _own_base: PathIntervalMethod | None = PrivateAttr(None)

    @model_validator(mode="after")
    def settings_of_the_base(self) -> Wrapped:
        own = plugin_methods().get(self.base) if self.base not in BASES else None
        known = (own or BASES[self.base]).model_fields
        for name in self.PASSED_ON:
            if getattr(self, name) is not None and name not in known:
                raise ValueError(f"{self.base} has no setting {name}")
        base = self.made_base(own or BASES[self.base])
        if own is not None and (fault := fault_of_base(base)):
            raise ValueError(f"{self.base} {fault}, so it cannot be a base")
        self._own_base = base if own is not None else None
        return self

    def brought(self) -> tuple[Settings, ...]:
        return () if self._own_base is None else (self._own_base,)

    def base_method(self) -> PathIntervalMethod:
        """The method whose standard error is used."""
        return self.made_base(BASES[self.base]) if self._own_base is None else self._own_base

    def made_base(self, kind: type[PathIntervalMethod]) -> PathIntervalMethod:
        """A base of a kind, with the settings that are passed on."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.PASSED_ON}
        return kind.model_validate(
            {"kind": self.base} | {name: value for name, value in given.items() if value is not None}
        )

    def of_base(self, record: PathRecord, n: int, levels: Sequence[float]) -> tuple[Intervals, Array]:
        """Intervals of the base, with those of its diagnostics that this method has, and its se.

        Raises
        ------
        LdpflowError
            If the base has intervals and no standard error.
        """
        found = self.base_method().intervals_once(record, n, levels)
        se = np.full_like(found.estimate, np.nan) if found.se is None else found.se
        if found.se is None and np.isfinite(found.lower).any():
            raise LdpflowError(f"{self.kind}: its base {self.base} has no standard error")
        own = {column.name for column in self.diagnostics}
        kept = {name: values for name, values in found.diagnosis.items() if name in own}
        return Intervals(found.estimate, se, found.lower, found.upper, kept), se

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

    def reads_truth(self) -> bool:
        return self.base_method().reads_truth()

    def steps_read(self) -> tuple[str, ...]:
        return self.base_method().steps_read()

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


@dataclass(frozen=True)
class MadeUpSource:
    """Source of a record that no simulator has made."""

    key: str
    problem: Problem
    randomiser: Mechanism
    algorithm: Algorithm

    def steps(self, n: int) -> int:
        """n: every step takes one user."""
        return n

    def interval_record(self) -> type[Record]:
        """Path records."""
        return PathRecord


@lru_cache(maxsize=64)  # a setting is validated again on its way to every process
def fault_of_base(method: PathIntervalMethod) -> str:
    """Reason why a plug-in's method cannot be a base, from its intervals on a made-up record, or ""."""
    if method.runs(LEVEL) > 1:
        return "makes a row of several replicates"
    source = MadeUpSource("made up", Quantile(), NoMechanism(), LdpSgd())
    try:
        marked = np.array(method.marked_times(STEPS, source.algorithm, 1), dtype=np.int64)
        times = np.union1d(method.times(STEPS, source.algorithm), marked)
        record = PathRecord(
            source=source,
            seed=0,
            replicates=np.arange(1),
            times=times,
            origin=np.zeros(1),
            prefix_sums=np.sin(times)[:, None, None],
            iterates=np.cos(times)[:, None, None],
            running_sums={
                name: np.ones((RUNNING_SUMS[name].count(1), len(marked), 1, 1))
                for name in method.running_sums(1)
            },
            marked_times=marked,
        )
        with np.errstate(all="ignore"):
            found = method.intervals(record, STEPS, [LEVEL])
        return "has no standard error" if found.se is None else ""
    except Exception:
        return ""  # what fails here has a message of its own where it runs
