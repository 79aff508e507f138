"""Checks of a plug-in: what an author should know before a long sweep tells it.

Shapes, the true value and the unbiasedness of the private gradient by simulation, the sensitivity that a
mechanism's noise rests on, and the contract on bits: the same for one replicate and for many, and in
another process. Simulated means are tested at 1e-4 in all, so a correct component fails a check about
once in ten thousand.
"""

from __future__ import annotations

import hashlib
import math
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
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.errors import LdpflowError
from ldpflow.intervals import IntervalMethod
from ldpflow.mechanisms import Mechanism
from ldpflow.mechanisms.laplace import Laplace
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems import Problem
from ldpflow.problems.quantile import Quantile
from ldpflow.random.lockstep import LANES
from ldpflow.settings import Settings
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.one_pass import OnePass
from ldpflow.study.plugins import load_plugin
from ldpflow.testing.probe import Probe

__all__ = ["Finding", "check_plugin"]

Array = NDArray[np.float64]

STEPS = 1000
ERROR_RATE = 1e-4
SEED = 20240520


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


class Wrong(Exception):
    """A check that failed, and what was found."""


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
    from ldpflow.study.entry import GROUPS

    package = module.__name__
    found = [
        kind
        for registry in GROUPS.values()
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
            yield Finding(kind.__name__, name, False, told(error))
            if name in ("default settings", "runs"):
                return
        else:
            yield Finding(kind.__name__, name, True, detail)


def told(error: Exception) -> str:
    """An exception in one line: where in the author's file, and what."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, LdpflowError):
        return text
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "ldpflow" not in Path(f.filename).parts]
    where = f"line {frames[-1].lineno}: " if frames else ""
    return f"{where}{type(error).__name__}: {text}"


def checks_of(kind: type[Settings], source: str) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """The checks of a kind of component, in order."""
    made: dict[str, Any] = {}

    def default() -> None:
        made["it"] = kind.model_validate({})

    yield "default settings", default
    if issubclass(kind, Problem):
        yield from problem_checks(made)
        simulator = lambda: path_of(problem=made["it"])  # noqa: E731
    elif issubclass(kind, Mechanism):
        yield from mechanism_checks(made)
        simulator = lambda: path_of(mechanism=made["it"])  # noqa: E731
    elif issubclass(kind, IntervalMethod):
        yield from method_checks(made)
        simulator = lambda: path_of()  # noqa: E731
    else:
        assert issubclass(kind, Algorithm)
        simulator = lambda: path_of(algorithm=made["it"])  # noqa: E731
        yield "runs", lambda: runs(simulator())
    methods = lambda: [made["it"]] if issubclass(kind, IntervalMethod) else []  # noqa: E731
    yield "same bits for one replicate and for many", lambda: lanes_agree(simulator(), methods())
    yield (
        "same bits in another process",
        lambda: processes_agree(source, kind, digest(simulator(), methods())),
    )


def path_of(
    problem: Problem | None = None, mechanism: Mechanism | None = None, algorithm: Algorithm | None = None
) -> Any:
    """A simulator of the component with simple others."""
    simple = problem or Quantile()
    chosen = algorithm or LdpSgd()
    return OnePass(simple, mechanism or NoMechanism(), chosen.resolved(simple, None))


def cells_of(simulator: Any, methods: list[IntervalMethod]) -> tuple[Cell, ...]:
    """Cells at two numbers of users."""
    from ldpflow.intervals.oracle import Oracle

    return tuple(Cell(n, method, 0.9) for n in (STEPS // 2, STEPS) for method in methods or [Oracle()])


def rows_of(simulator: Any, replicates: range, methods: list[IntervalMethod]) -> list[dict[str, Any]]:
    """Rows of a few replicates."""
    cells = cells_of(simulator, methods)
    record = simulator.run(SEED, replicates, simulator.needs(cells, ()))
    with np.errstate(all="ignore"):
        rows: list[dict[str, Any]] = simulator.rows(record, cells).to_pylist()
    return rows


def bits(rows: list[dict[str, Any]]) -> str:
    """A digest of rows, every bit of a float included."""
    text = [[v.hex() if isinstance(v, float) else repr(v) for v in row.values()] for row in rows]
    return hashlib.sha256(repr(text).encode()).hexdigest()


def digest(simulator: Any, methods: list[IntervalMethod]) -> str:
    """The digest of eight replicates."""
    return bits(rows_of(simulator, range(8), methods))


def runs(simulator: Any) -> str:
    """The simulator runs and its estimates are finite."""
    rows = rows_of(simulator, range(8), [])
    failed = sum(row["status"] == "diverged" for row in rows)
    if failed:
        raise Wrong(f"{failed} of {len(rows)} rows diverged within {STEPS} users")
    return f"{STEPS} users, 8 replicates"


def lanes_agree(simulator: Any, methods: list[IntervalMethod]) -> None:
    """Replicate 5 alone is replicate 5 among many."""
    alone = rows_of(simulator, range(5, 6), methods)
    among = [row for row in rows_of(simulator, range(LANES), methods) if row["replicate"] == 5]
    if bits(alone) != bits(among):
        raise Wrong("a replicate's rows depend on which others run beside it")


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
    """What the other process computes."""
    kinds = {kind.__name__: kind for kind in components_of(load_plugin(source))}
    component: Any = kinds[name].model_validate({})
    if isinstance(component, IntervalMethod):
        return digest(path_of(), [component])
    if isinstance(component, Problem):
        return digest(path_of(problem=component), [])
    if isinstance(component, Mechanism):
        return digest(path_of(mechanism=component), [])
    assert isinstance(component, Algorithm)
    return digest(path_of(algorithm=component), [])


# By simulation


def gradients(problem: Problem, mechanism: Mechanism, point: tuple[float, ...]) -> Array:
    """Private gradients of STEPS users in LANES replicates at one point, shape (users, d)."""
    simulator = OnePass(problem, mechanism, Probe(point=point))
    from ldpflow.simulators.run_path import run_path

    record = run_path(simulator, SEED, range(LANES), list(range(1, STEPS + 1)))
    return np.asarray(record.iterates.transpose(0, 2, 1).reshape(-1, problem.dimension))


def near(mean: Array, deviation: Array, count: int, what: str) -> str:
    """Whether simulated means are 0 within what chance explains, at ERROR_RATE over the coordinates."""
    from ldpflow.constants import normal_quantile

    z = normal_quantile(1 - ERROR_RATE / (2 * len(mean)))
    error = deviation / math.sqrt(count)
    wrong = np.abs(mean) > z * error + 1e-12
    if wrong.any():
        j = int(np.argmax(np.abs(mean) / np.maximum(error, 1e-300)))
        raise Wrong(f"{what} in coordinate {j}: {mean[j]:.4g} with a standard error of {error[j]:.2g}")
    return f"{count:,} users"


def truth_of(problem: Problem) -> tuple[float, ...]:
    """theta*, checked for its form."""
    truth = problem.truth()
    if len(truth) != problem.dimension or not all(isinstance(v, (int, float)) for v in truth):
        raise Wrong(f"truth() is {truth!r}; it has to be {problem.dimension} numbers")
    return tuple(map(float, truth))


def problem_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Shapes, gradient, truth, covariance, curvature and sensitivity of a problem."""

    def shapes() -> None:
        problem = made["it"]
        d = len(truth_of(problem))
        for name in ("curvature", "gradient_covariance"):
            matrix = np.array(getattr(problem, name)(), dtype=float)
            if matrix.shape != (d, d):
                raise Wrong(f"{name}() has shape {matrix.shape}; it has to be {(d, d)}")
        if np.linalg.eigvalsh(np.array(problem.gradient_covariance(), dtype=float)).min() < -1e-9:
            raise Wrong("gradient_covariance() has a negative eigenvalue")

    def truth() -> str:
        problem = made["it"]
        g = gradients(problem, NoMechanism(), truth_of(problem))
        return near(g.mean(axis=0), g.std(axis=0, ddof=1), len(g), "E g(X, theta*) is not 0")

    def covariance() -> str:
        problem = made["it"]
        g = gradients(problem, NoMechanism(), truth_of(problem))
        expected = np.array(problem.gradient_covariance(), dtype=float)
        d = g.shape[1]
        centred = g - g.mean(axis=0)
        products = (centred[:, :, None] * centred[:, None, :]).reshape(-1, d * d) - expected.reshape(-1)
        near(products.mean(axis=0), products.std(axis=0, ddof=1), len(g), "the covariance of g is not S")
        return f"{len(g):,} users"

    def curvature() -> str:
        problem = made["it"]
        point = truth_of(problem)
        matrix = np.array(problem.curvature(), dtype=float)
        spread = np.sqrt(np.diag(np.array(problem.gradient_covariance(), dtype=float)))
        for j in range(len(point)):
            # A step over which the mean moves by about a tenth of g's standard deviation.
            h = 0.1 * float(spread[j]) / max(float(np.abs(matrix[:, j]).max()), 1e-12)
            above = gradients(problem, NoMechanism(), (*point[:j], point[j] + h, *point[j + 1 :]))
            below = gradients(problem, NoMechanism(), (*point[:j], point[j] - h, *point[j + 1 :]))
            slope = (above - below) / (2 * h)
            error = slope.std(axis=0, ddof=1) / math.sqrt(len(slope))
            # Curvature of higher order moves a difference quotient by a little: ten percent is let pass.
            allowed = 5 * error + 0.1 * np.abs(matrix[:, j]) + 1e-9
            if (np.abs(slope.mean(axis=0) - matrix[:, j]) > allowed).any():
                shown = np.array2string(slope.mean(axis=0), precision=3)
                raise Wrong(f"column {j} of the derivative is about {shown}, curvature() says {matrix[:, j]}")
        return "within 10% and chance"

    def sensitivity() -> str:
        problem = made["it"]
        worst = {"l1": 0.0, "l2": 0.0}
        for scale in (0.0, 1.0, -3.0):
            g = gradients(problem, NoMechanism(), tuple(v + scale for v in truth_of(problem)))
            apart = g - g[::-1]
            worst["l1"] = max(worst["l1"], float(np.abs(apart).sum(axis=1).max()))
            worst["l2"] = max(worst["l2"], float(np.sqrt((apart**2).sum(axis=1)).max()))
        for name, found in worst.items():
            claimed = float(getattr(problem, f"{name}_sensitivity")())
            if found > claimed * (1 + 1e-9):
                raise Wrong(f"two gradients are {found:.6g} apart, {name}_sensitivity() says {claimed:.6g}")
        return f"at most {worst['l1']:.4g} (L1) and {worst['l2']:.4g} (L2) seen"

    yield "shapes", shapes
    yield "runs", lambda: runs(path_of(problem=made["it"]))
    yield "true value: E g(X, theta*) = 0", truth
    yield "covariance of the gradient", covariance
    yield "curvature: derivative of E g at theta*", curvature
    yield "sensitivity", sensitivity


def mechanism_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Unbiasedness and covariance of a mechanism, on the same users with and without it."""

    def runs_with_it() -> str:
        reason = made["it"].unsuitable(Quantile())
        if reason is not None:
            raise Wrong(f"the median is refused: {reason}")
        return runs(path_of(mechanism=made["it"]))

    def unbiased() -> str:
        problem, mechanism = Quantile(), made["it"]
        for point in (0.0, 1.0, -0.5):
            noise = gradients(problem, mechanism, (point,)) - gradients(problem, NoMechanism(), (point,))
            near(noise.mean(axis=0), noise.std(axis=0, ddof=1), len(noise), f"E[A(g) - g] at {point}")
        return f"at three points, {len(noise):,} users each"

    def covariance() -> str:
        problem, mechanism = Quantile(), made["it"]
        point = problem.truth()
        noise = gradients(problem, mechanism, point) - gradients(problem, NoMechanism(), point)
        squares = noise**2 - float(mechanism.noise_covariance(problem)[0][0])
        return near(squares.mean(axis=0), squares.std(axis=0, ddof=1), len(noise), "Var(A(g) | g) - claimed")

    def statement() -> str:
        found = made["it"].privacy()
        if not found.notion or not found.unit:
            raise Wrong(f"privacy() is {found}; notion and unit have to be named")
        return f"{found.notion}, unit: {found.unit}"

    yield "runs", runs_with_it
    yield "unbiased: E[A(g) | g] = g", unbiased
    yield "covariance of the noise", covariance
    yield "privacy statement", statement


def method_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Times, shapes and nesting of an interval method."""

    def times() -> str:
        found = np.asarray(made["it"].times(STEPS, LdpSgd()))
        if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
            raise Wrong(
                f"times() has to be a vector of integers, and is {found.dtype} of shape {found.shape}"
            )
        if (np.diff(found) <= 0).any() or found[0] < 1 or found[-1] != STEPS:
            raise Wrong(f"times() has to increase within 1, ..., {STEPS} and end there: {found[:5]} ...")
        count = made["it"].count_times(STEPS, LdpSgd())
        if count < len(found):
            raise Wrong(f"count_times() says at most {count}, times() has {len(found)}")
        return f"{len(found)} times"

    def shapes() -> None:
        method, levels = made["it"], [0.5, 0.9, 0.99]
        simulator = path_of(mechanism=Laplace())
        record = simulator.run(SEED, range(LANES), simulator.needs(cells_of(simulator, [method]), ()))
        found = method.intervals(record, STEPS, levels)
        expected = {
            "estimate": (1, LANES), "lower": (3, 1, LANES), "upper": (3, 1, LANES),
            **({} if found.se is None else {"se": (1, LANES)}),
        }  # fmt: skip
        for name, shape in expected.items():
            if np.shape(getattr(found, name)) != shape:
                raise Wrong(f"{name} has shape {np.shape(getattr(found, name))}; it has to be {shape}")
        defined = np.isfinite(found.lower) & np.isfinite(found.upper)
        if (found.lower > found.upper)[defined].any():
            raise Wrong("a lower limit lies above the upper one")
        both = defined[:-1] & defined[1:]
        if ((found.lower[1:] > found.lower[:-1]) | (found.upper[1:] < found.upper[:-1]))[both].any():
            raise Wrong("an interval of a higher level does not contain that of a lower one")

    yield "times", times
    yield "runs", lambda: str(len(rows_of(path_of(), range(2), [made["it"]]))) + " rows"
    yield "shapes, limits in order, levels nested", shapes
