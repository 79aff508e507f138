"""Description of a collection of reports: problem, mechanism and steps, from TOML or single settings.

Nothing here is about the people's values: a transcript has private reports and what each user was asked.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from ldpflow.algorithms import Algorithm
from ldpflow.allowed import closest, nearest
from ldpflow.errors import InputError
from ldpflow.intervals import IntervalMethod
from ldpflow.mechanisms import Mechanism
from ldpflow.problems import PROBLEMS
from ldpflow.study.entry import read_group

__all__ = ["Collection", "merged", "read_collection", "read_settings"]

VERSION = 2
"""Of the schema: 1 has a report per step, 2 rounds of several reports per theta as well."""

ALGORITHMS_READ = ("ldp_sgd", "minibatch_sgd")
HEADINGS = ("version", "level", "origin", "seed", "replicate", "path", "n")
TABLES = ("problem", "mechanism", "algorithm", "method")


@dataclass(frozen=True)
class Collection:
    """Problem, mechanism and steps of a collection of reports, and the intervals that are wanted.

    Parameters
    ----------
    problem : str
        Kind of the problem; ``other`` where it is none that ldpflow has.
    taus : tuple of float
        Levels of the quantiles in increasing order, one for each coordinate; empty for other problems.
    mechanism : Mechanism
        The randomiser on the users' devices.
    algorithm : Algorithm or None
        ``ldp_sgd`` or ``minibatch_sgd`` with gamma, c and theta0; None where they follow from the file.
    start : float or None
        theta0; None where the file's first theta is it.
    final : tuple of float or None
        theta_n, where it was kept.
    methods : tuple of IntervalMethod
        Empty for all that apply.
    levels : tuple of float
    origin : tuple of float or None
        Around which sums are taken, against cancellation; theta0 unless given.
    seed, replicate : int
        Address of the multipliers of BB.
    path : str or None
        Key of the path that a simulated transcript was written from.
    n : int or None
        Users of the study that it was written from, where the last ones fill no round.
    """

    problem: str
    taus: tuple[float, ...]
    mechanism: Mechanism
    algorithm: Algorithm | None
    start: float | None = None
    final: tuple[float, ...] | None = None
    methods: tuple[IntervalMethod, ...] = ()
    levels: tuple[float, ...] = (0.9,)
    origin: tuple[float, ...] | None = None
    seed: int = 0
    replicate: int = 0
    path: str | None = None
    n: int | None = None

    @property
    def batch_size(self) -> int:
        """Reports to a step."""
        return 1 if self.algorithm is None else self.algorithm.records_per_step()

    @property
    def ordered(self) -> bool:
        """Whether theta is put in order after every step, as that of several quantiles is."""
        return len(self.taus) > 1

    def with_algorithm(self, settings: Mapping[str, object]) -> Collection:
        """The same with an algorithm whose settings were read off the file."""
        return replace(self, algorithm=single("algorithm", settings))


def read_settings(file: str | Path) -> dict[str, Any]:
    """The tables of a settings file.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("settings", str(file), "a TOML file", error.strerror or "") from None
    except ValueError as error:
        raise InputError("settings", str(file), "a TOML file", str(error)) from None


def merged(
    first: Mapping[str, Any], second: Mapping[str, Any], where: str, prefix: str = ""
) -> dict[str, Any]:
    """Two sources of settings as one; a setting that both have must be equal.

    Parameters
    ----------
    first, second : mapping
    where : str
        What the second one is, for the message.
    prefix : str
        Of the names, for the message.

    Raises
    ------
    InputError
        Naming the setting and both values.
    """
    result: dict[str, Any] = dict(first)
    for name, value in second.items():
        if name not in result:
            result[name] = value
        elif isinstance(value, Mapping) and isinstance(result[name], Mapping):
            result[name] = merged(result[name], value, where, f"{prefix}{name}.")
        elif not same(result[name], value):
            hint = "Leave it out, or correct one of them."
            raise InputError(prefix + name, result[name], f"{value!r}, as {where} says", hint)
    return result


def same(first: object, second: object) -> bool:
    """Whether two settings are equal; a single value equals a list of it."""
    a = list(first) if isinstance(first, (list, tuple)) else [first]
    b = list(second) if isinstance(second, (list, tuple)) else [second]
    return a == b


def read_collection(settings: Mapping[str, Any]) -> Collection:
    """A collection from its TOML tables.

    Parameters
    ----------
    settings : mapping
        ``[problem] kind, tau`` (or ``taus``); ``[mechanism]``; ``[algorithm] gamma, c, theta0, batch_size,
        final_theta``; ``[[method]]``; ``level``, ``origin``, ``seed``, ``replicate``, ``path``, ``version``.

    Raises
    ------
    InputError
        Naming the field.
    """
    for name in settings:
        if name not in (*HEADINGS, *TABLES):
            known = (*HEADINGS, *TABLES)
            raise InputError(name, settings[name], "a setting of a transcript", nearest(name, known))
    version = settings.get("version", 1)
    if version not in range(1, VERSION + 1):
        raise InputError("version", version, f"a whole number from 1 to {VERSION}")
    problem, taus = read_problem(settings.get("problem", {}))
    algorithm, start, final = read_algorithm(settings.get("algorithm", {}))
    levels = tuple(numbers("level", settings.get("level", 0.9)))
    for level in levels:
        if not 0 < level < 1:
            raise InputError("level", level, "a number in (0, 1)")
    origin = settings.get("origin")
    return Collection(
        problem=problem,
        taus=taus,
        mechanism=read_mechanism(settings.get("mechanism"), problem),
        algorithm=algorithm,
        start=start,
        final=final,
        methods=read_methods(settings.get("method", [])),
        levels=tuple(dict.fromkeys(levels)),
        origin=None if origin is None else numbers("origin", origin),
        seed=count("seed", settings.get("seed", 0)),
        replicate=count("replicate", settings.get("replicate", 0)),
        path=settings.get("path"),
        n=None if "n" not in settings else count("n", settings["n"]),
    )


def single(group: str, table: Mapping[str, object]) -> Any:
    """The one component that a table describes."""
    (entry,) = read_group(group, dict(table))
    found = entry.combinations()
    if len(found) != 1:
        raise InputError(group, dict(table), "one value for every setting")
    return found[0]


def numbers(field: str, value: Any) -> tuple[float, ...]:
    """One finite number, or a list of them."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    for item in values:
        if isinstance(item, bool) or not isinstance(item, (int, float)) or not math.isfinite(item):
            raise InputError(field, value, "a finite number, or a list of them")
    if not values:
        raise InputError(field, value, "at least one number")
    return tuple(map(float, values))


def count(field: str, value: object) -> int:
    """A whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InputError(field, value, "a whole number >= 0")
    return value


def read_problem(table: Mapping[str, object]) -> tuple[str, tuple[float, ...]]:
    """Kind, and the levels of quantiles."""
    kind = table.get("kind", "quantile")
    known = (*PROBLEMS, "other")
    if not isinstance(kind, str) or kind not in known:
        raise InputError("problem.kind", kind, "one of " + ", ".join(known), closest(kind, known))
    name = {"quantile": "tau", "quantiles": "taus"}.get(kind)
    for other in table:
        if other in ("tau", "taus") and other != name:
            raise InputError(f"problem.{other}", table[other], f"nothing: {kind} has no {other}")
        if other not in ("kind", name):
            hint = "The law of the values is not known here and not needed."
            raise InputError(f"problem.{other}", table[other], "kind, and tau of a quantile", hint)
    if name is None:
        return kind, ()
    single_one = name == "tau"
    allowed = "one number in (0, 1)" if single_one else "increasing numbers in (0, 1)"
    if name not in table:
        raise InputError(f"problem.{name}", None, f"the level of the quantile, {allowed}")
    taus = numbers(f"problem.{name}", table[name])
    increasing = all(a < b for a, b in pairwise(taus))
    if not increasing or not all(0 < tau < 1 for tau in taus) or (single_one and len(taus) > 1):
        raise InputError(f"problem.{name}", table[name], allowed)
    return kind, taus


def read_mechanism(table: object, problem: str) -> Mechanism:
    """The users' randomiser."""
    if not isinstance(table, Mapping) or "kind" not in table:
        raise InputError("mechanism.kind", None, "the mechanism on the users' devices")
    mechanism: Mechanism = single("mechanism", table)
    budget = next((name for name in ("epsilon", "mu") if name in type(mechanism).model_fields), None)
    if budget is not None and budget not in table:
        raise InputError(f"mechanism.{budget}", None, "the budget of one report")
    if getattr(mechanism, "varies", bool)():
        raise InputError("mechanism", dict(table), "one budget for all users")
    if mechanism.replaces_data():
        hint = "It simulates reports without values; name the mechanism on the users' devices."
        raise InputError("mechanism.sampling", getattr(mechanism, "sampling", None), "'data'", hint)
    if mechanism.kind == "randomized_response" and problem != "quantile":
        hint = "The two values of its gradient are known for a quantile."
        raise InputError("mechanism.kind", mechanism.kind, f"a mechanism for {problem}", hint)
    if mechanism.kind == "cells" and problem not in ("quantile", "quantiles"):
        hint = "Its cells lie between quantiles of one value."
        raise InputError("mechanism.kind", mechanism.kind, f"a mechanism for {problem}", hint)
    return mechanism


def read_algorithm(
    table: Mapping[str, object],
) -> tuple[Algorithm | None, float | None, tuple[float, ...] | None]:
    """The algorithm, theta0 where it is given, and the final theta where it is given."""
    own = dict(table)
    final = own.pop("final_theta", None)
    start = own.get("theta0")
    kind = own.setdefault("kind", "minibatch_sgd" if "batch_size" in own else "ldp_sgd")
    if kind not in ALGORITHMS_READ:
        allowed = " or ".join(ALGORITHMS_READ)
        raise InputError("algorithm.kind", kind, allowed, "Transcripts of others cannot be read.")
    given = [name for name in ("gamma", "c") if name in own]
    if len(given) == 1:
        missing = "c" if given == ["gamma"] else "gamma"
        raise InputError(f"algorithm.{missing}", None, f"given with {given[0]}, or both left out")
    algorithm: Algorithm = single("algorithm", own)
    if algorithm.projects():
        raise InputError("algorithm.radius", own["radius"], "nothing: projected paths cannot be read")
    if getattr(algorithm, "noise", "record") != "record":
        hint = "A curator's noise on a batch is central privacy, and no report."
        raise InputError("algorithm.noise", "batch", "'record'", hint)
    return (
        algorithm if given or kind == "minibatch_sgd" else None,
        None if start is None else numbers("algorithm.theta0", start)[0],
        None if final is None else numbers("algorithm.final_theta", final),
    )


def read_methods(tables: object) -> tuple[IntervalMethod, ...]:
    """Interval methods."""
    if tables in ([], None):
        return ()
    return tuple(method for entry in read_group("method", tables) for method in entry.combinations())
