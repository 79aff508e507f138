"""Running sums along a path, beyond S(t), that an interval method may ask for by name.

They are compiled into a recursion only then. Each has ``count(d)`` numbers per coordinate, kept flat
over (sum, coordinate, lane), and a kernel function called in every step, before it with
(sums, theta_{i-1}, A_i, origin, lane) or after it with (sums, S(i), i, lane); A_i is the private
gradient and origin that of the path record, fixed beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ldpflow.random.lockstep import LANES

if TYPE_CHECKING:  # supplied by the kernel that the sums become part of
    from ldpflow.kernel_parts import D

__all__ = ["PERTURBED", "RUNNING_SUMS", "RunningSums"]

PERTURBED = "perturbed_paths"
"""S of every perturbed path of an algorithm that has some: no sum along the path itself."""


@dataclass(frozen=True)
class RunningSums:
    """What a kernel has to accumulate under one name.

    Parameters
    ----------
    name : str
    fixed, per_coordinate : int
        There are ``fixed + per_coordinate d`` sums per coordinate.
    moment : str
        Before or after the step.
    function : str
        Its name in this module.
    """

    name: str
    fixed: int
    per_coordinate: int
    moment: Literal["before", "after"]
    function: str

    def count(self, dimension: int) -> int:
        """Sums per coordinate."""
        return self.fixed + self.per_coordinate * dimension


RUNNING_SUMS = {
    sums.name: sums
    for sums in (
        RunningSums("self_normalization", 2, 0, "after", "accumulate_self_normalization"),
        RunningSums("transcript_cubic", 11, 0, "before", "accumulate_transcript_cubic"),
        RunningSums("transcript_quartic", 3, 0, "before", "accumulate_transcript_quartic"),
        RunningSums("transcript_linear", 2, 3, "before", "accumulate_transcript_linear"),
    )
}


def accumulate_self_normalization(sums, total, i, lane):  # type: ignore[no-untyped-def]
    """sum_i i S(i) and sum_i S(i)^2 (Liu, Hu, Ding and Kong, 2023)."""
    for j in range(D):
        s = total[j * LANES + lane]
        sums[j * LANES + lane] += i * s
        sums[(D + j) * LANES + lane] += s * s


def accumulate_transcript_cubic(sums, theta, g, centre, lane):  # type: ignore[no-untyped-def]
    """What least squares of A on 1, x, x^2, x^3 needs, x = theta_{i-1} - origin, by coordinate.

    sum x^k for k = 1..6, sum A x^k for k = 0..3, sum A^2.
    """
    for j in range(D):
        at = j * LANES + lane
        x = theta[at] - centre[j]
        a = g[at]
        x2 = x * x
        x3 = x2 * x
        sums[at] += x
        sums[D * LANES + at] += x2
        sums[2 * D * LANES + at] += x3
        sums[3 * D * LANES + at] += x2 * x2
        sums[4 * D * LANES + at] += x3 * x2
        sums[5 * D * LANES + at] += x3 * x3
        sums[6 * D * LANES + at] += a
        sums[7 * D * LANES + at] += a * x
        sums[8 * D * LANES + at] += a * x2
        sums[9 * D * LANES + at] += a * x3
        sums[10 * D * LANES + at] += a * a


def accumulate_transcript_quartic(sums, theta, g, centre, lane):  # type: ignore[no-untyped-def]
    """What x^4 needs beyond the cubic: sum x^7, sum x^8, sum A x^4."""
    for j in range(D):
        at = j * LANES + lane
        x = theta[at] - centre[j]
        x2 = x * x
        x4 = x2 * x2
        sums[at] += x4 * (x2 * x)
        sums[D * LANES + at] += x4 * x4
        sums[2 * D * LANES + at] += g[at] * x4


def accumulate_transcript_linear(sums, theta, g, centre, lane):  # type: ignore[no-untyped-def]
    """What least squares of the vector A on 1, x_1, ..., x_d needs, x = theta_{i-1} - origin.

    Sums s of coordinate j: sum x_j at s = 0, sum A_j at 1, and for k = 0..d-1 sum A_j x_k at 2 + k,
    then, for k <= j only, sum x_j x_k at 2 + d + k and sum A_j A_k at 2 + 2d + k.
    """
    for j in range(D):
        at = j * LANES + lane
        x = theta[at] - centre[j]
        a = g[at]
        sums[at] += x
        sums[D * LANES + at] += a
        for k in range(D):
            y = theta[k * LANES + lane] - centre[k]
            sums[(2 + k) * D * LANES + at] += a * y
            if k <= j:
                sums[(2 + D + k) * D * LANES + at] += x * y
                sums[(2 + 2 * D + k) * D * LANES + at] += a * g[k * LANES + lane]
