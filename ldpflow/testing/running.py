"""Parts of checks: components run with simple others, gradients at one point, and templates to start from."""

from __future__ import annotations

import hashlib
import math
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms import Algorithm
from ldpflow.components.algorithms.algorithm import DecayingSteps, add_matrices
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.counts import Fieller, Inversion
from ldpflow.components.intervals.variance import Oracle
from ldpflow.components.mechanisms import Mechanism, PrivacyStatement
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.problems import Problem
from ldpflow.components.problems.problem import Matrix
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.standard_laws import DataLaw
from ldpflow.components.protocols import Protocol
from ldpflow.errors import InputError
from ldpflow.numerics.constants import normal_quantile
from ldpflow.numerics.registers import register_array
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE
from ldpflow.settings import Parameters, closest
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.rows import rows_of as build_rows
from ldpflow.simulators.simulator import Cell


class Probe(DecayingSteps):
    """theta stays at ``point``; the recorded iterate at step i is A(g(X_i, point)).

    Parameters
    ----------
    point : tuple of float
        theta, length d.
    """

    kind: Literal["probe"] = "probe"
    point: tuple[float, ...] = (0.0,)

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        return {"point": self.point}

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        return add_matrices(problem.gradient_covariance(), mechanism.noise_covariance(problem), 1.0, 1.0)

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return mechanism.privacy()


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """The private gradients at one point, in LANES replicates."""
    times, centre, total, sums, counts = record.times, record.centre, record.total, record.sums, record.counts
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    theta = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    for j in range(kernel.D):
        for lane in range(LANES):
            theta[j * LANES + lane] = settings.point[j]
    i = 0
    t = 0
    while t < times.shape[0]:
        kernel.draw_data(*users, data)
        kernel.draw_noise(*noises, noise)
        for k in range(CHUNK):
            i += 1
            step = float(i)
            for lane in range(LANES):
                at = k * LANES + lane
                kernel.gradient(g, theta, data, at, lane, problem)
                kernel.randomise(g, noise, at, lane, mechanism, counts)
                kernel.add_iterate(total, centre, sums, g, step, lane)
            if i == times[t]:
                kernel.keep_path(record, g, t)
                t += 1
                if t == times.shape[0]:
                    break


Array = NDArray[np.float64]

STEPS = 1000
SEED = 20240520
ERROR_RATE = 1e-4


class Wrong(Exception):
    """Failed check, with its finding."""


def path_of(
    problem: Problem | None = None, mechanism: Mechanism | None = None, algorithm: Algorithm | None = None
) -> Any:
    simple = problem or Quantile()
    chosen = algorithm or LdpSgd()
    return OnePass(simple, mechanism or NoMechanism(), chosen.resolved(simple, None))


def quantile_of(law: DataLaw, tau: float = 0.5) -> Quantile:
    return Quantile(tau=tau, law=law.kind, shape=getattr(law, "shape", None))


def with_others(component: Any) -> tuple[Any, list[IntervalMethod]]:
    """A simulator with the component, and the interval methods to compute."""
    if isinstance(component, IntervalMethod):
        return path_of(), [component]
    if isinstance(component, Protocol):
        simulator = Counts(Quantile(), component, max(STEPS, component.least_users()))
        return simulator, [method for method in (Inversion(), Fieller()) if method.applies(simulator)]
    if isinstance(component, DataLaw):
        component = quantile_of(component)
    roles: dict[str, type] = {"problem": Problem, "mechanism": Mechanism, "algorithm": Algorithm}
    parts: dict[str, Any] = {role: component for role, kind in roles.items() if isinstance(component, kind)}
    return path_of(**parts), []


def rows_of(component: Any, numbers: range) -> list[dict[str, Any]]:
    """Rows with these numbers at two numbers of users, each of as many replicates as the method takes."""
    simulator, methods = with_others(component)
    users = (STEPS // 2, STEPS) if simulator.horizon is None else (simulator.horizon,)
    cells = tuple(Cell(n, method, 0.9) for n in users for method in methods or [Oracle()])
    runs = cells[0].runs
    replicates = range(numbers.start * runs, numbers.stop * runs)
    record = simulator.run(SEED, replicates, simulator.needs(cells, ()))
    with np.errstate(all="ignore"):
        rows: list[dict[str, Any]] = build_rows(record, cells).to_pylist()
    return rows


def bits(rows: list[dict[str, Any]]) -> str:
    text = [[v.hex() if isinstance(v, float) else repr(v) for v in row.values()] for row in rows]
    return hashlib.sha256(repr(text).encode()).hexdigest()


def digest(component: Any) -> str:
    return bits(rows_of(component, range(8)))


def runs(component: Any) -> str:
    rows = rows_of(component, range(8))
    failed = sum(row["status"] == "diverged" for row in rows)
    if failed:
        raise Wrong(f"{failed} of {len(rows)} rows diverged within {STEPS} users")
    return f"{STEPS} users, 8 replicates"


def lanes_agree(component: Any) -> None:
    """Check that row 5 is equal alone and among many."""
    alone = rows_of(component, range(5, 6))
    among = [row for row in rows_of(component, range(LANES)) if row["replicate"] == 5]
    if bits(alone) != bits(among):
        advice = "; sum by ldpflow.components.intervals.in_order(terms), not by NumPy"
        method = isinstance(component, IntervalMethod)
        raise Wrong(f"a replicate's rows depend on which others run beside it{advice if method else ''}")


def gradients(problem: Problem, mechanism: Mechanism, point: tuple[float, ...]) -> Array:
    """Private gradients of STEPS users in LANES replicates at one point, shape (users, d)."""
    simulator = OnePass(problem, mechanism, Probe(point=point))
    record = run_path(simulator, SEED, range(LANES), list(range(1, STEPS + 1)))
    return np.asarray(record.iterates.transpose(0, 2, 1).reshape(-1, problem.dimension))


def near(sample: Array, what: str) -> str:
    """Test that the means of a sample are 0, at ERROR_RATE over the coordinates."""
    count, d = sample.shape
    mean = sample.mean(axis=0)
    error = sample.std(axis=0, ddof=1) / math.sqrt(count)
    wrong = np.abs(mean) > normal_quantile(1 - ERROR_RATE / (2 * d)) * error + 1e-12
    if wrong.any():
        j = int(np.argmax(np.abs(mean) / np.maximum(error, 1e-300)))
        raise Wrong(f"{what} in coordinate {j}: {mean[j]:.4g} with a standard error of {error[j]:.2g}")
    return f"{count:,} users"


KINDS = ("problem", "law", "mechanism", "algorithm", "method")


def write_component(kind: str, name: str, folder: str = ".") -> list[Path]:
    """Write ``NAME.py`` with a component and ``test_NAME.py`` with its test, which passes as it is.

    Parameters
    ----------
    kind : {"problem", "law", "mechanism", "algorithm", "method"}
    name : str
        Kind in study files: lower-case letters, digits and underscores.
    folder : str

    Raises
    ------
    InputError
        If kind or name cannot be used, or a file is there already.
    """
    from ldpflow.components.problems.quantile import law_names
    from ldpflow.study.plugins import REGISTRIES

    if kind not in KINDS:
        raise InputError("kind", kind, f"one of {', '.join(KINDS)}", closest(kind, KINDS))
    if not re.fullmatch("[a-z][a-z0-9_]{0,49}", name):
        raise InputError("name", name, "a lower-case letter, then letters, digits and underscores")
    if name in REGISTRIES[kind] or (kind == "law" and name in law_names()):
        raise InputError("name", name, "a name of its own", f"There is a {kind} of this name.")
    there = Path(folder)
    code, test = there / f"{name}.py", there / f"test_{name}.py"
    for file in (code, test):
        if file.exists():
            raise InputError("name", name, "a name whose files are not there yet", f"{file} exists.")
    words = {
        "kind": name,
        "Class": "".join(word.capitalize() for word in name.split("_")),
        "file": code.name,
    }
    templates = files("ldpflow.testing") / "templates"
    try:
        there.mkdir(parents=True, exist_ok=True)
        for file, template in ((code, f"{kind}.py.txt"), (test, f"test_{kind}.py.txt")):
            text = (templates / template).read_text(encoding="utf-8")
            file.write_text(text.format(**words), encoding="utf-8")
    except OSError as error:
        raise InputError("folder", folder, "a folder that can be written to", f"{error.strerror}.") from None
    return [code, test]
