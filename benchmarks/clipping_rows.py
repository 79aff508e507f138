"""What adaptive clipping costs: a pass of DP-AMBSSGD over the time to draw its records."""

from __future__ import annotations

from benchmarks.designs import SEED
from benchmarks.effort import Effort
from benchmarks.floor import floor_work
from benchmarks.measurement import Measurement
from benchmarks.timing import compare
from ldpflow.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems.least_squares import LeastSquares
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.one_pass import OnePass, run_path

__all__ = ["clipping_row"]

N, D, STEPS = 100_000, 10, 20


def clipping_row(effort: Effort) -> list[Measurement]:
    """A pass at d = 10, N = 10^5, T = 20: thresholds, clipped gradients and noise included."""
    problem = LeastSquares(d=D, sigma=0.5)
    algorithm = DpAmbssgd(iterations=STEPS).resolved(problem, N)
    path = OnePass(problem, NoMechanism(), algorithm, N)
    pairs = compare(
        lambda: run_path(path, SEED, range(LANES), [STEPS // 2, STEPS]),
        N * LANES,
        *floor_work(path, N),
        effort.repetitions,
    )
    whole, drawing = pairs.nanoseconds()
    return [
        Measurement(
            "adaptive-clipping",
            f"DP-AMBSSGD pass over drawing its records, d = {D}",
            unit="times the time",
            values=pairs.ratios(),
            target=2.0,
            better="lower",
            details={"pass_ns_per_record": whole, "drawing_ns_per_record": drawing},
        )
    ]
