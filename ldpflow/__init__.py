"""Monte Carlo studies of confidence intervals from locally private stochastic gradient descent.

The noise of a simulation is seeded floating-point noise. It serves to study statistics and protects no data.
"""

from __future__ import annotations

from importlib import import_module
from sys import modules
from typing import Any

__version__ = "0.3.0"

EXPORTS = {
    "ldpflow.errors": (
        "Caution",
        "InputError",
        "LdpflowError",
        "MissingExtra",
        "StorageError",
        "SweepFailed",
        "SweepInterrupted",
    ),
    "ldpflow.run": ("Run", "open_run"),
    "ldpflow.sweeps": ("simulate", "sweep"),
    "ldpflow.practice.planning": ("Plan", "plan"),
    "ldpflow.study": ("Study", "bundled_studies"),
    "ldpflow.study.plugins": ("load_plugin", "register"),
    "ldpflow.components.intervals.interval": ("Intervals", "PathIntervalMethod"),
    "ldpflow.components.intervals.record": ("PathRecord",),
    "ldpflow.components.algorithms.algorithm": ("DecayingSteps",),
    "ldpflow.components.problems.standard_laws": ("DataLaw",),
    "ldpflow.components.problems.quantile": ("MixturePart",),
    "ldpflow.components.problems.problem": ("Units",),
    "ldpflow.practice.transcripts.analysis": ("analyse",),
    "ldpflow.practice.transcripts.reading": ("Transcript",),
}
"""Public names by defining module. A module is imported on first use of one of its names."""

REGISTRIES = {
    "ldpflow.components.problems": ("Problem", "PROBLEMS"),
    "ldpflow.components.mechanisms": ("Mechanism", "MECHANISMS"),
    "ldpflow.components.algorithms": ("Algorithm", "ALGORITHMS"),
    "ldpflow.components.protocols": ("Protocol", "PROTOCOLS"),
    "ldpflow.components.intervals": ("IntervalMethod", "INTERVAL_METHODS"),
}
"""Base class and registry of every kind of component, by module."""

MODULE_OF = {name: module for module, names in EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__all__":  # listed by help(ldpflow)
        return ["__version__", *sorted({*MODULE_OF, *component_classes()})]
    if name in MODULE_OF:
        return getattr(import_module(MODULE_OF[name]), name)
    if name[:1].isupper() and name in (found := component_classes()):
        return found[name]
    message = f"module 'ldpflow' has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=modules[__name__])  # Python adds the nearest name


def __dir__() -> list[str]:
    """List the public names, for completion in editors."""
    return __getattr__("__all__")  # type: ignore[no-any-return]


def component_classes() -> dict[str, Any]:
    found = {}
    for module, (base, registry) in REGISTRIES.items():
        loaded = import_module(module)
        found[base] = getattr(loaded, base)
        found |= {kind.__name__: kind for kind in getattr(loaded, registry).values()}
    return found


if "IPython" in modules:
    import_module("ldpflow.run")  # registers the display of Arrow tables in notebooks
