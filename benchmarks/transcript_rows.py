"""What the running sums of regression on the transcript cost in the kernel."""

from __future__ import annotations

from benchmarks.designs import SEED, huber, quantile, regression
from benchmarks.effort import Effort
from benchmarks.measurement import Measurement
from benchmarks.timing import Pairs, compare
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.one_pass import OnePass, run_path

__all__ = ["transcript_row"]


def with_and_without(
    path: OnePass, steps: int, sums: tuple[str, ...], beside: tuple[str, ...], effort: Effort
) -> Pairs:
    """The kernel that keeps ``sums`` besides others, and the one that keeps those others alone."""
    first = max(1, steps // 100)

    def work(names: tuple[str, ...]) -> object:
        return run_path(path, SEED, range(LANES), [first, steps], [first, steps], names)

    more = tuple(sorted((*beside, *sums)))
    units = steps * LANES
    return compare(lambda: work(more), units, lambda: work(beside), units, effort.repetitions)


def transcript_row(effort: Effort) -> list[Measurement]:
    """Nanoseconds per step and replicate for a scalar; times as long for vectors."""
    rows = []
    cubic, sn = ("transcript_cubic",), ("self_normalization",)
    scalar = {
        "transcript": ("TR, degree 1 or 2", cubic, ()),
        "transcript-sn": ("the same beside SN's sums", cubic, sn),
        "transcript-cubic-fit": ("TR, degree 3", (*cubic, "transcript_quartic"), ()),
    }
    for name, (what, sums, beside) in scalar.items():
        pairs = with_and_without(quantile(), effort.steps, sums, beside, effort)
        added = [1e9 * (a - b) for a, b in zip(pairs.first, pairs.second, strict=True)]
        with_ns, without_ns = pairs.nanoseconds()
        rows.append(
            Measurement(
                name,
                f"quantile, randomised response: sums of {what}, over the kernel without",
                "ns added",
                added,
                1.0,
                "lower",
                {"with_ns_per_step": with_ns, "without_ns_per_step": without_ns},
            )
        )
    linear, quadratic = ("transcript_linear",), ("transcript_quadratic",)
    vectors = {
        "transcript-d4": (
            "quantile regression d = 4, Laplace: sums of degree 1",
            regression(),
            linear,
            4,
        ),
        "transcript-d4-quadratic": ("the same: sums of degree 2", regression(), quadratic, 4),
        "transcript-d10": (
            "Huber regression d = 10, Gaussian: sums of degree 1",
            huber(10),
            linear,
            10,
        ),
    }
    for name, (what, path, sums, d) in vectors.items():
        pairs = with_and_without(path, effort.steps // (2 * d), sums, (), effort)
        with_ns, without_ns = pairs.nanoseconds()
        rows.append(
            Measurement(
                name,
                f"{what}, over the kernel without",
                "times as long",
                pairs.ratios(),
                None,
                "lower",
                {"with_ns_per_step": with_ns, "without_ns_per_step": without_ns},
            )
        )
    return rows
