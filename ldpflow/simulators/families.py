"""Families of simulators, and the simulator that stored settings describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ldpflow.algorithms import ALGORITHMS, Algorithm
from ldpflow.mechanisms import MECHANISMS
from ldpflow.problems import PROBLEMS
from ldpflow.protocols import PROTOCOLS
from ldpflow.settings import Settings
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.finite_sum import FiniteSum
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Simulator

FAMILIES: dict[str, type[Simulator[Any, Any]]] = {
    "one_pass": OnePass,
    "finite_sum": FiniteSum,
    "counts": Counts,
}

PARTS: dict[str, Mapping[str, type[Settings]]] = {
    "problem": PROBLEMS,
    "mechanism": MECHANISMS,
    "algorithm": ALGORITHMS,
    "protocol": PROTOCOLS,
}
"""Parts of simulators: the kinds of every table of a study file that is not about intervals."""

ACTING = ("algorithm", "protocol")
"""The tables of what acts on a problem: their kinds name the family that runs them."""


def family_of(kind: type[Settings] | Settings) -> type[Simulator[Any, Any]]:
    """The family that runs a kind of algorithm or protocol."""
    return FAMILIES[kind.family]  # type: ignore[union-attr]


def simulator_from_settings(settings: Mapping[str, Any]) -> Simulator[Any, Any]:
    """The simulator that has these settings (the inverse of Simulator.settings).

    Raises
    ------
    KeyError, ValueError
        If there is no such kind, or a setting is not valid.
    """
    given = {"mechanism": {"kind": "none"}, **settings}
    parts = {
        table: kinds[given[table]["kind"]].model_validate(given[table])
        for table, kinds in PARTS.items()
        if table in given
    }
    (acting,) = (parts[table] for table in ACTING if table in parts)
    family, horizon = family_of(acting), settings.get("n")
    if isinstance(acting, Algorithm):
        parts["algorithm"] = acting.with_users(horizon)
    own = {field.name for field in fields(family)}  # type: ignore[arg-type]
    return family(**{table: part for table, part in parts.items() if table in own}, horizon=horizon)  # type: ignore[call-arg]
