"""Length of the momentum algorithms' runs: the theorems' T, and the balancing number of epochs.

Theorems 6 and 9 of Tran and Cutkosky (2022) set T so that optimisation and noise are of the same order,
without constants and, in Theorem 9, without logarithms; at practical sizes this leaves the noise
of Algorithm 2 far above the gradient. What is balanced here instead is the descent lemma's bound,

    (gap + 6 L) / sqrt(q) + 2 E||noise||(q),    eta = 1/sqrt(M T), alpha = 1/M, q = T/M epochs,

with the noise that is added at this budget, from the variances of .privacy.tree and upper bounds of
the accountant's c. The first term falls like q^-1/2; the noise grows like q^1/2 (Algorithm 1) and q^1/4
(Algorithm 2). The optimum depends on the constants that are bounds only: shorter or longer runs may do
better.

Base class of the algorithms for private empirical risk minimisation.

Central model: a curator holds N records and releases all iterates under (epsilon, delta)-DP with
respect to replacing one record. Sigma is derived from the budget by accounting for the whole
transcript, all epochs included.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

from mpmath import mp, mpf
from pydantic import Field, model_validator

from ldpflow.columns import Column
from ldpflow.components.algorithms.algorithm import BaseAlgorithm, BatchSize, Delta, Epsilon, StepLength
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.problems.finite_sum import FiniteSumProblem
from ldpflow.errors import InputError
from ldpflow.numerics.constants import workdps
from ldpflow.numerics.streams import LANES

DIGITS = 40


def first_theorem_steps(n: int, d: int, epsilon: float, delta: float) -> float:
    """T of Theorem 6: T log2 T = epsilon N^2 / sqrt(d log(1/delta)), solved; not rounded."""
    with workdps(DIGITS):
        target = mpf(epsilon) * n**2 / mp.sqrt(d * mp.log(1 / mpf(delta))) * mp.log(2)
        return float(mp.exp(mp.lambertw(target).real))


def reduced_theorem_steps(n: int, d: int, epsilon: float) -> float:
    """T of Theorem 9: N^(7/3) epsilon^(4/3) / d^(2/3); not rounded."""
    with workdps(DIGITS):
        third = mp.cbrt(mpf(n) ** 7 * mpf(epsilon) ** 4 / mpf(d) ** 2)
        return float(third)


def best_epochs(least: int, most: float, slope: float, noise: Callable[[int], float]) -> int:
    """The q in a grid with ratio 9/8 that minimises slope / sqrt(q) + 2 noise(q).

    Parameters
    ----------
    least : int
    most : float
        Longest run allowed, in epochs.
    slope : float
        gap + 6 L.
    noise : callable
        E||noise|| after q epochs.
    """
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
MEMORY_BUDGET = 2**30
"""Bytes that the records and rings of LANES replicates may take."""


def checkpoint_steps(steps: int, points: int) -> tuple[int, ...]:
    """The middles of ``points`` equal parts of 1..T, and T: means over them estimate those over all."""
    middles = {max(1, (2 * i + 1) * steps // (2 * points)) for i in range(points)}
    return tuple(sorted(middles | {steps}))


@dataclass(frozen=True)
class Schedule:
    """Steps of a run: M, T, eta, alpha, and the cross-batch weight (NaN where there is none)."""

    batches: int
    steps: int
    eta: float
    alpha: float = 1.0
    cross: float = math.nan


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


class FiniteSumAlgorithm(BaseAlgorithm):
    """An algorithm that visits a fixed data set for many epochs, private by itself.

    The module that defines an algorithm also holds its kernel function ``recursion`` (see
    ldpflow.simulators.finite_sum_kernel).

    Parameters
    ----------
    epsilon, delta : float
        Budget of the whole transcript: central, replacement of one record.
    epochs : float, optional
        q = T/M, 20 unless given; T is rounded to whole steps.
    eta : float, optional
        Step length; 1 / sqrt(M T) unless given.
    theta0 : float
        Start, the same in every coordinate.
    """

    family: ClassVar[str] = "finite_sum"
    carries_privacy: ClassVar[bool] = True

    derived: ClassVar[tuple[Column, ...]] = (
        Column("epochs", "double", "epochs", "q = T/M"),
        Column("steps", "int64", "steps", "T"),
        Column("alpha", "double", "share", "weight of the new gradient in the momentum"),
        Column("eta", "double", "unit of w", "step length"),
        Column("cross", "double", "share", "the paper's gamma; null where an algorithm has none"),
        Column("sigma", "double", "-", "noise multiplier; 0 without noise"),
        Column(
            "cost",
            "double",
            "-",
            "c of the transcript's RDP c z / (2 sigma^2); null for `dp_sgd` and without noise",
        ),
        Column("rho", "double", "nats", "c / (2 sigma^2)"),
        Column("lipschitz", "double", "unit of the gradient", "G that privacy rests on"),
        Column("smoothness", "double", "1/unit of w", "L that privacy rests on"),
    )

    epsilon: Epsilon = 1.0
    delta: Delta = 1e-6
    epochs: Annotated[float, Field(gt=0, le=1e9)] | None = None
    eta: StepLength | None = None

    def privacy(self) -> PrivacyStatement:
        """The guarantee of all iterates w_1, ..., w_T."""
        return PrivacyStatement(NOTION, UNIT, epsilon=self.epsilon, delta=self.delta)

    @abstractmethod
    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        """Steps and step length for N = n records.

        Raises
        ------
        InputError
            If the settings are impossible for this N.
        """

    @abstractmethod
    def multiplier(self, problem: FiniteSumProblem, n: int, at: Schedule) -> tuple[float, float]:
        """sigma, and c of the transcript's RDP c z / (2 sigma^2): 0 and infinite without noise."""

    def plan(self, problem: FiniteSumProblem, n: int) -> RunPlan:
        """The schedule with its noise; see :func:`plan_of`, which remembers it."""
        at = self.schedule(problem, n)
        sigma, cost = self.multiplier(problem, n, at)
        rho = cost / (2.0 * sigma * sigma) if sigma > 0.0 else math.inf
        return RunPlan(
            n, at.batches, getattr(self, "batch_size", n), at.steps, at.eta, at.alpha, at.cross, sigma, cost,
            rho, problem.lipschitz_of_loss(), problem.smoothness_of_loss(),
        )  # fmt: skip

    @abstractmethod
    def kernel_settings(self, plan: RunPlan) -> dict[str, float]:
        """Values of the recursion's argument ``settings``, by name."""

    def noise_kind(self) -> int:
        """The kernel's compile-time constant NOISE."""
        return 1

    def memory(self, problem: FiniteSumProblem, n: int) -> int:
        """Bytes that a batch of lanes takes beyond its data."""
        return 0

    def memory_of_data(self, problem: FiniteSumProblem, n: int) -> int:
        """Bytes that a batch of lanes takes with its data."""
        copies = 1 if problem.file is not None else LANES
        return 8 * n * (problem.dimension + 1) * copies + self.memory(problem, n)

    def check(self, problem: FiniteSumProblem, n: int) -> None:
        """Refuse an n that does not go with the settings, or does not fit into memory.

        Raises
        ------
        InputError
        """
        self.schedule(problem, n)
        rest = self.memory(problem, n)
        data = self.memory_of_data(problem, n) - rest
        if data + rest > MEMORY_BUDGET:
            mebi = 2.0**20
            raise InputError(
                "grid.n",
                n,
                f"what fits {MEMORY_BUDGET / mebi:.0f} MiB for {LANES} replicates in lockstep",
                f"At d = {problem.dimension}, the records take {data / mebi:.0f} MiB"
                + (f" and {self.kind}'s windows {rest / mebi:.0f} MiB." if rest else "."),
            )
        largest = problem.largest_n()
        if largest is not None and n > largest:
            raise InputError("grid.n", n, f"at most {largest:,}, the records of {problem.file}")

    def columns(self, problem: FiniteSumProblem, n: int) -> dict[str, Any]:
        """Values of :attr:`derived`."""
        plan = plan_of(problem, self, n)
        columns = {column.name: getattr(plan, column.name) for column in self.derived}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in columns.items()
        }


@lru_cache(maxsize=10_000)
def plan_of(problem: FiniteSumProblem, algorithm: FiniteSumAlgorithm, n: int) -> RunPlan:
    """The algorithm's plan; accounting for a long run takes seconds, and many ask for it."""
    return algorithm.plan(problem, n)


class MomentumAlgorithm(FiniteSumAlgorithm):
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
    parameters : str
        ``given``: epochs, eta and alpha as they stand above. ``theorem``: as the utility theorem sets
        them. ``balanced``: the number of epochs that balances optimisation and noise for this problem,
        N, d and budget, with the noise that is really added (see .schedules).
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
        """T of the utility theorem, not rounded; a batch of b counts as one record with b epsilon."""

    @abstractmethod
    def mean_noise(self, problem: FiniteSumProblem, batches: int, epochs: int) -> float:
        """E||noise|| of the momentum along a run of so many epochs, late in it."""

    least_epochs: ClassVar[int] = 1
    """The fewest epochs that ``theorem`` and ``balanced`` choose."""

    def chosen_epochs(self, problem: FiniteSumProblem, batches: int) -> float:
        """q, as ``parameters`` says."""
        if self.parameters == "given":
            return DEFAULT_EPOCHS if self.epochs is None else self.epochs
        if self.parameters == "theorem":
            # In whole epochs; alpha, eta and cross follow from the rounded T.
            return max(self.least_epochs, round(self.theorem_steps(problem, batches) / batches))
        gap = problem.gap()
        slope = (1.0 if gap is None else gap) + 6.0 * problem.smoothness()
        most = LARGEST_STEPS / batches
        return best_epochs(self.least_epochs, most, slope, lambda q: self.mean_noise(problem, batches, q))

    def schedule(self, problem: FiniteSumProblem, n: int) -> Schedule:
        return schedule_of(problem, self, n)

    def laid_out(self, problem: FiniteSumProblem, n: int) -> Schedule:
        """Compute the schedule that :meth:`schedule` returns; choosing the number of epochs takes time."""
        batches = n // self.batch_size
        if batches < 1:
            raise InputError("algorithm.batch_size", self.batch_size, f"at most n = {n:,}")
        epochs = self.chosen_epochs(problem, batches)
        steps = max(1, round(epochs * batches))
        if steps > LARGEST_STEPS:
            raise InputError(
                "algorithm.epochs",
                epochs,
                f"at most {LARGEST_STEPS:,} steps",
                f"They make {float(steps):.3g}, with parameters = '{self.parameters}'.",
            )
        alpha = 1.0 / batches if self.alpha is None else self.alpha
        if alpha * batches < 1.0 - 1e-12:
            raise InputError(
                "algorithm.alpha",
                self.alpha,
                f"at least 1/M = {1.0 / batches:.6g}, M = {batches:,} batches an epoch",
            )
        eta = 1.0 / math.sqrt(batches * steps) if self.eta is None else self.eta
        return Schedule(batches, steps, eta, alpha)


@lru_cache(maxsize=10_000)
def schedule_of(problem: FiniteSumProblem, algorithm: MomentumAlgorithm, n: int) -> Schedule:
    """The schedule of a momentum algorithm, remembered."""
    return algorithm.laid_out(problem, n)
