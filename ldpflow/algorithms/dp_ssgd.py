"""DP-SSGD (Varshney, Thakurta and Jain, 2022, Algorithm 1): shuffled single-record steps, fixed clipping.

    w_i = w_{i-1} - eta (clip_zeta(x_i (<x_i, w_{i-1}> - y_i)) + 2 alpha zeta N(0, I)),   tail average

It is private in the central sense by the secret uniform permutation of the records, for small epsilon
only (see ldpflow.privacy.shuffling). Simulated records are exchangeable already, so that shuffling them
would change no law and is left out; a file's records are shuffled. The same steps without a shuffler are
``tail_sgd`` under the mechanism ``clipped_gaussian``.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from mpmath import mp, mpf
from pydantic import Field

from ldpflow import constants
from ldpflow.algorithms.algorithm import Delta
from ldpflow.algorithms.finite_sum import UNIT
from ldpflow.algorithms.tail_sgd import TailSgd
from ldpflow.mechanisms import Mechanism, PrivacyStatement
from ldpflow.mechanisms.clipped_gaussian import ClippedGaussian
from ldpflow.mechanisms.mechanism import EPSILON
from ldpflow.privacy import shuffling
from ldpflow.problems import Problem
from ldpflow.problems.least_squares import LeastSquares


class DpSsgd(TailSgd):
    """One-pass SGD with shuffled records, clipping at a fixed norm and Gaussian noise.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the whole transcript, central, replacement of one record. Amplification by shuffling
        admits small epsilon only: at most 0.024 for n = 10^6 and delta = 10^-6.
    clip : float > 0, optional
        zeta; 4 K_2 R_x log^{2a}(n) (sqrt(||H||) ||w*|| + sqrt(kappa) sigma) unless given (Theorem 3.2).
    step_rule : str
        What eta is unless given: ``practical`` 1/(2 R_x^2), or ``printed``, the least of that,
        c1 / (log^{4a+2}(n) K_2^2 R_x^2 kappa d alpha^2) and c2 / (log^{2a+2}(n) R_x^2).
    c1, c2 : float
        As in the proof of Theorem 3.2: so small that nothing moves at any n in reach.
    noise_multiplier : float, optional
        alpha; follows from epsilon, delta and n, and is filled in.
    """

    carries_privacy: ClassVar[bool] = True

    cites: ClassVar = ("varshney2022",)
    kind: Literal["dp_ssgd"] = "dp_ssgd"  # type: ignore[assignment]
    epsilon: Annotated[float, Field(gt=0, le=1), EPSILON] = 0.01
    delta: Delta = 1e-6
    clip: Annotated[float, Field(gt=0, le=1e9)] | None = None
    step_rule: Literal["practical", "printed"] = "practical"
    c1: Annotated[float, Field(gt=0)] = 1.0 / 13440.0
    c2: Annotated[float, Field(gt=0)] = 1.0 / 4200.0
    noise_multiplier: Annotated[float, Field(gt=0)] | None = None

    def unsuitable(self, problem: Problem, mechanism: Mechanism) -> str | None:
        if mechanism.kind != "none":
            return "dp_ssgd has its own noise; its mechanism is none"
        if not isinstance(problem, LeastSquares):
            return "dp_ssgd is implemented for least_squares"
        return None

    def depends_on_horizon(self) -> bool:
        return True

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        assert horizon is not None and isinstance(problem, LeastSquares)
        alpha, _ = shuffling.noise_multiplier(self.epsilon, self.delta, horizon)
        changed: dict[str, float] = {"noise_multiplier": alpha}
        k2, a = problem.tail()
        with constants.workdps(30):
            log = mp.log(horizon)
            radius = mpf(problem.radius_square())
            kappa = mpf(problem.largest()) / mpf(problem.smallest())
            if self.clip is None:
                norm = mp.sqrt(mp.fsum(mpf(w) ** 2 for w in problem.truth()))
                size = mp.sqrt(problem.largest()) * norm + mp.sqrt(kappa * problem.error_variance())
                changed["clip"] = float(4 * k2 * mp.sqrt(radius) * log ** (2 * a) * size)
            if self.eta is None:
                eta = [1 / (2 * radius)]
                if self.step_rule == "printed":
                    d = problem.dimension
                    eta.append(self.c1 / log ** (4 * a + 2) / (k2**2 * radius * kappa * d * mpf(alpha) ** 2))
                    eta.append(self.c2 / log ** (2 * a + 2) / radius)
                changed["eta"] = float(min(eta))
        return self.model_copy(update=changed)

    def randomiser(self, mechanism: Mechanism) -> Mechanism:
        if self.clip is None or self.noise_multiplier is None:  # not resolved: a design, no path yet
            return mechanism
        return ClippedGaussian(clip=self.clip, mu=1.0 / self.noise_multiplier)

    def cautions(self, problem: Problem, horizon: int | None) -> list[str]:
        assert isinstance(problem, LeastSquares) and horizon is not None
        assert self.clip is not None and self.noise_multiplier is not None and self.eta is not None
        found = []
        inverse = sum(1.0 / v for v in spectrum(problem))
        share = 4.0 * (self.noise_multiplier * self.clip) ** 2 * inverse / horizon
        start = 0.5 * problem.signal() ** 2
        if share > start:
            found.append(
                f"dp_ssgd at n = {horizon:,}, epsilon = {self.epsilon:g}: vacuous at this size. The noise "
                f"alone (alpha = {self.noise_multiplier:.3g}, zeta = {self.clip:.3g}) makes an excess "
                f"risk of about {share:.2g}; the start has {start:.2g}"
            )
        if self.eta * problem.smallest() * horizon < 10.0:
            found.append(
                f"dp_ssgd at n = {horizon:,}: vacuous at this size. With eta = {self.eta:.2g} the start "
                f"is not forgotten: eta mu n = {self.eta * problem.smallest() * horizon:.2g}"
            )
        return found

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        return PrivacyStatement(
            "(eps, delta)-DP (central, shuffled)",
            UNIT,
            epsilon=self.epsilon,
            delta=self.delta,
        )


def spectrum(problem: LeastSquares) -> tuple[float, ...]:
    """Eigenvalues of H; of a file's, the two ends, the least one as often as it may be."""
    if not problem.stored_records():
        return problem.lambdas
    return (*(problem.smallest(),) * (problem.dimension - 1), problem.largest())
