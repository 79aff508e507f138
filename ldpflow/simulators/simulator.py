"""Base class of simulators: what engine, study, results and theory ask, whatever is simulated."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from ldpflow.columns import Column
from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.record import Array, Record
from ldpflow.mechanisms import PrivacyStatement
from ldpflow.problems.units import Units
from ldpflow.settings import Settings, canonical_json
from ldpflow.simulators.approach import Approach, LinearApproach
from ldpflow.simulators.cell import Cell

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Request:
    """Request for replicates; a family adds times, running sums or counts.

    Parameters
    ----------
    cells : tuple of Cell
        Intervals.
    checkpoints : tuple of int
        Where the statistics of a trajectory are kept: users, or steps of an algorithm of many epochs.
    """

    cells: tuple[Cell, ...] = ()
    checkpoints: tuple[int, ...] = ()

    @property
    def sums(self) -> Sequence[str]:
        """Names of the running sums; none in a family that has no path."""
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
    """

    steps: int
    seconds: float


@dataclass(frozen=True)
class LimitLaw:
    """sqrt(steps) (estimate - theta*) -> N(0, Sigma), steps = floor(n / users_per_step) or ``most_steps``.

    Parameters
    ----------
    variances : tuple of float, length d
        Diagonal of Sigma; NaN where it is not known.
    users_per_step : int
    most_steps : int, optional
        Steps of a path whose last users are not asked.
    """

    variances: tuple[float, ...]
    users_per_step: int = 1
    most_steps: int | None = None

    def steps(self, n: int) -> int:
        """Steps that n users make."""
        steps = n // self.users_per_step
        return steps if self.most_steps is None else min(steps, self.most_steps)


RequestT = TypeVar("RequestT", bound=Request)
RecordT = TypeVar("RecordT", bound=Record)


class Simulator(ABC, Generic[RequestT, RecordT]):
    """A problem with what acts on it: runs replicates and returns their record.

    A family of simulators is a subclass that is registered in :data:`ldpflow.simulators.families.FAMILIES`
    under its ``family``; a kind of algorithm or protocol names the family that runs it.
    """

    family: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]
    """Tables of a study file whose product the family simulates, the problem first."""

    horizon: int | None
    """n, where replicates at different n differ; None where one simulator serves every n."""

    units: Units | None = None
    """Unit in which a study gave steps and start; None for the unit of the data, which they have here."""

    # What it is.

    @abstractmethod
    def parts(self) -> dict[str, Settings]:
        """Problem, algorithm and so on, by their table in a study file."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Settings that make the key; stored with every part."""

    @classmethod
    @abstractmethod
    def from_settings(cls, parts: Mapping[str, Settings], horizon: int | None) -> Self:
        """The simulator that has these parts (see .families.simulator_from_settings)."""

    @cached_property
    def key(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of the settings."""
        return hashlib.sha256(canonical_json(self.settings()).encode()).hexdigest()[:16]

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

    def derived(self) -> dict[str, Any]:
        """Derived values that are reported beside the settings, by column."""
        return {}

    def measures(self) -> tuple[Column, ...]:
        """Statistics that it records along a path beside those of every simulator."""
        return ()

    def setting_names(self) -> dict[str, tuple[str, ...]]:
        """Names of the settings of its parts, by their table in a study file."""
        return {
            table: tuple(name for name in type(part).model_fields if name != "kind")
            for table, part in self.parts().items()
        }

    def columns(self) -> dict[str, Any]:
        """Parameters of its rows in a summary; what a kind does not have is absent."""
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
        # Where users' budgets differ the largest; none for a baseline that has settings for a budget.
        return columns | promised | self.derived()

    @abstractmethod
    def users_key(self) -> str:
        """Key of the users that its replicates meet: simulators with equal keys can be compared pairwise."""

    def least_users(self) -> int:
        """The fewest users that make an estimate."""
        return 1

    def warnings(self) -> list[str]:
        """Warnings about settings that run but violate an assumption of the theory."""
        return []

    def limit_law(self) -> LimitLaw | None:
        """Asymptotic law of the estimate, or None where there is none to compare lengths with."""
        return None

    def approach(self, n: int) -> Approach | None:
        """Quantities that decide whether a quantile's path arrives in n users; None for other problems."""
        return None

    def linear_approach(self, n: int) -> LinearApproach | None:
        """The same near theta* for a path with a known curvature, or None."""
        return None

    def with_epsilon(self, epsilon: float) -> Self | None:
        """The simulator with another budget, or None where its budget is not one number."""
        return None

    # Where it stands in a study.

    @classmethod
    @abstractmethod
    def of_study(
        cls, parts: Mapping[str, Any], users: tuple[int, ...], independent_n: bool
    ) -> Iterator[tuple[Self, tuple[int, ...]]]:
        """Simulators of one combination of parts, each with the numbers of users that it serves.

        Raises
        ------
        InputError
            If the parts do not go together, or a number of users is impossible.
        """

    def checkpoints(self, users: tuple[int, ...], first: int, points: int) -> tuple[int, ...]:
        """Where a trajectory of ``users`` is kept: about ``points`` of them, the first one at ``first``.

        None in a family without trajectories.
        """
        return ()

    @classmethod
    def makes_intervals(cls) -> bool:
        """Whether interval methods can have anything to do in the family."""
        return True

    def interval_record(self) -> type[Record] | None:
        """Class of the record that interval methods get, or None where they have nothing to do."""
        return None

    def check_methods(self, methods: Sequence[IntervalMethod], followed: bool) -> None:
        """Refuse the interval methods of a study, ``followed`` if it keeps trajectories too.

        Raises
        ------
        InputError
        """

    def check_cost(self, cells: tuple[Cell, ...]) -> None:
        """Refuse cells whose record does not fit into memory.

        Raises
        ------
        InputError
        """

    # Running.

    @abstractmethod
    def needs(self, cells: Sequence[Cell] = (), checkpoints: Sequence[int] = ()) -> RequestT:
        """Request for cells and checkpoints; cheap until it runs."""

    @abstractmethod
    def cost(self, request: RequestT, replicates: int) -> Cost:
        """Cost of a request."""

    @abstractmethod
    def memory(self, request: RequestT) -> int:
        """Upper bound of the bytes of the record of LANES replicates."""

    def prepare(self, request: RequestT) -> None:
        """Compile what a request runs, or load it from the cache: compiling is not what a step costs."""

    @abstractmethod
    def run(self, seed: int, replicates: Sequence[int], request: RequestT) -> RecordT:
        """Run replicates: at most LANES rows of ``request.cells``, whole rows."""

    def trajectories(self, record: RecordT, checkpoints: tuple[int, ...]) -> pa.Table:
        """One row per replicate and checkpoint, in the schema of the store's trajectories."""
        from ldpflow.store.schema import MEASURED, schema_of

        return schema_of((), MEASURED).empty_table()

    # Measuring what it takes.

    @abstractmethod
    def alike(self, request: RequestT) -> object:
        """Key of a step's time: requests with equal keys take equally long."""

    def kernel(self, request: RequestT) -> object:
        """Key of its compiled code: simulators with equal keys share a kernel."""
        found = self.alike(request)
        return found[0] if isinstance(found, tuple) else found

    @abstractmethod
    def seconds_per_step(self, request: RequestT, budget: float) -> float:
        """Measured CPU time of a step of LANES replicates, in about ``budget`` seconds."""

    @abstractmethod
    def seconds_per_record(self, request: RequestT) -> float:
        """Measured CPU time to turn a record of LANES replicates into rows."""


@dataclass(frozen=True)
class Plan:
    """A simulator, and the cells and the checkpoints of the trajectory that a study wants from it."""

    simulator: Simulator[Any, Any]
    cells: tuple[Cell, ...]
    checkpoints: tuple[int, ...] = ()

    def request(self) -> Request:
        """Request for all cells and checkpoints."""
        request: Request = self.simulator.needs(self.cells, self.checkpoints)
        return request
