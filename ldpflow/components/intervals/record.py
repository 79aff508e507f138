"""Records of replicates, the input of interval methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.mechanisms import Mechanism
from ldpflow.components.problems import Problem
from ldpflow.errors import LdpflowError

Array = NDArray[np.float64]
T = TypeVar("T")


class Record(ABC):
    """Record of R replicates of a simulator.

    Attributes
    ----------
    seed : int
        The study's seed.
    replicates : ndarray of int64, shape (R,)
        Numbers of the replicates.
    words : str
        Description of the record in messages.
    """

    words: ClassVar[str] = "records of another kind"

    seed: int
    replicates: NDArray[np.int64]

    @property
    @abstractmethod
    def truth(self) -> Array:
        """theta*, shape (d,), NaN if unknown."""

    def without_truth(self) -> Self:
        """Copy of the record whose :attr:`truth` raises :class:`TruthRefused`."""
        record = object.__new__(class_without_truth(type(self)))
        record.__dict__.update(self.__dict__)
        return cast("Self", record)

    @abstractmethod
    def finite(self, n: int) -> NDArray[np.bool_]:
        """Mask of the replicates that have not diverged after n users, shape (R,)."""


class TruthRefused(LdpflowError):
    """Error of a method that reads the truth although its ``reads_truth`` returns False."""


def refuse_truth(record: Record) -> Array:
    raise TruthRefused(
        "it reads record.truth, which is unknown for real data. If the method is a yardstick, let "
        "reads_truth() return True. Such a method is never recommended"
    )


@cache
def class_without_truth(kind: type[Record]) -> type[Record]:
    return type(kind.__name__, (kind,), {"truth": property(refuse_truth)})


class PathSource(Protocol):
    """Attributes of a simulator that interval methods may read."""

    def __hash__(self) -> int: ...

    @property
    def key(self) -> str: ...

    @property
    def problem(self) -> Problem: ...

    @property
    def randomiser(self) -> Mechanism: ...

    @property
    def algorithm(self) -> Algorithm: ...

    def steps(self, n: int) -> int: ...

    def interval_record(self) -> type[Record] | None: ...


@dataclass(frozen=True)
class PathRecord(Record):
    """Record of the paths of R replicates.

    Parameters
    ----------
    source : PathSource
        The simulator that made the paths.
    times : ndarray of int64, shape (T,)
        Increasing step indices t.
    origin : ndarray, shape (d,)
        A point near the iterates: theta* in a simulation.
    prefix_sums : ndarray, shape (T, d, R)
        S(t) = sum_{i <= t} (theta_i - origin). The origin avoids cancellation.
    iterates : ndarray, shape (T, d, R)
        theta_t.
    running_sums : dict of str to ndarray, shape (count, M, d, R)
        Running sums at ``marked_times``, by name.
    marked_times : ndarray of int64, shape (M,)
        Increasing step indices.
    extras : dict of str to ndarray, shape (T, R)
        Further numbers of the algorithm at ``times``, by their name in a trajectory.
    """

    words: ClassVar[str] = "the path of an algorithm"

    source: PathSource
    seed: int
    replicates: NDArray[np.int64]
    times: NDArray[np.int64]
    origin: Array
    prefix_sums: Array
    iterates: Array
    running_sums: dict[str, Array] = field(default_factory=dict)
    marked_times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    extras: dict[str, Array] = field(default_factory=dict)
    computed: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Result of ``compute``. It is kept under the key, so that several methods share it."""
        if key not in self.computed:
            self.computed[key] = compute()
        result: T = self.computed[key]
        return result

    @property
    def truth(self) -> Array:
        return self.origin

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that made the path."""
        return self.source.algorithm

    def steps(self, n: int) -> int:
        """Steps that the first n users make."""
        return self.source.steps(n)

    def finite(self, n: int) -> NDArray[np.bool_]:
        return self.finite_at(self.steps(n))

    def finite_at(self, time: int) -> NDArray[np.bool_]:
        """Mask of the replicates that have not diverged by a recorded time, shape (R,)."""
        # An overflow in one coordinate reaches the others one step later.
        return np.asarray(np.isfinite(self.sum_at(time)).all(axis=0))

    def sums_at(self, times: NDArray[np.int64]) -> Array:
        """S at recorded times, shape (len(times), d, R), with S(0) = 0."""
        times = np.asarray(times, dtype=np.int64)
        rows = self.times.searchsorted(times)
        start = times == 0
        missing = (self.times.take(rows, mode="clip") != times) & ~start
        if missing.any():
            raise KeyError(f"times not in the record: {times[missing][:5].tolist()}")
        result = self.prefix_sums[rows]
        result[start] = 0.0
        return result

    def sum_at(self, time: int) -> Array:
        """S at one recorded time, shape (d, R)."""
        return np.asarray(self.sums_at(np.array([time]))[0])

    def running(self, name: str, time: int) -> Array:
        """The running sums ``name`` at one marked time, shape (count, d, R)."""
        return np.asarray(self.running_at(name, np.array([time]))[0])

    def running_at(self, name: str, times: NDArray[np.int64]) -> Array:
        """The running sums ``name`` at marked times, shape (len(times), count, d, R)."""
        rows = self.marked_times.searchsorted(times)
        missing = self.marked_times.take(rows, mode="clip") != times
        if missing.any():
            raise KeyError(f"times not marked: {times[missing][:5].tolist()}")
        return self.running_sums[name].transpose(1, 0, 2, 3)[rows]


def join_records(records: Sequence[PathRecord]) -> PathRecord:
    """Join the replicates of records with equal times."""
    first = records[0]
    if len(records) == 1:
        return first
    joined: dict[str, Any] = {}
    for name in ("replicates", "prefix_sums", "iterates"):
        joined[name] = np.concatenate([getattr(record, name) for record in records], axis=-1)
    for name in ("running_sums", "extras"):
        parts = [getattr(record, name) for record in records]
        joined[name] = {key: np.concatenate([part[key] for part in parts], axis=-1) for key in parts[0]}
    return replace(first, **joined)
