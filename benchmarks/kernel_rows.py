"""Time of kernels compared with naive Numba loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import peers
from benchmarks.designs import GAMMA, SEED, TAU, C, cells, kernel, quantile, regression, times_of
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import compare
from ldpflow.numerics.elementary import jit
from ldpflow.numerics.samplers import fill_uniform_32
from ldpflow.numerics.streams import CHUNK, LANES, PLANE, lane_states
from ldpflow.simulators.one_pass import OnePass

Piece = tuple[Callable[[], object], int]
"""Callable that does the work, and its number of steps times replicates."""


def naive_quantile(path: OnePass, n: int, numbers: str, sn: bool = False) -> Piece:
    """Work of one naive replicate of the quantile path."""
    times = times_of(path, cells(n, "BB", "BM"))
    sums = np.empty(len(times))
    p = 1.0 / (1.0 + np.exp(-path.mechanism.epsilon))  # type: ignore[attr-defined]
    settings = (n, TAU, p, C, GAMMA, path.problem.truth()[0], times, sums)
    if numbers == "np.random":
        return lambda: peers.naive_quantile_legacy(SEED, *settings), n
    rng = np.random.default_rng(SEED)
    if sn:
        extra = np.empty(2)
        return lambda: peers.naive_quantile_sn_generator(rng, *settings, extra), n
    return lambda: peers.naive_quantile_generator(rng, *settings), n


def against(
    name: str, what: str, target: float | None, ours: Piece, naive: Piece, effort: Effort
) -> Measurement:
    """Row with the naive loop's time over the kernel's."""
    labels = ("naive_ns_per_step", "ldpflow_ns_per_step")
    return compare(*naive, *ours, effort.repetitions).row(
        name, what, "times faster", target, labels, "higher"
    )


def naive_steps(effort: Effort) -> int:
    """Number of steps for which the naive loop takes about as long as the kernel."""
    return effort.steps * LANES // 4


def quantile_row(effort: Effort) -> list[Measurement]:
    """The quantile problem of Dette and Graw, with sampled data and without SN."""
    path, n = quantile(), naive_steps(effort)
    ours = kernel(path, cells(effort.steps, "BB", "BM"))
    law = "quantile, randomised response, N(0,1), BB+BM, data sampled"
    rows = []
    for name, numbers, target in (("quantile", "Generator", 6.0), ("quantile-np-random", "np.random", None)):
        naive = naive_quantile(path, n, numbers)
        what = f"{law}: against naive Numba, {numbers}"
        rows.append(against(name, what, target, ours, naive, effort))
    return rows


def private_bit(effort: Effort) -> list[Measurement]:
    """The kernels that draw private bits: over the naive loop, the data kernel and their uniforms."""
    data, n = quantile(), naive_steps(effort)
    wanted = cells(effort.steps, "BB", "BM")
    ours, naive = kernel(quantile(sampling="private_bit"), wanted), naive_quantile(data, n, "Generator")
    what = "the same, private bit sampled directly: against naive Numba, Generator"
    rows = [against("private-bit", what, 9.0, ours, naive, effort)]
    labels = ("kernel_ns_per_step", "against_ns_per_step")
    for sampling in ("private_bit_32", "private_bit"):
        name = f"{sampling.replace('_', '-')}-over-data"
        what = f"kernel of {sampling} / kernel of data, quantile, BB+BM"
        pairs = compare(
            *kernel(quantile(sampling=sampling), wanted), *kernel(data, wanted), effort.repetitions
        )
        rows.append(pairs.row(name, what, "times the data kernel", 0.6, labels))
    path = quantile(sampling="private_bit_32")
    state = lane_states(SEED, "mechanism", path.key, range(LANES))
    planes = effort.steps // CHUNK
    uniforms = lambda: draw_uniforms(state, np.empty(PLANE), planes)  # noqa: E731
    what = "kernel of private_bit_32 / filling planes with its uniforms, one of 32 bits per step"
    pairs = compare(*kernel(path, wanted), uniforms, planes * PLANE, effort.repetitions)
    rows.append(pairs.row("private-bit-32-over-uniforms", what, "times the uniforms", 1.6, labels))
    return rows


@jit
def draw_uniforms(state, plane, planes):
    """Fill a plane with uniforms of 32 bits, ``planes`` times."""
    for _ in range(planes):
        fill_uniform_32(state, 0.0, plane)


def quantile_sn(effort: Effort) -> list[Measurement]:
    """The quantile problem with the running sums of SN, in the kernel and in the naive loop."""
    path, n = quantile(), naive_steps(effort)
    ours = kernel(path, cells(effort.steps, "BB", "BM", "SN"))
    naive = naive_quantile(path, n, "Generator", sn=True)
    what = "quantile with SN's running sums: against naive Numba, Generator, same sums"
    return [against("quantile-sn", what, 5.0, ours, naive, effort)]


def regression_row(effort: Effort) -> list[Measurement]:
    """Quantile regression d = 4 under Laplace noise."""
    path = regression()
    steps = effort.steps // 4
    n = steps * LANES // 4
    times = times_of(path, cells(n, "BB", "BM"))
    truth = np.array(path.problem.truth())
    sums = np.empty((len(times), len(truth)))
    rng = np.random.default_rng(SEED)
    scale = path.mechanism.scale(path.problem)  # type: ignore[attr-defined]

    def naive() -> None:
        peers.naive_regression_generator(rng, n, TAU, scale, C, GAMMA, truth, times, sums)

    ours = kernel(path, cells(steps, "BB", "BM"))
    what = "quantile regression d = 4, Laplace, BB+BM: against naive Numba, Generator"
    return [against("regression", what, 8.0, ours, (naive, n), effort)]
