"""Running sums along a path, beyond S(t), that an interval method may ask for by name.

They are compiled into a recursion only then. Each has ``count`` numbers per coordinate, kept flat
over (sum, coordinate, lane), and a kernel function called in every step, before it with
(sums, theta_{i-1}, A_i, lane) or after it with (sums, S(i), i, lane).
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
    """What a kernel has to accumulate under one name."""

    name: str
    count: int
    moment: Literal["before", "after"]
    function: str


RUNNING_SUMS = {
    "self_normalization": RunningSums(
        "self_normalization", 2, "after", "accumulate_self_normalization"
    ),
}


def accumulate_self_normalization(sums, total, i, lane):  # type: ignore[no-untyped-def]
    """sum_i i S(i) and sum_i S(i)^2 (Liu, Hu, Ding and Kong, 2023)."""
    for j in range(D):
        s = total[j * LANES + lane]
        sums[j * LANES + lane] += i * s
        sums[(D + j) * LANES + lane] += s * s
