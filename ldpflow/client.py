"""Randomisers for users' devices: a value and public parameters in, a private report out.

The module imports the standard library alone, so that it can be copied, reviewed and ported. Random integers
come from the operating system's cryptographic generator. A caller may pass another source: ``draw`` is a
function that returns a uniform integer in [0, limit). Test vectors use it (docs/own_client.md).

**Privacy.** A randomiser is eps-LDP if each report is at most e^eps times as probable under one value of the
user as under another. The adversary sees the report, the question and all public parameters, and knows this
program. The adversary may choose the question and the parameters, and may know the values of all other
users. The adversary does not see the device. The functions hide neither how long they run nor that a user
takes part. The budgets of several reports of one user add up.

**Exactness.** A coin compares a uniform integer with integer weights, without rounding. The true answer has
the weight a = floor(2^64 e^eps), and each other answer b = 2^64. The ratio a/b is at most e^eps, and log(a/b)
is smaller than eps by at most 2^-64. Noise is a whole number of grid steps, drawn exactly.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

Draw = Callable[[int], int]
Number = float | Fraction

SYSTEM: Draw = secrets.SystemRandom().randrange
ONE = 2**64
"""Weight of an answer that is not the true one."""

GRID_BITS = 20
"""A clipping bound is 2^GRID_BITS steps of the grid of gradients."""


@lru_cache(maxsize=64)
def odds(epsilon: Number) -> int:
    """Compute the weight of the true answer, 2^64 e^epsilon rounded down.

    The exponential series is summed in units of 2^-256. Each term is rounded down, so the weight is never too
    large.

    Raises
    ------
    ValueError
        If epsilon is not in (0, 30].
    """
    x = Fraction(epsilon)
    if not 0 < x <= 30:
        raise ValueError(f"epsilon must be in (0, 30], not {epsilon}")
    total = term = ONE**4
    k = 0
    while term:
        k += 1
        term = term * x.numerator // (x.denominator * k)
        total += term
    return total // ONE**3


def respond(truth: int, k: int, epsilon: Number, draw: Draw = SYSTEM) -> int:
    """Randomise an answer 0..k-1. The true one is kept with probability a/(a + (k - 1) b).

    Privacy: epsilon-LDP, with likelihood ratio a/b. Source: Warner (1965) for k = 2; Wang, Blocki, Li and Jha
    (2017), Section 4.1 (direct encoding), which keeps the answer with probability e^eps/(e^eps + k - 1).
    """
    own = odds(epsilon)
    u = draw(own + (k - 1) * ONE)
    if u < own:
        return truth
    other = (u - own) // ONE
    return other + (other >= truth)


def unary(truth: int, k: int, epsilon: Number, draw: Draw = SYSTEM) -> str:
    """Randomise k bits of which the bit ``truth`` is 1. The result is a text of k bits.

    This bit is sent as 1 with probability 1/2, and each other bit with q = b/(a + b). Privacy: epsilon-LDP.
    Two values differ in two bits, with likelihood ratio (1/2)/q (1 - q)/(1/2) = a/b. Source: Wang, Blocki, Li
    and Jha (2017), Section 4.3 (optimised unary encoding), with q = 1/(e^eps + 1).
    """
    total = odds(epsilon) + ONE
    return "".join(str(int(draw(2) == 1 if j == truth else draw(total) < ONE)) for j in range(k))


def find_bin(value: float, low: float, high: float, k: int) -> int:
    """Find the bin 0..k-1 of a value.

    An inner edge low + (high - low) m/k belongs to the bin below. A value outside the range is in the nearest
    bin.
    """
    check_number(value)
    return sum(value > low + (high - low) * m / k for m in range(1, k))


def jitter(value: float, width: float, draw: Draw = SYSTEM) -> float:
    """Add uniform noise on (-width/2, width/2) to a value, before it is randomised.

    The noise breaks the ties of values on a grid of this width. It moves a quantile by at most width/2. It
    protects no data. Add noise once to a value and keep the sum for all reports about this value.
    """
    check_number(value)
    return value + width * ((2 * draw(2**52) + 1) / 2**53 - 0.5)


def to_scale(value: float, transform: str | Sequence[float]) -> float:
    """Convert a value to the scale of a design: ``log1p``, ``log``, ``sqrt``, or a list of edges.

    The server's thetas, low and high are on this scale. k + 1 increasing edges become 0, 1/k, ..., 1. The
    scale is linear between two edges. Beyond the ends the first and last pieces continue.

    Raises
    ------
    ValueError
        If the value has no logarithm. Move values into the public range first, since a device that fails
        reveals something about its value.
    """
    check_number(value)
    if isinstance(transform, str):
        if transform == "sqrt":
            return math.copysign(math.sqrt(abs(value)), value)
        return {"log1p": math.log1p, "log": math.log}[transform](value)
    k = len(transform) - 1
    j = min(sum(value >= edge for edge in transform[1:]), k - 1)
    return (j + (value - transform[j]) / (transform[j + 1] - transform[j])) / k


def check_number(value: float) -> None:
    if math.isnan(value):
        raise ValueError("value must be a number, not nan")


# One quantile or several, step by step or in rounds


def rr_sgd(value: float, theta: float, epsilon: Number, draw: Draw = SYSTEM) -> int:
    """Report for LDP-SGD of a quantile: randomised response on the bit 1{value <= theta}.

    Privacy: epsilon-LDP. The adversary sees theta and one bit. Source: Warner (1965); Dette and Graw,
    Section 2, where the bit is kept with probability e^eps/(1 + e^eps); mechanism ``randomized_response``.
    """
    check_number(value)
    return respond(int(value <= theta), 2, epsilon, draw)


def rounds(value: float, theta: float, epsilon: Number, draw: Draw = SYSTEM) -> int:
    """Report for ``rounds``: randomised response on the bit 1{value <= theta}.

    theta is the threshold that the user is asked about. Privacy: epsilon-LDP. The adversary sees the round,
    theta and one bit. Only the reports of other users determine theta. Source: Warner (1965).
    """
    return rr_sgd(value, theta, epsilon, draw)


def cells(value: float, thetas: Sequence[float], epsilon: Number, draw: Draw = SYSTEM) -> int:
    """Report for several quantiles: the cell between sorted thetas that holds the value, randomised.

    The cell is the number of thetas below the value. Privacy: epsilon-LDP for the whole report. The adversary
    sees the thetas and one of len(thetas) + 1 cells. Source: see ``respond``; mechanism ``cells``.
    """
    check_number(value)
    return respond(sum(value > theta for theta in thetas), len(thetas) + 1, epsilon, draw)


# Histograms. A question is a public coin: the device or the server may draw it.


def thresholds(
    value: float, epsilon: Number, low: float, high: float, k: int,
    question: int | None = None, draw: Draw = SYSTEM,
) -> tuple[int, int]:  # fmt: skip
    """Question and report for ``thresholds``: randomised response on 1{value <= edge m}, m uniform in 1..k-1.

    Privacy: epsilon-LDP. The adversary sees m and one bit. Source: Warner (1965).
    """
    m = 1 + draw(k - 1) if question is None else question
    return m, respond(int(find_bin(value, low, high, k) < m), 2, epsilon, draw)


def grr(value: float, epsilon: Number, low: float, high: float, k: int, draw: Draw = SYSTEM) -> int:
    """Report for ``grr``: the bin of the value, randomised.

    Privacy: epsilon-LDP. The adversary sees one of k bins. Source: see ``respond``.
    """
    return respond(find_bin(value, low, high, k), k, epsilon, draw)


def oue(value: float, epsilon: Number, low: float, high: float, k: int, draw: Draw = SYSTEM) -> str:
    """Report for ``oue``: k bits, of which the bit of the value's bin is 1, randomised.

    Privacy: epsilon-LDP for all bits together. The adversary sees k bits. Source: see ``unary``.
    """
    return unary(find_bin(value, low, high, k), k, epsilon, draw)


def hrr(
    value: float, epsilon: Number, low: float, high: float, k: int,
    question: int | None = None, draw: Draw = SYSTEM,
) -> tuple[int, int]:  # fmt: skip
    """Question and report for ``hrr``: randomised response on 1{H[r, bin] = 1}, row r uniform in 1..k-1.

    H is the k x k Hadamard matrix, k a power of two: H[r, j] = (-1)^b, b the number of ones in r AND j.
    Privacy: epsilon-LDP. The adversary sees r and one bit. Source: Acharya, Sun and Zhang (2019).
    """
    row = 1 + draw(k - 1) if question is None else question
    return row, respond(hadamard_bit(row, find_bin(value, low, high, k)), 2, epsilon, draw)


def hadamard_bit(row: int, column: int) -> int:
    return 1 - (row & column).bit_count() % 2


def haar(
    value: float, epsilon: Number, low: float, high: float, k: int,
    question: int | None = None, draw: Draw = SYSTEM,
) -> tuple[int, int]:  # fmt: skip
    """Question and report for ``haar``: randomised response on 1{s H[r, node] = 1}.

    The question is 2^l + r with a level l, uniform in 0..log2(k)-1, and a row r, uniform in 0..2^l-1. H is
    the 2^l x 2^l Hadamard matrix. ``node`` is the one of 2^l equal parts of the bins that holds the value's
    bin, and s is 1 in the left half of this part and -1 in the right half. Privacy: epsilon-LDP. The
    adversary sees l, r and one bit. Source: Cormode, Kulkarni and Srivastava (2019).
    """
    if question is None:
        nodes = 2 ** draw(k.bit_length() - 1)
        question = nodes + draw(nodes)
    nodes = 2 ** (question.bit_length() - 1)
    node, place = divmod(find_bin(value, low, high, k), k // nodes)
    left = place < k // nodes // 2
    sign = hadamard_bit(question - nodes, node)
    return question, respond(sign if left else 1 - sign, 2, epsilon, draw)


def tree(
    value: float, epsilon: Number, low: float, high: float, k: int,
    question: int | None = None, draw: Draw = SYSTEM,
) -> tuple[int, str]:  # fmt: skip
    """Question and report for ``tree``: a level of a 4-ary tree, and 4^level bits for the nodes of the level.

    The level is uniform in 1..log4(k), and ``unary`` randomises the bits. Privacy: epsilon-LDP. The adversary
    sees the level and the bits. Source: Cormode, Kulkarni and Srivastava (2019).
    """
    level = 1 + draw((k.bit_length() - 1) // 2) if question is None else question
    node = find_bin(value, low, high, k) // (k // 4**level)
    return level, unary(node, 4**level, epsilon, draw)


# Gradients with noise. Numbered algorithms are those of Canonne, Kamath and Steinke (2020).


def laplace(gradient: Sequence[float], epsilon: Number, clip: float, draw: Draw = SYSTEM) -> list[float]:
    """Report of a gradient that is clipped to the L1 norm ``clip``, with discrete Laplace noise.

    The gradient is rounded to a grid. Two clipped gradients differ by at most 2 clip in L1, and the noise has
    the scale 2 clip/epsilon. Privacy: epsilon-LDP. The adversary sees the noisy vector. Source: Dwork et al.
    (2006); Canonne, Kamath and Steinke (2020), algorithm 2, for the noise; mechanism ``laplace`` with
    sensitivity 2 clip.
    """
    steps, bound = to_grid(gradient, clip), 2**GRID_BITS
    size = sum(map(abs, steps))
    kept = shrink(steps, bound, size) if size > bound else steps
    scale = 2 * bound / Fraction(epsilon)
    noisy = [q + discrete_laplace(scale.numerator, scale.denominator, draw) for q in kept]
    return [q * clip / bound for q in noisy]


def gaussian(gradient: Sequence[float], mu: Number, clip: float, draw: Draw = SYSTEM) -> list[float]:
    """Report of a gradient that is clipped to the L2 norm ``clip``, with discrete Gaussian noise.

    The noise has the standard deviation 2 clip/mu. Privacy: (mu^2/2)-zCDP. It is mu-GDP except on an event of
    probability d mu^2 2^-47 for d coordinates and mu <= 1000. This probability bounds the total variation
    distance from rounded Gaussian noise. The adversary sees the noisy vector. Source: Dong, Roth and Su
    (2022); Canonne, Kamath and Steinke (2020), algorithm 3, for the noise; mechanism ``clipped_gaussian``.
    """
    steps, bound = to_grid(gradient, clip), 2**GRID_BITS
    square = sum(q * q for q in steps)
    kept = shrink(steps, bound, math.isqrt(square) + 1) if square > bound * bound else steps
    variance = (2 * bound / Fraction(mu)) ** 2
    noisy = [q + discrete_gaussian(variance.numerator, variance.denominator, draw) for q in kept]
    return [q * clip / bound for q in noisy]


def to_grid(gradient: Sequence[float], clip: float) -> list[int]:
    """Round a gradient to whole steps of clip/2^20. A gradient that is not finite becomes 0."""
    if not all(map(math.isfinite, gradient)):
        return [0] * len(gradient)
    return [math.floor(Fraction(g) * 2**GRID_BITS / Fraction(clip) + Fraction(1, 2)) for g in gradient]


def shrink(steps: list[int], bound: int, size: int) -> list[int]:
    """Multiply by bound/size and round towards 0, so that the norm stays within the bound."""
    return [abs(q) * bound // size * (1 if q > 0 else -1) for q in steps]


def flip(numerator: int, denominator: int, draw: Draw) -> bool:
    """Toss a coin with probability exp(-numerator/denominator) (Canonne, Kamath and Steinke, algorithm 1)."""
    while numerator > denominator:
        if not flip(1, 1, draw):
            return False
        numerator -= denominator
    k = 1
    while draw(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def discrete_laplace(t: int, s: int, draw: Draw = SYSTEM) -> int:
    """Draw a whole number x with probability proportional to exp(-|x| s/t) (algorithm 2)."""
    while True:
        u = draw(t)
        if not flip(u, t, draw):
            continue
        v = 0
        while flip(1, 1, draw):
            v += 1
        size, negative = (u + t * v) // s, draw(2)
        if size or not negative:
            return -size if negative else size


def discrete_gaussian(n: int, d: int, draw: Draw = SYSTEM) -> int:
    """Draw a whole number x with probability proportional to exp(-x^2/(2 n/d)) (algorithm 3)."""
    t = math.isqrt(n // d) + 1
    while True:
        x = discrete_laplace(t, 1, draw)
        if flip((abs(x) * t * d - n) ** 2, 2 * t * t * d * n, draw):
            return x


REPORTS: dict[str, Callable[..., object]] = {
    function.__name__: function
    for function in (rr_sgd, rounds, cells, thresholds, grr, oue, hrr, haar, tree, laplace, gaussian)
}
"""Functions that make a report."""
