"""Running sums along a path, in addition to S(t), by name for interval methods.

A recursion compiles only the requested ones. Each has ``count(d)`` numbers per coordinate, kept flat
over (sum, coordinate, lane), and a kernel function: called after every step with (sums, S(i), i, lane),
or, for sums over the transcript, after every TILE steps with (sums, tile).

The tile holds x = theta_{i-1} - origin and the private gradient A_i, with the fixed origin of the path
record. x_j of its t-th step is at [(2 D t + j) LANES + lane], A_j is D planes further. A sum is then read and
written once per tile, and every loop over the lanes is short and vectorises. A tile that ends early is filled
up with zeros, which change no sum. Terms are added in the order of the steps, so no bit depends on where
tiles end.

Sums over the transcript start again after every step that is a power of two. A path may start far from
theta*, and high powers of its first x are larger than all that follow: the difference of two sums from the
first step on would lose its digits. A sum over the steps i0 + 1, ..., n is put together from the pieces
between powers of two (:func:`pieces`), whatever other times are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ldpflow.numerics import register_array
from ldpflow.numerics.specialise import KernelPart
from ldpflow.numerics.streams import LANES

PERTURBED = "perturbed_paths"
"""S of every perturbed path of an algorithm, not a sum along the path itself."""

CUBIC = 11
"""Sums of the cubic fit."""

TILE = 8
"""Steps of the transcript per tile, a power of two."""


@dataclass(frozen=True)
class RunningSums:
    """Running sums, ``count(d)`` per coordinate, and the kernel function that takes a step or a tile."""

    name: str
    count: Callable[[int], int]
    moment: Literal["transcript", "after"]
    function: Callable[..., None]


def regressors(dimension: int) -> int:
    """x_1, ..., x_d and their products: the powers of a quadratic polynomial, but for the constant."""
    return dimension + dimension * (dimension + 1) // 2


def pieces(first: int, last: int) -> list[int]:
    """Times of the sums over the transcript for the steps first + 1, ..., last: powers of two, then ``last``.

    The sum at ``first`` is to be subtracted if ``first`` is no power of two.
    """
    powers = [2**k for k in range(first.bit_length(), last.bit_length())]
    return [*(power for power in powers if first < power < last), last]


def quadratic_count(dimension: int) -> int:
    """Sums of ``transcript_quadratic``, spread over the coordinates."""
    d, f = dimension, regressors(dimension)
    return -(-(f + d + d * f + f * (f + 1) // 2 + d * (d + 1) // 2) // d)


def parts(names: Sequence[str], dimension: int) -> dict[str, Any]:
    """Values of a recursion's case that make it keep these sums, one after the other."""
    groups: dict[str, list[tuple[int, int, KernelPart]]] = {"transcript": [], "after": []}
    start = 0
    for name in names:
        needed = RUNNING_SUMS[name]
        end = start + needed.count(dimension) * dimension * LANES
        groups[needed.moment].append((start, end, KernelPart(needed.function, inlining="inlined")))
        start = end
    values: dict[str, Any] = {"SUMS": start}
    for moment, group in groups.items():
        values |= {
            moment: tuple(part for _, _, part in group),
            f"{moment.upper()}_STARTS": tuple(first for first, _, _ in group),
            f"{moment.upper()}_ENDS": tuple(last for _, last, _ in group),
            f"{moment.upper()}_COUNT": len(group),
        }
    return values | {
        "TILE": TILE,
        "TILE_SIZE": 2 * dimension * TILE * LANES if groups["transcript"] else 0,
        "REGRESSORS": regressors(dimension),
        "CUBIC": CUBIC,
        "after_step": KernelPart(after_step, inlining="inlined"),
        "keep_step": KernelPart(keep_step, inlining="written"),
        "end_step": KernelPart(end_step, inlining="inlined"),
        "restart": KernelPart(restart, inlining="inlined"),
    }


def after_step(kernel, sums, total, i, lane):  # type: ignore[no-untyped-def]
    """Running sums of one lane that need S(i) and i."""
    for s in range(kernel.AFTER_COUNT):
        kernel.after[s](sums[kernel.AFTER_STARTS[s] : kernel.AFTER_ENDS[s]], total, i, lane)


def accumulate(kernel, sums, tile):  # type: ignore[no-untyped-def]
    """Add a full tile to all sums over the transcript."""
    for s in range(kernel.TRANSCRIPT_COUNT):
        kernel.transcript[s](sums[kernel.TRANSCRIPT_STARTS[s] : kernel.TRANSCRIPT_ENDS[s]], tile)


def clear(kernel, sums):  # type: ignore[no-untyped-def]
    """Set all sums over the transcript to 0."""
    for s in range(kernel.TRANSCRIPT_COUNT):
        sums[kernel.TRANSCRIPT_STARTS[s] : kernel.TRANSCRIPT_ENDS[s]] = 0.0


UNROLLED = frozenset({"TILE", "CUBIC", "AFTER_COUNT", "TRANSCRIPT_COUNT"})
"""Constants of :func:`parts` whose loops are written out."""


def accumulate_self_normalization(kernel, sums, total, i, lane):  # type: ignore[no-untyped-def]
    """sum_i i S(i) and sum_i S(i)^2 (Liu, Hu, Ding and Kong, 2023)."""
    for j in range(kernel.D):
        s = total[j * LANES + lane]
        sums[j * LANES + lane] += i * s
        sums[(kernel.D + j) * LANES + lane] += s * s


def accumulate_prefix_total(kernel, sums, total, i, lane):  # type: ignore[no-untyped-def]
    """sum_i S(i): overlapping blocks need no restart with it (ldpflow.components.intervals.variance)."""
    for j in range(kernel.D):
        sums[j * LANES + lane] += total[j * LANES + lane]


def accumulate_transcript_cubic(kernel, sums, tile):  # type: ignore[no-untyped-def]
    """Sums for the least squares of A on 1, x, x^2, x^3, by coordinate.

    sum x^k for k = 1..6, sum A x^k for k = 0..3, sum A^2.
    """
    d = kernel.D  # names of their own: loops over them are not written out here
    steps = kernel.TILE
    s = register_array(kernel.CUBIC)
    for j in range(d):
        for lane in range(LANES):
            at = j * LANES + lane
            for k in range(kernel.CUBIC):
                s[k] = sums[k * d * LANES + at]
            for t in range(steps):
                x = tile[2 * d * t * LANES + at]
                a = tile[(2 * d * t + d) * LANES + at]
                x2 = x * x
                x3 = x2 * x
                s[0] += x
                s[1] += x2
                s[2] += x3
                s[3] += x2 * x2
                s[4] += x3 * x2
                s[5] += x3 * x3
                s[6] += a
                s[7] += a * x
                s[8] += a * x2
                s[9] += a * x3
                s[10] += a * a
            for k in range(kernel.CUBIC):
                sums[k * d * LANES + at] = s[k]


def accumulate_transcript_quartic(kernel, sums, tile):  # type: ignore[no-untyped-def]
    """Sums for x^4 beyond those of the cubic: sum x^7, sum x^8, sum A x^4."""
    d = kernel.D  # names of their own: loops over them are not written out here
    steps = kernel.TILE
    for j in range(d):
        for lane in range(LANES):
            at = j * LANES + lane
            s0 = sums[at]
            s1 = sums[d * LANES + at]
            s2 = sums[2 * d * LANES + at]
            for t in range(steps):
                x = tile[2 * d * t * LANES + at]
                x2 = x * x
                x4 = x2 * x2
                s0 += x4 * (x2 * x)
                s1 += x4 * x4
                s2 += tile[(2 * d * t + d) * LANES + at] * x4
            sums[at] = s0
            sums[d * LANES + at] = s1
            sums[2 * d * LANES + at] = s2


def accumulate_transcript_linear(kernel, sums, tile):  # type: ignore[no-untyped-def]
    """Sums for the least squares of the vector A on 1, x_1, ..., x_d.

    Sums s of coordinate j: sum x_j at s = 0, sum A_j at 1, and for k = 0..d-1 sum A_j x_k at 2 + k,
    then, for k <= j only, sum x_j x_k at 2 + d + k and sum A_j A_k at 2 + 2d + k.
    """
    d = kernel.D  # a name of its own: loops over it are not written out
    for j in range(d):
        add_plane(kernel, sums, j, tile, j, 2 * d)
        add_plane(kernel, sums, d + j, tile, d + j, 2 * d)
        for k in range(d):
            add_product(kernel, sums, (2 + k) * d + j, tile, d + j, 2 * d, tile, k, 2 * d)
        for k in range(j + 1):
            add_product(kernel, sums, (2 + d + k) * d + j, tile, j, 2 * d, tile, k, 2 * d)
            add_product(kernel, sums, (2 + 2 * d + k) * d + j, tile, d + j, 2 * d, tile, d + k, 2 * d)


def accumulate_transcript_quadratic(kernel, sums, tile):  # type: ignore[no-untyped-def]
    """Sums for the least squares of the vector A on f = (x_1, ..., x_d, x_1 x_1, x_2 x_1, x_2 x_2, ...).

    One after the other: sum f_m; sum A_j; sum A_j f_m, by j; sum f_m f_l, l <= m; sum A_j A_k, k <= j.
    """
    d = kernel.D  # names of their own: loops over them are not written out
    count = kernel.REGRESSORS
    f = register_array(kernel.TILE * kernel.REGRESSORS * LANES)
    for lane in range(LANES):
        for t in range(kernel.TILE):
            for k in range(d):
                f[(count * t + k) * LANES + lane] = tile[(2 * d * t + k) * LANES + lane]
    m = d
    for k in range(d):
        for h in range(k + 1):
            for lane in range(LANES):
                for t in range(kernel.TILE):
                    f[(count * t + m) * LANES + lane] = (
                        tile[(2 * d * t + k) * LANES + lane] * tile[(2 * d * t + h) * LANES + lane]
                    )
            m += 1
    s = 0
    for m in range(count):
        add_plane(kernel, sums, s, f, m, count)
        s += 1
    for j in range(d):
        add_plane(kernel, sums, s, tile, d + j, 2 * d)
        s += 1
    for j in range(d):
        for m in range(count):
            add_product(kernel, sums, s, tile, d + j, 2 * d, f, m, count)
            s += 1
    for m in range(count):
        for h in range(m + 1):
            add_product(kernel, sums, s, f, m, count, f, h, count)
            s += 1
    for j in range(d):
        for k in range(j + 1):
            add_product(kernel, sums, s, tile, d + j, 2 * d, tile, d + k, 2 * d)
            s += 1


def add_plane(kernel, sums, s, first, p, stride):  # type: ignore[no-untyped-def]
    """The s-th sum takes the p-th of every ``stride`` planes, step by step."""
    for lane in range(LANES):
        total = sums[s * LANES + lane]
        for t in range(kernel.TILE):
            total += first[(stride * t + p) * LANES + lane]
        sums[s * LANES + lane] = total


def add_product(kernel, sums, s, first, p, stride, second, q, step):  # type: ignore[no-untyped-def]
    """The s-th sum takes the products of two planes, step by step."""
    for lane in range(LANES):
        total = sums[s * LANES + lane]
        for t in range(kernel.TILE):
            total += first[(stride * t + p) * LANES + lane] * second[(step * t + q) * LANES + lane]
        sums[s * LANES + lane] = total


def keep_step(kernel, tile, centre, theta, g, kept, lane):  # type: ignore[no-untyped-def]
    """Put x = theta_{i-1} - origin and A_i into the tile, as its step ``kept``."""
    if kernel.TILE_SIZE:
        # The mask changes nothing but what the compiler knows: an index that might be negative would
        # count from the end, and the loop over the lanes would not be vectorised.
        t = kept & (kernel.TILE - 1)
        for j in range(kernel.D):
            x = theta[j * LANES + lane] - centre[j]
            tile[(2 * kernel.D * t + j) * LANES + lane] = x
            tile[(2 * kernel.D * t + kernel.D + j) * LANES + lane] = g[j * LANES + lane]


def end_step(kernel, sums, tile, kept, ends):  # type: ignore[no-untyped-def]
    """Count the step, and add a tile that is full or ``ends``. Returns the steps in the tile."""
    if kernel.TILE_SIZE == 0:
        return 0
    kept += 1
    if kept < kernel.TILE and not ends:
        return kept
    for s in range(2 * kernel.D * LANES * kept, 2 * kernel.D * LANES * kernel.TILE):
        tile[s] = 0.0
    accumulate(kernel, sums, tile)
    return 0


def restart(kernel, sums, i, kept):  # type: ignore[no-untyped-def]
    """Restart sums over the transcript after a power of two. Returns the steps in the tile."""
    if kernel.TILE_SIZE and i & (i - 1) == 0:
        clear(kernel, sums)
        return 0
    return kept


RUNNING_SUMS = {
    sums.name: sums
    for sums in (
        RunningSums("self_normalization", lambda d: 2, "after", accumulate_self_normalization),
        RunningSums("prefix_total", lambda d: 1, "after", accumulate_prefix_total),
        RunningSums("transcript_cubic", lambda d: CUBIC, "transcript", accumulate_transcript_cubic),
        RunningSums("transcript_quartic", lambda d: 3, "transcript", accumulate_transcript_quartic),
        RunningSums("transcript_linear", lambda d: 2 + 3 * d, "transcript", accumulate_transcript_linear),
        RunningSums("transcript_quadratic", quadratic_count, "transcript", accumulate_transcript_quadratic),
    )
}
