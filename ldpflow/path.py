"""A path (one algorithm's iterates on one replicate), its key, and the record that is kept of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import ALGORITHMS, Algorithm
from ldpflow.mechanisms import MECHANISMS, Mechanism
from ldpflow.problems import PROBLEMS, Problem
from ldpflow.problems.laws import Variate
from ldpflow.settings import canonical_json

__all__ = ["Path", "PathRecord"]


@dataclass(frozen=True)
class Path:
    """Problem, mechanism and algorithm: what determines the iterates of a replicate.

    Parameters
    ----------
    problem, mechanism, algorithm : Problem, Mechanism, Algorithm
    horizon : int, optional
        n, where paths of different n are meant to differ (``independent_n``, or an algorithm whose
        settings depend on the horizon); None where one path serves every n.
    """

    problem: Problem
    mechanism: Mechanism
    algorithm: Algorithm
    horizon: int | None = None

    def settings(self) -> dict[str, Any]:
        """What the key is made of."""
        settings: dict[str, Any] = {
            "problem": self.problem.key_settings(),
            "mechanism": self.mechanism.key_settings(),
            "algorithm": self.algorithm.key_settings(),
        }
        if self.algorithm.carries_privacy:
            del settings["mechanism"]  # there is none
        if self.horizon is not None:
            settings["n"] = self.horizon
        return settings

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Path:
        """The path that has these settings (the inverse of :meth:`settings`)."""
        mechanism = settings.get("mechanism", {"kind": "none"})
        return cls(
            PROBLEMS[settings["problem"]["kind"]].model_validate(settings["problem"]),
            MECHANISMS[mechanism["kind"]].model_validate(mechanism),
            ALGORITHMS[settings["algorithm"]["kind"]].model_validate(settings["algorithm"]),
            settings.get("n"),
        )

    @cached_property
    def key(self) -> str:
        """First 16 hex digits of SHA-256 over the canonical JSON of the settings."""
        return hashlib.sha256(canonical_json(self.settings()).encode()).hexdigest()[:16]

    @cached_property
    def randomiser(self) -> Mechanism:
        """The mechanism as the algorithm uses it: shared between its paths, or brought by itself."""
        return self.algorithm.randomiser(self.mechanism)

    def measured(self) -> tuple[str, ...]:
        """Names of what the kernel records beside the iterates."""
        if self.algorithm.counts_in_mechanism():
            return self.randomiser.measured()
        return self.algorithm.measured()

    def steps(self, n: int) -> int:
        """Steps that the first n users make on this path."""
        if self.horizon is None or n == self.horizon:
            return self.algorithm.steps(n)
        return self.algorithm.steps_within(n, self.horizon)

    def data_variates(self) -> tuple[Variate, ...]:
        """Standard variates that one record takes; none where no record is drawn."""
        return () if self.mechanism.replaces_data() else self.problem.variates()

    def public_key(self) -> str:
        """Key of the public randomness of the mechanism: every step size meets the same budgets."""
        key = canonical_json(self.mechanism.key_settings())
        return key if self.horizon is None else f"{key}/n={self.horizon}"

    def data_key(self) -> str:
        """Key of the data streams: the problem's, so that paths are compared on the same users."""
        key = self.problem.data_key()
        return key if self.horizon is None else f"{key}/n={self.horizon}"


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

    path: Path
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
