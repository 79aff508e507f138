"""Base classes of algorithms for private empirical risk minimisation.

Central model: a curator holds N records and releases all iterates under (epsilon, delta)-DP for replacing one
record. The noise multiplier sigma follows from the budget by accounting for the whole transcript.

Theorems 6 and 9 of Tran and Cutkosky (2022) give the number of steps T of momentum algorithms up to
constants, and Theorem 9 also up to logarithms. With this T the noise of Algorithm 2 is far above the gradient
at practical sizes. ``parameters = "balanced"`` minimises the bound of the descent lemma over q,

    (gap + 6 L) / sqrt(q) + 2 E||noise||(q),    eta = 1/sqrt(M T), alpha = 1/M, q = T/M epochs,

with the noise of the budget, M batches in an epoch, and L for grad f. The gap bounds F(0) - inf F. The noise
follows from the variances of ldpflow.numerics.tree and an upper bound of c (see :class:`RunPlan`). The first
term falls like q^-1/2. The noise grows like q^1/2 (Algorithm 1) and like q^1/4 (Algorithm 2). The gap and L
are upper bounds, so shorter or longer runs may do better.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ldpflow.columns import Column
from ldpflow.components.algorithms.algorithm import BaseAlgorithm, BatchSize, Delta, Epsilon, StepLength
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.errors import InputError
from ldpflow.numerics.accounting import zcdp_noise_multiplier, zcdp_printed_multiplier
from ldpflow.numerics.streams import LANES


def best_epochs(least: int, most: float, slope: float, noise: Callable[[int], float]) -> int:
    """Minimise slope / sqrt(q) + 2 noise(q) over a grid of q from ``least`` to ``most`` with ratio 9/8."""
    q, best, found = least, math.inf, least
    while q <= most:
        value = slope / math.sqrt(q) + 2.0 * noise(q)
        if value < best:
            best, found = value, q
        elif value > 2.0 * best:
            break
        q = max(q + 1, q * 9 // 8)
    return found


NOTION = "(eps, delta)-DP (central)"
UNIT = "record (replacement)"
LARGEST_STEPS = 2**40
DEFAULT_EPOCHS = 20.0
COST = "c: a run has Renyi DP c z / (2 sigma^2) of order z; null for `dp_sgd` and without noise"
MEMORY_BUDGET = 2**30
"""Most bytes for the records and arrays of LANES replicates."""


def checkpoint_steps(steps: int, points: int) -> tuple[int, ...]:
    """List T and the middles of ``points`` equal parts of 1, ..., T.

    The mean over the middles estimates the mean over all steps.
    """
    middles = {max(1, (2 * i + 1) * steps // (2 * points)) for i in range(points)}
    return tuple(sorted(middles | {steps}))


@dataclass(frozen=True)
class Schedule:
    """Steps of a run: M, T, eta, alpha, and the paper's gamma (``cross``, NaN if there is none).

    An epoch has M batches, and a step uses one batch.
    """

    batches: int
    steps: int
    eta: float
    alpha: float = 1.0
    cross: float = math.nan


@dataclass(frozen=True, kw_only=True)
class RunPlan(Schedule):
    """Steps and noise of a run on N records in batches of b.

    sigma is the noise multiplier, and ``cost`` is c. The transcript has RDP rho z of each order z, with
    rho = c / (2 sigma^2). c and rho are infinite without noise and NaN for ``dp_sgd``. ``lipschitz`` and
    ``smoothness`` are the constants G and L of the loss, which scale the noise.
    """

    n: int
    batch_size: int
    sigma: float
    cost: float
    rho: float
    lipschitz: float
    smoothness: float

    @property
    def epochs(self) -> float:
        return self.steps / self.batches


class FiniteSumAlgorithm(BaseAlgorithm):
    """An algorithm that visits a fixed data set for many epochs and adds the noise itself.

    The module of an algorithm also has the kernel function ``recursion`` (see
    ldpflow.simulators.finite_sum).

    Parameters
    ----------
    epsilon, delta : float
        Central budget of the whole transcript, for replacing one record.
    epochs : float, optional
        Number q = T/M of epochs, 20 by default. T is rounded to whole steps.
    eta : float, optional
        Step length, by default 1/sqrt(M T).
    theta0 : float
        Start, equal in all coordinates.
    """

    family: ClassVar[str] = "finite_sum"
    carries_privacy: ClassVar[bool] = True

    derived: ClassVar[tuple[Column, ...]] = (
        Column("epochs", "double", "epochs", "number of epochs q = T/M"),
        Column("steps", "int64", "steps", "number of steps T"),
        Column("alpha", "double", "share", "weight of the new gradient in the momentum"),
        Column("eta", "double", "unit of w", "step length"),
        Column("cross", "double", "share", "the paper's gamma; null if the algorithm has none"),
        Column("sigma", "double", "-", "noise multiplier; 0 without noise"),
        Column("cost", "double", "-", COST),
        Column("rho", "double", "nats", "rho = c / (2 sigma^2) of the zCDP guarantee"),
        Column("lipschitz", "double", "unit of the gradient", "G, for which privacy is proved"),
        Column("smoothness", "double", "1/unit of w", "L, for which privacy is proved"),
    )

    epsilon: Epsilon = 1.0
    delta: Delta = 1e-6
    epochs: Annotated[float, Field(gt=0, le=1e9)] | None = None
    eta: StepLength | None = None

    def privacy(self) -> PrivacyStatement:
        """The guarantee for all iterates w_1, ..., w_T."""
        return PrivacyStatement(NOTION, UNIT, epsilon=self.epsilon, delta=self.delta)

    @abstractmethod
    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        """Number of steps and step length for N = n records."""

    def whole_steps(self, steps: float) -> int:
        """Round a number of steps to a whole number >= 1. Too many steps are refused."""
        if steps > LARGEST_STEPS:
            raise InputError("algorithm.epochs", f"{steps:.3g} steps", f"at most {LARGEST_STEPS:,}")
        return max(1, round(steps))

    @abstractmethod
    def multiplier(self, problem: FiniteSumProblem, n: int, at: Schedule) -> tuple[float, float]:
        """sigma, and c in the transcript's RDP c z / (2 sigma^2). Without noise: 0 and infinity."""

    @lru_cache(maxsize=10_000)  # noqa: B019 (accounting for a long run takes seconds)
    def plan(self, problem: FiniteSumProblem, n: int) -> RunPlan:
        at = self.schedule(problem, n)
        sigma, cost = self.multiplier(problem, n, at)
        return RunPlan(
            **vars(at),
            n=n,
            batch_size=getattr(self, "batch_size", n),
            sigma=sigma,
            cost=cost,
            rho=cost / (2.0 * sigma * sigma) if sigma > 0.0 else math.inf,
            lipschitz=problem.lipschitz_of_loss(),
            smoothness=problem.smoothness_of_loss(),
        )

    @abstractmethod
    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        """Numbers that the function ``recursion`` reads by name from its argument ``settings``."""

    def noise_kind(self) -> int:
        """Constant NOISE of the kernel: 0 for no noise, 2 for fresh noise in place of a tree, and else 1."""
        return 1

    def memory(self, problem: FiniteSumProblem, n: int) -> int:
        """Bytes that LANES replicates take in addition to their data."""
        return 0

    def memory_of_data(self, problem: FiniteSumProblem, n: int) -> int:
        """Bytes that LANES replicates take with their data."""
        copies = 1 if problem.file is not None else LANES
        return 8 * n * (problem.dimension + 1) * copies + self.memory(problem, n)

    def check(self, problem: FiniteSumProblem, n: int) -> None:
        """Refuse an n that contradicts the settings, or needs more than MEMORY_BUDGET."""
        self.schedule(problem, n)
        total, mebi = self.memory_of_data(problem, n), 2**20
        if total > MEMORY_BUDGET:
            allowed = f"what fits {MEMORY_BUDGET / mebi:.0f} MiB for {LANES} replicates in lockstep"
            hint = f"At d = {problem.dimension} they take {total / mebi:.0f} MiB."
            raise InputError("grid.n", n, allowed, hint)
        if problem.file is not None and n > (records := len(problem.records[1])):
            raise InputError("grid.n", n, f"at most {records:,}, the records of {problem.file}")

    def columns(self, problem: FiniteSumProblem, n: int) -> dict[str, Any]:
        plan = self.plan(problem, n)
        columns = {column.name: getattr(plan, column.name) for column in self.derived}
        return {name: value if math.isfinite(value) else None for name, value in columns.items()}


class MomentumAlgorithm(FiniteSumAlgorithm):
    """Normalised steps along a private momentum. Each step uses one batch.

    Parameters
    ----------
    order : str
        ``reshuffle``: each epoch visits the batches in a random order of its own, as printed. ``fixed``: all
        epochs have one random order.
    batch_size : int >= 1
        Number b of records of a batch. The M = floor(N/b) batches are fixed. The paper has b = 1.
    alpha : float, optional
        Weight of the new gradient, at least 1/M and by default 1/M.
    calibration : str
        How the noise multiplier sigma follows from (epsilon, delta): ``exact`` from the nodes that are
        released, ``whole_tree`` from all nodes of the printed trees, ``printed`` by the rule of the paper.
    parameters : str
        ``given``: epochs, eta and alpha are as above. ``theorem``: the utility theorem sets them
        (6 or 9 of Tran and Cutkosky). ``balanced``: the number of epochs balances optimisation and noise for
        the problem, N, d and the budget.
    """

    order: Literal["fixed", "reshuffle"] = "reshuffle"
    batch_size: BatchSize = 1
    alpha: Annotated[float, Field(gt=0, le=1)] | None = None
    calibration: Literal["exact", "whole_tree", "printed"] = "exact"
    parameters: Literal["given", "theorem", "balanced"] = "given"

    @model_validator(mode="after")
    def check_parameters(self) -> Self:
        if self.parameters == "given":
            return self
        for name in ("epochs", "eta", "alpha", "cross"):
            if getattr(self, name, None) is not None:
                raise ValueError(f"parameters = '{self.parameters}' chooses {name} itself")
        return self

    @abstractmethod
    def theorem_steps(self, problem: FiniteSumProblem, batches: int) -> float:
        """T of the utility theorem, not rounded. A batch of b counts as one record with budget b epsilon."""

    @abstractmethod
    def mean_noise(self, problem: FiniteSumProblem, batches: int, epochs: int) -> float:
        """E||noise|| of the momentum late in a run of ``epochs`` epochs."""

    @abstractmethod
    def cost(self, batches: int, steps: int, alpha: float) -> float:
        """c in the transcript's RDP c z / (2 sigma^2)."""

    least_epochs: ClassVar[int] = 1
    """Fewest epochs of ``theorem`` and ``balanced``."""

    printed_constant: ClassVar[float]
    """Constant of the paper's rule for sigma."""

    def multiplier(self, problem: FiniteSumProblem, n: int, at: Schedule) -> tuple[float, float]:
        cost = self.cost(at.batches, at.steps, at.alpha)
        if self.calibration == "printed":
            return zcdp_printed_multiplier(self.epsilon, self.delta, self.printed_constant), cost
        return zcdp_noise_multiplier(self.epsilon, self.delta, cost), cost

    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        return {
            "batches": float(plan.batches),
            "batch_size": float(plan.batch_size),
            "fixed": 1.0 if self.order == "fixed" else 0.0,
            "alpha": plan.alpha,
            "eta": plan.eta,
        }

    @lru_cache(maxsize=10_000)  # noqa: B019 (it takes time)
    def choose_epochs(self, problem: FiniteSumProblem, batches: int) -> float:
        if self.parameters == "given":
            return DEFAULT_EPOCHS if self.epochs is None else self.epochs
        if self.parameters == "theorem":
            # A whole number of epochs. alpha, eta and cross follow from the rounded T.
            return max(self.least_epochs, round(self.theorem_steps(problem, batches) / batches))
        gap = problem.gap()
        slope = (1.0 if gap is None else gap) + 6.0 * problem.smoothness()
        most = LARGEST_STEPS / batches
        return best_epochs(self.least_epochs, most, slope, lambda q: self.mean_noise(problem, batches, q))

    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        batches = n // self.batch_size
        if batches < 1:
            raise InputError("algorithm.batch_size", self.batch_size, f"at most n = {n:,}")
        steps = self.whole_steps(self.choose_epochs(problem, batches) * batches)
        alpha = 1.0 / batches if self.alpha is None else self.alpha
        if alpha * batches < 1.0 - 1e-12:
            raise InputError("algorithm.alpha", self.alpha, f"at least 1/M = {1.0 / batches:.6g}")
        eta = 1.0 / math.sqrt(batches * steps) if self.eta is None else self.eta
        return Schedule(batches, steps, eta, alpha)
