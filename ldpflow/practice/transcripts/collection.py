"""Description of a collection of reports: problem, mechanism and steps, from TOML or single settings.

It has nothing on the users' values: a transcript has private reports and the question to each user.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.mechanisms import Mechanism
from ldpflow.components.problems import PROBLEMS
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.transform import Transform
from ldpflow.components.protocols import PROTOCOLS, OneShot, Protocol
from ldpflow.components.protocols.rounds import Rounds
from ldpflow.documents import parse_toml, read_text
from ldpflow.errors import InputError
from ldpflow.settings import closest, nearest
from ldpflow.study.entry import read_component, read_group, read_value
from ldpflow.study.reading import Grid

VERSION = 3
"""Version of the schema: 1 has a report per step, 2 rounds of several reports per theta, 3 protocols."""

ALGORITHMS_READ = ("ldp_sgd", "minibatch_sgd")
KNOWN = (
    "version", "level", "origin", "seed", "replicate", "path", "n", "problem", "mechanism", "algorithm",
    "protocol", "method", "collection", "designed",
)  # fmt: skip
"""Settings of a transcript."""

DESIGN = (
    "name",
    "seed",
    "replicates",
    "problem",
    "mechanism",
    "algorithm",
    "protocol",
    "method",
    "grid",
    "collection",
)
"""Tables and settings of a design: a study file with one cell."""

MOST_TAUS = 20
MOST_LEVELS = 100
LEVELS = (0.01, 0.999999999)
"""Smallest and largest level: critical values beyond take minutes, or do not exist as doubles."""
MOST_METHODS = 200
LONGEST_UNIT = 40
BOUNDED = ("randomized_response", "cells")
"""Mechanisms with finitely many reports."""

OF_THE_SCALE = ("transform", "edges", "jitter")
OF_QUANTILES = ("kind", "tau", "taus", *OF_THE_SCALE)
"""Settings of a quantile that are facts about the reports."""

OF_THE_DATA = ("law", "file", "column", "law_table", "components", "sha256")
"""Settings of a study's problem that describe the users' values: messages do not show them."""


@dataclass(frozen=True)
class Collection:
    """Problem, mechanism and steps of a collection of reports, and the intervals that are wanted.

    Parameters
    ----------
    problem : str
        Kind of the problem; ``other`` if it is none that ldpflow has.
    taus : tuple of float
        Levels of the quantiles in increasing order, one for each coordinate; empty for other problems.
    mechanism : Mechanism or None
        None for a protocol.
    algorithm : Algorithm or None
        ``ldp_sgd`` or ``minibatch_sgd`` with gamma, c and theta0; None if they follow from the file.
    protocol : Protocol or None
        A protocol without a path; its number of bins is given.
    start, final : tuple of float or None
        theta0 and theta_n, one number for all coordinates or one for each.
    methods : tuple of IntervalMethod
        Empty for all that apply.
    planned : IntervalMethod or None
        The method whose interval is reported; None for the rule of the documentation.
    designed : bool
        Whether a design names that method: others are computed only for flags.
    origin : tuple of float or None
        Point around which sums are taken, to avoid cancellation; theta0 by default.
    seed, replicate : int
        Address of the multipliers of BB.
    path : str or None
        Key of the path that a simulated transcript was written from.
    n : int or None
        Users, the number of reports of the file. A simulated path may have a few more, which fill no round.
    unit : str
        Unit of the values, printed with the numbers; empty if none is known.
    reports : int
        Reports of each user in all collections of the plan.
    scale : str, tuple of float or None
        Scale T of the problem: reports are about T(value), and results come back in the unit of the values.
    jitter : float or None
        Width of the uniform noise that devices add to the values.
    adversarial_share : float
        Share of the users who may have sent any report, for which the intervals are widened.
    """

    problem: str
    taus: tuple[float, ...]
    mechanism: Mechanism | None
    algorithm: Algorithm | None
    protocol: Protocol | None = None
    start: tuple[float, ...] | None = None
    final: tuple[float, ...] | None = None
    methods: tuple[IntervalMethod, ...] = ()
    planned: IntervalMethod | None = None
    designed: bool = False
    levels: tuple[float, ...] = (0.9,)
    origin: tuple[float, ...] | None = None
    seed: int = 0
    replicate: int = 0
    path: str | None = None
    n: int | None = None
    unit: str = ""
    reports: int = 1
    scale: Transform = None
    jitter: float | None = None
    adversarial_share: float = 0.0

    @property
    def batch_size(self) -> int:
        return 1 if self.algorithm is None else self.algorithm.records_per_step()

    @property
    def randomiser(self) -> Mechanism | Protocol:
        """What made the reports."""
        made = self.protocol or self.mechanism
        assert made is not None
        return made

    def users_asked(self, n: int) -> int:
        """Users of n who are asked: ``rounds`` leaves out those who fill no threshold evenly."""
        if not isinstance(self.protocol, Rounds):
            return n
        asked = self.protocol.asked(n, self.taus[0])
        return sum(a * count for a, count in zip(asked, self.protocol.thresholds(), strict=True))

    def steps(self, n: int) -> int:
        """Steps that the first n reports make; of a protocol each counts."""
        return n if self.algorithm is None else self.algorithm.steps(n)


def read_settings(file: str | Path) -> dict[str, Any]:
    """Settings of a TOML file, which may be a design: a study file with the table [grid]."""
    found = parse_toml(read_text(file, "settings"), "settings", str(file))
    return settings_of_design(found) if "grid" in found else found


def settings_of_design(study: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the collection that a study file with one cell describes.

    Nothing on the users' values is taken over, and no file that it names is opened.
    """
    for name, value in study.items():
        if name not in DESIGN:
            raise InputError(name, value, "a table of a design", nearest(name, DESIGN))
    tables = {name: single_table(study, name) for name in DESIGN[3:] if name in study}
    grid, problem = tables.pop("grid"), tables.get("problem", {})
    fields = PROBLEMS.get(str(problem.get("kind", "quantile")), Quantile).model_fields
    for table, found, known in (("problem", problem, [*fields]), ("grid", grid, [*Grid.model_fields])):
        for name, value in found.items():
            if name not in known:
                raise InputError(f"{table}.{name}", value, "a setting of a study", nearest(name, known))
    if problem.get("units") is not None:
        raise InputError("problem.units", problem["units"], "nothing in a design, with c and theta0 as used")
    taus, protocol = as_list(problem.get("tau")), tables.get("protocol", {})
    if len(taus) > 1 and "tau" in problem:
        if not issubclass(PROTOCOLS.get(str(protocol.get("kind")), Protocol), OneShot):
            raise InputError("problem.tau", taus, "one level, with anything but a protocol of one round")
        problem = {**problem, "kind": "quantiles", "taus": taus}
        del problem["tau"]
    tables["problem"] = dict.fromkeys(OF_THE_SCALE) | {
        name: value for name, value in problem.items() if name in OF_QUANTILES
    }
    if "mechanism" in tables:
        tables["mechanism"] = {k: v for k, v in tables["mechanism"].items() if k != "sampling"}
    if "algorithm" in tables:
        tables["algorithm"] = {"gamma": LdpSgd().gamma, "c": LdpSgd().c} | tables["algorithm"]
    if isinstance(grid.get("n"), list):
        raise InputError("grid.n", grid["n"], "one number of users, in a design")
    return tables | {name: grid[name] for name in ("n", "level") if name in grid} | {"designed": True}


def single_table(study: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The one table of a name in a design; a list of one value is the value."""
    found = study[name]
    if isinstance(found, list) and len(found) != 1:
        raise InputError(name, f"{len(found)} tables", "one, in a design")
    table = found[0] if isinstance(found, list) else found
    if not isinstance(table, Mapping):
        raise InputError(name, table, f"a table [{name}]")
    return {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in table.items()}


def merge_settings(
    first: Mapping[str, Any], second: Mapping[str, Any], where: str, prefix: str = ""
) -> dict[str, Any]:
    """Two sources of settings as one; a setting that both have must be equal.

    ``where`` names the second one in a message, ``prefix`` the table.
    """
    result: dict[str, Any] = dict(first)
    for name, value in second.items():
        if name not in result:
            result[name] = value
        elif isinstance(value, Mapping) and isinstance(result[name], Mapping):
            result[name] = merge_settings(result[name], value, where, f"{prefix}{name}.")
        elif as_list(result[name]) != as_list(value):
            hint = "Leave it out, or correct one of them."
            shown = repr(value) if len(repr(value)) <= 100 else f"{repr(value)[:97]}..."
            raise InputError(f"{prefix}{name}", result[name], f"{shown}, as {where} says", hint)
    return result


def as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def read_collection(settings: Mapping[str, Any]) -> Collection:
    """A collection from its TOML tables.

    Parameters
    ----------
    settings : mapping
        ``[problem] kind, tau`` (or ``taus``); ``[mechanism]``; ``[algorithm] gamma, c, theta0, batch_size,
        final_theta``; or ``[protocol]`` instead of both; ``[[method]]`` for the rows that are wanted, or
        ``[method]`` for the one to report; ``[collection] unit``; ``level``, ``origin``, ``n``, ``seed``,
        ``replicate``, ``path``, ``version``.
    """
    if not isinstance(settings, Mapping):
        raise InputError("settings", settings, "tables of settings, by name")
    for name, value in settings.items():
        if name not in KNOWN:
            raise InputError(str(name), value, "a setting of a transcript", nearest(str(name), KNOWN))
    version = settings.get("version", 1)
    if version not in range(1, VERSION + 1):
        raise InputError("version", version, f"a whole number from 1 to {VERSION}")
    problem, taus = read_problem(read_table(settings, "problem"))
    scale, jitter = read_scale(read_table(settings, "problem"))
    protocol = read_protocol(settings, taus) if "protocol" in settings else None
    algorithm, start, final = read_algorithm(read_table(settings, "algorithm"))
    levels = tuple(dict.fromkeys(read_numbers("level", settings.get("level", 0.9))))
    for level in levels:
        if not LEVELS[0] <= level <= LEVELS[1]:
            raise InputError("level", level, f"a number in [{LEVELS[0]}, {LEVELS[1]}]")
    if len(levels) > MOST_LEVELS:
        raise InputError("level", f"{len(levels):,} levels", f"at most {MOST_LEVELS}")
    path = settings.get("path")
    if path is not None and not isinstance(path, str):
        raise InputError("path", path, "a path key")
    origin = settings.get("origin")
    methods = settings.get("method", [])
    planned = read_methods(methods) if isinstance(methods, Mapping) else ()
    if len(planned) > 1:
        raise InputError("method", dict(methods), "one value for every setting of the method to report")
    return Collection(
        problem=problem,
        taus=taus,
        mechanism=read_mechanism(read_table(settings, "mechanism"), problem) if protocol is None else None,
        algorithm=algorithm,
        protocol=protocol,
        start=start,
        final=final,
        methods=() if planned else read_methods(methods),
        planned=planned[0] if planned else None,
        designed=bool(planned) and settings.get("designed") is True,
        levels=levels,
        origin=None if origin is None else read_numbers("origin", origin),
        seed=read_count("seed", settings.get("seed", 0)),
        replicate=read_count("replicate", settings.get("replicate", 0)),
        path=path,
        n=None if "n" not in settings else read_count("n", settings["n"]),
        scale=scale,
        jitter=jitter,
        unit=read_unit(read_table(settings, "collection")),
        reports=read_count("collection.reports", read_table(settings, "collection").get("reports", 1)),
    )


def read_share(value: object, collection: Collection) -> float:
    """Share of adversarial users, for reports that cannot be arbitrarily large."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value < 0.5:
        raise InputError("adversarial_share", value, "a number in [0, 0.5)")
    if value and collection.randomiser.kind not in (*PROTOCOLS, *BOUNDED):
        allowed = f"0 with {collection.randomiser.kind}, whose reports may be any number"
        hint = f"There is a bound for the protocols, {' and '.join(BOUNDED)}."
        raise InputError("adversarial_share", value, allowed, hint)
    return float(value)


def read_unit(table: Mapping[str, object]) -> str:
    for name in table:
        if name not in ("unit", "reports"):
            raise InputError(f"collection.{name}", table[name], "unit or reports", nearest(name, ["unit"]))
    unit = table.get("unit", "")
    if not isinstance(unit, str) or not unit.isprintable() or len(unit) > LONGEST_UNIT:
        raise InputError("collection.unit", unit, f"a text of at most {LONGEST_UNIT} characters")
    return unit


def read_table(settings: Mapping[str, Any], name: str) -> Mapping[str, object]:
    found = settings.get(name, {})
    if not isinstance(found, Mapping):
        raise InputError(name, found, f"a table [{name}]")
    return found


def read_numbers(field: str, value: Any) -> tuple[float, ...]:
    values: list[Any] = as_list(value)
    for item in values:
        number = isinstance(item, (int, float)) and not isinstance(item, bool)
        if not number or not abs(item) <= sys.float_info.max:
            raise InputError(field, value, "a finite number, or a list of them")
    if not values:
        raise InputError(field, value, "at least one number")
    return tuple(map(float, values))


def read_count(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InputError(field, value, "a whole number >= 0")
    return value


def read_problem(table: Mapping[str, object]) -> tuple[str, tuple[float, ...]]:
    """Kind, and the levels of quantiles."""
    table = {name: value for name, value in table.items() if value is not None}
    kind = table.get("kind", "quantile")
    known = (*PROBLEMS, "other")
    if not isinstance(kind, str) or kind not in known:
        raise InputError("problem.kind", kind, "one of " + ", ".join(known), closest(kind, known))
    name = {"quantile": "tau", "quantiles": "taus"}.get(kind)
    for other in table:
        if other in ("tau", "taus") and other != name:
            raise InputError(f"problem.{other}", table[other], f"nothing: {kind} has no {other}")
        if other not in ("kind", name) and (name is None or other not in OF_QUANTILES):
            hint = "The law of the values is not known here and not needed."
            value = "a description of users' values" if other in OF_THE_DATA else table[other]
            raise InputError(f"problem.{other}", value, "kind, and tau of a quantile", hint)
    if name is None:
        return kind, ()
    most = 1 if name == "tau" else MOST_TAUS
    allowed = "one number in (0, 1)" if most == 1 else f"up to {most} increasing numbers in (0, 1)"
    if name not in table:
        raise InputError(f"problem.{name}", None, f"the level of the quantile, {allowed}")
    taus = read_numbers(f"problem.{name}", table[name])
    increasing = all(a < b for a, b in pairwise(taus))
    if not increasing or not all(0 < tau < 1 for tau in taus) or len(taus) > most:
        raise InputError(f"problem.{name}", table[name], allowed)
    return kind, taus


def read_scale(table: Mapping[str, object]) -> tuple[Transform, float | None]:
    """Scale of a quantile, and the width of the noise on the values."""
    transform, edges, jitter = (
        None if table.get(name) is None else read_value(Quantile, name, table[name], f"problem.{name}")
        for name in ("transform", "edges", "jitter")
    )
    if edges is not None and (transform is not None or not all(a < b for a, b in pairwise(edges))):
        raise InputError("problem.edges", table["edges"], "increasing numbers, without transform")
    return transform if edges is None else edges, jitter


def read_protocol(settings: Mapping[str, Any], taus: tuple[float, ...]) -> Protocol:
    for name in ("mechanism", "algorithm"):
        if settings.get(name):
            raise InputError(name, dict(read_table(settings, name)), "nothing with a protocol")
    table = read_table(settings, "protocol")
    if "kind" not in table:
        raise InputError("protocol.kind", None, "given: the devices used it")
    if (kind := PROTOCOLS.get(str(table["kind"]))) is not None:
        fixed = ("kind", *OF_THE_USERS, "liars_push", "scale_guess")
        names = [name for name in kind.model_fields if name not in fixed]
        for name in table:
            if name not in kind.model_fields:
                raise InputError(f"protocol.{name}", table[name], f"a setting: {', '.join(names)}")
        for name in names:
            if name not in table and name != "rounds":
                raise InputError(f"protocol.{name}", None, "given: the devices used it")
    protocol: Protocol = read_component("protocol", table)
    for name, value in OF_THE_USERS.items():
        if getattr(protocol, name) != value:
            allowed = f"{value}: a simulation of users; a collection has one report of each"
            raise InputError(f"protocol.{name}", table[name], allowed)
    if not taus:
        raise InputError("problem.kind", "other", "quantile or quantiles, with a protocol")
    if not isinstance(protocol, OneShot) and len(taus) > 1:
        raise InputError("problem.taus", list(taus), f"one level: {protocol.kind} searches one quantile")
    return protocol


OF_THE_USERS = {"answer_below": 1.0, "answer_above": 1.0, "liars": 0.0, "answers": 1}
"""Settings of a protocol about simulated users, with the values that a collection may have."""


def read_mechanism(table: Mapping[str, object], problem: str) -> Mechanism:
    if "kind" not in table:
        raise InputError("mechanism.kind", None, "the mechanism on the users' devices")
    mechanism: Mechanism = read_component("mechanism", table)
    budget = next((name for name in ("epsilon", "mu") if name in type(mechanism).model_fields), None)
    if budget is not None and budget not in table:
        raise InputError(f"mechanism.{budget}", None, "the budget of one report")
    if getattr(mechanism, "varies", bool)():
        raise InputError("mechanism", dict(table), "one budget for all users")
    if mechanism.replaces_data():
        hint = "It simulates reports without values; name the mechanism on the users' devices."
        raise InputError("mechanism.sampling", getattr(mechanism, "sampling", None), "'data'", hint)
    problems = {"randomized_response": ("quantile",), "cells": ("quantile", "quantiles")}
    if problem not in problems.get(mechanism.kind, (problem,)):
        hint = f"Its reports have a meaning for {' and '.join(problems[mechanism.kind])}."
        raise InputError("mechanism.kind", mechanism.kind, f"a mechanism for {problem}", hint)
    return mechanism


def read_algorithm(
    table: Mapping[str, object],
) -> tuple[Algorithm | None, tuple[float, ...] | None, tuple[float, ...] | None]:
    """The algorithm, and theta0 and the final theta if they are given."""
    own = dict(table)
    final = own.pop("final_theta", None)
    start = None if "theta0" not in own else read_numbers("algorithm.theta0", own.pop("theta0"))
    if start is not None and len(set(start)) == 1:
        own["theta0"] = start[0]
    given = [name for name in ("gamma", "c") if name in own]
    constants = own.get("c")
    if isinstance(constants, (list, tuple)) and len(constants) > 1:  # one for each coordinate
        own["c"] = [list(read_numbers("algorithm.c", constants))]
    kind = own.setdefault("kind", "minibatch_sgd" if "batch_size" in own else "ldp_sgd")
    if kind not in ALGORITHMS_READ:
        allowed = " or ".join(ALGORITHMS_READ)
        raise InputError("algorithm.kind", kind, allowed, "Transcripts of others cannot be read.")
    if len(given) == 1:
        missing = "c" if given == ["gamma"] else "gamma"
        raise InputError(f"algorithm.{missing}", None, f"given with {given[0]}, or both left out")
    algorithm: Algorithm = read_component("algorithm", own)
    for name in ("c_factors", "theta0_offsets"):
        if own.get(name) is not None:
            hint = "Lists c and theta0 have the values of the coordinates."
            raise InputError(f"algorithm.{name}", own[name], "nothing", hint)
    if algorithm.projects():
        raise InputError("algorithm.radius", own["radius"], "nothing: projected paths cannot be read")
    if getattr(algorithm, "noise", "record") != "record":
        hint = "A curator's noise on a batch is central privacy, and no report."
        raise InputError("algorithm.noise", "batch", "'record'", hint)
    return (
        algorithm if given or kind == "minibatch_sgd" else None,
        start,
        None if final is None else read_numbers("algorithm.final_theta", final),
    )


def read_methods(tables: object) -> tuple[IntervalMethod, ...]:
    if tables in ([], None):
        return ()
    entries = read_group("method", tables)
    found = sum(entry.size() for entry in entries)
    if found > MOST_METHODS:
        raise InputError("method", f"{found:,} methods", f"at most {MOST_METHODS}")
    return tuple(dict.fromkeys(method for entry in entries for method in entry.combinations()))
