"""Reading a study: the form of a study file, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldpflow.allowed import nearest
from ldpflow.errors import InputError
from ldpflow.simulators.families import ACTING, PARTS, family_of
from ldpflow.study.entry import GROUPS, Entry, entry_tables, read_group
from ldpflow.study.fields import plain, read_value, read_values
from ldpflow.study.grid import Grid, Heading, Monitor, Trajectory
from ldpflow.study.plugins import load_plugins

__all__ = ["TABLES", "read_study"]

TABLES = (*PARTS, "grid", "method", "trajectory", "monitor", "plugins")


def read_study(mapping: Mapping[str, Any], stored: bool = False) -> dict[str, Any]:
    """Fields of the study that a mapping says, its plug-ins loaded.

    ``stored``: the study of a run, which loads no plug-in.
    """
    found = read_tables(mapping, stored)
    return found | read_groups(mapping, found["trajectory"])


def read_tables(mapping: Mapping[str, Any], stored: bool = False) -> dict[str, Any]:
    """Fields of a study without its components, of which the form alone is checked; plug-ins are loaded."""
    plain(mapping, "")
    known = (*Heading.model_fields, *TABLES)
    for key, value in mapping.items():
        if key not in known:
            raise InputError(str(key), value, "a known key or table", nearest(key, known))
    plugins = read_plugins(mapping.get("plugins", {}), stored)
    heading = {
        name: read_value(
            Heading, name, mapping.get(name, None if field.is_required() else field.get_default()), name
        )
        for name, field in Heading.model_fields.items()
    }
    for group in GROUPS:
        if mapping.get(group):
            entry_tables(group, mapping[group])
    grid = mapping.get("grid")
    if not isinstance(grid, Mapping) or "n" not in grid:
        raise InputError("grid", grid, "a table [grid] with n, the numbers of users")
    for key, value in grid.items():
        if key not in Grid.model_fields:
            raise InputError(
                f"grid.{key}", value, "n, level or independent_n", nearest(key, Grid.model_fields)
            )  # fmt: skip
    level = grid.get("level", Grid.model_fields["level"].default)
    independent = grid.get("independent_n", Grid.model_fields["independent_n"].default)
    users = tuple(sorted(read_values(Grid, "n", grid["n"], "grid.n")))
    return {
        **heading,
        "n": users,
        "level": tuple(sorted(read_values(Grid, "level", level, "grid.level"))),
        "independent_n": read_value(Grid, "independent_n", independent, "grid.independent_n"),
        "trajectory": read_trajectory(mapping.get("trajectory")),
        "monitor": read_monitor(mapping.get("monitor"), users),
        "plugins": plugins,
    }


def read_plugins(table: object, stored: bool = False) -> tuple[str, ...]:
    """Load the plug-ins that a table [plugins] names, and those that installed packages bring.

    ``names`` and ``sha256``, which a run's study has, load nothing; a stored study has nothing else there.
    """
    known = ("names", "sha256") if stored else ("files", "modules", "names", "sha256")
    table = (
        {k: [v] if isinstance(v, str) else v for k, v in table.items()}
        if isinstance(table, Mapping)
        else None
    )
    if table is None or not all(
        key in known and isinstance(values, list) and all(isinstance(value, str) for value in values)
        for key, values in table.items()
    ):
        if stored:
            hint = "The study of a run loads no code: name the plug-in yourself."
            raise InputError(
                "plugins", table, "a table [plugins] with names and sha256, lists of texts", hint
            )
        raise InputError("plugins", table, "a table [plugins] with files and modules, lists of texts")
    sources = (*table.get("files", ()), *table.get("modules", ()))
    load_plugins(sources)
    return sources


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
    elif not all(family.makes_intervals for family in families):
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


def read_monitor(table: object, users: tuple[int, ...] = ()) -> Monitor | None:
    """The table [monitor]; None where the study has none. Looks start at the smallest n unless said."""
    if table is None:
        return None
    if not isinstance(table, Mapping):
        raise InputError("monitor", table, "a table [monitor] with first_n and a target")
    for key, value in table.items():
        if key not in Monitor.model_fields:
            known = nearest(key, Monitor.model_fields)
            raise InputError(f"monitor.{key}", value, "first_n, target_length or target_n", known)
    values = {key: read_value(Monitor, key, value, f"monitor.{key}") for key, value in table.items()}
    if len(values.keys() & {"target_length", "target_n"}) == 2:
        raise InputError("monitor.target_n", values["target_n"], "one target", "There is target_length too.")
    first = values.setdefault("first_n", min(users, default=None))
    if users and first > users[-1]:
        raise InputError("monitor.first_n", first, f"at most {users[-1]:,}, the largest n")
    return Monitor(**values)
