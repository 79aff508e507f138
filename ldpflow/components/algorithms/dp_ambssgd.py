"""Mini-batch regression with adaptive clipping, DP-AMBSSGD, and with a fixed threshold, DP-MBSSGD.

DP-AMBSSGD: Varshney, Thakurta and Jain (2022), Algorithms 2 and 3.

A pass has T steps. Step t takes n = floor(N/T) records. From s of them DP-STAT estimates the size of
residuals privately. The other b make a clipped mean gradient with noise:

    gamma_t = DP-STAT(|<x, w_t> - y|),   zeta_t = c_zeta R gamma_t
    w_{t+1} = w_t - eta ((1/b) sum clip_zeta_t(x (<x, w_t> - y)) + (2 alpha zeta_t/b) N(0, I))

R is the scale of ||x||, c_zeta a constant, and alpha the noise multiplier. The estimate is the average of the
second half of the iterates. DP-STAT goes up a grid of thresholds: Delta 2^i, Delta = B 2^-M. B is a bound of
the first residuals. At each threshold DP-STAT counts the residuals below it, with noise of variance M
alpha^2.

The corrected rule (the default) stops at the first count >= s - Gamma, Gamma = alpha sqrt(2 M log(M/beta)).
It makes M counts. If none is large enough, it takes the last threshold, which has no count. The two sets of
records are disjoint.

The printed rule makes M + 1 counts and stops at the first count >= s. If all residuals lie below a threshold,
the rule goes on with probability 1/2 at each further doubling. So the mean square of gamma is proportional to
B. One record of a step is in both sets. The printed grid, Delta = B/N^200, has ``doublings`` =
ceil(200 log2 N).

DP-MBSSGD has the same steps and noise. Its threshold zeta is fixed beforehand, so that all records make
gradients. A step satisfies zero-concentrated DP (zCDP) with rho = 1/(2 alpha^2), and Gaussian DP (GDP) with
mu = 1/alpha. Batches are disjoint.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from mpmath import mp, mpf
from pydantic import Field

from ldpflow.columns import Column
from ldpflow.components.algorithms.finite_sum import NOTION, UNIT
from ldpflow.components.algorithms.regression import MinibatchRegression
from ldpflow.components.mechanisms.mechanism import Mechanism, PrivacyStatement
from ldpflow.components.problems import Problem
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.errors import InputError
from ldpflow.numerics import constants, fill_normal, register_array
from ldpflow.numerics.accounting import run_epsilon, run_rho
from ldpflow.numerics.streams import CHUNK, LANES, PLANE, STRIDE


class DpAmbssgd(MinibatchRegression):
    """Mini-batch SGD with a clipping threshold that follows the residuals.

    Parameters
    ----------
    c_zeta : float > 0
        Factor c_zeta of the clipping threshold zeta_t = c_zeta R gamma_t. 2 works well. The paper has
        log^a(N) with the exponent a of its tail condition (LeastSquares.tail). Privacy holds for each factor.
    domain : float > 0, optional
        Bound B of the first residuals, by default K_2 log^a(N) (sqrt(kappa) ||w*||_H + sigma) with the
        constants K_2 and a of the tail condition.
    doublings : int
        Number M of thresholds below B. The smallest one, B 2^-M, should lie below the smallest sigma of
        interest.
    beta_stat : float in (0, 1)
        Probability that an error of the counts of a step exceeds Gamma.
    part : int
        The share 1/``part`` of the records of a step sets the clipping threshold (DP-STAT).
    rule : str
        Rule at which DP-STAT stops: ``corrected`` or ``printed``.
    """

    derived: ClassVar[tuple[Column, ...]] = (
        *MinibatchRegression.derived,
        Column("margin", "double", "records", "Gamma, a bound of the noise in the counts of a step"),
    )

    kind: Literal["dp_ambssgd"] = "dp_ambssgd"
    c_zeta: Annotated[float, Field(gt=0, le=1e3)] = 2.0
    domain: Annotated[float, Field(gt=0, le=1e12)] | None = None
    doublings: Annotated[int, Field(ge=1, le=10_000)] = 16
    beta_stat: Annotated[float, Field(gt=0, lt=1)] = 1e-3
    part: Annotated[int, Field(ge=2, le=1000)] = 11
    rule: Literal["corrected", "printed"] = "corrected"

    def batches(self, horizon: int) -> tuple[int, int]:
        records = self.records(horizon)
        s = max(1, records // self.part)
        return s, records - s

    def margin(self) -> float:
        """Gamma = alpha sqrt(2 M log(M/beta)). All M noises are below Gamma with probability 1 - beta."""
        with constants.workdps(30):
            m = mpf(self.doublings)
            return float(mpf(self.alpha()) * mp.sqrt(2 * m * mp.log(m / mpf(self.beta_stat))))

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        assert isinstance(problem, LeastSquares) and horizon is not None
        k2, a = problem.tail()
        with constants.workdps(30):
            size = mp.sqrt(problem.largest() / problem.smallest()) * problem.signal()
            size += mp.sqrt(problem.error_variance())
            domain = float(k2 * mp.log(horizon) ** a * size)
        return self.model_copy(update={"domain": self.domain or domain}).with_schedule(problem, horizon)

    def infeasible(self, problem: LeastSquares, horizon: int) -> list[str]:
        found = super().infeasible(problem, horizon)
        s, b = self.batches(horizon)
        if self.rule == "printed":
            return found
        if s < 4.0 * self.margin():
            # DP-STAT would stop at the first threshold, and SGD would clip all gradients.
            allowed = f"s >= 4 Gamma = {4.0 * self.margin():,.0f} records for DP-STAT"
            hint = f"dp_ambssgd with {self.iterations} steps has s = {s:,}."
            raise InputError("grid.n", horizon, allowed, hint)
        feedback = 8.0 * self.step_constant() * (self.alpha() * self.c_zeta * 4.0) ** 2
        feedback *= self.scale(problem) ** 2 * problem.trace() / problem.smallest()
        if float(b) ** 2 < feedback:
            found.append(f"b = {b:,.4g} is below {math.sqrt(feedback):,.4g}: noise drives the thresholds")
        return found

    def cautions(self, problem: Problem, horizon: int | None) -> list[str]:
        assert isinstance(problem, LeastSquares) and self.domain is not None
        found = super().cautions(problem, horizon)
        finest = math.ldexp(self.domain, -self.doublings)
        if problem.error_variance() > 0.0 and finest > 0.25 * math.sqrt(problem.error_variance()):
            found.append(f"dp_ambssgd: the smallest threshold is {finest:.3g}, above sigma/4: too large")
        return found

    def privacy(self, mechanism: Mechanism) -> PrivacyStatement:
        if self.rule != "printed":
            return super().privacy(mechanism)
        epsilon = run_epsilon(self.alpha(), self.delta, self.accounting, True, self.doublings)
        return PrivacyStatement(NOTION, UNIT, epsilon=epsilon, delta=self.delta)

    def rho(self) -> float:
        return run_rho(self.alpha(), self.accounting, self.rule == "printed", self.doublings)

    def columns(self, problem: Problem, n: int) -> dict[str, Any]:
        return super().columns(problem, n) | {"margin": self.margin()}

    def kernel_parameters(self, horizon: int | None) -> dict[str, float]:
        assert horizon is not None and self.domain is not None and self.radius is not None
        s, _ = self.batches(horizon)
        printed = self.rule == "printed"
        return {
            **super().kernel_parameters(horizon),
            "s": float(s),
            "scale": self.c_zeta * self.radius,
            "finest": math.ldexp(self.domain, -self.doublings),
            "doublings": float(self.doublings),
            "queries": float(self.doublings + 1 if printed else self.doublings),
            "spread": self.alpha() * math.sqrt(self.doublings),
            "level": float(s) if printed else s - self.margin(),
            "overlap": float(printed),
            "fixed": 0.0,
        }


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """Run DP-AMBSSGD or DP-MBSSGD for LANES replicates (see one_pass).

    A step draws a normal variate for each count, then one for each coordinate. ``record.extras`` gets the
    share of clipped gradients, summed over steps, and zeta.
    """
    eta, start, noise_scale, scale = settings.eta, settings.theta0, settings.noise, settings.scale
    s, b, overlap = int(settings.s), int(settings.b), int(settings.overlap)
    finest, doublings, queries = settings.finest, int(settings.doublings), int(settings.queries)
    spread, level = settings.spread, settings.level
    fixed = settings.fixed  # zeta of DP-MBSSGD, 0 for DP-AMBSSGD
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    plane = np.empty(PLANE)
    noise = np.empty((queries + kernel.D) * LANES)
    counts = np.empty((queries + 1) * LANES)
    theta = register_array(kernel.STATE)
    mean = register_array(kernel.STATE)
    size = register_array(LANES)
    zeta = register_array(LANES)
    clipped = register_array(LANES)
    shares = register_array(LANES)
    theta[:] = start
    shares[:] = 0.0
    zeta[:] = fixed
    taken = CHUNK
    drawn = CHUNK
    i = 0
    t = 0
    times, centre, total, sums = record.times, record.centre, record.total, record.sums
    while t < times.shape[0]:
        i += 1
        counts[:] = 0.0
        for k in range(s + overlap):
            if taken == CHUNK:
                kernel.draw_data(*users, data)
                taken = 0
            for lane in range(LANES):
                size[lane] = np.abs(kernel.residual(theta, data, taken * LANES + lane, lane, problem))
            edge = finest
            for m in range(queries):
                for lane in range(LANES):
                    counts[m * LANES + lane] += 1.0 if size[lane] <= edge else 0.0
                edge *= 2.0
            if k < s:
                taken += 1
        for k in range(queries + kernel.D):
            if drawn == CHUNK:
                fill_normal(noises[0], 0.0, plane)
                drawn = 0
            for lane in range(LANES):
                noise[k * LANES + lane] = plane[drawn * LANES + lane]
            drawn += 1
        if fixed == 0.0:
            edge = finest
            for _ in range(doublings):
                edge *= 2.0
            for lane in range(LANES):
                zeta[lane] = scale * edge
            # From the largest threshold down: the smallest one that passes remains.
            for _ in range(queries - doublings):
                edge *= 2.0
            for m in range(queries - 1, -1, -1):
                edge *= 0.5
                for lane in range(LANES):
                    passed = counts[m * LANES + lane] + spread * noise[m * LANES + lane] >= level
                    zeta[lane] = scale * edge if passed else zeta[lane]
        mean[:] = 0.0
        clipped[:] = 0.0
        for _ in range(b):
            if taken == CHUNK:
                kernel.draw_data(*users, data)
                taken = 0
            for lane in range(LANES):
                at = taken * LANES + lane
                r = kernel.residual(theta, data, at, lane, problem)
                # clip(x r) = x min(max(r, -cap), cap). For x = 0 the cap is infinite.
                cap = zeta[lane] / np.sqrt(kernel.square_norm(data, at, problem))
                clipped[lane] += 1.0 if np.abs(r) > cap else 0.0
                r = r if np.abs(r) < np.inf else 0.0
                size[lane] = min(max(r, -cap), cap)
            for j in range(kernel.D):
                for lane in range(LANES):
                    x = kernel.feature(j, data, taken * LANES + lane, problem)
                    mean[j * LANES + lane] += size[lane] * x
            taken += 1
        for lane in range(LANES):
            shares[lane] += clipped[lane] / b
            for j in range(kernel.D):
                step = mean[j * LANES + lane] / b
                step += noise_scale * zeta[lane] * noise[(queries + j) * LANES + lane]
                theta[j * LANES + lane] -= eta * step
            kernel.add_iterate(total, centre, sums, theta, float(i), lane)
        if i == times[t]:
            kernel.keep_path(record, theta, t)
            for lane in range(LANES):
                record.extras[t, lane] = shares[lane]
                record.extras[t, LANES + lane] = zeta[lane]
            t += 1


class DpMbssgd(MinibatchRegression):
    """Mini-batch SGD with clipping at a fixed norm.

    Parameters
    ----------
    clip : float > 0, optional
        Threshold zeta of clipping, by default c_zeta R sqrt(||w*||_H^2 + sigma^2), the scale of the first
        gradients.
    c_zeta : float > 0
        Factor in the default of ``clip``.
    """

    kind: Literal["dp_mbssgd"] = "dp_mbssgd"
    clip: Annotated[float, Field(gt=0, le=1e9)] | None = None
    c_zeta: Annotated[float, Field(gt=0, le=1e3)] = 2.0

    def batches(self, horizon: int) -> tuple[int, int]:
        return 0, self.records(horizon)

    def resolved(self, problem: Problem, horizon: int | None) -> Self:
        assert isinstance(problem, LeastSquares) and horizon is not None
        with constants.workdps(30):
            size = mp.sqrt(mpf(problem.signal()) ** 2 + mpf(problem.error_variance()))
            clip = float(self.c_zeta * self.scale(problem) * size)
        return self.model_copy(update={"clip": self.clip or clip}).with_schedule(problem, horizon)

    def kernel_parameters(self, horizon: int | None) -> dict[str, float]:
        assert self.clip is not None
        threshold = ("s", "scale", "finest", "doublings", "queries", "spread", "level", "overlap")
        return super().kernel_parameters(horizon) | {"fixed": self.clip} | dict.fromkeys(threshold, 0.0)
