"""SGD with one user, one private gradient and one step at a time.

    theta_i = theta_{i-1} - eta_i A(g(X_i, theta_{i-1}))

LDP-SGD (Dette and Graw, Algorithm 1): eta_i = c i^(-gamma). Algorithm 1 of the paper prints a plus sign.
Equation 6 of the paper has the minus sign, with which SGD descends. Each record is used once. The transcript
therefore has the guarantee of the mechanism for each record.

Tail averaging (Jain, Kakade, Kidambi, Netrapalli and Sidford, 2018): steps are constant, and the estimate is
(1/(n - floor(n/2))) sum_{i > n/2} theta_i. Interval methods around the average use the average of all
iterates.

DP-SSGD (Varshney, Thakurta and Jain, 2022, Algorithm 1): tail-averaged SGD on shuffled records. Gradients are
clipped at zeta and get the noise 2 alpha zeta N(0, I) with the noise multiplier alpha. The secret uniform
permutation of the records makes the algorithm private in the central sense, for small epsilon (see
ldpflow.numerics.accounting). Records of a file are shuffled. Simulated records are exchangeable and need no
shuffling. DP-SSGD without shuffling is ``tail_sgd`` with ``clipped_gaussian``.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.components.algorithms.algorithm import (
    Algorithm,
    CoordinateSteps,
    Delta,
    StepLength,
    add_matrices,
)
from ldpflow.components.algorithms.finite_sum import UNIT
from ldpflow.components.algorithms.regression import OnePassRegression
from ldpflow.components.mechanisms.clipped_gaussian import ClippedGaussian
from ldpflow.components.mechanisms.mechanism import EPSILON, Mechanism, PrivacyStatement
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.components.problems.problem import Matrix, Problem, Units, diagonal
from ldpflow.numerics import constants, register_array, step_sizes
from ldpflow.numerics.accounting import shuffled_noise_multiplier
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE
from ldpflow.settings import Parameters


class RecordSgd(Algorithm):
    """Base class of SGD that uses one record in each step, and each record once."""

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        steps = {"c": self.step_constant(), "gamma": self.step_exponent()}
        return {**steps, "theta0": self.theta0, "radius": 0.0}

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        return add_matrices(problem.gradient_covariance(), mechanism.noise_covariance(problem))

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return mechanism.privacy()


class LdpSgd(CoordinateSteps, RecordSgd):
    """One-pass stochastic gradient descent on privatised gradients.

    Parameters
    ----------
    radius : float > 0, optional
        Radius of a ball around the start onto which every iterate is projected.
    """

    counts_in_mechanism: ClassVar[bool] = True
    cites: ClassVar = ("dette2024",)
    kind: Literal["ldp_sgd"] = "ldp_sgd"
    radius: Annotated[float, Field(gt=0)] | None = None

    def in_units(self, units: Units) -> Self:
        found = super().in_units(units)
        return found if self.radius is None else found.model_copy(update={"radius": units.size(self.radius)})

    def projects(self) -> bool:
        return self.radius is not None

    def kernel_parameters(self, horizon: int | None) -> Parameters:
        own = {**super().kernel_parameters(horizon), "radius": self.radius or 0.0}
        return {**own, **self.coordinate_parameters()}


def project(kernel, theta, start, radius, lane):  # type: ignore[no-untyped-def]
    """theta <- start + (theta - start) min(1, radius/||theta - start||)."""
    square = 0.0
    for j in range(kernel.D):
        distance = theta[j * LANES + lane] - start
        square += distance * distance
    # At the start the ratio is infinite, so shrink is 1.
    shrink = min(1.0, radius / np.sqrt(square))
    for j in range(kernel.D):
        theta[j * LANES + lane] = start + shrink * (theta[j * LANES + lane] - start)


def put_in_order(kernel, theta, lane):  # type: ignore[no-untyped-def]
    """Sort the iterates of several quantiles by exchanges of neighbours: theta_1 <= .. <= theta_Q."""
    for k in range(kernel.D):
        for j in range(kernel.D):
            if k > 0 and j > 0:
                low = theta[(j - 1) * LANES + lane]
                high = theta[j * LANES + lane]
                theta[(j - 1) * LANES + lane] = min(low, high)
                theta[j * LANES + lane] = max(low, high)


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """Run LDP-SGD for LANES replicates (see one_pass). The variates of CHUNK steps are drawn together.

    ``record.extras`` gets the counts of the mechanism, such as the number of clipped gradients.
    """
    c, gamma, start, radius = settings.c, settings.gamma, settings.theta0, settings.radius
    times, marks, centre = record.times, record.marks, record.centre
    total, sums, tile, counts = record.total, record.sums, record.tile, record.counts
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    noise = np.empty(kernel.NOISE_PLANES * STRIDE)
    eta = np.empty(CHUNK)
    theta = register_array(kernel.STATE)
    g = register_array(kernel.STATE)
    theta[:] = start
    if kernel.BY_COORDINATE:
        for j in range(kernel.D):
            theta[j * LANES : (j + 1) * LANES] = start + settings.offsets[j]
    kept = 0
    i = 0
    t = 0
    while t < times.shape[0]:
        kernel.draw_data(*users, data)
        kernel.draw_noise(*noises, noise)
        step_sizes(i + 1, c, gamma, eta)
        for k in range(CHUNK):
            i += 1
            eta_i = eta[k]
            step = float(i)
            for lane in range(LANES):
                at = k * LANES + lane
                kernel.gradient(g, theta, data, at, lane, problem)  # g(X_i, theta_{i-1})
                kernel.randomise(g, noise, at, lane, mechanism, counts)  # A(g(X_i, theta_{i-1}))
                kernel.keep_step(tile, centre, theta, g, kept, lane)
                for j in range(kernel.D):
                    # theta_i = theta_{i-1} - eta_i A(g(X_i, theta_{i-1}))
                    if kernel.BY_COORDINATE:
                        theta[j * LANES + lane] -= eta_i * settings.factors[j] * g[j * LANES + lane]
                    else:
                        theta[j * LANES + lane] -= eta_i * g[j * LANES + lane]
                if kernel.PROJECTED:
                    project(kernel, theta, start, radius, lane)
                if kernel.ORDERED:
                    put_in_order(kernel, theta, lane)
                kernel.add_iterate(total, centre, sums, theta, step, lane)
            ends = i == times[t] and marks[t] >= 0
            kept = kernel.end_step(sums, tile, kept, ends)
            if i == times[t]:
                kernel.keep_path(record, theta, t)
                for s in range(kernel.EXTRAS):
                    record.extras[t, s] = counts[s]
                t += 1
                if t == times.shape[0]:
                    break
            kept = kernel.restart(sums, i, kept)


class TailSgd(RecordSgd):
    """SGD with constant steps, one record in each.

    Parameters
    ----------
    eta : float > 0, optional
        Step length. For ``least_squares`` it has the default 1/(2 R_x^2), the largest in Lemma 3.5 of
        Varshney, Thakurta and Jain (2022). R_x^2 is the least R^2 with E ||x||^2 x x' <= R^2 E x x'.
    """

    counts_in_mechanism: ClassVar[bool] = True
    averages_tail: ClassVar[bool] = True
    cites: ClassVar = ("jain2018",)
    kind: Literal["tail_sgd"] = "tail_sgd"
    eta: StepLength | None = None

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if self.eta is None and not isinstance(problem, LeastSquares):
            return "it needs eta, which has a default for least_squares only"
        if mechanism.replaces_data():
            return "sampling by private bits needs decaying steps: use ldp_sgd"
        return None

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        if self.eta is not None or not isinstance(problem, LeastSquares):
            return self
        return self.model_copy(update={"eta": 0.5 / problem.radius_square()})

    def step_exponent(self) -> float:
        return 0.0

    def step_constant(self) -> float:
        assert self.eta is not None  # resolved
        return self.eta

    def step_covariance(self, problem: Problem, mechanism: Mechanism) -> Matrix:
        """Covariance at theta*, and for simulated least squares its mean over the stationary law of theta."""
        at_truth = super().step_covariance(problem, mechanism)
        if not isinstance(problem, LeastSquares) or problem.stored_records():
            return at_truth
        noise = mechanism.noise_covariance(problem)[0][0]
        extra = multiplicative_noise(problem, self.step_constant(), noise)
        return add_matrices(at_truth, diagonal(extra))


def multiplicative_noise(problem: LeastSquares, eta: float, noise: float) -> list[float]:
    """Variances of (x x' - H)(theta - theta*) for the stationary law of theta, without clipping.

    Let l_i be the eigenvalues of H and k the kurtosis of the design. The second moments c_i of theta - theta*
    solve

        c_i = c_i (1 - 2 eta l_i + eta^2 (k - 1) l_i^2) + eta^2 l_i A + eta^2 (sigma^2 l_i + noise),

    A = sum_j l_j c_j. ``noise`` is the variance of the privacy noise in a coordinate. The result is NaN if
    the mean square diverges.
    """
    lambdas, k = problem.lambdas, problem.kurtosis()
    left = [2.0 * v - eta * (k - 1.0) * v * v for v in lambdas]
    share = sum(eta * v * v / f for v, f in zip(lambdas, left, strict=True))
    if min(left) <= 0.0 or share >= 1.0:
        return [float("nan")] * len(lambdas)
    own = [problem.error_variance() * v + noise for v in lambdas]
    total = sum(eta * v * s / f for v, s, f in zip(lambdas, own, left, strict=True)) / (1.0 - share)
    c = [eta * (v * total + s) / f for v, s, f in zip(lambdas, own, left, strict=True)]
    return [v * total + (k - 2.0) * v * v * m for v, m in zip(lambdas, c, strict=True)]


class DpSsgd(OnePassRegression, TailSgd):
    """One-pass SGD with shuffled records, clipping at a fixed norm and Gaussian noise.

    Parameters
    ----------
    epsilon, delta : float
        Central budget of the whole transcript, for replacing one record. Amplification by shuffling needs a
        small epsilon: at most 0.024 for n = 10^6 and delta = 10^-6.
    clip : float > 0, optional
        zeta, the largest norm of a clipped gradient. Theorem 3.2 gives the default
        4 K_2 R_x log^{2a}(n) (sqrt(||H||) ||w*|| + sqrt(kappa) sigma). See ``LeastSquares.tail``.
    step_rule : str
        Default of eta: ``practical`` is 1/(2 R_x^2), and ``printed`` is the smallest of 1/(2 R_x^2),
        c1 / (log^{4a+2}(n) K_2^2 R_x^2 kappa d alpha^2) and c2 / (log^{2a+2}(n) R_x^2).
    c1, c2 : float
        Constants c1 and c2 in the proof of Theorem 3.2. They are so small that iterates hardly move at
        feasible n.
    noise_multiplier : float, optional
        Noise multiplier alpha, which follows from epsilon, delta and n.
    """

    has_intervals: ClassVar[bool] = True
    cites: ClassVar = ("varshney2022",)
    kind: Literal["dp_ssgd"] = "dp_ssgd"  # type: ignore[assignment]
    epsilon: Annotated[float, Field(gt=0, le=1), EPSILON] = 0.01
    delta: Delta = 1e-6
    clip: Annotated[float, Field(gt=0, le=1e9)] | None = None
    step_rule: Literal["practical", "printed"] = "practical"
    c1: Annotated[float, Field(gt=0)] = 1.0 / 13440.0
    c2: Annotated[float, Field(gt=0)] = 1.0 / 4200.0
    noise_multiplier: Annotated[float, Field(gt=0)] | None = None

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        assert horizon is not None and isinstance(problem, LeastSquares)
        alpha, _ = shuffled_noise_multiplier(self.epsilon, self.delta, horizon)
        k2, a = problem.tail()
        with constants.workdps(30):
            log = mp.log(horizon)
            radius = mpf(problem.radius_square())
            kappa = mpf(problem.largest()) / mpf(problem.smallest())
            norm = mp.sqrt(mp.fsum(mpf(w) ** 2 for w in problem.truth()))
            size = mp.sqrt(problem.largest()) * norm + mp.sqrt(kappa * problem.error_variance())
            clip = float(4 * k2 * mp.sqrt(radius) * log ** (2 * a) * size)
            eta = [1 / (2 * radius)]
            if self.step_rule == "printed":
                d = problem.dimension
                eta.append(self.c1 / log ** (4 * a + 2) / (k2**2 * radius * kappa * d * mpf(alpha) ** 2))
                eta.append(self.c2 / log ** (2 * a + 2) / radius)
        given = {"clip": self.clip or clip, "eta": self.eta or float(min(eta)), "noise_multiplier": alpha}
        return self.model_copy(update=given)

    def randomiser(self, mechanism: Mechanism) -> Mechanism:
        if self.clip is None or self.noise_multiplier is None:  # not resolved yet
            return mechanism
        return ClippedGaussian(clip=self.clip, mu=1.0 / self.noise_multiplier)

    def cautions(self, problem: Problem, horizon: int | None) -> list[str]:
        assert isinstance(problem, LeastSquares) and horizon is not None
        assert self.clip is not None and self.noise_multiplier is not None and self.eta is not None
        found = []
        eigenvalues = problem.lambdas
        if problem.stored_records():  # only two are known: take the smallest for all others
            eigenvalues = (*(problem.smallest(),) * (problem.dimension - 1), problem.largest())
        inverse = sum(1.0 / v for v in eigenvalues)
        share = 4.0 * (self.noise_multiplier * self.clip) ** 2 * inverse / horizon
        start = 0.5 * problem.signal() ** 2
        if share > start:
            found.append(
                f"dp_ssgd at n = {horizon:,}, epsilon = {self.epsilon:g}: worse than the start. The noise "
                f"makes an excess risk of about {share:.2g}, and the start has {start:.2g}"
            )
        forgotten = self.eta * problem.smallest() * horizon
        if forgotten < 10.0:
            found.append(
                f"dp_ssgd at n = {horizon:,}: the start is not forgotten. eta = {self.eta:.2g} times the "
                f"smallest eigenvalue times n is {forgotten:.2g}, below 10"
            )
        return found

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        notion = "(eps, delta)-DP (central, shuffled)"
        return PrivacyStatement(notion, UNIT, epsilon=self.epsilon, delta=self.delta)
