"""Running sums along a path that interval methods ask for by name.

S(i) is the sum of the first i iterates, which each path has. Further sums are compiled if a method asks for
them. There are two kinds:

* ``after``: sums over S(i) and i. Their function takes one step: (sums, S(i), i, lane).
* ``transcript``: sums over x = theta_{i-1} - origin and the private gradient A_i, where the origin is
  ``record.centre``. Their function takes TILE steps at once: (sums, tile). A tile is an array of the x and A
  of these steps.

A named sum has ``count(d)`` numbers for each coordinate, flat over (number, coordinate, lane). A tile has x_j
of its t-th step at [(2 D t + j) LANES + lane], and A_j is D LANES places further. A number of a sum is read
and written once for each tile, and loops over lanes vectorise. A tile that ends early is filled with zeros.
Terms are added in the order of the steps, so bits do not depend on where tiles end.

Sums over the transcript start again after each step that is a power of two. Otherwise differences of two sums
could lose their digits: a path may start far from theta*, and then the powers of its first x are larger than
all later ones. A sum over the steps i0 + 1, ..., n is put together from pieces between powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ldpflow.numerics import register_array
from ldpflow.numerics.specialise import KernelPart
from ldpflow.numerics.streams import LANES

PERTURBED = "perturbed_paths"
"""Name by which a method asks for S of the perturbed paths, which ``budget_split`` runs beside its path."""

CUBIC = 11  # numbers of `transcript_cubic`
TILE = 8  # steps in a tile, a power of two


@dataclass(frozen=True)
class RunningSums:
    """Named running sum: its numbers for each coordinate, and the kernel function that adds to them."""

    name: str
    count: Callable[[int], int]
    moment: Literal["transcript", "after"]
    function: Callable[..., None]


def regressors(dimension: int) -> int:
    """Number of monomials of degree 1 and 2 in x_1, ..., x_d."""
    return dimension + dimension * (dimension + 1) // 2


def pieces(first: int, last: int) -> list[int]:
    """Times whose sums over the transcript add up to the sum over the steps first + 1, ..., last.

    These are the powers of two between ``first`` and ``last``, and ``last``. If ``first`` is no power of two,
    the sum at ``first`` must be subtracted.
    """
    powers = [2**k for k in range(first.bit_length(), last.bit_length())]
    return [*(power for power in powers if first < power < last), last]


def quadratic_count(dimension: int) -> int:
    """Numbers of ``transcript_quadratic`` for each of d coordinates, rounded up."""
    d, f = dimension, regressors(dimension)
    return -(-(f + d + d * f + f * (f + 1) // 2 + d * (d + 1) // 2) // d)


def parts(names: Sequence[str], dimension: int) -> dict[str, Any]:
    """Values of a kernel's case that make its recursion keep the named sums, one after the other."""
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
    for s in range(kernel.AFTER_COUNT):
        kernel.after[s](sums[kernel.AFTER_STARTS[s] : kernel.AFTER_ENDS[s]], total, i, lane)


UNROLLED = frozenset({"TILE", "CUBIC", "AFTER_COUNT", "TRANSCRIPT_COUNT"})
"""Constants of :func:`parts` whose loops are written out."""


def accumulate_self_normalization(kernel, sums, total, i, lane):  # type: ignore[no-untyped-def]
    """Sums of i S(i) and S(i)^2 (Liu, Hu, Ding and Kong, 2023)."""
    for j in range(kernel.D):
        s = total[j * LANES + lane]
        sums[j * LANES + lane] += i * s
        sums[(kernel.D + j) * LANES + lane] += s * s


def accumulate_prefix_total(kernel, sums, total, i, lane):  # type: ignore[no-untyped-def]
    for j in range(kernel.D):
        sums[j * LANES + lane] += total[j * LANES + lane]


def accumulate_transcript_cubic(kernel, sums, tile):  # type: ignore[no-untyped-def]
    """Sums of x^k for k = 1, ..., 6, of A x^k for k = 0, ..., 3, and of A^2, for each coordinate."""
    d = kernel.D  # loops over range(kernel.D) would be written out
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
    """Sums of x^7, x^8 and A x^4, for each coordinate."""
    d = kernel.D  # loops over range(kernel.D) would be written out
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

    Number s of coordinate j is the sum of x_j (s = 0), of A_j (s = 1), of A_j x_k (s = 2 + k, k < d), and for
    k <= j of x_j x_k (s = 2 + d + k) and A_j A_k (s = 2 + 2d + k).
    """
    d = kernel.D  # loops over range(kernel.D) would be written out
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

    In this order: f_m for all m, A_j for all j, A_j f_m for each j and all m, f_m f_l for l <= m, and A_j A_k
    for k <= j.
    """
    d = kernel.D  # loops over range(kernel.D) would be written out
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
    """Add the terms of TILE steps to number s. The term of step t is in row ``stride`` t + p of ``first``."""
    for lane in range(LANES):
        total = sums[s * LANES + lane]
        for t in range(kernel.TILE):
            total += first[(stride * t + p) * LANES + lane]
        sums[s * LANES + lane] = total


def add_product(kernel, sums, s, first, p, stride, second, q, step):  # type: ignore[no-untyped-def]
    """Add the products of two rows to number s, see :func:`add_plane`."""
    for lane in range(LANES):
        total = sums[s * LANES + lane]
        for t in range(kernel.TILE):
            total += first[(stride * t + p) * LANES + lane] * second[(step * t + q) * LANES + lane]
        sums[s * LANES + lane] = total


def keep_step(kernel, tile, centre, theta, g, kept, lane):  # type: ignore[no-untyped-def]
    """Put x = theta_{i-1} - origin and A_i into the tile as its step ``kept``."""
    if kernel.TILE_SIZE:
        # kept < TILE. The mask shows the compiler that the index is not negative. A negative index would
        # count from the end, and the loop over the lanes would not be vectorised.
        t = kept & (kernel.TILE - 1)
        for j in range(kernel.D):
            x = theta[j * LANES + lane] - centre[j]
            tile[(2 * kernel.D * t + j) * LANES + lane] = x
            tile[(2 * kernel.D * t + kernel.D + j) * LANES + lane] = g[j * LANES + lane]


def end_step(kernel, sums, tile, kept, ends):  # type: ignore[no-untyped-def]
    """Count a step. Add the tile to the sums if it is full or ``ends``. Returns the steps in the tile."""
    if kernel.TILE_SIZE == 0:
        return 0
    kept += 1
    if kept < kernel.TILE and not ends:
        return kept
    for s in range(2 * kernel.D * LANES * kept, 2 * kernel.D * LANES * kernel.TILE):
        tile[s] = 0.0
    for s in range(kernel.TRANSCRIPT_COUNT):
        kernel.transcript[s](sums[kernel.TRANSCRIPT_STARTS[s] : kernel.TRANSCRIPT_ENDS[s]], tile)
    return 0


def restart(kernel, sums, i, kept):  # type: ignore[no-untyped-def]
    """Set the sums over the transcript to 0 if i is a power of two. Returns the steps in the tile."""
    if kernel.TILE_SIZE and i & (i - 1) == 0:
        for s in range(kernel.TRANSCRIPT_COUNT):
            sums[kernel.TRANSCRIPT_STARTS[s] : kernel.TRANSCRIPT_ENDS[s]] = 0.0
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
