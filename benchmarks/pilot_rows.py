"""Time of planning from a pilot: draws from a column's law, and the prediction of arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.sampler_rows import COUNT, filling, ours
from benchmarks.timing import compare, cpu_seconds
from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Law
from ldpflow.numerics.distributions import TABLE_SAMPLERS
from ldpflow.results.arrival import predict_arrivals
from ldpflow.simulators.approach import Approach

PATHS = 2000


def column(times: int) -> Callable[[], object]:
    """Fill an array ``times`` times with draws from the law of a column."""
    values = np.array([NormalDist().inv_cdf((i + 0.5) / 2500) for i in range(2500)])
    return filling(TABLE_SAMPLERS["empirical"], "column", column_law(values).sampling_table(), times)


def pilot_rows(effort: Effort) -> list[Measurement]:
    """Draws from a column's law against normal draws; seconds to predict the arrival of 2,000 paths."""
    times = 20 if effort.quick else 60
    pairs = compare(column(times), times * COUNT, ours("normal", times), times * COUNT, effort.repetitions)
    what = "sampler of a column's law: time over that of a normal"
    labels = ("column_ns_per_draw", "normal_ns_per_draw")
    case = Approach(Law("normal"), 0.9, 0.92, 1.0, 0.51, 0.0, 100_000)
    cases = [replace(case, c=0.1 * 1.003**k) for k in range(PATHS)]
    predict_arrivals(cases[:2])
    seconds = [cpu_seconds(lambda: predict_arrivals(cases)) for _ in range(effort.repetitions)]
    return [
        pairs.row("sampler-empirical", what, "times the time", 1.5, labels),
        Measurement("predictor", f"arrival of {PATHS:,} paths", "CPU seconds", seconds, 1.0, "lower", {}),
    ]
