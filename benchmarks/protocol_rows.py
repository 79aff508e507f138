"""CPU time of a cell of a one-shot protocol, and of a comparison of all protocols."""

from __future__ import annotations

from functools import partial
from statistics import median

from benchmarks.designs import LEVEL, SEED
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import cpu_seconds
from ldpflow.components.intervals.counts import Inversion
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.practice.planning.compare import Row, compare_designs
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell

RANGE = (-6.3, 9.7)
USERS = (10**4, 10**6, 10**9)
REPLICATES = 2000


def one_shot_seconds(kind: str, n: int, repetitions: int) -> list[float]:
    """CPU seconds of all rows of one cell with 64 bins, after its kernels are loaded."""
    simulator = Counts(Quantile(tau=0.9), PROTOCOLS[kind](epsilon=1.0, range=RANGE, k=64), n)  # type: ignore[call-arg]
    cells = (Cell(n, Inversion(), LEVEL),)
    simulate(Batch(simulator, SEED, 0, 1, cells))
    batch = Batch(simulator, SEED, 0, REPLICATES, cells)
    return [cpu_seconds(lambda: simulate(batch)) for _ in range(repetitions)]


def plan(tau: float) -> list[Row]:
    """Compare all protocols for one quantile, with the users and budget for a half width of .05."""
    pairs = compare_designs(Quantile(tau=tau).data_law(), [tau], 1.0, 10**5, ends=RANGE, half_width=0.05)
    return [row for row, _ in pairs]


def protocol_rows(effort: Effort) -> list[Measurement]:
    """Rows for the slowest one-shot protocol, and for a comparison with a wanted half width."""
    repetitions = 1 if effort.quick else 5
    kinds = [kind for kind in PROTOCOLS if kind != "rounds"]
    seconds = {
        f"{kind}, n = {n:.0e}": one_shot_seconds(kind, n, repetitions) for kind in kinds for n in USERS
    }
    slowest = max(seconds, key=lambda name: median(seconds[name]))
    planned = [cpu_seconds(partial(plan, tau)) for tau in (0.5, 0.9)]
    return [
        Measurement(
            "one-shot",
            f"a cell of a one-shot protocol, k = 64, {REPLICATES:,} replicates: {slowest}, the slowest",
            "CPU seconds",
            seconds[slowest],
            2.0,
            "lower",
            {name: median(found) for name, found in seconds.items()},
        ),
        Measurement(
            "plan-compare",
            "plan --compare for one (tau, eps, n) with a half width, one core, kernels loaded or compiled",
            "CPU seconds",
            planned,
            30.0,
            "lower",
            {"tau_0.5": planned[0], "tau_0.9": planned[1]},
        ),
    ]
