"""Running sums along a path, beyond S(t), that an interval method may ask for by name.

They are compiled into a recursion only then. Each has ``count(d)`` numbers per coordinate, kept flat
over (sum, coordinate, lane), and a kernel function: called after every step with (sums, S(i), i, lane),
or, for sums over the transcript, after every TILE steps with (sums, tile).

The tile holds x = theta_{i-1} - origin and the private gradient A_i, the origin being that of the path
record, fixed beforehand: [(2 D t + j) LANES + lane] is x_j in its t-th step, D planes further is A_j. A
sum is then read and written once per tile, and every loop over the lanes is short and vectorises. Where a
tile ends early it is filled up with zeros, which leave every sum as it is: terms are added one by one in
the order of the steps, and no bit depends on where tiles end.

Sums over the transcript start again after every step that is a power of two. A path may start far from
theta*, and high powers of its first x are larger than all that follow: a sum from the first step on, less
that at i0, would have lost its digits. What is asked for over steps i0 + 1, ..., n is put together of the
pieces between powers of two (:func:`pieces`), whatever other times are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ldpflow.random.lockstep import LANES

if TYPE_CHECKING:  # supplied by the kernel that the sums become part of
    from ldpflow.kernel_parts import (
        PAIRS,
        PRODUCTS,
        TILE_SIZE,
        D,
        accumulate,
        clear,
        register_array,
    )

__all__ = ["PERTURBED", "RUNNING_SUMS", "TILE", "RunningSums", "pieces", "regressors"]

PERTURBED = "perturbed_paths"
"""S of every perturbed path of an algorithm that has some: no sum along the path itself."""

TILE = 8
"""Steps of the transcript that are summed up together; a power of two."""


@dataclass(frozen=True)
class RunningSums:
    """What a kernel has to accumulate under one name.

    Parameters
    ----------
    name : str
    count : callable
        Sums per coordinate, by the dimension d.
    moment : str
        After the step, or over the transcript.
    function : str
        Its name in this module.
    """

    name: str
    count: Callable[[int], int]
    moment: Literal["transcript", "after"]
    function: str


def regressors(dimension: int) -> int:
    """x_1, ..., x_d and their products: the powers of a quadratic polynomial, but for the constant."""
    return dimension + dimension * (dimension + 1) // 2


def pieces(first: int, last: int) -> list[int]:
    """Where sums over the transcript are taken for the steps first + 1, ..., last.

    The powers of two between the two, then ``last``; what was summed up at ``first`` is to be subtracted
    unless ``first`` is a power of two.
    """
    powers = [2**k for k in range(first.bit_length(), last.bit_length())]
    return [*(power for power in powers if first < power < last), last]


def quadratic_count(dimension: int) -> int:
    """Sums of ``transcript_quadratic``, spread over the coordinates."""
    d, f = dimension, regressors(dimension)
    return -(-(f + d + d * f + f * (f + 1) // 2 + d * (d + 1) // 2) // d)


RUNNING_SUMS = {
    sums.name: sums
    for sums in (
        RunningSums("self_normalization", lambda d: 2, "after", "accumulate_self_normalization"),
        RunningSums("transcript_cubic", lambda d: 11, "transcript", "accumulate_transcript_cubic"),
        RunningSums("transcript_quartic", lambda d: 3, "transcript", "accumulate_transcript_quartic"),
        RunningSums("transcript_linear", lambda d: 2 + 3 * d, "transcript", "accumulate_transcript_linear"),
        RunningSums("transcript_quadratic", quadratic_count, "transcript", "accumulate_transcript_quadratic"),
    )
}


def accumulate_self_normalization(sums, total, i, lane):  # type: ignore[no-untyped-def]
    """sum_i i S(i) and sum_i S(i)^2 (Liu, Hu, Ding and Kong, 2023)."""
    for j in range(D):
        s = total[j * LANES + lane]
        sums[j * LANES + lane] += i * s
        sums[(D + j) * LANES + lane] += s * s


def accumulate_transcript_cubic(sums, tile):  # type: ignore[no-untyped-def]
    """What least squares of A on 1, x, x^2, x^3 needs, by coordinate.

    sum x^k for k = 1..6, sum A x^k for k = 0..3, sum A^2.
    """
    for j in range(D):
        for lane in range(LANES):
            at = j * LANES + lane
            s0 = sums[at]
            s1 = sums[D * LANES + at]
            s2 = sums[2 * D * LANES + at]
            s3 = sums[3 * D * LANES + at]
            s4 = sums[4 * D * LANES + at]
            s5 = sums[5 * D * LANES + at]
            s6 = sums[6 * D * LANES + at]
            s7 = sums[7 * D * LANES + at]
            s8 = sums[8 * D * LANES + at]
            s9 = sums[9 * D * LANES + at]
            s10 = sums[10 * D * LANES + at]
            for t in range(TILE):
                x = tile[2 * D * t * LANES + at]
                a = tile[(2 * D * t + D) * LANES + at]
                x2 = x * x
                x3 = x2 * x
                s0 += x
                s1 += x2
                s2 += x3
                s3 += x2 * x2
                s4 += x3 * x2
                s5 += x3 * x3
                s6 += a
                s7 += a * x
                s8 += a * x2
                s9 += a * x3
                s10 += a * a
            sums[at] = s0
            sums[D * LANES + at] = s1
            sums[2 * D * LANES + at] = s2
            sums[3 * D * LANES + at] = s3
            sums[4 * D * LANES + at] = s4
            sums[5 * D * LANES + at] = s5
            sums[6 * D * LANES + at] = s6
            sums[7 * D * LANES + at] = s7
            sums[8 * D * LANES + at] = s8
            sums[9 * D * LANES + at] = s9
            sums[10 * D * LANES + at] = s10


def accumulate_transcript_quartic(sums, tile):  # type: ignore[no-untyped-def]
    """What x^4 needs beyond the cubic: sum x^7, sum x^8, sum A x^4."""
    for j in range(D):
        for lane in range(LANES):
            at = j * LANES + lane
            s0 = sums[at]
            s1 = sums[D * LANES + at]
            s2 = sums[2 * D * LANES + at]
            for t in range(TILE):
                x = tile[2 * D * t * LANES + at]
                x2 = x * x
                x4 = x2 * x2
                s0 += x4 * (x2 * x)
                s1 += x4 * x4
                s2 += tile[(2 * D * t + D) * LANES + at] * x4
            sums[at] = s0
            sums[D * LANES + at] = s1
            sums[2 * D * LANES + at] = s2


def accumulate_transcript_linear(sums, tile):  # type: ignore[no-untyped-def]
    """What least squares of the vector A on 1, x_1, ..., x_d needs.

    Sums s of coordinate j: sum x_j at s = 0, sum A_j at 1, and for k = 0..d-1 sum A_j x_k at 2 + k,
    then, for k <= j only, sum x_j x_k at 2 + d + k and sum A_j A_k at 2 + 2d + k.
    """
    for j in range(D):
        add_plane(sums, j, tile, j, 2 * D)
        add_plane(sums, D + j, tile, D + j, 2 * D)
        for k in range(D):
            add_product(sums, (2 + k) * D + j, tile, D + j, 2 * D, tile, k, 2 * D)
        for k in range(j + 1):
            add_product(sums, (2 + D + k) * D + j, tile, j, 2 * D, tile, k, 2 * D)
            add_product(sums, (2 + 2 * D + k) * D + j, tile, D + j, 2 * D, tile, D + k, 2 * D)


def accumulate_transcript_quadratic(sums, tile):  # type: ignore[no-untyped-def]
    """What least squares of the vector A on f = (x_1, ..., x_d, x_1 x_1, x_2 x_1, x_2 x_2, ...) needs.

    One after the other: sum f_m; sum A_j; sum A_j f_m, by j; sum f_m f_l, l <= m; sum A_j A_k, k <= j.
    """
    products = register_array(PRODUCTS)
    m = 0
    for k in range(D):
        for h in range(k + 1):
            for lane in range(LANES):
                for t in range(TILE):
                    products[(PAIRS * t + m) * LANES + lane] = (
                        tile[(2 * D * t + k) * LANES + lane] * tile[(2 * D * t + h) * LANES + lane]
                    )
            m += 1
    # As blocks, so that no loop has to ask which of the two kinds a regressor is of.
    s = 0
    for k in range(D):
        add_plane(sums, s, tile, k, 2 * D)
        s += 1
    for m in range(PAIRS):
        add_plane(sums, s, products, m, PAIRS)
        s += 1
    for j in range(D):
        add_plane(sums, s, tile, D + j, 2 * D)
        s += 1
    for j in range(D):
        for k in range(D):
            add_product(sums, s, tile, D + j, 2 * D, tile, k, 2 * D)
            s += 1
        for m in range(PAIRS):
            add_product(sums, s, tile, D + j, 2 * D, products, m, PAIRS)
            s += 1
    for k in range(D):
        for h in range(k + 1):
            add_product(sums, s, tile, k, 2 * D, tile, h, 2 * D)
            s += 1
    for m in range(PAIRS):
        for k in range(D):
            add_product(sums, s, products, m, PAIRS, tile, k, 2 * D)
            s += 1
        for h in range(m + 1):
            add_product(sums, s, products, m, PAIRS, products, h, PAIRS)
            s += 1
    for j in range(D):
        for k in range(j + 1):
            add_product(sums, s, tile, D + j, 2 * D, tile, D + k, 2 * D)
            s += 1


def add_plane(sums, s, first, p, stride):  # type: ignore[no-untyped-def]
    """The s-th sum takes the p-th of every ``stride`` planes, step by step."""
    for lane in range(LANES):
        total = sums[s * LANES + lane]
        for t in range(TILE):
            total += first[(stride * t + p) * LANES + lane]
        sums[s * LANES + lane] = total


def add_product(sums, s, first, p, stride, second, q, step):  # type: ignore[no-untyped-def]
    """The s-th sum takes the products of two planes, step by step."""
    for lane in range(LANES):
        total = sums[s * LANES + lane]
        for t in range(TILE):
            total += first[(stride * t + p) * LANES + lane] * second[(step * t + q) * LANES + lane]
        sums[s * LANES + lane] = total


def keep_step(tile, centre, theta, g, kept, lane):  # type: ignore[no-untyped-def]
    """Put x = theta_{i-1} - origin and A_i into the tile, as its step ``kept``."""
    if TILE_SIZE:
        # The mask changes nothing but what the compiler knows: an index that might be negative would
        # count from the end, and the loop over the lanes would not be vectorised.
        t = kept & (TILE - 1)
        for j in range(D):
            x = theta[j * LANES + lane] - centre[j]
            tile[(2 * D * t + j) * LANES + lane] = x
            tile[(2 * D * t + D + j) * LANES + lane] = g[j * LANES + lane]


def end_step(sums, tile, kept, ends):  # type: ignore[no-untyped-def]
    """Count the step, and add up a tile that is full or ``ends`` here; returns what the tile holds."""
    if TILE_SIZE == 0:
        return 0
    kept += 1
    if kept < TILE and not ends:
        return kept
    for s in range(2 * D * LANES * kept, 2 * D * LANES * TILE):
        tile[s] = 0.0
    accumulate(sums, tile)
    return 0


def restart(sums, i, kept):  # type: ignore[no-untyped-def]
    """After a power of two the sums over the transcript start again; returns what the tile holds."""
    if TILE_SIZE and i & (i - 1) == 0:
        clear(sums)
        return 0
    return kept
