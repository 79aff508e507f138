"""Simulators made from stored settings or descriptions. A family is a class of simulators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

from ldpflow.components.algorithms import ALGORITHMS, Algorithm
from ldpflow.components.mechanisms import MECHANISMS
from ldpflow.components.problems import PROBLEMS
from ldpflow.components.problems.tables import close_data_files
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.errors import InputError
from ldpflow.settings import Settings, unknown_names
from ldpflow.simulators.approach import LimitLaw, limit_law
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.finite_sum import FiniteSum
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Simulator

FAMILIES: dict[str, type[Simulator[Any, Any]]] = {one.family: one for one in (OnePass, FiniteSum, Counts)}

PARTS: dict[str, Mapping[str, type[Settings]]] = {
    "problem": PROBLEMS,
    "mechanism": MECHANISMS,
    "algorithm": ALGORITHMS,
    "protocol": PROTOCOLS,
}
"""Classes of components, by table of a study file and then by kind."""

ACTING = ("algorithm", "protocol")
"""Tables of a study file whose kind determines the family of the simulator."""


def family_of(kind: type[Settings] | Settings) -> type[Simulator[Any, Any]]:
    return FAMILIES[kind.family]  # type: ignore[union-attr]


def simulator_from_settings(settings: Mapping[str, Any]) -> Simulator[Any, Any]:
    """Make a simulator from its settings (Simulator.settings).

    Raises KeyError or ValueError if the settings are not those of a simulator.
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


@dataclass(frozen=True)
class Described:
    """Description of a simulator, for readers without the code of its components.

    A Parquet part stores the settings. With a plug-in or a data file it also stores the facts
    (:func:`description`).
    """

    stored_settings: Mapping[str, Any]
    facts: Mapping[str, Any]
    family: ClassVar[str] = "described"

    key = Simulator.key

    def settings(self) -> dict[str, Any]:
        return dict(self.stored_settings)

    def columns(self) -> dict[str, Any]:
        return dict(self.facts["columns"])

    def derived(self) -> dict[str, Any]:
        return {name: self.facts["columns"].get(name) for name in self.facts["derived"]}

    def parts(self) -> dict[str, Any]:
        return {}

    def users_key(self) -> str:
        return str(self.facts["users_key"])


@limit_law.register
def limit_law_described(simulator: Described) -> LimitLaw | None:
    law = simulator.facts["limit_law"]
    return None if law is None else LimitLaw(**law | {"variances": tuple(law["variances"])})


def setting_names(simulator: Simulator[Any, Any] | Described) -> dict[str, tuple[str, ...]]:
    if isinstance(simulator, Described):
        return {table: tuple(names) for table, names in simulator.facts["settings"].items()}
    parts = simulator.parts().items()
    return {table: tuple(name for name in type(part).model_fields if name != "kind") for table, part in parts}


def description(simulator: Simulator[Any, Any]) -> dict[str, Any]:
    """Facts of a simulator for the metadata of a part."""
    law = limit_law(simulator)
    return {
        "columns": simulator.columns(),
        "settings": {table: list(names) for table, names in setting_names(simulator).items()},
        "derived": list(simulator.derived()),
        "limit_law": None if law is None else {k: v for k, v in asdict(law).items() if v is not None},
        "users_key": simulator.users_key(),
    }


def described_simulator(meta: Mapping[str, Any]) -> Any:
    """Make a simulator from the metadata of a part, without a plug-in and without opening a data file.

    Returns its description if a kind is unknown or a setting names a file. Raises KeyError or ValueError if
    the metadata have no usable settings or description.
    """
    settings = meta["path_settings"]
    if unknown_kinds(settings) or names_file(settings):
        return Described(settings, meta["described"])
    with close_data_files():
        return simulator_from_settings(settings)


def names_file(settings: Mapping[str, Any]) -> bool:
    return any(isinstance(part, Mapping) and part.get("file") is not None for part in settings.values())


def runnable_simulator(settings: Mapping[str, Any]) -> Simulator[Any, Any]:
    """Make a runnable simulator from its settings, or raise an InputError.

    The settings must have the digest of a data file. If a file has another digest, its content is not used
    or shown, because the settings may come from a stranger.
    """
    try:
        if unknown := unknown_kinds(settings):
            raise InputError("plugin", None, "the plug-in of the run", f"It defines {', '.join(unknown)}.")
        for table, part in settings.items():
            if isinstance(part, Mapping) and part.get("file") is not None and not part.get("sha256"):
                raise InputError(f"{table}.file", part["file"], "a data file with its sha256 in a stored run")
        return simulator_from_settings(settings)
    except InputError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError("run", message, "settings of a path that this version knows") from None


def unknown_kinds(settings: Mapping[str, Any]) -> list[str]:
    """Kinds that are not registered, with their tables, and unknown names of settings."""
    if not all(isinstance(settings.get(table, {}), Mapping) for table in PARTS):
        raise ValueError("settings of a path that are no tables")
    found = []
    for table, kinds in PARTS.items():
        values = settings.get(table)
        if values is not None and values.get("kind") not in kinds:
            found.append(f"{table} {values.get('kind')}")
        elif values is not None:
            found += unknown_names(kinds[values["kind"]], values)
    return found
