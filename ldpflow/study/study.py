"""The study: a named factorial design plus a seed, validated, with its cells grouped into paths."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mpmath import mp, mpf

from ldpflow import constants
from ldpflow.algorithms import ALGORITHMS, Algorithm
from ldpflow.errors import InputError
from ldpflow.problems import PROBLEMS, Problem
from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.settings import canonical_json
from ldpflow.simulators.cell import Cell, PathPlan
from ldpflow.simulators.path import Path
from ldpflow.study.changes import replacements
from ldpflow.study.entry import GROUPS, Entry, read_group
from ldpflow.study.fields import nearest, plain, read_value, read_values
from ldpflow.study.grid import Grid, Heading, Trajectory
from ldpflow.study.memory import BYTES_PER_TIME, check_budget, recorded_times
from ldpflow.study.suitable import (
    check_applies,
    check_epochs,
    check_possible,
    check_records,
    check_suitable,
)
from ldpflow.study.writing import toml_text

__all__ = ["MAX_CELLS", "MAX_PATHS", "Study"]

MAX_CELLS = 100_000
MAX_PATHS = 10_000

TABLES = ("problem", "mechanism", "algorithm", "grid", "method", "trajectory")


@dataclass(frozen=True)
class Study:
    """A validated study.

    Parameters
    ----------
    name : str
    seed : int
    replicates : int
    problem, mechanism, algorithm, method : tuple of Entry
        The design is the product of the four groups, n and level; inside a group the entries'
        combinations are listed one after the other.
    n : tuple of int
        Sorted.
    level : tuple of float
        Sorted.
    independent_n : bool
        Whether every n has paths of its own.

    Raises
    ------
    InputError
        If the design is impossible, too large or does not fit into memory.
    """

    name: str
    seed: int
    replicates: int
    problem: tuple[Entry, ...]
    mechanism: tuple[Entry, ...]
    algorithm: tuple[Entry, ...]
    method: tuple[Entry, ...]
    n: tuple[int, ...]
    level: tuple[float, ...]
    independent_n: bool = False
    trajectory: Trajectory | None = None

    def __post_init__(self) -> None:
        self.check_size()
        self.check_step_sizes()
        plans = self.plans()
        for plan in plans:
            for method in self.method_settings:
                check_possible(method, plan.path.problem)
        self.check_users()
        for plan in plans:
            if plan.cells:
                check_budget(*self.times(plan.path), plan.path.problem.dimension)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Study:
        """The study that a mapping says, in the form of a study file."""
        plain(mapping, "")
        known = (*Heading.model_fields, *TABLES)
        for key, value in mapping.items():
            if key not in known:
                raise InputError(str(key), value, "a known key or table", nearest(key, known))
        heading = {
            name: read_value(Heading, name, mapping.get(name, field.get_default()), name)
            for name, field in Heading.model_fields.items()
        }
        trajectory = read_trajectory(mapping.get("trajectory"))
        groups = read_groups(mapping, trajectory)
        grid = mapping.get("grid")
        if not isinstance(grid, Mapping) or "n" not in grid:
            raise InputError("grid", grid, "a table [grid] with n, the numbers of users")
        for key, value in grid.items():
            if key not in Grid.model_fields:
                raise InputError(
                    f"grid.{key}",
                    value,
                    "n, level or independent_n",
                    nearest(key, Grid.model_fields),
                )
        level = grid.get("level", Grid.model_fields["level"].default)
        independent = grid.get("independent_n", Grid.model_fields["independent_n"].default)
        fields: dict[str, Any] = heading | groups
        return cls(
            **fields,
            n=tuple(sorted(read_values(Grid, "n", grid["n"], "grid.n"))),
            level=tuple(sorted(read_values(Grid, "level", level, "grid.level"))),
            independent_n=read_value(Grid, "independent_n", independent, "grid.independent_n"),
            trajectory=trajectory,
        )

    def replace(self, values: Mapping[str, object]) -> Study:
        """The study with some settings replaced by name; see :mod:`ldpflow.study.changes`."""
        entries = {group: self.entries(group) for group in GROUPS}
        return replace(self, **replacements(entries, values))

    def entries(self, group: str) -> tuple[Entry, ...]:
        """The entries of a group."""
        result: tuple[Entry, ...] = getattr(self, group)
        return result

    def check_step_sizes(self) -> None:
        """Refuse intervals where the average has no limit law to build them on."""
        for algorithm in self.algorithm_settings if self.method else ():
            # Constant steps have a limit law of their own, and it is theirs to warn of.
            gamma = algorithm.step_exponent()
            if 0.0 < gamma <= 0.5:
                raise InputError(
                    "algorithm.gamma",
                    gamma,
                    "a number in (1/2, 1) where a study has interval methods",
                    "A study with [trajectory] alone may use all of (0, 1).",
                )

    def check_size(self) -> None:
        """Refuse a design that is too large, counted without expanding it."""
        size = {group: sum(entry.size() for entry in self.entries(group)) for group in GROUPS}
        paths = size["problem"] * size["mechanism"] * size["algorithm"]
        cells = paths * size["method"] * len(self.n) * len(self.level)
        horizons = len(self.n) if self.independent_n else 1
        factors = " x ".join(f"{count:,} {group}s" for group, count in size.items())
        factors += f" x {len(self.n):,} n x {len(self.level):,} levels"
        if cells > MAX_CELLS:
            raise InputError("study", f"{cells:,} cells", f"at most {MAX_CELLS:,} cells", factors)
        if paths * horizons > MAX_PATHS:
            count = f"{paths * horizons:,} paths"
            raise InputError("study", count, f"at most {MAX_PATHS:,} paths", factors)

    def check_users(self) -> None:
        """Every n must make a step of every algorithm."""
        for algorithm in self.algorithm_settings:
            if self.n[0] < algorithm.records_per_step():
                raise InputError(
                    "grid.n",
                    self.n[0],
                    f"at least {algorithm.records_per_step():,}",
                    f"One step of {algorithm.kind} takes that many users.",
                )

    @cached_property
    def algorithm_settings(self) -> list[Algorithm]:
        """Every algorithm with its settings, once."""
        return combinations(self.algorithm)

    @cached_property
    def method_settings(self) -> list[Any]:
        """Every interval method with its settings, once."""
        return combinations(self.method)

    def plans(self) -> list[PathPlan]:
        """The paths and the cells wanted from each; cells in the order n, method, level."""
        return self._plans

    @cached_property
    def _plans(self) -> list[PathPlan]:
        by_n = {
            n: tuple(Cell(n, method, level) for method in self.method_settings for level in self.level)
            for n in self.n
        }
        problems = combinations(self.problem)
        mechanisms = combinations(self.mechanism)
        plans = []
        for problem in problems:
            check_epochs(problem, self.method_settings, self.independent_n)
            check_records(problem, self.n[-1])
            for mechanism in mechanisms:
                for algorithm in self.algorithm_settings:
                    check_suitable(problem, mechanism, algorithm)
                    cells = {n: tuple(cell for cell in by_n[n] if suits(cell, algorithm)) for n in self.n}
                    if algorithm.has_intervals() or self.trajectory is None:
                        check_applies(algorithm, cells[self.n[0]], self.method_settings)
                    if self.independent_n or algorithm.depends_on_horizon():
                        for n in self.n:
                            path = Path(problem, mechanism, algorithm.resolved(problem, n), n)
                            path.algorithm.check_horizon(problem, n)
                            told = self.checkpoints((n,), problem, path.algorithm)
                            plans.append(PathPlan(path, cells[n], told))
                    else:
                        together = tuple(cell for n in self.n for cell in cells[n])
                        path = Path(problem, mechanism, algorithm.resolved(problem, None))
                        told = self.checkpoints(self.n, problem, path.algorithm)
                        plans.append(PathPlan(path, together, told))
        return plans

    def checkpoints(self, users: tuple[int, ...], problem: Problem, algorithm: Algorithm) -> tuple[int, ...]:
        """Where trajectories are kept: log-spaced numbers of users, and every n.

        Or steps, where the algorithm visits its records for many epochs.
        """
        if self.trajectory is None:
            return ()
        own = algorithm.checkpoints(problem, users[-1], self.trajectory.points)
        if own is not None:
            return own
        first = max(self.trajectory.first, algorithm.records_per_step())
        spaced = log_spaced(first, max(users), self.trajectory.points)
        return tuple(sorted({*spaced, *users}))

    def times(self, path: Path) -> tuple[int, Any]:
        """Number of times that a path of this study records, and the largest part of them."""
        # Problem and mechanism do not matter; many paths share the answer.
        key = (path.algorithm, path.horizon)
        if key not in self._times:
            until = self.n if path.horizon is None else (path.horizon,)
            steps = [path.algorithm.steps(n) for n in until]
            self._times[key] = recorded_times(steps, self.method_settings, path.algorithm)
        return self._times[key]

    @cached_property
    def _times(self) -> dict[object, tuple[int, Any]]:
        return {}

    def memory_per_batch(self) -> list[int]:
        """Bytes that the record of a batch of lanes takes, for every path of :meth:`plans`."""
        return [
            self.times(plan.path)[0] * plan.path.problem.dimension * BYTES_PER_TIME if plan.cells else 0
            for plan in self.plans()
        ]

    def warnings(self) -> list[str]:
        """What runs but breaks the theory of a method, in words."""
        found = [m.unsuitable(a) for a in self.algorithm_settings for m in self.method_settings]
        found += [problem.caution() for problem in combinations(self.problem)]
        for plan in self.plans():
            found += plan.path.algorithm.cautions(plan.path.problem, plan.path.horizon)
        return list(dict.fromkeys(text for text in found if text is not None))

    def settings(self) -> dict[str, Any]:
        """The canonical mapping: every axis a list, every default written out."""
        return {
            "name": self.name,
            "seed": self.seed,
            "replicates": self.replicates,
            "problem": [entry.mapping() for entry in self.problem],
            "mechanism": [entry.mapping() for entry in self.mechanism],
            "algorithm": [entry.mapping() for entry in self.algorithm],
            "grid": {
                "n": list(self.n),
                "level": list(self.level),
                "independent_n": self.independent_n,
            },
            "method": [entry.mapping() for entry in self.method],
            **({"trajectory": self.trajectory.model_dump()} if self.trajectory else {}),
        }

    def hash(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of the settings."""
        return hashlib.sha256(canonical_json(self.settings()).encode()).hexdigest()[:16]

    def to_toml(self) -> str:
        """The resolved study as a study file, every default written out."""
        return f"# Resolved study, hash {self.hash()}\n" + toml_text(self.settings())


def read_groups(mapping: Mapping[str, Any], trajectory: Trajectory | None) -> dict[str, tuple[Entry, ...]]:
    """The entries of every group; a method and a mechanism are not needed everywhere."""
    groups: dict[str, tuple[Entry, ...]] = {
        group: read_group(group, mapping.get(group)) for group in ("problem", "algorithm")
    }
    if "mechanism" not in mapping and all(
        ALGORITHMS[entry.kind].carries_privacy for entry in groups["algorithm"]
    ):
        groups["mechanism"] = (Entry.of("mechanism", "none", {}),)
    else:
        groups["mechanism"] = read_group("mechanism", mapping.get("mechanism"))
    if mapping.get("method"):
        groups["method"] = read_group("method", mapping["method"])
    elif trajectory is not None:
        groups["method"] = ()
    elif any(issubclass(PROBLEMS[entry.kind], FiniteSumProblem) for entry in groups["problem"]):
        kinds = ", ".join(entry.kind for entry in groups["problem"])
        raise InputError("trajectory", None, "a table [trajectory]", f"{kinds} has no other results.")
    else:
        groups["method"] = read_group("method", mapping.get("method"))
    return groups


def read_trajectory(table: object) -> Trajectory | None:
    """The table [trajectory]; None where the study has none."""
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InputError("trajectory", table, "a table [trajectory] with first and points")
    for key, value in table.items():
        if key not in Trajectory.model_fields:
            known = nearest(key, Trajectory.model_fields)
            raise InputError(f"trajectory.{key}", value, "first or points", known)
    return Trajectory(
        **{key: read_value(Trajectory, key, value, f"trajectory.{key}") for key, value in table.items()}
    )


def suits(cell: Cell, algorithm: Algorithm) -> bool:
    """Whether the cell's method can do something with the algorithm's path."""
    return algorithm.has_intervals() and cell.method.applies(algorithm)


def log_spaced(first: int, last: int, points: int) -> tuple[int, ...]:
    """About ``points`` log-spaced integers from ``first`` to ``last``, rounded, each once."""
    if last <= first:
        return (last,)
    with constants.workdps(30):
        ratio = mp.log(mpf(last) / first) / (points - 1)
        found = {int(mp.nint(first * mp.exp(ratio * i))) for i in range(points)}
    return tuple(sorted(found | {last}))


def combinations(entries: tuple[Entry, ...]) -> list[Any]:
    """The combinations of all entries, each once."""
    return list(dict.fromkeys(settings for entry in entries for settings in entry.combinations()))
