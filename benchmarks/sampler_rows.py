"""Time to fill an array by our samplers, compared with NumPy's Generator (PCG64) and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.designs import SEED
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import compare
from ldpflow.numerics.kernels import compile_kernel
from ldpflow.numerics.samplers import SAMPLERS
from ldpflow.numerics.specialise import Case
from ldpflow.numerics.streams import LANES, PLANE, lane_states

COUNT = 16 * PLANE  # doubles: they fit into a core's own cache, and one call costs little beside them


def fill(kernel, state, parameter, out, times):
    """Fill an array ``times`` times, plane by plane."""
    for _ in range(times):
        for start in range(0, out.shape[0], PLANE):
            kernel.sampler(state, parameter, out[start : start + PLANE])


def ours(name: str, times: int) -> Callable[[], object]:
    """Work that fills an array ``times`` times with the sampler of a law."""
    return filling(SAMPLERS[name], name, 0.0, times)


def filling(sampler: Any, stream: str, parameter: Any, times: int) -> Callable[[], object]:
    """Work that fills an array ``times`` times with ``sampler``.

    ``parameter`` is the number or the table that the sampler takes.
    """
    kind = "float64[::1]" if isinstance(parameter, np.ndarray) else "float64"
    signature = f"void(uint64[::1], {kind}, float64[::1], int64)"
    function = compile_kernel(fill, Case((("sampler", sampler),)), signature)
    state = lane_states(SEED, "data", stream, range(LANES))
    out = np.empty(COUNT)
    return lambda: function(state, parameter, out, times)


def repeated(fill: Callable[[], object], times: int) -> Callable[[], object]:
    """Work that calls ``fill`` ``times`` times."""

    def work() -> None:
        for _ in range(times):
            fill()

    return work


def rejection(rng: np.random.Generator, out: np.ndarray) -> None:
    """Draw N(0, 1) on [-1, 1] by rejection. A share of 0.683 of the draws is kept."""
    filled = 0
    while filled < len(out):
        draws = rng.standard_normal(int((len(out) - filled) * 1.5) + 64)
        inside = draws[np.abs(draws) <= 1.0][: len(out) - filled]
        out[filled : filled + len(inside)] = inside
        filled += len(inside)


def sampler_rows(effort: Effort) -> list[Measurement]:
    """Rows for each law and each other program."""
    rng = np.random.default_rng(SEED)
    out = np.empty(COUNT)
    truncated = stats.truncnorm(-1.0, 1.0)
    peers: list[tuple[str, str, Callable[[], object]]] = [
        ("uniform", "Generator.random", lambda: rng.random(out=out)),
        ("normal", "Generator.standard_normal", lambda: rng.standard_normal(out=out)),
        ("laplace", "Generator.laplace", lambda: rng.laplace(size=COUNT)),
        ("exponential", "Generator.standard_exponential", lambda: rng.standard_exponential(out=out)),
        ("truncated_normal", "rejection in NumPy", lambda: rejection(rng, out)),
        ("truncated_normal", "scipy.stats.truncnorm", lambda: truncated.rvs(size=COUNT, random_state=rng)),
    ]
    times = 20 if effort.quick else 60
    rows = []
    for name, peer, fill in peers:
        slow = peer.startswith("scipy")
        peer_times = times // 10 if slow else times
        pairs = compare(
            repeated(fill, peer_times),
            peer_times * COUNT,
            ours(name, times),
            times * COUNT,
            effort.repetitions,
        )
        row = f"sampler-{name.replace('_', '-')}" + ("-scipy" if slow else "")
        what = f"sampler {name.replace('_', ' ')}: against {peer}"
        labels = ("peer_ns_per_draw", "ldpflow_ns_per_draw")
        rows.append(pairs.row(row, what, "times faster", 2.5, labels, "higher"))
    return rows
