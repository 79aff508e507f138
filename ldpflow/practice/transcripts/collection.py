"""Description of a collection of reports: problem, mechanism and steps, or the protocol.

It is read from a design, or from tables of settings as in TOML. It has no facts about the users' values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.mechanisms import Mechanism
from ldpflow.components.problems import PROBLEMS
from ldpflow.components.problems.quantile import Quantile, QuantileProblem
from ldpflow.components.problems.transform import Transform
from ldpflow.components.protocols import PROTOCOLS, OneShot, Protocol
from ldpflow.components.protocols.rounds import Rounds
from ldpflow.documents import parse_toml, read_text
from ldpflow.errors import InputError
from ldpflow.settings import Settings, closest, nearest, read_value
from ldpflow.study.entry import PILOT_VALUES, file_value, read_component, read_group
from ldpflow.study.reading import CollectionFacts, Grid
from ldpflow.study.reading import read_settings as read_settings_of

ALGORITHMS_READ = ("ldp_sgd", "minibatch_sgd")
TABLES = ("problem", "mechanism", "algorithm", "protocol", "method", "collection")
DESIGN = ("name", "seed", "replicates", *TABLES, "grid")
"""Tables and settings of a design, a study file with one cell."""

MOST_LEVELS = 100
MOST_METHODS = 200
BOUNDED = ("randomized_response", "cells")
"""Mechanisms with finitely many different reports."""

OF_THE_SCALE = ("transform", "edges", "jitter")
OF_QUANTILES = ("kind", "tau", "taus", *OF_THE_SCALE)
"""Settings of a quantile that say what the reports are about."""

OF_THE_DATA = ("law", "file", "column", "law_table", "components", "sha256")
"""Settings of a problem that describe the users' values. Messages do not show them."""

EXPLICIT = frozenset(
    "tau taus law location scale epsilon mu clip gamma c theta0 rounds degree limits".split()
)
"""Settings that a file has even if they are at their default."""

Count = Annotated[int, Field(ge=0, lt=2**63, description="a whole number >= 0")]


class Facts(BaseModel):
    """Settings of a transcript outside its tables."""

    # Critical values of other levels take minutes, or do not exist as doubles.
    level: Annotated[float, Field(ge=0.01, lt=1)] = 0.9
    seed: Count = 0
    replicate: Count = 0
    path: str | None = None
    n: Count | None = None
    origin: float | None = None


KNOWN = (*Facts.model_fields, *TABLES)


@dataclass(frozen=True)
class Collection:
    """Problem, mechanism and steps of a collection of reports, and the intervals that are wanted."""

    problem: str  # kind of the problem, or ``other``
    taus: tuple[float, ...]  # levels of quantiles, increasing, by coordinate; empty for other problems
    mechanism: Mechanism | None  # None for a protocol
    algorithm: Algorithm | None  # None for a protocol
    protocol: Protocol | None = None  # a protocol without a path, with its number of bins
    start: tuple[float, ...] | None = None  # theta0: one number, or one for each coordinate
    methods: tuple[IntervalMethod, ...] = ()  # empty: all that need only a transcript
    planned: bool = False  # whether the interval of the only method is to be reported
    levels: tuple[float, ...] = (0.9,)
    origin: tuple[float, ...] | None = None  # point around which sums are taken; None: theta0
    seed: int = 0  # ``seed`` and ``replicate`` address the random multipliers of BB
    replicate: int = 0
    path: str | None = None  # key of the path that a simulated transcript was written from
    n: int | None = None  # wanted number of users; None: any
    unit: str = ""  # unit of the values
    reports: int = 1  # reports of each user in all collections of the plan
    scale: Transform = None  # scale of the reports; results come back in the unit of the values
    jitter: float | None = None  # width of the uniform noise that devices add to the values
    adversarial_share: float = 0.0  # share of users for which the intervals are widened

    @property
    def batch_size(self) -> int:
        return 1 if self.algorithm is None else self.algorithm.records_per_step()

    @property
    def randomiser(self) -> Mechanism | Protocol:
        """The protocol, or the mechanism."""
        made = self.protocol or self.mechanism
        assert made is not None
        return made

    def users_asked(self, n: int) -> int:
        """Number of the n users who are asked. ``rounds`` asks equally many at each threshold of a round."""
        if not isinstance(self.protocol, Rounds):
            return n
        asked = self.protocol.asked(n, self.taus[0])
        return sum(a * count for a, count in zip(asked, self.protocol.thresholds(), strict=True))

    def steps(self, n: int) -> int:
        """Steps that n reports make. In a protocol without a path each report is a step."""
        return n if self.algorithm is None else self.algorithm.steps(n)


def read_settings(file: str | Path) -> dict[str, Any]:
    """Read settings from a TOML file. A file with the table [grid] is a design."""
    found = parse_toml(read_text(file, "settings"), "settings", str(file))
    return settings_of_design(found) if "grid" in found else found


def settings_of_design(study: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the collection that a study file with one cell describes.

    Settings about the users' values are left out, and no file that the design names is opened.
    """
    for name, value in study.items():
        if name not in DESIGN:
            raise InputError(name, value, "a table of a design", nearest(name, DESIGN))
    tables = {name: single_table(study, name) for name in (*TABLES, "grid") if name in study}
    grid, problem = tables.pop("grid"), tables.get("problem", {})
    fields = PROBLEMS.get(str(problem.get("kind", "quantile")), Quantile).model_fields
    for table, found, known in (("problem", problem, [*fields]), ("grid", grid, [*Grid.model_fields])):
        for name, value in found.items():
            if name not in known:
                raise InputError(f"{table}.{name}", value, "a setting of a study", nearest(name, known))
    if problem.get("units") is not None:
        raise InputError("problem.units", problem["units"], "cannot be used in a design")
    taus, protocol = as_list(problem.get("tau")), tables.get("protocol", {})
    if len(taus) > 1 and "tau" in problem:
        if not issubclass(PROTOCOLS.get(str(protocol.get("kind")), Protocol), OneShot):
            raise InputError("problem.tau", taus, "one level, unless the protocol has one round")
        problem = {**problem, "kind": "quantiles", "taus": taus}
        del problem["tau"]
    tables["problem"] = dict.fromkeys(OF_THE_SCALE) | {
        name: value for name, value in problem.items() if name in OF_QUANTILES
    }
    if "algorithm" in tables:
        tables["algorithm"] = {"gamma": LdpSgd().gamma, "c": LdpSgd().c} | tables["algorithm"]
    if isinstance(grid.get("n"), list):
        raise InputError("grid.n", grid["n"], "one number of users, in a design")
    return tables | {name: grid[name] for name in ("n", "level") if name in grid}


def single_table(study: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The only table of a name in a design. A list of one value counts as the value."""
    found = study[name]
    if isinstance(found, list) and len(found) != 1:
        raise InputError(name, f"{len(found)} tables", "one, in a design")
    table = found[0] if isinstance(found, list) else found
    if not isinstance(table, Mapping):
        raise InputError(name, table, f"a table [{name}]")
    return {name: single_value(value) for name, value in table.items()}


def merge_settings(
    first: Mapping[str, Any], second: Mapping[str, Any], where: str, prefix: str = ""
) -> dict[str, Any]:
    """Merge two sources of settings. A setting that both have must be equal.

    ``where``: name of the second source in a message. ``prefix``: name of the table, with a dot.
    """
    result: dict[str, Any] = dict(first)
    for name, value in second.items():
        if name not in result:
            result[name] = value
        elif isinstance(value, Mapping) and isinstance(result[name], Mapping):
            result[name] = merge_settings(result[name], value, where, f"{prefix}{name}.")
        elif as_list(result[name]) != as_list(value):
            shown = repr(value) if len(repr(value)) <= 100 else f"{repr(value)[:97]}..."
            raise InputError(f"{prefix}{name}", result[name], f"{shown}, as {where} says")
    return result


def as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def read_collection(settings: Mapping[str, Any]) -> Collection:
    """Read a collection from its TOML tables (docs/analyse.md)."""
    for name, value in settings.items():
        if name not in KNOWN:
            raise InputError(str(name), value, "a setting of a transcript", nearest(str(name), KNOWN))
    facts = {
        name: read_value(Facts, name, settings[name], name)
        for name in ("seed", "replicate", "path", "n")
        if settings.get(name) is not None
    }
    problem = read_problem(read_table(settings, "problem"))
    if "protocol" in settings:
        made: dict[str, Any] = {"protocol": read_protocol(settings, problem["taus"])}
        made |= {"mechanism": None, "algorithm": None}
    else:
        made = {"mechanism": read_mechanism(settings, problem["problem"])}
        made |= read_algorithm(read_table(settings, "algorithm"))
    levels = as_list(settings.get("level", 0.9))
    if not 1 <= len(levels) <= MOST_LEVELS:
        raise InputError("level", f"{len(levels):,} levels", f"1 to {MOST_LEVELS} numbers")
    table = settings.get("method", [])
    methods, planned = read_methods(table), isinstance(table, Mapping)
    if planned and len(methods) > 1:
        raise InputError("method", dict(table), "one value for every setting of the method to report")
    own = read_settings_of(CollectionFacts, settings.get("collection", {}), "collection")
    return Collection(
        **problem,
        **made,
        methods=methods,
        planned=planned,
        levels=tuple(dict.fromkeys(read_value(Facts, "level", level, "level") for level in levels)),
        origin=read_vector("origin", settings.get("origin")),
        unit=own["unit"] or "",
        reports=own["reports"],
        **facts,
    )


def read_share(value: object, collection: Collection) -> float:
    """Read the share of adversarial users. It must be 0 for reports whose influence has no bound."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < 0.5:
        raise InputError("adversarial_share", value, "a number in [0, 0.5)")
    kind = collection.randomiser.kind
    if value and not isinstance(collection.protocol, OneShot) and kind not in BOUNDED:
        hint = f"There is a bound for protocols of one round, {' and '.join(BOUNDED)}."
        raise InputError("adversarial_share", value, f"cannot be used with {kind}", hint)
    return float(value)


def read_table(settings: Mapping[str, Any], name: str) -> Mapping[str, object]:
    found = settings.get(name, {})
    if not isinstance(found, Mapping):
        raise InputError(name, found, f"a table [{name}]")
    return found


def read_vector(field: str, value: object) -> tuple[float, ...] | None:
    """Read a number, or one for each coordinate."""
    if value is None:
        return None
    if not as_list(value):
        raise InputError(field, value, "at least one number")
    return tuple(read_value(Facts, "origin", number, field) for number in as_list(value))


def read_problem(table: Mapping[str, Any]) -> dict[str, Any]:
    """Read fields of a collection: kind, levels of quantiles, scale, and width of the jitter."""
    table = {name: value for name, value in table.items() if value is not None}
    kind = table.pop("kind", "quantile")
    known = (*PROBLEMS, "other")
    if not isinstance(kind, str) or kind not in known:
        raise InputError("problem.kind", kind, "one of " + ", ".join(known), closest(kind, known))
    name = {"quantile": "tau", "quantiles": "taus"}.get(kind)
    for other in table:
        if name is None or other not in (name, *OF_THE_SCALE):
            value = "a description of users' values" if other in OF_THE_DATA else table[other]
            raise InputError(f"problem.{other}", value, "kind, and tau of a quantile or taus of several")
    if name is None:
        return {"problem": kind, "taus": ()}
    if name not in table:
        raise InputError(f"problem.{name}", None, "the level of the quantile, or levels, in (0, 1)")
    levels = as_list(table[name])
    table[name] = levels if name == "taus" or len(levels) != 1 else levels[0]
    model = PROBLEMS[kind]
    found = {other: read_value(model, other, table[other], f"problem.{other}") for other in table}
    for other in ("taus", "edges"):
        if not all(a < b for a, b in pairwise(found.get(other, ()))):
            raise InputError(f"problem.{other}", table[other], "increasing numbers")
    if "edges" in found and "transform" in found:
        raise InputError("problem.edges", table["edges"], "cannot be used with transform")
    taus = found["taus"] if name == "taus" else (found["tau"],)
    scale = found.get("edges", found.get("transform"))
    return {"problem": kind, "taus": taus, "scale": scale, "jitter": found.get("jitter")}


def read_protocol(settings: Mapping[str, Any], taus: tuple[float, ...]) -> Protocol:
    for name in ("mechanism", "algorithm"):
        if settings.get(name):
            raise InputError(name, dict(read_table(settings, name)), "cannot be used with a protocol")
    table = read_table(settings, "protocol")
    protocol: Protocol = read_component("protocol", table)
    if table.get("k") is None and "k" in type(protocol).model_fields:
        raise InputError("protocol.k", None, "the number of bins that the devices used")
    for name, value in OF_THE_USERS.items():
        if getattr(protocol, name) != value:
            raise InputError(f"protocol.{name}", table[name], f"{value}: others are for simulated users")
    if not taus:
        raise InputError("problem.kind", "other", "quantile or quantiles, with a protocol")
    if not isinstance(protocol, OneShot) and len(taus) > 1:
        raise InputError("problem.taus", list(taus), f"one level, with {protocol.kind}")
    return protocol


OF_THE_USERS = {"answer_below": 1.0, "answer_above": 1.0, "liars": 0.0, "answers": 1}
"""Settings of a protocol about simulated users, and the value that a collection has."""


def read_mechanism(settings: Mapping[str, Any], problem: str) -> Mechanism:
    table = read_table(settings, "mechanism")
    read_component("mechanism", table)  # refuses an unknown sampling, which only simulations have
    mechanism: Mechanism = read_component("mechanism", {k: v for k, v in table.items() if k != "sampling"})
    budget = next((name for name in ("epsilon", "mu") if name in type(mechanism).model_fields), None)
    if budget is not None and budget not in table:
        raise InputError(f"mechanism.{budget}", None, "the budget of one report")
    if any(getattr(mechanism, name, None) is not None for name in ("mu_min", "budgets")):
        raise InputError("mechanism", dict(table), "one budget for all users")
    problems = {"randomized_response": ("quantile",), "cells": ("quantile", "quantiles")}
    if mechanism.replaces_data() or problem not in problems.get(mechanism.kind, (problem,)):
        allowed = f"a mechanism on the users' devices for {problem}"
        raise InputError("mechanism.kind", mechanism.kind, allowed)
    return mechanism


def read_algorithm(table: Mapping[str, object]) -> dict[str, Any]:
    """Read fields of a collection: the algorithm, and theta0 if it is given."""
    own = dict(table)
    start = read_vector("algorithm.theta0", own.pop("theta0", None))
    if start is not None and len(set(start)) == 1:
        own["theta0"] = start[0]
    for name in ("gamma", "c"):
        if own.get(name) is None:
            raise InputError(f"algorithm.{name}", None, f"the {name} of the steps c i^-gamma")
    constants = own["c"]
    if isinstance(constants, (list, tuple)) and len(constants) > 1:  # one for each coordinate
        own["c"] = [list(read_vector("algorithm.c", constants) or ())]
    kind = own.setdefault("kind", "minibatch_sgd" if "batch_size" in own else "ldp_sgd")
    if kind not in ALGORITHMS_READ:
        raise InputError("algorithm.kind", kind, " or ".join(ALGORITHMS_READ))
    algorithm: Algorithm = read_component("algorithm", own)
    for name in sorted({*own} - {*OF_A_TRANSCRIPT}):
        if getattr(algorithm, name) != type(algorithm).model_fields[name].default:
            hint = f"The steps of a transcript have {', '.join(OF_A_TRANSCRIPT)}."
            raise InputError(f"algorithm.{name}", own[name], "cannot be used", hint)
    return {"algorithm": algorithm, "start": start}


OF_A_TRANSCRIPT = ("kind", "gamma", "c", "theta0", "batch_size")


def read_methods(tables: object) -> tuple[IntervalMethod, ...]:
    if tables in ([], None):
        return ()
    entries = read_group("method", tables)
    found = sum(entry.size() for entry in entries)
    if found > MOST_METHODS:
        raise InputError("method", f"{found:,} methods", f"at most {MOST_METHODS}")
    return tuple(dict.fromkeys(method for entry in entries for method in entry.combinations()))


def analysis_settings(parts: Mapping[str, Settings]) -> dict[str, Any]:
    """Settings of ``analyse`` for reports of these components, by table."""
    found = {
        table: {name: single_value(value) for name, value in table_of(part).items()}
        for table, part in parts.items()
    }
    names = OF_QUANTILES if isinstance(parts["problem"], QuantileProblem) else ("kind",)
    return found | {"problem": {name: value for name, value in found["problem"].items() if name in names}}


def single_value(value: Any) -> Any:
    return single_value(value[0]) if isinstance(value, list) and len(value) == 1 else value


def table_of(part: Settings) -> dict[str, Any]:
    """Table of a component in a study file: its settings, without defaults that :data:`EXPLICIT` lacks."""
    fields = type(part).model_fields
    given = {name: value for name, value in part if value is not None and name != "kind"}
    if isinstance(part, Algorithm) and part.by_coordinate():
        steps = tuple(factor * part.step_constant() for factor in part.step_factors())
        given |= {
            "c": (steps,),
            "theta0": (part.start(len(steps)),),
            "c_factors": None,
            "theta0_offsets": None,
        }
    if given.get("law") == "empirical":
        omitted = ("location", "scale", *([PILOT_VALUES] if "file" in given else []))
        given = {name: value for name, value in given.items() if name not in omitted}
    found: dict[str, Any] = {"kind": part.kind}  # type: ignore[attr-defined]
    for name, value in given.items():
        if value is not None and (name in EXPLICIT or value != fields[name].default):
            found[name] = [file_value(value)]
    return found
