"""Base class of simulators: a problem with what acts on it, able to run replicates; cells and requests."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from ldpflow.columns import Column
from ldpflow.components.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.components.intervals.record import Array, Record
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.problems.problem import Units
from ldpflow.errors import InputError
from ldpflow.settings import canonical_json

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Cell:
    """Users, interval method and nominal coverage: one row of results per replicate and coordinate."""

    n: int
    method: IntervalMethod
    level: float

    @property
    def runs(self) -> int:
        """Consecutive replicates that make one row: row r takes r runs, ..., (r + 1) runs - 1."""
        return self.method.runs(self.level)

    @classmethod
    def from_columns(cls, columns: dict[str, Any]) -> Cell:
        """The cell with these key columns."""
        kind = INTERVAL_METHODS.get(columns["method"])
        if kind is None:
            hint = f"It defines method {columns['method']}."
            raise InputError("plugin", None, "the plug-in of the run", hint)
        return cls(columns["n"], kind.from_values(columns), columns["level"])

    def columns(self) -> dict[str, Any]:
        """Key columns of the cell's rows."""
        settings = self.method.setting_values()
        return {"n": self.n, "method": self.method.kind, **settings, "level": self.level}


def methods_of(cells: Sequence[Cell]) -> list[tuple[tuple[int, Any], list[Cell]]]:
    """Cells by n and method, in their order."""
    return [(key, list(group)) for key, group in groupby(cells, key=lambda cell: (cell.n, cell.method))]


def by_runs(cells: Iterable[Cell]) -> dict[int, tuple[Cell, ...]]:
    """Cells by the replicates that make one of their rows; each number has batches of its own."""
    found: dict[int, tuple[Cell, ...]] = {}
    for cell in cells:
        found[cell.runs] = (*found.get(cell.runs, ()), cell)
    return found


@dataclass(frozen=True)
class Request:
    """Cells whose intervals are wanted, and checkpoints of a trajectory: users, or steps of many epochs."""

    cells: tuple[Cell, ...] = ()
    checkpoints: tuple[int, ...] = ()

    @property
    def sums(self) -> Sequence[str]:
        """Names of the running sums."""
        return ()


@dataclass(frozen=True)
class Cost:
    """Cost of a request.

    Parameters
    ----------
    steps : int
        Over all replicates; what progress counts.
    seconds : float
        Rough CPU time of all replicates, before anything was measured.
    bytes : int
        Upper bound of the memory of the record of LANES replicates.
    """

    steps: int
    seconds: float
    bytes: int = 0


RequestT = TypeVar("RequestT", bound=Request)
RecordT = TypeVar("RecordT", bound=Record)


class Simulator(ABC, Generic[RequestT, RecordT]):
    """A problem with what acts on it: runs replicates and returns their record.

    A family of simulators is a frozen dataclass that extends this class. Its fields are its components, by
    their tables, and ``horizon``. :data:`ldpflow.simulators.families.FAMILIES` has it under its ``family``,
    which a kind of algorithm or protocol names.
    """

    family: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]
    """Tables of a study file whose product the family simulates, the problem first."""

    makes_intervals: ClassVar[bool] = True
    """Whether interval methods can have anything to do in the family."""

    horizon: int | None
    """n, if replicates at different n differ; None if one simulator serves every n."""

    units: Units | None = None
    """Unit in which a study gave steps and start, if not that of the data, which they have here."""

    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Problem, algorithm and so on, by their table in a study file."""

    def settings(self) -> dict[str, Any]:
        """Settings that make the key; stored with every part."""
        parts = self.parts()
        settings: dict[str, Any] = {table: part.key_settings() for table, part in parts.items()}
        if getattr(parts.get("algorithm"), "carries_privacy", False):
            del settings["mechanism"]  # there is none
        if self.horizon is not None:
            settings["n"] = self.horizon
        return settings

    @cached_property
    def key(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of the settings."""
        return hashlib.sha256(canonical_json(self.settings()).encode()).hexdigest()[:16]

    def users_key(self) -> str:
        """Key of the users that its replicates meet: simulators with equal keys can be compared pairwise."""
        return self.key

    @abstractmethod
    def truth(self) -> Array:
        """theta*, shape (d,); NaN where it is not known."""

    @property
    def dimension(self) -> int:
        """Number d of coordinates of theta."""
        return len(self.truth())

    @abstractmethod
    def privacy(self) -> PrivacyStatement:
        """Guarantee of everything that a replicate releases."""

    def columns(self) -> dict[str, Any]:
        """Parameters of its rows in a summary."""
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
            columns["horizon"] = self.horizon  # before what follows from it
        for table, part in self.parts().items():
            columns[table] = part.kind
            columns |= part.setting_values()
        # A part's setting of that name may be none of the guarantee.
        return columns | promised | self.derived()

    def derived(self) -> dict[str, Any]:
        """Columns that follow from settings."""
        return {}

    @classmethod
    @abstractmethod
    def of_study(
        cls, parts: dict[str, Any], users: tuple[int, ...], independent_n: bool
    ) -> Iterator[tuple[Self, tuple[int, ...]]]:
        """Simulators of one combination of parts, each with the numbers of users that it serves.

        Raises
        ------
        InputError
            If the parts do not go together, or a number of users is impossible.
        """

    def interval_record(self) -> type[Record] | None:
        """Class of the record that interval methods get, or None."""
        return None

    def check(self, methods: Sequence[IntervalMethod], cells: tuple[Cell, ...], followed: bool) -> None:
        """Refuse a study's interval methods, or cells whose record does not fit into memory.

        ``cells`` are those of the methods that apply; ``followed``: the study keeps trajectories too.
        """

    def needs(self, cells: Sequence[Cell] = (), checkpoints: Sequence[int] = ()) -> RequestT:
        """Request for cells and checkpoints; cheap until it runs."""
        return Request(tuple(cells), tuple(checkpoints))  # type: ignore[return-value]

    @abstractmethod
    def cost(self, request: RequestT, replicates: int) -> Cost:
        """Cost of a request."""

    def prepare(self, request: RequestT) -> None:
        """Compile what a request runs, or load it from the cache: compiling is not what a step costs."""

    @abstractmethod
    def run(self, seed: int, replicates: Sequence[int], request: RequestT) -> RecordT:
        """Run replicates: at most LANES rows of ``request.cells``, whole rows."""

    def checkpoints(self, users: tuple[int, ...], first: int, points: int) -> tuple[int, ...]:
        """About ``points`` checkpoints of a trajectory of ``users`` from ``first`` on; () without one."""
        return ()

    def measures(self) -> tuple[Column, ...]:
        """Further columns of its trajectories."""
        return ()

    def trajectories(self, record: RecordT, checkpoints: tuple[int, ...]) -> pa.Table:
        """One row per replicate and checkpoint, in the schema of the store's trajectories."""
        raise NotImplementedError(f"the family {self.family} keeps no trajectories")


@dataclass(frozen=True)
class PathPlan:
    """A simulator, and the cells and checkpoints that a study wants from it."""

    simulator: Simulator[Any, Any]
    cells: tuple[Cell, ...]
    checkpoints: tuple[int, ...] = ()

    def request(self) -> Request:
        request: Request = self.simulator.needs(self.cells, self.checkpoints)
        return request
