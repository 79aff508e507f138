"""Time of a batch with many cells over one cell, of the bootstrap, and of BB over its path."""

from __future__ import annotations

from itertools import count

import numpy as np

from benchmarks.designs import LEVEL, SEED, cells, quantile, regression
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import compare, cpu_seconds
from ldpflow.components.intervals.bootstrap import BlockBootstrap
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell

GRID_N = (10**5, 10**6, 10**7)
GRID_BETA = (0.55, 0.65, 0.75, 0.85, 0.95)


def sweep_row(effort: Effort) -> list[Measurement]:
    """A batch with three n, five beta and three methods, over a batch with one n and SN."""
    path = quantile()
    grid = tuple(
        cell
        for n in GRID_N
        for cell in (
            *(Cell(n, BlockBootstrap(beta=beta), LEVEL) for beta in GRID_BETA),
            *cells(n, "BM", "SN"),
        )
    )
    everything = Batch(path, SEED, 0, LANES, grid)
    single = Batch(path, SEED, 0, LANES, tuple(cells(GRID_N[-1], "SN")))
    pairs = compare(lambda: simulate(everything), 1, lambda: simulate(single), 1, effort.sweep_repetitions)
    what = "n = 1e5, 1e6, 1e7 x 5 beta x BB, BM, SN: against one path to 1e7 with SN"
    labels = ("sweep_cpu_seconds", "path_cpu_seconds")
    details = {"cells": len(grid), "replicates": LANES, "beta": list(GRID_BETA)}
    return [pairs.row("sweep", what, "times the time", 1.15, labels, scale=1.0, **details)]


def bootstrap_microseconds(path: OnePass, repetitions: int) -> list[float]:
    """Microseconds of one BB interval, per replicate and coordinate: draws, sums, sort and quantiles."""
    # Blocks have floor(n^beta) = 100 steps, and there are 100 blocks.
    n = 10**4
    method = BlockBootstrap(beta=0.5, B=500)
    times = method.times(n, path.algorithm)
    assert method.blocks(n) == (100, 100)
    record = run_path(path, SEED, range(LANES), times.tolist())
    method.intervals(record, n, [LEVEL])
    calls = 10
    units = calls * LANES * path.problem.dimension

    def work() -> None:
        for _ in range(calls):
            method.intervals(record, n, [LEVEL])

    return [1e6 * cpu_seconds(work) / units for _ in range(repetitions)]


def bootstrap_row(effort: Effort) -> list[Measurement]:
    """Row for one BB interval with 500 bootstrap samples of 100 blocks."""
    scalar = bootstrap_microseconds(quantile(), effort.repetitions)
    vector = bootstrap_microseconds(regression(), effort.repetitions)
    return [
        Measurement(
            "bootstrap",
            "bootstrap, 500 multipliers x 100 blocks, per replicate and coordinate, d = 1",
            "microseconds",
            scalar,
            35.0,
            "lower",
            {"microseconds_d4": float(np.median(vector))},
        )
    ]


def bootstrap_share(path: OnePass, n: int, batches: int) -> list[float]:
    """CPU time of BB's intervals over that of their path, per batch. Each batch has new replicates."""
    method = BlockBootstrap()
    request = path.needs(cells(n, "BB"))
    firsts = count(0, LANES)
    records = []

    def run() -> None:
        first = next(firsts)
        records.append(path.run(SEED, range(first, first + LANES), request))

    def intervals() -> None:
        method.intervals(records.pop(), n, [LEVEL])

    shares = []
    for _ in range(batches + 1):
        path_seconds = cpu_seconds(run)
        shares.append(cpu_seconds(intervals) / path_seconds)
    return shares[1:]


def bootstrap_share_row(effort: Effort) -> list[Measurement]:
    """Rows for BB with its default settings, over the path of its intervals."""
    return [
        Measurement(
            "bootstrap-share",
            f"BB's intervals over their path, a batch of lanes, n = {n:,}",
            "times the path's time",
            bootstrap_share(quantile(), n, 5 * effort.repetitions),
            1 / 3,
            "lower",
        )
        for n in (10**4, 10**5)
    ]
