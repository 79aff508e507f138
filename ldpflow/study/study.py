"""Study: a named factorial design plus a seed, validated, with its cells grouped by simulator."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import ldpflow
from ldpflow.columns import counted, short
from ldpflow.documents import parse_toml, read_text, verify_checksum
from ldpflow.errors import InputError
from ldpflow.options import list_of
from ldpflow.settings import (
    Axes,
    Settings,
    canonical_json,
    check_type,
    closest,
    nearest,
    plain_values,
    read_values,
)
from ldpflow.simulators.families import ACTING, PARTS, family_of
from ldpflow.simulators.simulator import Cell, PathPlan, Simulator
from ldpflow.store.run_store import RunStore
from ldpflow.study.entry import (
    GROUPS,
    PILOT_VALUES,
    Entry,
    check_plain,
    parse_number,
    read_group,
    unknown_kind,
)
from ldpflow.study.plugins import plugins_of
from ldpflow.study.reading import (
    CollectionFacts,
    Grid,
    Heading,
    Monitor,
    Trajectory,
    check_plugins,
    read_setting,
    read_study,
    toml_text,
)

SHORT_NAMES = {
    "tau": ("problem",),
    "epsilon": ("mechanism", "algorithm", "protocol"),
    "mu": ("mechanism",),
    "gamma": ("algorithm",),
    "c": ("algorithm",),
    "beta": ("method",),
    "B": ("method",),
}
"""Settings that need no group before their name, and the groups that may have them."""

Entries = tuple[Entry, ...]
Components = Settings | Axes | Mapping[str, Any] | Sequence[Settings | Axes | Mapping[str, Any]]


def replacements(entries: Mapping[str, Entries], values: Mapping[str, object]) -> dict[str, Any]:
    """Fields of a study that change if ``values``, by name, replace values of ``entries``, by group.

    Names are those of :data:`SHORT_NAMES`, ``group.setting``, ``method``, an axis of the grid,
    ``replicates``, ``seed`` and ``name``. The groups and ``methods`` take components, as :class:`Study`
    does. Numbers may be texts. None and empty lists change nothing.
    """
    given = {name: v for name, v in plain_values(values).items() if v is not None and v != []}
    changed: dict[str, Any] = {}
    for name in (*GROUPS, "methods"):
        if name in given and all(isinstance(item, (Settings, Axes)) for item in list_of(given[name])):
            group = name.removesuffix("s")
            changed[group] = read_group(group, tables_of(group, given.pop(name)))
    if "method" in given:
        changed["method"] = select_methods(entries["method"], given.pop("method"))
    for key, raw in given.items():
        value = parse_number(raw)
        check_plain(value, key)
        axis = key.removeprefix("grid.")
        if axis in Grid.model_fields:
            changed[axis] = read_setting(Grid, axis, value, f"grid.{axis}")
            continue
        if key in Heading.model_fields:
            changed[key] = read_setting(Heading, key, value, key)
            continue
        current = {g: changed.get(g, entries[g]) for g in GROUPS}
        group, _, setting = key.partition(".")
        owners = [group] if group in GROUPS and setting else owners_of(key, raw, current)
        for owner in owners:
            changed[owner] = replace_axis(owner, current[owner], setting or key, value)
    return changed


def owners_of(name: str, raw: object, entries: Mapping[str, Entries]) -> Sequence[str]:
    """Groups whose setting a name without a group is: that of :data:`SHORT_NAMES`, or the only one."""
    having = [group for group in GROUPS if any(entry.has(name) for entry in entries[group])]
    if short := SHORT_NAMES.get(name):
        return [group for group in short if group in having] or short[:1]
    if len(having) == 1:
        return having
    if name in GROUPS:
        raise InputError(name, raw, wanted(name))
    if having:
        raise InputError(name, raw, f"one of {', '.join(f'{group}.{name}' for group in having)}")
    known = {"method", *SHORT_NAMES, *Grid.model_fields, *Heading.model_fields}
    known = known.union(*(names_of(group, entries[group]) for group in GROUPS))
    raise InputError(name, raw, "a setting of this study", nearest(name, known))


def names_of(group: str, entries: Entries) -> set[str]:
    return {field for entry in entries for field in GROUPS[group][entry.kind].model_fields} - {"kind"}


def replace_axis(group: str, entries: Entries, name: str, raw: object) -> Entries:
    if not any(entry.has(name) for entry in entries):
        kinds = ", ".join(dict.fromkeys(entry.kind for entry in entries)) or "none"
        has = f"This study has {group} {kinds}. {closest(name, names_of(group, entries))}".rstrip()
        raise InputError(f"{group}.{name}", raw, f"a {group} that has {name}", has)
    result = []
    for entry in entries:
        if entry.has(name):
            values = read_values(GROUPS[group][entry.kind], name, raw, f"{group}.{name}")
            entry = Entry.of(group, entry.kind, entry.axes | {name: values})
        result.append(entry)
    return tuple(result)


def select_methods(entries: Entries, raw: object) -> Entries:
    """The study's own entries of the named methods, defaults for names it does not have."""
    known = GROUPS["method"]
    result: list[Entry] = []
    for name in dict.fromkeys(map(str, list_of(raw))):
        if name not in known:
            raise unknown_kind("method", name)
        own = [entry for entry in entries if entry.kind == name]
        result += own or [Entry.of("method", name, {})]
    return tuple(result)


def tables_of(group: str, given: object) -> list[dict[str, Any]]:
    """Tables of a study file for components that were given in Python."""
    tables = []
    for item in list_of(given):
        if isinstance(item, Mapping):
            tables.append(dict(item))
            continue
        component: Any = item.component if isinstance(item, Axes) else type(item)
        if component not in GROUPS[group].values():
            hint = "A component is made by calling its class. A class of your own needs ldpflow.register."
            raise InputError(group, item, wanted(group), hint)
        if isinstance(item, Axes):
            values = {k: v for k, v in item.values.items() if v is not None}
            values = {"kind": component.model_fields["kind"].default} | values
        else:
            # A budget that was not given is left out, so that reading the study asks for it.
            unsaid = component.missing_settings(dict.fromkeys(item.model_fields_set))
            values = {k: v for k, v in item.model_dump().items() if v is not None and k not in unsaid}
        tables.append(plain_values(values))
    return tables


def wanted(group: str) -> str:
    return (
        f"{'an' if group == 'algorithm' else 'a'} {group}, as in ldpflow.{EXAMPLES[group]}, or a list of them"
    )


EXAMPLES = {
    "problem": "Quantile(tau=0.9)",
    "mechanism": "RandomizedResponse(epsilon=1.0)",
    "algorithm": "LdpSgd()",
    "protocol": "Thresholds()",
    "method": "BlockBootstrap(beta=0.75)",
}


def python_error(error: InputError) -> InputError:
    """The error about a study, with Python's names for the tables of a study file."""
    texts = (error.allowed, error.hint)
    allowed, hint = (re.sub(r"(?:a table )?\[(\w+)\]", r"`\1`", text) for text in texts)
    if error.field in EXAMPLES and not error.value:
        allowed = wanted(error.field)
    return InputError(error.field, error.value, allowed, hint)


MAX_CELLS = 100_000
MAX_PATHS = 10_000
PILOT_WARNING = (
    f"the run directory holds the values of the pilot ({PILOT_VALUES}, in study.toml and in every part): "
    "keep it as private as the pilot; report, cite and export leave the table out"
)


@dataclass(frozen=True, init=False)
class Study:
    """A named factorial design plus a seed.

    The design is the product of problems, what acts on them (algorithms under mechanisms, and protocols),
    interval methods, n and level. A list is an axis, a scalar one value:

    >>> study = lf.Study(
    ...     problem=lf.Quantile(tau=[0.5, 0.9]), mechanism=lf.RandomizedResponse(epsilon=[0.5, 1.0]),
    ...     algorithm=lf.LdpSgd(gamma=0.51), methods=[lf.BlockBootstrap(beta=0.75), lf.SelfNormalization()],
    ...     n=[1e5, 1e6], replicates=500, seed=1, name="mine",
    ... )
    >>> study.replace(epsilon=2.0, n=[1e4]).mechanism
    (RandomizedResponse(epsilon=2.0),)
    >>> lf.Study.from_toml(study.to_toml()) == study, len(study.simulators()), study.left_out()
    (True, 4, [])
    >>> lf.Study.load("quickstart").name
    'quickstart'

    Parameters
    ----------
    problem, mechanism, algorithm, protocol : component or list of components, optional
        What is simulated, as in ``Quantile(tau=[0.5, 0.9])``.
    methods : component or list of components
        Interval methods.
    n : int or list of int
        Users.
    level : float or list of float
        Nominal coverage.
    replicates : int
        Independent paths per cell.
    seed : int
        Seed of the study, in [0, 2^63).
    name : str
        A file name: results go to ``runs/<name>`` unless another place is given.
    independent_n : bool
        Whether every n has paths of its own.
    trajectory : dict, optional
        ``{"first": 10, "points": 17}``: checkpoints at which errors along the path are kept.
    monitor : dict, optional
        ``{"first_n": 1e4, "target_n": 1e5}``: measures for looking before the end; needs the rows of a
        replicate to share a path.
    collection : dict, optional
        ``{"unit": "s"}``: the unit of the data, kept for readers of the design. No result depends on it.
    plugins : list of str
        Files and modules that define components of the study.

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
    plugins: tuple[str, ...] = field(default=(), compare=False)
    monitor: Monitor | None = None
    collection: CollectionFacts | None = None

    def __init__(
        self,
        problem: Components,
        mechanism: Components | None = None,
        algorithm: Components | None = None,
        methods: Components = (),
        n: float | Sequence[float] | None = None,
        *,
        protocol: Components | None = None,
        level: float | Sequence[float] = 0.9,
        replicates: float = 200,
        seed: int = 0,
        name: str = "study",
        independent_n: bool = False,
        trajectory: Mapping[str, Any] | None = None,
        monitor: Mapping[str, Any] | None = None,
        collection: Mapping[str, Any] | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        given = {"problem": problem, "mechanism": mechanism, "algorithm": algorithm, "protocol": protocol}
        mapping: dict[str, Any] = {
            "name": name,
            "seed": seed,
            "replicates": replicates,
            **{table: tables_of(table, value) for table, value in given.items() if value is not None},
            "grid": {"n": n, "level": level, "independent_n": independent_n},
            "method": tables_of("method", methods),
            "plugins": {"files": list(plugins) if isinstance(plugins, (list, tuple)) else plugins},
        }
        further = {"trajectory": trajectory, "monitor": monitor, "collection": collection}
        mapping |= {name: table for name, table in further.items() if table is not None}
        try:
            self._fill(read_study(plain_values(mapping)))
        except InputError as error:
            raise python_error(error) if type(error) is InputError else error from None

    @property
    def methods(self) -> tuple[Entry, ...]:
        """The interval methods, by the name that the constructor has for them."""
        return self.method

    def __repr__(self) -> str:
        """The study as its constructor, without defaults."""
        given = {group: items_text(self.entries(group)) for group in PARTS if self.entries(group)}
        given.update(methods=items_text(self.method), n=items_text(self.n), level=items_text(self.level))
        given |= {name: repr(getattr(self, name)) for name in ("replicates", "seed", "name")}
        given |= {"independent_n": "True"} if self.independent_n else {}
        for name in ("trajectory", "monitor", "collection"):
            table = getattr(self, name)
            given |= {name: repr(table.model_dump(exclude_none=True))} if table else {}
        given |= {"plugins": repr([*self.plugins])} if self.plugins else {}
        return "Study(\n" + "".join(f"    {name}={text},\n" for name, text in given.items()) + ")"

    def _repr_html_(self) -> str:
        """The design as a table, for notebooks."""
        rows = []
        for entry in (entry for group in GROUPS for entry in self.entries(group)):
            axes = (f"{k} = {values_text(v)}" for k, v in entry.axes.items() if k != PILOT_VALUES)
            rows.append((entry.group, entry.kind, "; ".join(axes)))
        rows += [("users", "n", values_text(self.n)), ("level", "nominal coverage", values_text(self.level))]
        cells = [f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows]
        wanted = sum(len(plan.cells) for plan in self.plans())
        counts = f"{counted(len(self.plans()), 'path')}, {counted(wanted, 'cell')}"
        more = f"{counts}, {self.replicates:,} replicates, seed {self.seed}"
        return f"<p><b>{escape(self.name)}</b>: {more}</p><table><tbody>{''.join(cells)}</tbody></table>"

    def _fill(self, values: Mapping[str, Any]) -> None:
        for own in fields(self):
            object.__setattr__(self, own.name, values.get(own.name, own.default))
        self._check_size()
        self.plans()
        if self.monitor is None:
            return
        if not self.method:
            raise InputError("monitor", self.monitor.model_dump(), "a study with interval methods")
        if any(path.horizon is not None for path in self.simulators()):
            raise InputError("monitor", self.monitor.model_dump(), "a study whose n share their paths")
        if (self.monitor.first_n or 0) > self.n[-1]:
            allowed = f"at most {self.n[-1]:,}, the largest n"
            raise InputError("monitor.first_n", self.monitor.first_n, allowed)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], stored: bool = False) -> Study:
        """Study from a mapping in the form of a study file.

        ``stored``: the study of a run, which loads no plug-in.
        """
        return cls._of_fields(read_study(mapping, stored))

    @classmethod
    def _of_fields(cls, values: Mapping[str, Any]) -> Study:
        study = cls.__new__(cls)
        study._fill(values)
        return study

    @classmethod
    def from_toml(cls, text: str) -> Study:
        """Study from a text in TOML.

        Raises
        ------
        InputError
            If it is not TOML, or no study.
        """
        check_type("study", text, str, "the text of a study")
        if "\n" not in text and text.endswith(".toml"):
            raise InputError("study", text, "the text of a study", "Study.load reads a file.")
        return cls.from_mapping(parse_toml(text, "study"))

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Study:
        """The study of this name: a bundled one, a path of a ``.toml`` file, or the text of one.

        Raises
        ------
        InputError
            If there is none, or it cannot be used.
        """
        allowed = "a study, the name of a bundled one, the path of a file, or a text in TOML"
        check_type("study", source, (str, os.PathLike), allowed)
        text = os.fspath(source)
        return cls.from_toml(text) if "\n" in text else load_study(text, isinstance(source, os.PathLike))

    def replace(self, values: Mapping[str, object] | None = None, **settings: object) -> Study:
        """The study with some settings replaced, by name.

        Parameters
        ----------
        values : mapping, optional
            ``{"mechanism.epsilon": [0.5, 2.0]}``, for names with a dot.
        **settings
            ``n=[1e6]``, ``replicates=1000``, ``epsilon=2.0``; components as in
            ``mechanism=Laplace(epsilon=1.0)``; see :mod:`ldpflow.study.study`.
        """
        if values is not None and not isinstance(values, Mapping):
            raise InputError("values", values, "a mapping of names to values, or settings by name")
        entries = {group: self.entries(group) for group in GROUPS}
        changed = replacements(entries, {**(values or {}), **settings})
        if "n" in changed and self.monitor is not None and self.monitor.first_n == self.n[0]:
            changed["monitor"] = self.monitor.model_copy(update={"first_n": min(changed["n"])})
        return self.with_fields(**changed)

    def with_fields(self, **changes: Any) -> Study:
        # The fields have been read already. Without a docstring: it is for no user.
        return self._of_fields({own.name: getattr(self, own.name) for own in fields(self)} | changes)

    def simulators(self) -> list[Simulator[Any, Any]]:
        return [plan.simulator for plan in self.plans()]

    def components(self) -> list[Settings]:
        return [settings for group in GROUPS for settings in combinations(self.entries(group))]

    def entries(self, group: str) -> tuple[Entry, ...]:
        result: tuple[Entry, ...] = getattr(self, group)
        return result

    def _check_size(self) -> None:
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
        return combinations(self.method)

    def plans(self) -> list[PathPlan]:
        """The simulators, and the cells wanted from each in the order n, method, level."""
        return self._plans

    @cached_property
    def _plans(self) -> list[PathPlan]:
        plans = []
        for parts in self.products():
            acting = next(parts[table] for table in ACTING if table in parts)
            made = family_of(acting).of_study(parts, self.n, self.independent_n)
            for simulator, users in made:
                plans.append(self._make_plan(simulator, users))
        self._check_distinct([plan.simulator for plan in plans])
        return plans

    def _check_distinct(self, simulators: Sequence[Simulator[Any, Any]]) -> None:
        """Refuse units that describe one path twice, with different numbers."""
        units = [problem.in_own_unit()[1] for problem in combinations(self.problem)]
        if any(units) and len({simulator.key for simulator in simulators}) < len(simulators):
            given = [None if unit is None else unit.model_dump() for unit in units]
            hint = "A path would be simulated twice."
            raise InputError("problem.units", given, "units in which steps and starts differ", hint)

    def products(self) -> Iterator[dict[str, Settings]]:
        chosen = {table: combinations(self.entries(table)) for table in PARTS}
        for problem in chosen["problem"]:
            for table in ACTING:
                kinds = dict.fromkeys(family_of(acting) for acting in chosen[table])
                others = {name: None for kind in kinds for name in kind.tables}
                names = [name for name in others if name not in ("problem", table)]
                for values in itertools.product(*(chosen[name] for name in (*names, table))):
                    yield {"problem": problem, **dict(zip((*names, table), values, strict=True))}

    def _make_plan(self, simulator: Simulator[Any, Any], users: tuple[int, ...]) -> PathPlan:
        """Plan of the cells and checkpoints of a simulator for these numbers of users."""
        methods = [method for method in self.method_settings if method.applies(simulator)]
        for method in methods:
            problem = simulator.parts()["problem"]
            if (reason := method.impossible(problem)) is not None:
                raise InputError("method", method.model_dump(), f"a method for {problem.kind}", f"{reason}.")
        cells = tuple(Cell(n, method, level) for n in users for method in methods for level in self.level)
        simulator.check(self.method_settings, cells, self.trajectory is not None)
        if cells:
            most = max(cells, key=lambda cell: cell.runs)
            if most.runs > self.replicates:
                hint = f"A row of {most.method.kind} is made of {most.runs} replicates."
                raise InputError("replicates", self.replicates, f"at least {most.runs}", hint)
        if self.trajectory is None:
            return PathPlan(simulator, cells)
        points = self.trajectory
        return PathPlan(simulator, cells, simulator.checkpoints(users, points.first, points.points))

    def warnings(self) -> list[str]:
        """Warnings about settings that can run but violate an assumption of a method's theory."""
        simulators = [plan.simulator for plan in self.plans()]
        used = [(m, s) for s in simulators for m in self.method_settings if m.applies(s)]
        found = [method.unsuitable(simulator) for method, simulator in used]
        for method in self.method_settings:
            # One warning of a method is enough: for the first simulator and its largest n.
            reasons = (
                method.unsuitable_at(simulator, n)
                for other, simulator in used
                if other == method
                for n in reversed(self.n if simulator.horizon is None else (simulator.horizon,))
            )
            found.append(next((text for text in reasons if text is not None), None))
        found += [problem.caution() for problem in combinations(self.problem)]
        for simulator in simulators:
            parts = simulator.parts()
            if "algorithm" in parts:
                found += parts["algorithm"].cautions(parts["problem"], simulator.horizon)
        if any(PILOT_VALUES in entry.axes for entry in self.problem):
            found.append(PILOT_WARNING)
        return list(dict.fromkeys(text for text in found if text is not None))

    def left_out(self) -> list[str]:
        """Sentences on methods, trajectories and replicates of the study that make no rows, and why."""
        simulators = self.simulators()
        found = []
        for kind in dict.fromkeys(method.kind for method in self.method_settings):
            methods = [method for method in self.method_settings if method.kind == kind]
            reasons: dict[str, dict[str, None]] = {}
            used = False
            for simulator in simulators:
                for method in methods:
                    if method.applies(simulator):
                        used = True
                    else:
                        reasons.setdefault(method.unmet_need(simulator), {})[name_of(simulator)] = None
            for reason, names in reasons.items():
                share = "is left out with" if used else "makes no interval in this study; it is left out with"
                found.append(f"{kind} {share} {', '.join(names)}: {reason}")
        followed = self.trajectory is not None
        still = {name_of(p.simulator): None for p in self.plans() if followed and not p.checkpoints}
        if still:
            found.append(f"trajectory: none of {', '.join(still)}, which makes no steps to follow")
        for plan in self.plans():
            for cell in plan.cells:
                if left := self.replicates % cell.runs:
                    row = f"{cell.method.kind}, level {cell.level:g}: a row is made of {cell.runs} replicates"
                    found.append(f"{row}; the last {left} of {self.replicates:,} make none")
        return list(dict.fromkeys(found))

    def settings(self) -> dict[str, Any]:
        """The canonical mapping: every axis a list, every default written out."""
        plugins = plugins_of(self.components())
        sources = {"names": [p.name for p in plugins], "sha256": [p.sha256 for p in plugins]}
        settings = {
            "name": self.name,
            "seed": self.seed,
            "replicates": self.replicates,
            **{table: [entry.mapping() for entry in self.entries(table)] or None for table in PARTS},
            "grid": {"n": list(self.n), "level": list(self.level), "independent_n": self.independent_n},
            "method": [entry.mapping() for entry in self.method],
            "trajectory": self.trajectory and self.trajectory.model_dump(),
            "monitor": self.monitor and self.monitor.model_dump(exclude_none=True),
            "collection": self.collection and self.collection.model_dump(exclude_defaults=True),
            "plugins": sources if plugins else None,
        }
        return {name: value for name, value in settings.items() if value is not None}

    def hash(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of the settings."""
        return hashlib.sha256(canonical_json(self.settings()).encode()).hexdigest()[:16]

    def to_toml(self) -> str:
        """The resolved study as a study file, every default written out."""
        return f"# Resolved study, hash {self.hash()}\n" + toml_text(self.settings())


def items_text(items: tuple[Any, ...]) -> str:
    return repr(items[0]) if len(items) == 1 else repr([*items])


def values_text(values: Iterable[Any]) -> str:
    return ", ".join(map(short, values))


def combinations(entries: tuple[Entry, ...]) -> list[Any]:
    return list(dict.fromkeys(settings for entry in entries for settings in entry.combinations()))


def name_of(simulator: Any) -> str:
    parts = simulator.parts()
    acting = parts.get("algorithm") or parts.get("protocol") or parts["problem"]
    return str(acting.kind)


def bundled_studies() -> dict[str, Path]:
    """The study files that come with the package, by name, whatever their folder.

    >>> sorted(lf.bundled_studies())[:2]
    ['arena', 'arena-regression']
    """
    package = Path(ldpflow.__file__).parent
    # In a source checkout they lie next to the package.
    root = package if (package / "workflows").is_dir() else package.parent
    files = {file.stem: file for file in root.glob("workflows/**/*.toml")}
    return dict(sorted(files.items()))


def load_study(source: str, is_path: bool = False) -> Study:
    """Read a bundled study, by its name, or a study file. ``is_path``: ``source`` is a path in any case."""
    bundled = bundled_studies()
    if source in bundled and not is_path:
        file, text = bundled[source].name, bundled[source].read_text(encoding="utf-8")
    elif is_path or source.endswith(".toml") or "/" in source:
        if "\0" not in source and not os.path.lexists(source):
            close = closest(Path(source).name, study_files(source))
            hint = f"No such file or directory. {close}".strip()
            raise InputError("study", source, "a file that can be read", hint)
        if os.path.isdir(source):
            hint = "It is a directory: ldpflow summary and ldpflow report show a run."
            raise InputError("study", source, "a file in TOML", hint)
        file, text = Path(source).name, read_text(source, "study")
    else:
        close = closest(source, [*bundled, *study_files(source)])
        hint = close or ("" if "." in source else nearest(source, bundled))
        raise InputError("study", source, "the name of a bundled study or a .toml file", hint)
    stored = is_stored(source)
    if stored:
        verify_checksum(text, source)
    mapping = parse_toml(text, "study", source)
    try:
        # A study without a name is called like its file.
        return Study.from_mapping({"name": file.removesuffix(".toml")} | mapping, stored)
    except InputError as error:
        if type(error) is not InputError or (source in bundled and not is_path):
            raise
        if stored:
            check_plugins(RunStore(os.path.dirname(source) or "."), readable=False)
        table = error.field.partition(".")[0]
        line = line_of(text, error.field, faulty_table(table, mapping.get(table)))
        where = f"In {source}" + ("." if line is None else f", line {line}.")
        raise InputError(error.field, error.value, error.allowed, f"{error.hint} {where}".strip()) from None


def is_stored(source: str) -> bool:
    folder, name = os.path.split(source)
    return name == "study.toml" and any(
        os.path.lexists(os.path.join(folder, other)) for other in ("provenance.json", "replicates")
    )


def study_files(source: str) -> list[str]:
    try:
        return sorted(entry.name for entry in Path(source).parent.iterdir() if entry.name.endswith(".toml"))
    except (OSError, ValueError):
        return []


def faulty_table(group: str, tables: object) -> int:
    """Place in a list of tables of the first one that cannot be read by itself; 0 if there is none."""
    for place, table in enumerate(tables if isinstance(tables, list) and group in GROUPS else ()):
        try:
            combinations(read_group(group, table))
        except InputError:
            return place
    return 0


def line_of(text: str, field: str, place: int = 0) -> int | None:
    """First line of a study file that gives a setting, or else that of its table, the one at ``place``."""
    table, _, key = field.partition(".")
    section, found = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?\s*([\w-]+)\s*(\.?)", line):
            section = header[1]
            if section == table and not header[2]:
                found = number if place == 0 else found
                place -= 1
        elif given := re.match(r"\s*\"?([\w-]+)\"?\s*=", line):
            if (section, given[1], place) == (table, key, -1) or (section, given[1]) == ("", table):
                return number
    return found
