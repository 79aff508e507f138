"""Kernels against naive Numba loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import peers
from benchmarks.designs import GAMMA, SEED, TAU, C, cells, kernel, quantile, regression, times_of
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement, Skipped
from benchmarks.timing import compare
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.one_pass import OnePass

__all__ = ["naive_quantile", "private_bit", "quantile_row", "quantile_sn", "regression_row"]


def naive_quantile(path: OnePass, n: int, generator: str, sn: bool = False) -> Callable[[], object]:
    """One naive replicate of the quantile path as a piece of work."""
    times = times_of(path, cells(n, "BB", "BM"))
    sums = np.empty(len(times))
    p = path.mechanism.keep_probability()  # type: ignore[attr-defined]
    settings = (n, TAU, p, C, GAMMA, path.problem.truth()[0], times, sums)
    if generator == "legacy":
        return lambda: peers.naive_quantile_legacy(SEED, *settings)
    rng = np.random.default_rng(SEED)
    if sn:
        extra = np.empty(2)
        return lambda: peers.naive_quantile_sn_generator(rng, *settings, extra)
    return lambda: peers.naive_quantile_generator(rng, *settings)


def against(
    name: str,
    what: str,
    target: float | None,
    ours: tuple[Callable[[], object], int],
    naive: Callable[[], object],
    naive_steps: int,
    effort: Effort,
) -> Measurement:
    """A row ``times faster than the naive loop``."""
    pairs = compare(naive, naive_steps, *ours, effort.repetitions)
    theirs_ns, ours_ns = pairs.nanoseconds()
    details = {"naive_ns_per_step": theirs_ns, "ldpflow_ns_per_step": ours_ns}
    return Measurement(name, what, "times faster", pairs.ratios(), target, "higher", details)


def naive_steps(effort: Effort) -> int:
    """So many that both contestants run for a similar time."""
    return effort.steps * LANES // 4


def quantile_row(effort: Effort) -> list[Measurement]:
    """The paper's quantile study, users' data sampled, no SN."""
    path = quantile()
    ours = kernel(path, cells(effort.steps, "BB", "BM"))
    n = naive_steps(effort)
    law = "quantile, randomised response, N(0,1), BB+BM, data sampled"
    return [
        against(
            "quantile",
            f"{law}: against naive Numba, Generator",
            6.0,
            ours,
            naive_quantile(path, n, "generator"),
            n,
            effort,
        ),
        against(
            "quantile-np-random",
            f"{law}: against naive Numba, np.random",
            None,
            ours,
            naive_quantile(path, n, "legacy"),
            n,
            effort,
        ),
    ]


def private_bit(effort: Effort) -> list[Measurement]:
    """The private bit sampled directly, against the naive loop that samples users' data."""
    data = quantile()
    if "sampling" not in type(data.mechanism).model_fields:
        raise Skipped("RandomizedResponse has no setting `sampling`")
    path = quantile(sampling="private_bit")
    n = naive_steps(effort)
    return [
        against(
            "private-bit",
            "the same, private bit sampled directly: against naive Numba, Generator",
            9.0,
            kernel(path, cells(effort.steps, "BB", "BM")),
            naive_quantile(data, n, "generator"),
            n,
            effort,
        )
    ]


def quantile_sn(effort: Effort) -> list[Measurement]:
    """With SN's running sums in both."""
    path = quantile()
    n = naive_steps(effort)
    return [
        against(
            "quantile-sn",
            "quantile with SN's running sums: against naive Numba, Generator, same sums",
            5.0,
            kernel(path, cells(effort.steps, "BB", "BM", "SN")),
            naive_quantile(path, n, "generator", sn=True),
            n,
            effort,
        )
    ]


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
    return [
        against(
            "regression",
            "quantile regression d = 4, Laplace, BB+BM: against naive Numba, Generator",
            8.0,
            kernel(path, cells(steps, "BB", "BM")),
            lambda: peers.naive_regression_generator(rng, n, TAU, scale, C, GAMMA, truth, times, sums),
            n,
            effort,
        )
    ]
