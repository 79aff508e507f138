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

Entries = tuple[Entry, ...]
Components = Settings | Axes | Mapping[str, Any] | Sequence[Settings | Axes | Mapping[str, Any]]


def replacements(entries: Mapping[str, Entries], values: Mapping[str, object]) -> dict[str, Any]:
    """Compute the fields of a study that change when ``values`` replace settings of ``entries``.

    ``values`` has a value, or a list of values, for each name. A name is a setting, ``group.setting``,
    ``method``, an axis of the grid, ``replicates``, ``seed`` or ``name``. The name of a group, or
    ``methods``, has components as its value. Numbers may be texts. None and empty lists change nothing.
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
    """Find the groups that have a setting. ``epsilon`` may be in several groups."""
    having = [group for group in GROUPS if any(entry.has(name) for entry in entries[group])]
    if len(having) == 1 or (having and name == "epsilon"):
        return having
    if name in GROUPS:
        raise InputError(name, raw, wanted(name))
    if having:
        raise InputError(name, raw, f"one of {', '.join(f'{group}.{name}' for group in having)}")
    for group, kinds in GROUPS.items():
        if name != "kind" and any(name in kind.model_fields for kind in kinds.values()):
            return [group]
    known = {"method", *Grid.model_fields, *Heading.model_fields}
    known = known.union(*(names_of(group, entries[group]) for group in GROUPS))
    raise InputError(name, raw, "a setting of this study", nearest(name, known))


def names_of(group: str, entries: Entries) -> set[str]:
    return {field for entry in entries for field in GROUPS[group][entry.kind].model_fields} - {"kind"}


def replace_axis(group: str, entries: Entries, name: str, raw: object) -> Entries:
    if not any(entry.has(name) for entry in entries):
        kinds = ", ".join(dict.fromkeys(entry.kind for entry in entries))
        allowed = f"a setting of {group} {kinds}" if kinds else f"a study with a table [{group}]"
        raise InputError(f"{group}.{name}", raw, allowed, closest(name, names_of(group, entries)))
    result = []
    for entry in entries:
        if entry.has(name):
            values = read_values(GROUPS[group][entry.kind], name, raw, f"{group}.{name}")
            entry = Entry.of(group, entry.kind, entry.axes | {name: values})
        result.append(entry)
    return tuple(result)


def select_methods(entries: Entries, raw: object) -> Entries:
    """Choose the study's entries of the named methods. A method that the study lacks gets its defaults."""
    known = GROUPS["method"]
    result: list[Entry] = []
    for name in dict.fromkeys(map(str, list_of(raw))):
        if name not in known:
            raise unknown_kind("method", name)
        own = [entry for entry in entries if entry.kind == name]
        result += own or [Entry.of("method", name, {})]
    return tuple(result)


def tables_of(group: str, given: object) -> list[dict[str, Any]]:
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
            # A budget that was not given is left out: reading the tables then asks for it.
            missing = component.missing_settings(dict.fromkeys(item.model_fields_set))
            values = {k: v for k, v in item.model_dump().items() if v is not None and k not in missing}
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
    """Rewrite an error on the tables of a study file for users of Python."""
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
    """A named factorial design with a seed.

    The design is the product of problems, n, levels, interval methods, and either mechanisms and algorithms
    or protocols. A list of values is an axis of the design:

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
        Independent replicates of each cell.
    seed : int
        Seed of the study, in [0, 2^63).
    name : str
        A file name. A sweep writes to ``runs/<name>`` by default.
    independent_n : bool
        Whether each n has paths of its own. By default one path serves all n, if steps do not depend on n.
    trajectory : dict, optional
        ``{"first": 10, "points": 17}``: checkpoints at which errors along the path are kept.
    monitor : dict, optional
        ``{"first_n": 1e4, "target_n": 1e5}``: measures for an analyst who looks at the interval at each n
        while reports come in. All n must share paths.
    collection : dict, optional
        ``{"unit": "s"}``: the unit of the data, for readers of the design. No result depends on it.
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
        """The interval methods: the field ``method``."""
        return self.method

    def __repr__(self) -> str:
        """Python expression that makes the study, without defaults."""
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
            raise InputError("monitor", self.monitor.model_dump(), "needs interval methods")
        if any(path.horizon is not None for path in self.simulators()):
            raise InputError("monitor", self.monitor.model_dump(), "needs a study whose n share their paths")
        if (self.monitor.first_n or 0) > self.n[-1]:
            allowed = f"at most {self.n[-1]:,}, the largest n"
            raise InputError("monitor.first_n", self.monitor.first_n, allowed)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], stored: bool = False) -> Study:
        """Make a study from tables as a study file has them.

        With ``stored`` the plug-ins that the tables name are not loaded.
        """
        return cls._of_fields(read_study(mapping, stored))

    @classmethod
    def _of_fields(cls, values: Mapping[str, Any]) -> Study:
        study = cls.__new__(cls)
        study._fill(values)
        return study

    @classmethod
    def from_toml(cls, text: str) -> Study:
        """Make a study from a text in TOML.

        Raises
        ------
        InputError
            If the text is not TOML, or not a study.
        """
        check_type("study", text, str, "the text of a study")
        return cls.from_mapping(parse_toml(text, "study"))

    @classmethod
    def load(cls, source: str | os.PathLike[str]) -> Study:
        """Read a study by the name of a bundled study, the path of a ``.toml`` file, or the text of a file.

        Raises
        ------
        InputError
            If there is no such study, or the study is not valid.
        """
        allowed = "a study, the name of a bundled one, the path of a file, or a text in TOML"
        check_type("study", source, (str, os.PathLike), allowed)
        text = os.fspath(source)
        return cls.from_toml(text) if "\n" in text else load_study(text, isinstance(source, os.PathLike))

    def replace(self, values: Mapping[str, object] | None = None, **settings: object) -> Study:
        """Make a copy of the study with some settings replaced.

        Parameters
        ----------
        values : mapping, optional
            Settings whose names have a dot, as in ``{"mechanism.epsilon": [0.5, 2.0]}``.
        **settings
            Other settings, as in ``n=[1e6], replicates=1000, epsilon=2.0``, and components, as in
            ``mechanism=Laplace(epsilon=1.0)``.
        """
        if values is not None and not isinstance(values, Mapping):
            raise InputError("values", values, "a mapping of names to values, or settings by name")
        entries = {group: self.entries(group) for group in GROUPS}
        changed = replacements(entries, {**(values or {}), **settings})
        if "n" in changed and self.monitor is not None and self.monitor.first_n == self.n[0]:
            changed["monitor"] = self.monitor.model_copy(update={"first_n": min(changed["n"])})
        return self.with_fields(**changed)

    def with_fields(self, **changes: Any) -> Study:
        # No docstring, because it is not for users: `changes` are not checked.
        return self._of_fields({own.name: getattr(self, own.name) for own in fields(self)} | changes)

    def simulators(self) -> list[Simulator[Any, Any]]:
        return [plan.simulator for plan in self.plans()]

    def components(self) -> list[Settings]:
        return [settings for group in GROUPS for settings in combinations(self.entries(group))]

    def entries(self, group: str) -> tuple[Entry, ...]:
        result: tuple[Entry, ...] = getattr(self, group)
        return result

    def _check_size(self) -> None:
        size = {group: sum(entry.size() for entry in self.entries(group)) for group in GROUPS}
        paths = size["problem"] * (size["mechanism"] * size["algorithm"] + size["protocol"])
        cells = paths * size["method"] * len(self.n) * len(self.level)
        paths *= len(self.n) if self.independent_n else 1
        named = [f"{count:,} {group}s" for group, count in size.items() if count or group == "method"]
        factors = " x ".join([*named, f"{len(self.n):,} n", f"{len(self.level):,} levels"])
        for noun, count, most in (("cells", cells, MAX_CELLS), ("paths", paths, MAX_PATHS)):
            if count > most:
                raise InputError("study", f"{count:,} {noun}", f"at most {most:,} {noun}", factors)

    @cached_property
    def method_settings(self) -> list[Any]:
        return combinations(self.method)

    def plans(self) -> list[PathPlan]:
        """List the simulators of the study with their cells, in the order n, method, level."""
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
        """Refuse units with which two settings of the study describe one path."""
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
        """Warn of settings that can run but violate an assumption of a method's theory."""
        simulators = [plan.simulator for plan in self.plans()]
        used = [(m, s) for s in simulators for m in self.method_settings if m.applies(s)]
        found = [method.unsuitable(simulator) for method, simulator in used]
        for method in self.method_settings:
            # One warning for each method is enough, from the first simulator that has one, at its largest n.
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
        """Say which methods and trajectories of the study make no rows, and why."""
        simulators = self.simulators()
        found = []
        for kind in dict.fromkeys(method.kind for method in self.method_settings):
            methods = [method for method in self.method_settings if method.kind == kind]
            reasons: dict[str, dict[str, None]] = {}
            for simulator, method in itertools.product(simulators, methods):
                if not method.applies(simulator):
                    reasons.setdefault(method.unmet_need(simulator), {})[name_of(simulator)] = None
            found += [f"{kind} makes no interval with {', '.join(k)}: {text}" for text, k in reasons.items()]
        followed = self.trajectory is not None
        still = {name_of(p.simulator): None for p in self.plans() if followed and not p.checkpoints}
        if still:
            found.append(f"trajectory: there are no steps to follow with {', '.join(still)}")
        return found

    def settings(self) -> dict[str, Any]:
        """Tables of the study in a fixed form: each axis is a list, and defaults are written out."""
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
        """First 16 hex digits of the SHA-256 of the settings, written as canonical JSON."""
        return hashlib.sha256(canonical_json(self.settings()).encode()).hexdigest()[:16]

    def to_toml(self) -> str:
        """Write the study as a study file, with all defaults."""
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
    """List the study files of the package by name.

    >>> sorted(lf.bundled_studies())[:2]
    ['arena', 'arena-regression']
    """
    package = Path(ldpflow.__file__).parent
    # In a source checkout the folder of studies lies next to the package.
    root = package if (package / "workflows").is_dir() else package.parent
    files = {file.stem: file for file in root.glob("workflows/**/*.toml")}
    return dict(sorted(files.items()))


def load_study(source: str, is_path: bool = False) -> Study:
    """Read a bundled study by its name, or a study file. With ``is_path`` the source is a path."""
    bundled = bundled_studies()
    if source in bundled and not is_path:
        file, text = bundled[source].name, bundled[source].read_text(encoding="utf-8")
    elif is_path or source.endswith(".toml") or "/" in source:
        file, text = Path(source).name, read_text(source, "study")
    else:
        allowed = "the name of a bundled study or a .toml file"
        raise InputError("study", source, allowed, nearest(source, bundled))
    stored = is_stored(source)
    if stored:
        verify_checksum(text, source)
    mapping = parse_toml(text, "study", source)
    try:
        # The name of the file is the default name of the study.
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


def faulty_table(group: str, tables: object) -> int:
    """Find the place, in a list of tables, of the first table that cannot be read. 0 if all can be read."""
    for place, table in enumerate(tables if isinstance(tables, list) and group in GROUPS else ()):
        try:
            combinations(read_group(group, table))
        except InputError:
            return place
    return 0


def line_of(text: str, field: str, place: int = 0) -> int | None:
    """Find the line of a setting in a study file, or of its table. ``place`` chooses among several tables."""
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
