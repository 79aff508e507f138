"""The record of a path: what interval methods are functions of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PathRecord"]


@dataclass(frozen=True)
class PathRecord:
    """What is kept of the paths of R replicates: everything interval methods may ask for.

    Parameters
    ----------
    path : Path
    seed : int
    replicates : ndarray of int64, shape (R,)
    times : ndarray of int64, shape (T,)
        Sorted step indices.
    origin : ndarray, shape (d,)
        Fixed beforehand (theta*); prefix sums are of theta_i - origin, against cancellation.
    prefix_sums : ndarray, shape (T, d, R)
        S(t) = sum_{i <= t} (theta_i - origin).
    iterates : ndarray, shape (T, d, R)
        theta_t.
    running_sums : dict of str to ndarray, shape (count, M, d, R)
        By name, at ``marked_times``.
    marked_times : ndarray of int64, shape (M,)
    extras : dict of str to ndarray, shape (T, R)
        The algorithm's own numbers at the times, by their name in a trajectory.
    """

    path: Any
    seed: int
    replicates: NDArray[np.int64]
    times: NDArray[np.int64]
    origin: NDArray[np.float64]
    prefix_sums: NDArray[np.float64]
    iterates: NDArray[np.float64]
    running_sums: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    marked_times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    extras: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def sums_at(self, times: NDArray[np.int64]) -> NDArray[np.float64]:
        """S at the given times, shape (len(times), d, R); S(0) = 0.

        Raises
        ------
        KeyError
            If a time was not recorded.
        """
        times = np.asarray(times, dtype=np.int64)
        rows = np.searchsorted(self.times, times)
        rows = np.minimum(rows, len(self.times) - 1)
        known = (self.times[rows] == times) | (times == 0)
        if not known.all():
            raise KeyError(f"times not in the record: {times[~known][:5].tolist()}")
        result = self.prefix_sums[rows]
        result[times == 0] = 0.0
        return result

    def running(self, name: str, time: int) -> NDArray[np.float64]:
        """The running sums ``name`` at one marked time, shape (count, d, R)."""
        (where,) = np.nonzero(self.marked_times == time)
        if len(where) != 1:
            raise KeyError(f"time {time} is not marked")
        return self.running_sums[name][:, where[0]]
