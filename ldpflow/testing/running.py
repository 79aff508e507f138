"""Running a component with simple others: rows and their bits, and simulated gradients."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import Algorithm
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.constants import normal_quantile
from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.counts import Fieller, Inversion
from ldpflow.intervals.variance import Oracle
from ldpflow.mechanisms import Mechanism
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems import Problem
from ldpflow.problems.data_law import DataLaw
from ldpflow.problems.quantile import Quantile
from ldpflow.protocols import Protocol
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.rows import rows_of as build_rows
from ldpflow.testing.probe import Probe

Array = NDArray[np.float64]

STEPS = 1000
SEED = 20240520
ERROR_RATE = 1e-4


class Wrong(Exception):
    """A check that failed, and what was found."""


def path_of(
    problem: Problem | None = None, mechanism: Mechanism | None = None, algorithm: Algorithm | None = None
) -> Any:
    """A simulator of the component with simple others."""
    simple = problem or Quantile()
    chosen = algorithm or LdpSgd()
    return OnePass(simple, mechanism or NoMechanism(), chosen.resolved(simple, None))


def quantile_of(law: DataLaw, tau: float = 0.5) -> Quantile:
    """The problem of a quantile of the law."""
    return Quantile(tau=tau, law=law.kind, shape=getattr(law, "shape", None))


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
    """A digest of rows, every bit of a float included."""
    text = [[v.hex() if isinstance(v, float) else repr(v) for v in row.values()] for row in rows]
    return hashlib.sha256(repr(text).encode()).hexdigest()


def digest(component: Any) -> str:
    """The digest of eight rows."""
    return bits(rows_of(component, range(8)))


def runs(component: Any) -> str:
    """The simulator runs and its estimates are finite."""
    rows = rows_of(component, range(8))
    failed = sum(row["status"] == "diverged" for row in rows)
    if failed:
        raise Wrong(f"{failed} of {len(rows)} rows diverged within {STEPS} users")
    return f"{STEPS} users, 8 replicates"


def lanes_agree(component: Any) -> None:
    """Row 5 alone is row 5 among many."""
    alone = rows_of(component, range(5, 6))
    among = [row for row in rows_of(component, range(LANES)) if row["replicate"] == 5]
    if bits(alone) != bits(among):
        advice = "; sum in a fixed order: ldpflow.intervals.in_order(terms), not mean, sum or std of NumPy"
        method = isinstance(component, IntervalMethod)
        raise Wrong(f"a replicate's rows depend on which others run beside it{advice if method else ''}")


def gradients(problem: Problem, mechanism: Mechanism, point: tuple[float, ...]) -> Array:
    """Private gradients of STEPS users in LANES replicates at one point, shape (users, d)."""
    simulator = OnePass(problem, mechanism, Probe(point=point))
    record = run_path(simulator, SEED, range(LANES), list(range(1, STEPS + 1)))
    return np.asarray(record.iterates.transpose(0, 2, 1).reshape(-1, problem.dimension))


def near(sample: Array, what: str) -> str:
    """Whether means of a sample are 0 within what chance explains, at ERROR_RATE over the coordinates."""
    count, d = sample.shape
    mean = sample.mean(axis=0)
    error = sample.std(axis=0, ddof=1) / math.sqrt(count)
    wrong = np.abs(mean) > normal_quantile(1 - ERROR_RATE / (2 * d)) * error + 1e-12
    if wrong.any():
        j = int(np.argmax(np.abs(mean) / np.maximum(error, 1e-300)))
        raise Wrong(f"{what} in coordinate {j}: {mean[j]:.4g} with a standard error of {error[j]:.2g}")
    return f"{count:,} users"
