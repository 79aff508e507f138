"""What the algorithms of private empirical risk minimisation have in common.

Central model: a curator holds N records and releases all iterates under (epsilon, delta)-DP with
respect to replacing one record. Sigma is derived from the budget by accounting for the whole
transcript, all epochs included.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ldpflow.errors import InputError
from ldpflow.mechanisms import PrivacyStatement
from ldpflow.problems.erm import ErmProblem
from ldpflow.settings import Settings

__all__ = ["NOTION", "UNIT", "ErmAlgorithm", "RunPlan"]

NOTION = "(eps, delta)-DP (central)"
UNIT = "record (replacement)"
LARGEST_STEPS = 2**40


@dataclass(frozen=True)
class RunPlan:
    """Everything that a run of one algorithm on N records is determined by.

    Parameters
    ----------
    n, batches, batch_size, steps : int
        N, M = floor(N/b), b, T.
    eta, alpha, cross : float
        Step length, weight of the new gradient, and the cross-batch weight (the paper's gamma; NaN
        where an algorithm has none).
    sigma, cost, rho : float
        Noise multiplier; c and rho = c / (2 sigma^2) of the transcript's RDP rho z. sigma is 0 and
        the others infinite where nothing is protected.
    lipschitz, smoothness : float
        G and L of the loss that privacy rests on.
    """

    n: int
    batches: int
    batch_size: int
    steps: int
    eta: float
    alpha: float
    cross: float
    sigma: float
    cost: float
    rho: float
    lipschitz: float
    smoothness: float

    @property
    def epochs(self) -> float:
        """T / M."""
        return self.steps / self.batches


class ErmAlgorithm(Settings):
    """An algorithm that visits a fixed data set for many epochs.

    Parameters
    ----------
    epsilon : float > 0
    delta : float in (0, 1)
    epochs : float
        q = T/M; T is rounded to whole steps.
    eta : float, optional
        Step length; 1 / sqrt(M T) unless given.
    theta0 : float
        Start, the same in every coordinate.
    """

    epsilon: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    delta: Annotated[float, Field(ge=1e-300, lt=1)] = 1e-6
    epochs: Annotated[float, Field(gt=0, le=1e9)] = 20.0
    eta: Annotated[float, Field(gt=0, le=1e6)] | None = None
    theta0: float = 0.0

    @abstractmethod
    def plan(self, problem: ErmProblem, n: int) -> RunPlan:
        """Steps, step length and noise for N = n records.

        Raises
        ------
        InputError
            If the settings are impossible for this N.
        """

    @abstractmethod
    def kernel_settings(self, plan: RunPlan) -> tuple[float, ...]:
        """What the recursion gets as ``settings``."""

    def noise_kind(self) -> int:
        """The kernel's compile-time constant NOISE."""
        return 1

    def memory(self, problem: ErmProblem, n: int) -> int:
        """Bytes that a batch of lanes takes beyond its data."""
        return 0

    def privacy(self) -> PrivacyStatement:
        """The guarantee of all iterates w_1, ..., w_T."""
        return PrivacyStatement(NOTION, UNIT, epsilon=self.epsilon, delta=self.delta)

    def columns(self, plan: RunPlan) -> dict[str, Any]:
        """What is reported with every result; what an algorithm does not have is None."""
        statement = self.privacy()
        columns: dict[str, Any] = {
            "privacy_notion": statement.notion,
            "privacy_unit": statement.unit,
            "epsilon": statement.epsilon,
            "delta": statement.delta,
            "n": plan.n,
            "steps": plan.steps,
            "epochs": plan.epochs,
            "batch_size": plan.batch_size,
            "alpha": plan.alpha,
            "eta": plan.eta,
            "cross": plan.cross,
            "sigma": plan.sigma,
            "cost": plan.cost,
            "rho": plan.rho,
            "lipschitz": plan.lipschitz,
            "smoothness": plan.smoothness,
        }
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in columns.items()
        }


class MomentumAlgorithm(ErmAlgorithm):
    """Normalised steps along a private momentum, one batch a step.

    Parameters
    ----------
    order : str
        ``reshuffle``: every epoch visits the batches in a random order of its own (as printed);
        ``fixed``: all epochs in one random order.
    batch_size : int >= 1
        b; the partition into M = floor(N/b) batches is fixed. Ours: the paper has b = 1.
    alpha : float, optional
        Weight of the new gradient; 1/M unless given, and at least that.
    calibration : str
        How sigma follows from (epsilon, delta): ``exact`` from the nodes that are released,
        ``whole_tree`` from all nodes of the printed trees, ``printed`` by the paper's rule.
    """

    order: Literal["fixed", "reshuffle"] = "reshuffle"
    batch_size: Annotated[int, Field(ge=1, le=10**9)] = 1
    alpha: Annotated[float, Field(gt=0, le=1)] | None = None
    calibration: Literal["exact", "whole_tree", "printed"] = "exact"

    def schedule(self, n: int) -> tuple[int, int, float, float]:
        """M, T, alpha and eta for N records."""
        batches = n // self.batch_size
        if batches < 1:
            raise InputError("algorithm.batch_size", self.batch_size, f"at most n = {n:,}")
        steps = max(1, round(self.epochs * batches))
        if steps > LARGEST_STEPS:
            raise InputError("algorithm.epochs", self.epochs, f"at most {LARGEST_STEPS:,} steps")
        alpha = 1.0 / batches if self.alpha is None else self.alpha
        if alpha * batches < 1.0 - 1e-12:
            raise InputError(
                "algorithm.alpha",
                self.alpha,
                f"at least 1/M = {1.0 / batches:.6g}, M = {batches:,} batches an epoch",
            )
        eta = 1.0 / math.sqrt(batches * steps) if self.eta is None else self.eta
        return batches, steps, alpha, eta
