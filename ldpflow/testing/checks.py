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
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ldpflow.errors import InputError, LdpflowError
from ldpflow.protocols import Protocol
from ldpflow.settings import Settings
from ldpflow.study.plugins import REGISTRIES, load_plugin
from ldpflow.testing.components import checks_of
from ldpflow.testing.running import Wrong, digest

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
    made: list[Any] = []
    first = finding(kind, "default settings", lambda: made.append(default_of(kind)))
    yield first
    if not first.passed:
        return
    for name, check in checks_of(made[0]).items():
        found = finding(kind, name, partial(check, made[0]))
        yield found
        if name == "runs" and not found.passed:
            return
    yield finding(kind, "same bits in another process", lambda: processes_agree(source, made[0]))


def finding(kind: type[Settings], name: str, check: Callable[[], str | None]) -> Finding:
    """What a check finds; an exception in it is a finding too."""
    try:
        return Finding(kind.__name__, name, True, check() or "")
    except Wrong as wrong:
        return Finding(kind.__name__, name, False, str(wrong))
    except Exception as error:
        return Finding(kind.__name__, name, False, one_message(error, kind))


def one_message(error: Exception, kind: type) -> str:
    """An exception in one line: the last line of the author's that it passed, and what it says."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, LdpflowError):
        return text
    folder = Path(inspect.getfile(kind)).parent
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).parent == folder]
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {text}"


def default_of(kind: type[Settings]) -> Any:
    """A component with its default settings; of a protocol that needs a range with one around 0."""
    ranged = issubclass(kind, Protocol) and "range" in kind.model_fields
    return kind.model_validate({"range": RANGE} if ranged else {})


def processes_agree(source: str, component: Any) -> None:
    """A second process computes the same bits."""
    code = (
        "import sys; from ldpflow.testing import checks; "
        "print(checks.digest_of(sys.argv[1], sys.argv[2]))"
    )  # fmt: skip
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), *sys.path]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, source, type(component).__name__],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode:
        raise Wrong(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it could not be run")
    if done.stdout.split()[-1] != digest(component):
        raise Wrong("it computed other rows: something depends on the process, the time or a library")


def digest_of(source: str, name: str) -> str:
    """Digest that the other process computes."""
    kinds = {kind.__name__: kind for kind in components_of(load_plugin(source))}
    return digest(default_of(kinds[name]))
