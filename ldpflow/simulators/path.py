"""A path (one algorithm's iterates on one replicate) and its key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ldpflow.algorithms import ALGORITHMS, Algorithm
from ldpflow.mechanisms import MECHANISMS, Mechanism
from ldpflow.problems import PROBLEMS, Problem
from ldpflow.problems.laws import Variate
from ldpflow.settings import canonical_json

__all__ = ["Path"]


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
