"""Read the tables of a study file or of a run's study, and write them as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field

from ldpflow.documents import parse_toml
from ldpflow.errors import InputError, warn
from ldpflow.settings import nearest, read_value, read_values
from ldpflow.simulators.families import ACTING, PARTS, family_of
from ldpflow.store.run_store import RunStore
from ldpflow.study.entry import GROUPS, Entry, are_texts, check_plain, entry_tables, read_group
from ldpflow.study.plugins import load_plugins, loaded_plugins

TABLES = (*PARTS, "grid", "method", "trajectory", "monitor", "collection", "plugins")
AXES = ("n", "level")
"""Settings of the grid that may be lists."""

Table = TypeVar("Table", bound=BaseModel)

FileName = Annotated[
    str,
    Field(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z",
        description="a file name of up to 100 letters, digits, '.', '_' and '-', the first a letter or digit",
    ),
]


class Heading(BaseModel):
    """Settings above the tables of a study.

    Parameters
    ----------
    name : str
        Name of the study and of its run's folder.
    seed : int
        Seed of every random number of the study.
    replicates : int
        Independent replicates of every cell.
    """

    name: FileName
    seed: Annotated[int, Field(ge=0, lt=2**63, description="an integer in [0, 2^63)")] = 0
    replicates: Annotated[int, Field(ge=1, le=10**9)] = 200


class Grid(BaseModel):
    """Numbers of users and levels.

    Parameters
    ----------
    n : int
        Users. One path serves all n if the steps of the algorithm do not depend on n.
    level : float
        Nominal coverage of the intervals.
    independent_n : bool
        Whether each n has paths and users of its own.
    """

    n: Annotated[int, Field(ge=1, le=10**12)]
    # For levels closer to 0 or 1, critical values leave the range of floating point.
    level: Annotated[float, Field(ge=1e-6, le=1 - 1e-9, description="a number in (0, 1)")] = 0.9
    independent_n: bool = False


class Monitor(BaseModel):
    """Monitoring: an analyst looks at the interval at each n, and stops if the interval is short enough.

    Without ``target_length`` and ``target_n`` no replicate stops.

    Parameters
    ----------
    first_n : int
        Users at the first look. Default: the smallest n. The coverage at all looks leaves out smaller n.
    target_length : float
        A replicate stops at the first look with an interval shorter than this. Unit: that of theta.
    target_n : int
        Users, in place of ``target_length``, which is then the length of the oracle at this n.
    """

    first_n: Annotated[int, Field(ge=1, le=10**12)] | None = None
    target_length: Annotated[float, Field(gt=0, description="a number > 0")] | None = None
    target_n: Annotated[int, Field(ge=1, le=10**12)] | None = None


class Trajectory(BaseModel):
    """Checkpoints of error trajectories, log-spaced from ``first`` to the largest n.

    An algorithm of many epochs has other checkpoints: its last step, and the middles of ``points`` equal
    parts of its steps.

    Parameters
    ----------
    first : int
        Users at the first checkpoint.
    points : int
        Checkpoints of a trajectory, in addition to each n.
    """

    first: Annotated[int, Field(ge=1, le=10**12)] = 10
    points: Annotated[int, Field(ge=2, le=1000)] = 17


class CollectionFacts(BaseModel):
    """Facts about a collection that no result depends on.

    Parameters
    ----------
    unit : str, optional
        Unit of the data.
    reports : int
        Reports that a user sends in the collections of a plan together. They share the budget.
    """

    unit: Annotated[
        str | None, Field(pattern=r"\A\P{C}{0,40}\z", description="a text of at most 40 characters")
    ] = None
    reports: Annotated[int, Field(ge=1, le=1280)] = 1


def read_study(mapping: Mapping[str, Any], stored: bool = False) -> dict[str, Any]:
    """Read the fields of a study. With ``stored`` the plug-ins that the tables name are not loaded."""
    found = read_tables(mapping, stored)
    return found | read_groups(mapping, found["trajectory"])


def read_tables(mapping: Mapping[str, Any], stored: bool = False) -> dict[str, Any]:
    """Load the plug-ins of a study. Read its fields except components. Check that components have kinds."""
    check_plain(mapping, "")
    known = (*Heading.model_fields, *TABLES)
    for key, value in mapping.items():
        if key not in known:
            raise InputError(str(key), value, "a known key or table", nearest(key, known))
    plugins = read_plugins(mapping.get("plugins", {}), stored)
    for group in GROUPS:
        if mapping.get(group):
            entry_tables(group, mapping[group])
    heading = read_settings(Heading, {k: v for k, v in mapping.items() if k in Heading.model_fields}, "")
    grid = read_settings(Grid, mapping.get("grid"), "grid")
    return {
        **heading,
        **grid,
        "trajectory": read_table(Trajectory, mapping.get("trajectory"), "trajectory"),
        "monitor": read_monitor(mapping.get("monitor"), grid["n"]),
        "collection": read_table(CollectionFacts, mapping.get("collection"), "collection"),
        "plugins": plugins,
    }


def read_settings(model: type[BaseModel], table: object, name: str) -> dict[str, Any]:
    """Read the settings of a table without a kind, defaults included."""
    known = ", ".join(model.model_fields)
    if not isinstance(table, Mapping):
        raise InputError(name, table, f"a table [{name}] with {known}")
    for key, value in table.items():
        if key not in model.model_fields:
            raise InputError(f"{name}.{key}", value, f"one of {known}", nearest(key, model.model_fields))
    found = {}
    for key, field in model.model_fields.items():
        if key not in table and not field.is_required():
            found[key] = (field.default,) if key in AXES else field.default
            continue
        found[key] = read_setting(model, key, table.get(key), f"{name}.{key}" if name else key)
    return found


def read_setting(model: type[BaseModel], key: str, raw: object, where: str) -> Any:
    """Read a setting of a table without a kind: a value, or for an axis the values in increasing order."""
    if key in AXES:
        return tuple(sorted(read_values(model, key, raw, where)))
    return read_value(model, key, raw, where)


def read_table(model: type[Table], table: object, name: str) -> Table | None:
    return None if table is None else model(**read_settings(model, table, name))


def read_plugins(table: object, stored: bool = False) -> tuple[str, ...]:
    """Load the plug-ins of packages and of a table [plugins]. The table of a run (``stored``) loads none."""
    known = ("names", "sha256") if stored else ("files", "modules", "names", "sha256")
    given = table.items() if isinstance(table, Mapping) else [("", table)]
    found: dict[str, Any] = {key: [value] if isinstance(value, str) else value for key, value in given}
    if not all(key in known and isinstance(v, list) and are_texts(v) for key, v in found.items()):
        hint = "The study of a run loads no code: name the plug-in yourself." if stored else ""
        allowed = f"a table [plugins] with {known[0]} and {known[1]}, lists of texts"
        raise InputError("plugins", table, allowed, hint)
    sources = (*found.get("files", ()), *found.get("modules", ()))
    load_plugins(sources)
    return sources


def read_groups(mapping: Mapping[str, Any], trajectory: Trajectory | None) -> dict[str, tuple[Entry, ...]]:
    """Read the entries of each group. Check that methods, mechanism and trajectory are given if needed."""
    given = [table for table in ACTING if table in mapping] or ACTING[:1]
    groups: dict[str, tuple[Entry, ...]] = dict.fromkeys(PARTS, ())
    groups |= {table: read_group(table, mapping.get(table)) for table in ("problem", *given)}
    acting: list[Any] = [PARTS[table][entry.kind] for table in given for entry in groups[table]]
    families = {family_of(kind) for kind in acting}
    randomised = [kind for kind in acting if "mechanism" in family_of(kind).tables]
    if "mechanism" in mapping and not randomised:
        raise InputError("mechanism", mapping["mechanism"], f"cannot be used with this [{given[0]}]")
    if "mechanism" in mapping or not all(kind.carries_privacy for kind in randomised):
        groups["mechanism"] = read_group("mechanism", mapping.get("mechanism"))
    elif randomised:
        groups["mechanism"] = (Entry.of("mechanism", "none", {}),)
    if mapping.get("method"):
        groups["method"] = read_group("method", mapping["method"])
    elif trajectory is not None:
        groups["method"] = ()
    elif not all(family.makes_intervals for family in families):
        kinds = ", ".join(entry.kind for entry in groups["problem"])
        raise InputError("trajectory", None, "a table [trajectory]", f"{kinds} has no intervals.")
    else:
        groups["method"] = read_group("method", mapping.get("method"))
    return groups


def read_monitor(table: object, users: tuple[int, ...] = ()) -> Monitor | None:
    found = read_table(Monitor, table, "monitor")
    if found is None:
        return None
    if found.target_length is not None and found.target_n is not None:
        raise InputError("monitor.target_n", found.target_n, "cannot be used with target_length")
    return found.model_copy(update={"first_n": found.first_n or users[0]}) if users else found


def toml_text(settings: dict[str, Any]) -> str:
    """Write the tables of a study as TOML. An axis with one value becomes a scalar."""
    heading = {k: v for k, v in settings.items() if not isinstance(v, (list, dict))}
    parts = ["\n".join(f"{name} = {literal_text(value)}" for name, value in heading.items())]
    for name, tables in settings.items():
        if isinstance(tables, dict):
            parts.append(table_text(f"[{name}]", tables))
        elif isinstance(tables, list):
            title = f"[{name}]" if len(tables) == 1 and name != "method" else f"[[{name}]]"
            parts += [table_text(title, mapping) for mapping in tables]
    return "\n\n".join(parts) + "\n"


def table_text(title: str, mapping: dict[str, Any]) -> str:
    single = {name: v[0] for name, v in mapping.items() if isinstance(v, list) and len(v) == 1}
    lines = (f"{name} = {literal_text(value)}" for name, value in (mapping | single).items())
    return "\n".join([title, *lines])


def literal_text(value: object) -> str:
    """Write a value in TOML. Floats are written by ``repr`` and read back with equal bits."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(literal_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {literal_text(item)}" for name, item in value.items()) + " }"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:_}" if isinstance(value, int) else repr(value)


def stored_mapping(store: RunStore) -> dict[str, Any] | None:
    """Read the tables of RUN/study.toml, or None if there is no such file."""
    text = store.read_study()
    if text is None:
        return None
    place = store.full("study.toml")
    mapping = parse_toml(text, "run", place)
    try:
        read_tables(mapping, stored=True)
        for group in GROUPS.keys() & mapping.keys():
            for name, value in chain(*(table.items() for table in entry_tables(group, mapping[group]))):
                if value == []:
                    raise InputError(f"{group}.{name}", value, "at least one value")
    except InputError as error:
        raise InputError("run", place, "a study as a sweep writes it", str(error)) from None
    return mapping


def check_plugins(store: RunStore, readable: bool) -> None:
    """Compare the plug-ins of a run with the loaded ones. ``readable``: this process knows all components."""
    here = loaded_plugins()
    for name, digest in stored_plugins(stored_mapping(store) or {}):
        copy = f"{store.root.rstrip('/')}/plugins/{name}-{str(digest)[:12]}/"
        if name not in here and not readable:
            raise InputError("plugin", None, f"the plug-in {name} of this run", f"Its copy: {copy}")
        if here.get(name, digest) != digest:
            warn(
                f"the plug-in {name} has changed since this run: its SHA-256 was {str(digest)[:12]}, and is "
                f"{here[name][:12]} now. The run keeps the source in {copy}",
            )


def stored_plugins(mapping: Mapping[str, Any]) -> list[tuple[str, str]]:
    table = mapping.get("plugins", {})
    names, digests = ([v] if isinstance(v, str) else v for v in map(table.get, ("names", "sha256"), ([], [])))
    return list(zip(names, digests, strict=False))
