"""What the noise tree costs: a step of DP-NSGD against a plain step of the same kernel."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.designs import SEED
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import compare
from ldpflow.algorithms.dp_nsgd import DpNsgd
from ldpflow.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.finite_sum import draw_records, run_erm

__all__ = ["momentum_row"]

N, EPOCHS, D = 1000, 20, 20


def momentum_row(effort: Effort) -> list[Measurement]:
    """Algorithm 1 at d = 20, N = 1000, reshuffled, over its non-private self."""
    problem = NonconvexLogistic(d=D)
    records = draw_records(problem, SEED, N, range(LANES))

    def work(noise: str) -> Callable[[], object]:
        algorithm = DpNsgd.model_validate({"noise": noise, "epochs": EPOCHS})
        plan = algorithm.plan(problem, N)
        lanes = range(LANES)
        return lambda: run_erm(problem, algorithm, plan, records, SEED, "row", lanes, [plan.steps])

    units = float(N * EPOCHS * LANES)
    pairs = compare(work("tree"), units, work("none"), units, effort.repetitions)
    private, plain = pairs.nanoseconds()
    return [
        Measurement(
            "momentum",
            "DP-NSGD step over a non-private NSGD step, d = 20",
            unit="times the time",
            values=pairs.ratios(),
            target=2.5,
            better="lower",
            details={"private_ns": private, "plain_ns": plain},
        )
    ]
