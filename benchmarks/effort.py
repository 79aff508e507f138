"""How long a benchmark may take: a full run, or a quick look."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Sizes of the measurements.

    Parameters
    ----------
    quick : bool
    repetitions : int
        Interleaved pairs.
    steps : int
        Length of a path of the lockstep kernel; the naive loop gets LANES/4 times as many.
    sweep_repetitions : int
        Pairs of the sweep to n = 1e7.
    ray_seconds : float
        Kernel seconds per core of the sweep that measures Ray's efficiency.
    starts : int
        Starts of a fresh process, per contestant.
    memory_n : int
        Users of the batch whose worker's memory is read.
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
