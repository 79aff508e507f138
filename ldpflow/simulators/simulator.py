"""Base class of simulators, with their cells and requests."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from ldpflow.columns import Column
from ldpflow.components.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.components.intervals.record import Array, Record
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.errors import InputError
from ldpflow.settings import canonical_json

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Cell:
    """Users, interval method and level. In each coordinate, ``runs`` replicates make one row of a cell."""

    n: int
    method: IntervalMethod
    level: float

    @property
    def runs(self) -> int:
        """Replicates per row. Row r uses replicates r * runs, ..., (r + 1) * runs - 1."""
        return self.method.runs(self.level)

    @classmethod
    def from_columns(cls, columns: dict[str, Any]) -> Cell:
        kind = INTERVAL_METHODS.get(columns["method"])
        if kind is None:
            raise InputError("plugin", None, "the plug-in of the run", f"It defines {columns['method']}.")
        return cls(columns["n"], kind.from_values(columns), columns["level"])

    def columns(self) -> dict[str, Any]:
        """Columns that identify the cell in its rows."""
        return {"n": self.n, "method": self.method.kind, **self.method.setting_values(), "level": self.level}


def by_runs(cells: Iterable[Cell]) -> dict[int, tuple[Cell, ...]]:
    found: dict[int, tuple[Cell, ...]] = {}
    for cell in cells:
        found[cell.runs] = (*found.get(cell.runs, ()), cell)
    return found


@dataclass(frozen=True)
class Request:
    """Requested cells and checkpoints. A checkpoint is a number of users, or of steps in FiniteSum."""

    cells: tuple[Cell, ...] = ()
    checkpoints: tuple[int, ...] = ()


@dataclass(frozen=True)
class Cost:
    """Steps and rough CPU seconds of all replicates, and bytes of the record of LANES replicates."""

    steps: int
    seconds: float
    bytes: int = 0


RequestT = TypeVar("RequestT", bound=Request)
RecordT = TypeVar("RecordT")


class Simulator(ABC, Generic[RequestT, RecordT]):
    """Simulator of a problem with a protocol, or with a mechanism and an algorithm. It runs replicates.

    Each family of simulators is a subclass, a frozen dataclass with its components and
    ``horizon`` as fields.
    """

    family: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]
    """Tables of a study file that the family combines. The first is "problem"."""

    makes_intervals: ClassVar[bool] = True
    """Whether the family has interval methods."""

    horizon: int | None
    """n if replicates depend on n. None if the simulator is for all n."""

    def parts(self) -> dict[str, Any]:
        return {table: getattr(self, table) for table in self.tables}

    def settings(self) -> dict[str, Any]:
        """Settings that determine the path key. Each Parquet part stores them."""
        parts = self.parts()
        settings: dict[str, Any] = {table: part.key_settings() for table, part in parts.items()}
        if getattr(parts.get("algorithm"), "carries_privacy", False):
            del settings["mechanism"]
        if self.horizon is not None:
            settings["n"] = self.horizon
        return settings

    @cached_property
    def key(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of the settings."""
        return hashlib.sha256(canonical_json(self.settings()).encode()).hexdigest()[:16]

    def users_key(self) -> str:
        """Key of the users of the replicates. Simulators with equal keys have equal users in a replicate."""
        return self.key

    @abstractmethod
    def truth(self) -> Array:
        """theta*, shape (d,). NaN if unknown."""

    @property
    def dimension(self) -> int:
        return len(self.truth())

    @abstractmethod
    def privacy(self) -> PrivacyStatement:
        """Privacy guarantee of a replicate."""

    def columns(self) -> dict[str, Any]:
        """Columns of a summary that describe the simulator."""
        statement = self.privacy()
        private = statement.notion != "none"
        columns: dict[str, Any] = {
            "dimension": self.dimension,
            "privacy_notion": statement.notion,
            "privacy_unit": statement.unit if private else None,
            "neighbouring": "replacement of one record" if private else None,
            "epsilon": statement.epsilon,
            "mu": statement.mu,
            "delta": statement.delta,
        }
        promised = {name: columns[name] for name in ("epsilon", "mu", "delta")}
        if self.horizon is not None:
            columns["horizon"] = self.horizon
        for table, part in self.parts().items():
            columns[table] = part.kind
            columns |= part.setting_values()
        # A setting of a component may have the same name and another value. The guarantee replaces it.
        return columns | promised | self.derived()

    def derived(self) -> dict[str, Any]:
        """Columns that follow from the settings."""
        return {}

    @classmethod
    @abstractmethod
    def of_study(
        cls, parts: dict[str, Any], users: tuple[int, ...], independent_n: bool
    ) -> Iterator[tuple[Self, tuple[int, ...]]]:
        """Iterate over the simulators of one combination of components, each with its numbers of users.

        ``users`` is sorted. With ``independent_n`` each n has its own simulator. Raises an InputError if the
        components do not fit.
        """

    def interval_record(self) -> type[Record] | None:
        """Class of the record for interval methods. None if they cannot use the record."""
        return None

    def check(self, methods: Sequence[IntervalMethod], cells: tuple[Cell, ...], followed: bool) -> None:
        """Refuse interval methods of a study that do not apply, or cells whose record needs much memory.

        ``cells`` are those of the methods that apply. ``followed``: whether the study has trajectories.
        """

    def needs(self, cells: Sequence[Cell] = (), checkpoints: Sequence[int] = ()) -> RequestT:
        """Make a request for cells and checkpoints. Computes nothing yet."""
        return Request(tuple(cells), tuple(checkpoints))  # type: ignore[return-value]

    @abstractmethod
    def cost(self, request: RequestT, replicates: int) -> Cost:
        """Cost of a request for so many replicates."""

    def prepare(self, request: RequestT) -> None:
        """Compile or load the kernels of a request."""

    @abstractmethod
    def run(self, seed: int, replicates: Sequence[int], request: RequestT) -> RecordT:
        """Run replicates, at most as many as LANES rows are made of."""

    def checkpoints(self, users: tuple[int, ...], first: int, points: int) -> tuple[int, ...]:
        """About ``points`` checkpoints of a trajectory, the first at ``first``. () without trajectories."""
        return ()

    def measures(self) -> tuple[Column, ...]:
        """Columns that the algorithm or mechanism adds to the trajectories."""
        return ()

    def trajectories(self, record: RecordT, checkpoints: tuple[int, ...]) -> pa.Table:
        """Table with a row per replicate and checkpoint, in the schema of the store."""
        raise NotImplementedError(f"the family {self.family} keeps no trajectories")


@dataclass(frozen=True)
class PathPlan:
    """Simulator, and the cells and checkpoints that a study wants of it."""

    simulator: Simulator[Any, Any]
    cells: tuple[Cell, ...]
    checkpoints: tuple[int, ...] = ()

    def request(self) -> Any:
        return self.simulator.needs(self.cells, self.checkpoints)
