"""Every interval method on one path, against the three of the paper."""

from __future__ import annotations

from benchmarks.designs import LEVEL, SEED, cells, quantile
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import compare
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.batch import Batch, simulate
from ldpflow.simulators.cell import Cell

__all__ = ["arena_row"]

SETTINGS: tuple[tuple[str, dict[str, object]], ...] = (
    ("oracle", {}),
    ("TRC", {}),
    ("NOL", {}),
    ("NOL", {"quantile": "t"}),
    ("OBM", {}),
    ("EBS", {"block_rule": "half"}),
    ("EBS", {"block_rule": "third"}),
    ("EBS", {"block_rule": "3n^0.75", "quantile": "t"}),
    ("LUG", {"block_rule": "half"}),
    ("LUG", {"base": "BM"}),
    ("BM", {"quantile": "t"}),
    ("SUF", {}),
    ("CHB", {}),
    ("ACS", {"t_opt": 10**4}),
    ("TR", {}),
)


def arena_row(effort: Effort) -> list[Measurement]:
    """A batch of lanes at n = 1e6: all methods of one run, over BB, BM and SN alone."""
    path, n = quantile(), 10**6
    few = tuple(cells(n, "BB", "BM", "SN"))
    more = tuple(Cell(n, INTERVAL_METHODS[kind](**given), LEVEL) for kind, given in SETTINGS)
    whole, paper = Batch(path, SEED, 0, LANES, (*few, *more)), Batch(path, SEED, 0, LANES, few)
    pairs = compare(lambda: simulate(whole), 1, lambda: simulate(paper), 1, effort.sweep_repetitions)
    all_ns, paper_ns = pairs.nanoseconds()
    return [
        Measurement(
            "arena",
            f"n = 1e6: {len(few) + len(more)} methods and settings of one run, over BB, BM and SN",
            "times the time",
            pairs.ratios(),
            1.5,
            "lower",
            {"all_cpu_seconds": all_ns / 1e9, "paper_cpu_seconds": paper_ns / 1e9, "replicates": LANES},
        )
    ]
