"""Checks of a plug-in: what an author should know before a long sweep tells it.

Shapes, the true value and the unbiasedness of the private gradient by simulation, the sensitivity that a
mechanism's noise rests on, and the contract on bits: the same for one replicate and for many, and in
another process. Simulated means are tested at 1e-4 in all, so a correct component fails a check about
once in ten thousand.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import Algorithm
from ldpflow.errors import LdpflowError
from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.counts import Fieller, Inversion
from ldpflow.mechanisms import Mechanism
from ldpflow.problems import Problem
from ldpflow.problems.data_law import DataLaw
from ldpflow.problems.quantile import Quantile
from ldpflow.protocols import Protocol
from ldpflow.settings import Settings
from ldpflow.simulators.counts import Counts
from ldpflow.study.plugins import load_plugin
from ldpflow.testing.laws import law_checks, quantile_of
from ldpflow.testing.running import STEPS, Wrong, digest, lanes_agree, path_of, runs
from ldpflow.testing.simulated import algorithm_checks, mechanism_checks, method_checks, problem_checks

Array = NDArray[np.float64]

RANGE = (-4.0, 4.0)


@dataclass(frozen=True)
class Finding:
    """One check of one component.

    Parameters
    ----------
    component : str
        Name of the class.
    check : str
        What was looked at.
    passed : bool
    detail : str
        What was found, or why it could not be looked at.
    """

    component: str
    check: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "WRONG"
        return f"{verdict:5}  {self.component}: {self.check}" + (f": {self.detail}" if self.detail else "")


def check_plugin(source: str) -> list[Finding]:
    """Check every component that a plug-in registers, with its default settings.

    Parameters
    ----------
    source : str
        Path of a ``.py`` file, or the name of a module.

    Returns
    -------
    list of Finding
        In the order of the checks; a check that raises is a finding that did not pass.

    Raises
    ------
    InputError
        If the plug-in cannot be imported, or registers nothing.
    """
    module = load_plugin(source)
    return [finding for kind in components_of(module) for finding in checked(kind, source)]


def components_of(module: ModuleType) -> list[type[Settings]]:
    """The components that a module, or a module of its package, defines."""
    from ldpflow.errors import InputError
    from ldpflow.study.plugins import REGISTRIES

    package = module.__name__
    found = [
        kind
        for registry in REGISTRIES.values()
        for kind in registry.values()
        if kind.__module__ == package or kind.__module__.startswith(f"{package}.")
    ]
    if not found:
        raise InputError("plugins", package, "a plug-in that registers components", "Use lf.register.")
    return found


def checked(kind: type[Settings], source: str) -> Iterator[Finding]:
    """All checks of one component; after a failure to make it, or to run it, none."""
    for name, check in checks_of(kind, source):
        try:
            detail = check() or ""
        except Wrong as found:
            yield Finding(kind.__name__, name, False, str(found))
            if name in ("default settings", "runs"):
                return
        except Exception as error:
            yield Finding(kind.__name__, name, False, one_message(error, kind))
            if name in ("default settings", "runs"):
                return
        else:
            yield Finding(kind.__name__, name, True, detail)


def one_message(error: Exception, kind: type) -> str:
    """An exception in one line: the last line of the author's that it passed, and what it says."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, LdpflowError):
        return text
    folder = Path(inspect.getfile(kind)).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent == folder]
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {text}"


def checks_of(kind: type[Settings], source: str) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """The checks of a kind of component, in order."""
    made: dict[str, Any] = {}

    def default() -> None:
        made["it"] = default_of(kind)

    yield "default settings", default
    if issubclass(kind, Problem):
        yield from problem_checks(made)
    elif issubclass(kind, Mechanism):
        yield from mechanism_checks(made)
    elif issubclass(kind, DataLaw):
        yield from law_checks(made)
    elif issubclass(kind, IntervalMethod):
        yield from method_checks(made)
    elif issubclass(kind, Algorithm):
        yield from algorithm_checks(made)
    else:
        yield "runs", lambda: runs(*with_others(made["it"]))
    yield "same bits for one replicate and for many", lambda: lanes_agree(*with_others(made["it"]))
    yield (
        "same bits in another process",
        lambda: processes_agree(source, kind, digest(*with_others(made["it"]))),
    )


def with_others(component: Any) -> tuple[Any, list[IntervalMethod]]:
    """A simulator with the component, and the interval methods to compute."""
    if isinstance(component, IntervalMethod):
        return path_of(), [component]
    if isinstance(component, Problem):
        return path_of(problem=component), []
    if isinstance(component, DataLaw):
        return path_of(problem=quantile_of(component)), []
    if isinstance(component, Protocol):
        simulator = Counts(Quantile(), component, max(STEPS, component.least_users()))
        return simulator, [method for method in (Inversion(), Fieller()) if method.applies(simulator)]
    if isinstance(component, Mechanism):
        return path_of(mechanism=component), []
    assert isinstance(component, Algorithm)
    return path_of(algorithm=component), []


def default_of(kind: type[Settings]) -> Any:
    """A component with its default settings; of a protocol that needs a range with one around 0."""
    ranged = issubclass(kind, Protocol) and "range" in kind.model_fields
    return kind.model_validate({"range": RANGE} if ranged else {})


def processes_agree(source: str, kind: type[Settings], expected: str) -> None:
    """A second process computes the same bits."""
    code = (
        "import sys; from ldpflow.testing import checks; "
        "print(checks.digest_of(sys.argv[1], sys.argv[2]))"
    )  # fmt: skip
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, *sys.path]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, source, kind.__name__],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode:
        raise Wrong(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it could not be run")
    if done.stdout.split()[-1] != expected:
        raise Wrong("it computed other rows: something depends on the process, the time or a library")


def digest_of(source: str, name: str) -> str:
    """Digest that the other process computes."""
    kinds = {kind.__name__: kind for kind in components_of(load_plugin(source))}
    component: Any = default_of(kinds[name])
    return digest(*with_others(component))
