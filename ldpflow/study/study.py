"""The study: a named factorial design plus a seed, validated, with its cells grouped by simulator."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ldpflow.errors import InputError
from ldpflow.settings import Settings, canonical_json
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.families import ACTING, PARTS, family_of
from ldpflow.simulators.simulator import Plan, Simulator
from ldpflow.study.changes import replacements
from ldpflow.study.entry import GROUPS, Entry, read_group
from ldpflow.study.fields import nearest, plain, read_value, read_values
from ldpflow.study.grid import Grid, Heading, Trajectory
from ldpflow.study.writing import toml_text

__all__ = ["MAX_CELLS", "MAX_PATHS", "Study"]

MAX_CELLS = 100_000
MAX_PATHS = 10_000

TABLES = (*PARTS, "grid", "method", "trajectory")


@dataclass(frozen=True)
class Study:
    """A validated study.

    Parameters
    ----------
    name : str
    seed : int
    replicates : int
    problem, mechanism, algorithm, protocol, method : tuple of Entry
        The design is the product of problems, what acts on them (algorithms under mechanisms, and
        protocols), methods, n and level; inside a group the entries' combinations are listed one after
        the other.
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
    protocol: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        self.check_size()
        self.plans()

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

    def check_size(self) -> None:
        """Refuse a design that is too large, counted without expanding it."""
        size = {group: sum(entry.size() for entry in self.entries(group)) for group in GROUPS}
        paths = size["problem"] * (size["mechanism"] * size["algorithm"] + size["protocol"])
        cells = paths * size["method"] * len(self.n) * len(self.level)
        horizons = len(self.n) if self.independent_n else 1
        named = [f"{count:,} {group}s" for group, count in size.items() if count or group == "method"]
        factors = " x ".join(named)
        factors += f" x {len(self.n):,} n x {len(self.level):,} levels"
        if cells > MAX_CELLS:
            raise InputError("study", f"{cells:,} cells", f"at most {MAX_CELLS:,} cells", factors)
        if paths * horizons > MAX_PATHS:
            count = f"{paths * horizons:,} paths"
            raise InputError("study", count, f"at most {MAX_PATHS:,} paths", factors)

    @cached_property
    def method_settings(self) -> list[Any]:
        """Every interval method with its settings, once."""
        return combinations(self.method)

    def plans(self) -> list[Plan]:
        """The simulators and the cells wanted from each; cells in the order n, method, level."""
        return self._plans

    @cached_property
    def _plans(self) -> list[Plan]:
        plans = []
        for parts in self.products():
            acting = next(parts[table] for table in ACTING if table in parts)
            made = family_of(acting).of_study(parts, self.n, self.independent_n)
            for simulator, users in made:
                plans.append(self.planned(simulator, users))
        return plans

    def products(self) -> Iterator[dict[str, Settings]]:
        """Every combination of a problem with what acts on it, by table."""
        chosen = {table: combinations(self.entries(table)) for table in PARTS}
        for problem in chosen["problem"]:
            for table in ACTING:
                kinds = dict.fromkeys(family_of(acting) for acting in chosen[table])
                others = {name: None for kind in kinds for name in kind.tables}
                names = [name for name in others if name not in ("problem", table)]
                for values in itertools.product(*(chosen[name] for name in (*names, table))):
                    yield {"problem": problem, **dict(zip((*names, table), values, strict=True))}

    def planned(self, simulator: Simulator[Any, Any], users: tuple[int, ...]) -> Plan:
        """What the study wants from a simulator for these numbers of users."""
        methods = self.method_settings
        simulator.check_methods(methods, self.trajectory is not None)
        methods = [method for method in methods if method.applies(simulator)]
        for method in methods:
            problem = simulator.parts()["problem"]
            if (reason := method.impossible(problem)) is not None:
                raise InputError("method", method.model_dump(), f"a method for {problem.kind}", f"{reason}.")
        cells = tuple(Cell(n, method, level) for n in users for method in methods for level in self.level)
        if cells:
            simulator.check_cost(cells)
        if self.trajectory is None:
            return Plan(simulator, cells)
        points = self.trajectory
        return Plan(simulator, cells, simulator.checkpoints(users, points.first, points.points))

    def warnings(self) -> list[str]:
        """What runs but breaks the theory of a method, in words."""
        simulators = [plan.simulator for plan in self.plans()]
        found = [m.unsuitable(s) for s in simulators for m in self.method_settings if m.applies(s)]
        found += [problem.caution() for problem in combinations(self.problem)]
        found += [text for simulator in simulators for text in simulator.warnings()]
        return list(dict.fromkeys(text for text in found if text is not None))

    def settings(self) -> dict[str, Any]:
        """The canonical mapping: every axis a list, every default written out."""
        return {
            "name": self.name,
            "seed": self.seed,
            "replicates": self.replicates,
            **{
                table: [entry.mapping() for entry in self.entries(table)]
                for table in PARTS
                if self.entries(table)
            },
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
    given = [table for table in ACTING if table in mapping] or ACTING[:1]
    groups: dict[str, tuple[Entry, ...]] = dict.fromkeys(PARTS, ())
    groups |= {table: read_group(table, mapping.get(table)) for table in ("problem", *given)}
    acting: list[Any] = [PARTS[table][entry.kind] for table in given for entry in groups[table]]
    families = {family_of(kind) for kind in acting}
    randomised = [kind for kind in acting if "mechanism" in family_of(kind).tables]
    if "mechanism" in mapping and not randomised:
        raise InputError("mechanism", mapping["mechanism"], f"no table [mechanism] beside [{given[0]}]")
    if "mechanism" in mapping or not all(kind.carries_privacy for kind in randomised):
        groups["mechanism"] = read_group("mechanism", mapping.get("mechanism"))
    elif randomised:
        groups["mechanism"] = (Entry.of("mechanism", "none", {}),)
    if mapping.get("method"):
        groups["method"] = read_group("method", mapping["method"])
    elif trajectory is not None:
        groups["method"] = ()
    elif not all(family.makes_intervals() for family in families):
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


def combinations(entries: tuple[Entry, ...]) -> list[Any]:
    """The combinations of all entries, each once."""
    return list(dict.fromkeys(settings for entry in entries for settings in entry.combinations()))
