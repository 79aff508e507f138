"""Running a component with simple others, and comparing the bits of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ldpflow.algorithms import Algorithm
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.intervals import IntervalMethod
from ldpflow.mechanisms import Mechanism
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems import Problem
from ldpflow.problems.quantile import Quantile
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import rows_of as build_rows

STEPS = 1000
SEED = 20240520


class Wrong(Exception):
    """A check that failed, and what was found."""


def path_of(
    problem: Problem | None = None, mechanism: Mechanism | None = None, algorithm: Algorithm | None = None
) -> Any:
    """A simulator of the component with simple others."""
    simple = problem or Quantile()
    chosen = algorithm or LdpSgd()
    return OnePass(simple, mechanism or NoMechanism(), chosen.resolved(simple, None))


def cells_of(simulator: Any, methods: list[IntervalMethod]) -> tuple[Cell, ...]:
    """Cells at two numbers of users."""
    from ldpflow.intervals.variance import Oracle

    numbers = (STEPS // 2, STEPS) if simulator.horizon is None else (simulator.horizon,)
    return tuple(Cell(n, method, 0.9) for n in numbers for method in methods or [Oracle()])


def rows_of(simulator: Any, numbers: range, methods: list[IntervalMethod]) -> list[dict[str, Any]]:
    """Rows with these numbers, each of as many replicates as the method takes."""
    cells = cells_of(simulator, methods)
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


def digest(simulator: Any, methods: list[IntervalMethod]) -> str:
    """The digest of eight rows."""
    return bits(rows_of(simulator, range(8), methods))


def runs(simulator: Any, methods: Sequence[IntervalMethod] = ()) -> str:
    """The simulator runs and its estimates are finite."""
    rows = rows_of(simulator, range(8), [*methods])
    failed = sum(row["status"] == "diverged" for row in rows)
    if failed:
        raise Wrong(f"{failed} of {len(rows)} rows diverged within {STEPS} users")
    return f"{STEPS} users, 8 replicates"


def lanes_agree(simulator: Any, methods: list[IntervalMethod]) -> None:
    """Row 5 alone is row 5 among many."""
    alone = rows_of(simulator, range(5, 6), methods)
    among = [row for row in rows_of(simulator, range(LANES), methods) if row["replicate"] == 5]
    if bits(alone) != bits(among):
        advice = "; sum in a fixed order: ldpflow.intervals.in_order(terms), not mean, sum or std of NumPy"
        raise Wrong(f"a replicate's rows depend on which others run beside it{advice if methods else ''}")
