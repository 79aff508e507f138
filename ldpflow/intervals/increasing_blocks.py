"""Blocks whose lengths grow along the path (Zhu, Chen and Wu, 2023): where they start.

    a_k = floor(c k^(2/(1 - gamma))), k = 1, 2, ...;  block k = a_k, ..., a_(k+1) - 1

Step 1 is always a start; starts that are zero or equal are dropped. Starts do not depend on n, so one
list serves every n of a path; the last block ends at n, finished or not. Public implementations differ
in taking floor or ceiling; here it is the floor, in exact arithmetic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms import Algorithm
from ldpflow.intervals.interval import PathIntervalMethod
from ldpflow.intervals.shared_settings import BLOCK_C

__all__ = ["IncreasingBlocks", "block_starts"]


class IncreasingBlocks(PathIntervalMethod):
    """Base of the estimates from blocks that grow along the path.

    Parameters
    ----------
    block_c : float > 0
        c of the starts floor(c k^(2/(1 - gamma))): larger means fewer and longer blocks.
    """

    block_c: Annotated[float, Field(ge=1e-3, le=1e9), BLOCK_C] = 1.0

    def ends(self, steps: int, gamma: float) -> NDArray[np.int64]:
        """0, then the last step of every block; ``steps`` is the last one's."""
        starts = block_starts(steps, gamma, self.block_c)
        return np.array([*(start - 1 for start in starts), steps], dtype=np.int64)

    def times(self, steps: int, algorithm: Algorithm) -> NDArray[np.int64]:
        return self.ends(steps, algorithm.step_exponent())[1:]

    def steps_read(self) -> tuple[str, ...]:
        return ("step_exponent",)

    def times_settings(self) -> tuple[object, ...]:
        return (self.block_c,)

    def count_times(self, steps: int, algorithm: Algorithm) -> int:
        return len(block_starts(steps, algorithm.step_exponent(), self.block_c))


@lru_cache(maxsize=256)
def block_starts(steps: int, gamma: float, c: float) -> tuple[int, ...]:
    """Starts in 1, ..., steps in exact arithmetic; gamma and c are the decimals that were typed."""
    starts = [1]
    with constants.workdps(40):
        power = 2 / (1 - mpf(repr(gamma)))
        scale = mpf(repr(c))
        k = 1
        while (start := constants.safe_floor(scale * mpf(k) ** power)) <= steps:
            if start > starts[-1]:
                starts.append(start)
            k += 1
    return tuple(starts)
