"""Sizes of the measurements, for a full and for a quick run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Sizes of the measurements.

    Parameters
    ----------
    quick : bool
    repetitions : int
        Number of interleaved pairs.
    steps : int
        Length of a path of the lockstep kernel. The naive loop makes LANES/4 times as many steps.
    sweep_repetitions : int
        Number of pairs of the sweep to n = 1e7.
    ray_seconds : float
        Kernel seconds per core of the sweep that measures Ray's efficiency.
    starts : int
        Number of fresh processes for each side of a comparison.
    memory_n : int
        Number of users of the batch whose worker's memory is read.
    """

    quick: bool
    repetitions: int
    steps: int
    sweep_repetitions: int
    ray_seconds: float
    starts: int
    memory_n: int


FULL = Effort(False, 21, 10**6, 7, 240.0, 5, 10**8)
QUICK = Effort(True, 7, 3 * 10**5, 1, 20.0, 1, 10**7)
