"""Base classes of algorithms that estimate least squares in one pass."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal, Self

from mpmath import mp, mpf
from pydantic import Field

from ldpflow.columns import Column
from ldpflow.components.algorithms.algorithm import Algorithm, Delta, Epsilon, StepLength
from ldpflow.components.algorithms.finite_sum import NOTION, UNIT
from ldpflow.components.mechanisms import Mechanism, PrivacyStatement
from ldpflow.components.mechanisms.mechanism import CLIPPED, THRESHOLD
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.components.problems.problem import Matrix, Problem, nan_matrix
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.numerics.accounting import Accounting, clipping_noise_multiplier, run_epsilon, run_rho


class OnePassRegression(Algorithm):
    """An algorithm for ``least_squares`` that depends on n, reads raw records and takes no mechanism."""

    carries_privacy: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = False
    averages_tail: ClassVar[bool] = True

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if mechanism.kind != "none":
            return f"{self.kind} needs the mechanism none: it reads raw records"
        if not isinstance(problem, LeastSquares):
            return f"{self.kind} is implemented for least_squares"
        return None

    def depends_on_horizon(self) -> bool:
        return True

    def step_exponent(self) -> float:
        return 0.0


class PrivateRegression(OnePassRegression):
    """An algorithm with Gaussian noise. Epsilon and delta, or a noise multiplier, give its budget.

    Parameters
    ----------
    epsilon, delta : float
        Central budget of the whole run, for replacing one record.
    accounting : str
        How alpha, the noise multiplier, follows from epsilon and delta: ``disjoint`` (zCDP), ``gdp`` (the
        tighter GDP guarantee of the run) or ``paper`` (see ldpflow.numerics.accounting).
    noise_multiplier : float, optional
        Noise multiplier alpha, in place of epsilon. Epsilon then follows from alpha.
    """

    derived: ClassVar[tuple[Column, ...]] = (
        Column("noise_multiplier", "double", "-", "alpha, the noise multiplier"),
        Column("rho", "double", "nats", "rho of the zCDP guarantee of the whole run"),
    )

    epsilon: Epsilon = 1.0
    delta: Delta = 1e-6
    accounting: Accounting = "disjoint"
    noise_multiplier: Annotated[float, Field(gt=0, le=1e12)] | None = None

    def alpha(self) -> float:
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        return clipping_noise_multiplier(self.epsilon, self.delta, self.accounting)

    def privacy_epsilon(self) -> float:
        if self.noise_multiplier is None:
            return self.epsilon
        return run_epsilon(self.noise_multiplier, self.delta, self.accounting, False, 1)

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        epsilon, mu = self.privacy_epsilon(), 1.0 / self.alpha()
        return PrivacyStatement(NOTION, UNIT, epsilon=epsilon, delta=self.delta, mu=mu)

    def rho(self) -> float:
        """zCDP of the whole run."""
        return run_rho(self.alpha(), self.accounting, False, 1)

    def columns(self, problem: Problem, n: int) -> dict[str, Any]:
        return {"noise_multiplier": self.alpha(), "rho": self.rho()}


class MinibatchRegression(PrivateRegression):
    """Steps of constant length over disjoint batches, with tail averaging.

    Parameters
    ----------
    iterations : int, optional
        Number T of steps, which is even. The default is the smallest T >= 2 ceil(log(N S)/(-log(1 - eta
        mu))), with which the iterates forget the start. S = max(1, ||w*||_H^2/sigma^2), and mu is the
        smallest eigenvalue of H. More steps have more noise.
    eta : float > 0, optional
        Step length, by default b/(R_x^2 + (b - 1)||H||). R_x^2 is the least R^2 with
        E ||x||^2 x x' <= R^2 H.
    radius : float > 0, optional
        Scale R of ||x||, by default from ``radius_of``.
    radius_of : str
        Default of R: ``trace`` is sqrt(Tr H), the tighter choice, and ``moment`` is R_x of the paper.
    infeasible_is : str
        ``refused``: a study that violates a condition of the theory is refused. ``warned``: it only warns.
    """

    derived: ClassVar[tuple[Column, ...]] = (
        Column("steps", "int64", "steps", "number of steps T"),
        Column("threshold_records", "int64", "records", "records of a step that set the threshold"),
        Column("gradient_records", "int64", "records", "records of a step that make the gradient"),
        *PrivateRegression.derived,
    )

    measures: ClassVar[tuple[Column, ...]] = (CLIPPED, THRESHOLD)
    cites: ClassVar = ("varshney2022",)

    iterations: Annotated[int, Field(ge=2, le=100_000, multiple_of=2)] | None = None
    eta: StepLength | None = None
    radius: Annotated[float, Field(gt=0, le=1e6)] | None = None
    radius_of: Literal["trace", "moment"] = "trace"
    infeasible_is: Literal["refused", "warned"] = "refused"

    def steps(self, n: int, horizon: int | None = None) -> int:
        made = self.iterations or 0
        return made if horizon is None else min(made, n // self.records(horizon))

    def records(self, horizon: int) -> int:
        """Records of one step. Records that are left over after T steps are not used."""
        assert self.iterations is not None
        return horizon // self.iterations

    def checkpoints(self, n: int) -> tuple[int, ...]:
        """Number of users after each step, and n after the last."""
        records, steps = self.records(n), self.steps(n)
        return (*(records * t for t in range(1, steps)), n)

    def columns(self, problem: Problem, n: int) -> dict[str, Any]:
        s, b = self.batches(n)
        own = {"steps": self.iterations, "threshold_records": s, "gradient_records": b}
        return own | super().columns(problem, n)

    @abstractmethod
    def batches(self, horizon: int) -> tuple[int, int]:
        """Numbers of records of a step for the threshold and for the gradient."""

    def scale(self, problem: LeastSquares) -> float:
        """R, the scale of ||x||."""
        if self.radius is not None:
            return self.radius
        return math.sqrt(problem.trace() if self.radius_of == "trace" else problem.radius_square())

    def step_constant(self) -> float:
        assert self.eta is not None  # resolved
        return self.eta

    def kernel_parameters(self, horizon: int | None) -> dict[str, float]:
        assert horizon is not None
        _, b = self.batches(horizon)
        start = {"eta": self.step_constant(), "theta0": self.theta0}
        return {**start, "b": float(b), "noise": 2.0 * self.alpha() / b}

    def largest_eta(self, problem: LeastSquares, horizon: int) -> float:
        _, b = self.batches(horizon)
        return b / (problem.radius_square() + (b - 1) * problem.largest())

    def with_schedule(self, problem: LeastSquares, horizon: int) -> Self:
        found = self.model_copy(update={"radius": self.scale(problem)})
        if self.iterations is None:
            found = found.model_copy(update={"iterations": found.enough_steps(problem, horizon)})
        if found.batches(horizon)[1] < 1:
            raise InputError("grid.n", horizon, f"enough records for {found.iterations:,} steps")
        if self.eta is None:
            found = found.model_copy(update={"eta": found.largest_eta(problem, horizon)})
        reasons = found.infeasible(problem, horizon)
        if reasons and self.infeasible_is == "refused":
            allowed = f"more records for {self.kind} with {found.iterations} steps"
            hint = f"{reasons[0]}. With infeasible_is = 'warned' it runs nevertheless."
            raise InputError("grid.n", horizon, allowed, hint)
        return found

    def enough_steps(self, problem: LeastSquares, horizon: int) -> int:
        """Smallest even T with which the iterates forget the start, with the step length of this T."""
        with constants.workdps(30):
            ratio = mpf(1)
            if problem.error_variance() > 0.0:
                ratio = max(ratio, mpf(problem.signal()) ** 2 / mpf(problem.error_variance()))
            goal = mp.log(mpf(horizon) * ratio)
            for steps in range(2, 10_001, 2):
                if horizon < 2 * steps:
                    break
                tried = self.model_copy(update={"iterations": steps})
                eta = tried.largest_eta(problem, horizon) if self.eta is None else self.eta
                rest = 1 - mpf(eta) * mpf(problem.smallest())
                if rest <= 0 or steps >= 2 * mp.ceil(goal / -mp.log(rest)):
                    return steps
        hint = f"{self.kind} cannot forget its start in {min(10_000, horizon // 2):,} steps."
        raise InputError("grid.n", horizon, "more records", hint)

    def infeasible(self, problem: LeastSquares, horizon: int) -> list[str]:
        """List conditions of the theory that are violated."""
        _, b = self.batches(horizon)
        least = 1.0 + problem.radius_square() / problem.smallest()
        if problem.largest() > problem.smallest() and b < least:
            return [f"b = {b:,.4g} is below {least:,.4g}: steps need not contract in the norm of H"]
        return []

    def cautions(self, problem: Problem, horizon: int | None) -> list[str]:
        assert isinstance(problem, LeastSquares) and horizon is not None
        return [
            f"{self.kind} at n = {horizon:,}, epsilon = {self.privacy_epsilon():.3g}: the theory is "
            f"vacuous at this size: {found}"
            for found in self.infeasible(problem, horizon)
        ]

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        """NaN, because a path has too few steps for intervals."""
        return nan_matrix(problem.dimension)
