"""Simulators as the parts of a run describe them: enough to read results without the component's code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ldpflow.errors import InputError
from ldpflow.settings import canonical_json
from ldpflow.simulators.families import PARTS, simulator_from_settings
from ldpflow.simulators.simulator import LimitLaw, Simulator

__all__ = ["Described", "described_simulator", "description", "runnable_simulator"]


@dataclass(frozen=True)
class Described:
    """What results ask of a simulator, as it was when its rows were written.

    Parameters
    ----------
    stored_settings : mapping
        Settings of its parts, by table.
    facts : mapping
        As of :func:`description`.
    """

    stored_settings: Mapping[str, Any]
    facts: Mapping[str, Any]
    family: ClassVar[str] = "described"

    @property
    def key(self) -> str:
        """Key of the path."""
        return hashlib.sha256(canonical_json(dict(self.stored_settings)).encode()).hexdigest()[:16]

    def settings(self) -> dict[str, Any]:
        """What the key is made of."""
        return dict(self.stored_settings)

    def columns(self) -> dict[str, Any]:
        """Parameters of its rows in a summary."""
        return dict(self.facts["columns"])

    def setting_names(self) -> dict[str, tuple[str, ...]]:
        """Names of the settings of its parts, by table."""
        return {table: tuple(names) for table, names in self.facts["settings"].items()}

    def derived(self) -> dict[str, Any]:
        """Those of the columns that follow from settings."""
        return {name: self.facts["columns"].get(name) for name in self.facts["derived"]}

    def limit_law(self) -> LimitLaw | None:
        """Asymptotic law of the estimate, or None."""
        law = self.facts["limit_law"]
        return None if law is None else LimitLaw(tuple(law["variances"]), law["users_per_step"])

    def users_key(self) -> str:
        """Key of the users that its replicates meet."""
        return str(self.facts["users_key"])


def description(simulator: Simulator[Any, Any]) -> dict[str, Any]:
    """What a part says of a simulator whose code a reader may not have; numbers as JSON has them."""
    law = simulator.limit_law()
    return {
        "columns": simulator.columns(),
        "settings": {table: list(names) for table, names in simulator.setting_names().items()},
        "derived": list(simulator.derived()),
        "limit_law": None
        if law is None
        else {"variances": list(law.variances), "users_per_step": law.users_per_step},
        "users_key": simulator.users_key(),
    }


def described_simulator(meta: Mapping[str, Any]) -> Any:
    """The simulator that a part's metadata names, or what the part says of it.

    A plug-in's code is not looked for: where its kinds are not registered the description serves.

    Raises
    ------
    KeyError, ValueError
        If there is neither.
    """
    settings = meta["path_settings"]
    if not unknown_kinds(settings):
        return simulator_from_settings(settings)
    return Described(settings, meta["described"])


def runnable_simulator(settings: Mapping[str, Any]) -> Simulator[Any, Any]:
    """The simulator of these settings, to run it.

    Raises
    ------
    InputError
        Naming ``plugins``, if a kind comes from a plug-in that is not loaded.
    """
    unknown = unknown_kinds(settings)
    if unknown:
        raise InputError("plugins", None, "the plug-in of the run", f"It defines {', '.join(unknown)}.")
    return simulator_from_settings(settings)


def unknown_kinds(settings: Mapping[str, Any]) -> list[str]:
    """Tables and kinds that no registered component has."""
    return [
        f"{table} {settings[table]['kind']}"
        for table, kinds in PARTS.items()
        if table in settings and settings[table]["kind"] not in kinds
    ]
