"""Checks of a component by simulation: true value, covariance, curvature, sensitivity, unbiasedness."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.audit.bounds import claim_of
from ldpflow.audit.local import audit_mechanism
from ldpflow.intervals.record import joined
from ldpflow.mechanisms import Mechanism
from ldpflow.mechanisms.laplace import Laplace
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems import Problem
from ldpflow.problems.quantile import Quantile
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import fault_in
from ldpflow.testing.probe import Probe
from ldpflow.testing.running import SEED, STEPS, Wrong, path_of, rows_of, runs

Array = NDArray[np.float64]

ERROR_RATE = 1e-4

AUDITED = 2000
"""Outputs on either input of the audit that shows that there can be one."""


def gradients(problem: Problem, mechanism: Mechanism, point: tuple[float, ...]) -> Array:
    """Private gradients of STEPS users in LANES replicates at one point, shape (users, d)."""
    simulator = OnePass(problem, mechanism, Probe(point=point))
    from ldpflow.simulators.one_pass import run_path

    record = run_path(simulator, SEED, range(LANES), list(range(1, STEPS + 1)))
    return np.asarray(record.iterates.transpose(0, 2, 1).reshape(-1, problem.dimension))


def near(mean: Array, deviation: Array, count: int, what: str) -> str:
    """Whether simulated means are 0 within what chance explains, at ERROR_RATE over the coordinates."""
    from ldpflow.constants import normal_quantile

    z = normal_quantile(1 - ERROR_RATE / (2 * len(mean)))
    error = deviation / math.sqrt(count)
    wrong = np.abs(mean) > z * error + 1e-12
    if wrong.any():
        j = int(np.argmax(np.abs(mean) / np.maximum(error, 1e-300)))
        raise Wrong(f"{what} in coordinate {j}: {mean[j]:.4g} with a standard error of {error[j]:.2g}")
    return f"{count:,} users"


def truth_of(problem: Problem) -> tuple[float, ...]:
    """theta*, checked for its form."""
    truth = problem.truth()
    if len(truth) != problem.dimension or not all(isinstance(v, (int, float)) for v in truth):
        raise Wrong(f"truth() is {truth!r}; it has to be {problem.dimension} numbers")
    return tuple(map(float, truth))


def problem_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Shapes, gradient, truth, covariance, curvature and sensitivity of a problem."""

    def shapes() -> None:
        problem = made["it"]
        d = len(truth_of(problem))
        for name in ("curvature", "gradient_covariance"):
            matrix = np.array(getattr(problem, name)(), dtype=float)
            if matrix.shape != (d, d):
                raise Wrong(f"{name}() has shape {matrix.shape}; it has to be {(d, d)}")
        if np.linalg.eigvalsh(np.array(problem.gradient_covariance(), dtype=float)).min() < -1e-9:
            raise Wrong("gradient_covariance() has a negative eigenvalue")

    def truth() -> str:
        problem = made["it"]
        g = gradients(problem, NoMechanism(), truth_of(problem))
        return near(g.mean(axis=0), g.std(axis=0, ddof=1), len(g), "E g(X, theta*) is not 0")

    def covariance() -> str:
        problem = made["it"]
        g = gradients(problem, NoMechanism(), truth_of(problem))
        expected = np.array(problem.gradient_covariance(), dtype=float)
        d = g.shape[1]
        centred = g - g.mean(axis=0)
        products = (centred[:, :, None] * centred[:, None, :]).reshape(-1, d * d) - expected.reshape(-1)
        near(products.mean(axis=0), products.std(axis=0, ddof=1), len(g), "the covariance of g is not S")
        return f"{len(g):,} users"

    def curvature() -> str:
        problem = made["it"]
        point = truth_of(problem)
        matrix = np.array(problem.curvature(), dtype=float)
        spread = np.sqrt(np.diag(np.array(problem.gradient_covariance(), dtype=float)))
        for j in range(len(point)):
            # A step over which the mean moves by about a tenth of g's standard deviation.
            h = 0.1 * float(spread[j]) / max(float(np.abs(matrix[:, j]).max()), 1e-12)
            above = gradients(problem, NoMechanism(), (*point[:j], point[j] + h, *point[j + 1 :]))
            below = gradients(problem, NoMechanism(), (*point[:j], point[j] - h, *point[j + 1 :]))
            slope = (above - below) / (2 * h)
            error = slope.std(axis=0, ddof=1) / math.sqrt(len(slope))
            # Curvature of higher order moves a difference quotient by a little: ten percent is let pass.
            allowed = 5 * error + 0.1 * np.abs(matrix[:, j]) + 1e-9
            if (np.abs(slope.mean(axis=0) - matrix[:, j]) > allowed).any():
                shown = np.array2string(slope.mean(axis=0), precision=3)
                raise Wrong(f"column {j} of the derivative is about {shown}, curvature() says {matrix[:, j]}")
        return "within 10% and chance"

    def sensitivity() -> str:
        problem = made["it"]
        worst = {"l1": 0.0, "l2": 0.0}
        for scale in (0.0, 1.0, -3.0):
            g = gradients(problem, NoMechanism(), tuple(v + scale for v in truth_of(problem)))
            apart = g - g[::-1]
            worst["l1"] = max(worst["l1"], float(np.abs(apart).sum(axis=1).max()))
            worst["l2"] = max(worst["l2"], float(np.sqrt((apart**2).sum(axis=1)).max()))
        for name, found in worst.items():
            claimed = float(getattr(problem, f"{name}_sensitivity")())
            if found > claimed * (1 + 1e-9):
                raise Wrong(f"two gradients are {found:.6g} apart, {name}_sensitivity() says {claimed:.6g}")
        return f"at most {worst['l1']:.4g} (L1) and {worst['l2']:.4g} (L2) seen"

    yield "shapes", shapes
    yield "runs", lambda: runs(path_of(problem=made["it"]))
    yield "true value: E g(X, theta*) = 0", truth
    yield "covariance of the gradient", covariance
    yield "curvature: derivative of E g at theta*", curvature
    yield "sensitivity", sensitivity


def mechanism_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Unbiasedness and covariance of a mechanism, on the same users with and without it."""

    def runs_with_it() -> str:
        reason = made["it"].unsuitable(Quantile())
        if reason is not None:
            raise Wrong(f"the median is refused: {reason}")
        return runs(path_of(mechanism=made["it"]))

    def unbiased() -> str:
        problem, mechanism = Quantile(), made["it"]
        for point in (0.0, 1.0, -0.5):
            noise = gradients(problem, mechanism, (point,)) - gradients(problem, NoMechanism(), (point,))
            near(noise.mean(axis=0), noise.std(axis=0, ddof=1), len(noise), f"E[A(g) - g] at {point}")
        return f"at three points, {len(noise):,} users each"

    def covariance() -> str:
        problem, mechanism = Quantile(), made["it"]
        point = problem.truth()
        noise = gradients(problem, mechanism, point) - gradients(problem, NoMechanism(), point)
        squares = noise**2 - float(mechanism.noise_covariance(problem)[0][0])
        return near(squares.mean(axis=0), squares.std(axis=0, ddof=1), len(noise), "Var(A(g) | g) - claimed")

    def statement() -> str:
        found = made["it"].privacy()
        if not found.notion or not found.unit:
            raise Wrong(f"privacy() is {found}; notion and unit have to be named")
        if found.notion != "none":
            claim_of(found)
        return f"{found.notion}, unit: {found.unit}"

    def audit() -> str:
        mechanism = made["it"]
        if mechanism.privacy().notion == "none":
            return "nothing is claimed"
        found = audit_mechanism(mechanism, Quantile(), AUDITED)
        if not found.passed:
            raise Wrong(
                f"{found.parameter} = {found.claim:g} is claimed, and it is at least {found.bound:.4g}"
            )
        return (
            f"can be audited; {AUDITED:,} outputs test no claim: ldpflow audit {mechanism.kind} --plugin FILE"
        )

    yield "runs", runs_with_it
    yield "unbiased: E[A(g) | g] = g", unbiased
    yield "covariance of the noise", covariance
    yield "privacy statement", statement
    yield "audit", audit


def algorithm_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Step sizes of an algorithm: realised against declared ones."""

    def steps() -> str:
        algorithm = made["it"]
        if not algorithm.has_intervals():
            return "it makes too few for intervals"
        gamma, c = algorithm.step_exponent(), algorithm.step_constant()
        if math.isnan(gamma) and math.isnan(c):
            return "not declared: no method or prediction reads them"
        realised = step_sizes_of(path_of(algorithm=algorithm))
        if np.isnan(realised).any():
            if math.isnan(c):
                return "not compared: the recursion keeps no transcript (kernel.keep_step)"
            raise Wrong("kernel.keep_step() has to get theta_(i-1) and its private gradient in every step")
        last, half = len(realised), len(realised) // 2
        if math.isnan(c):
            found = math.log(realised[half - 1] / realised[last - 1]) / math.log(last / half)
            if not abs(found - gamma) < 0.1:
                raise Wrong(f"steps {half} to {last} fall like i^-{found:.3g}, step_exponent() is {gamma:g}")
            return f"they fall like i^-{gamma:g}; their sizes are not declared, so TR and TRC are left out"
        declared = c * np.arange(1.0, last + 1) ** -gamma
        wrong = np.flatnonzero(np.abs(realised - declared) > 1e-6 * declared)
        if len(wrong):
            i = int(wrong[np.argmax(np.abs(np.log(realised[wrong] / declared[wrong])))])
            raise Wrong(
                f"step {i + 1} has size {realised[i]:.6g}, step_constant() and step_exponent() declare "
                f"{c:g} i^-{gamma:g} = {declared[i]:.6g}; let step_constant() return math.nan where "
                "steps have another size"
            )
        return f"{c:g} i^-{gamma:g} in {last} steps"

    yield "runs", lambda: runs(path_of(algorithm=made["it"]))
    yield "declared steps are the realised ones", steps


def step_sizes_of(simulator: Any) -> Array:
    """eta_i = (theta_(i-1) - theta_i)/A_i, the median over LANES replicates; NaN without a transcript."""
    from ldpflow.simulators.one_pass import run_path

    times = range(1, STEPS // simulator.algorithm.records_per_step() + 1)
    sums = run_path(simulator, SEED, range(LANES), times, times, ("transcript_linear",)).running_sums
    theta, gradient = sums["transcript_linear"][:2, :, 0]
    for part in (theta, gradient):
        # Sums start again after a power of two.
        starts = [i for i in range(1, len(part)) if i & (i - 1)]
        part[starts] -= part[[i - 1 for i in starts]].copy()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian((theta[:-1] - theta[1:]) / gradient[:-1], axis=1))


def method_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Times and shapes of an interval method, and whether it reads the truth."""

    def times() -> str:
        method, algorithm = made["it"], LdpSgd()
        asked = {
            "times()": np.asarray(method.times(STEPS, algorithm)),
            "level_times()": np.asarray(method.level_times(STEPS, algorithm, [0.9])),
        }
        most = method.count_times(STEPS, algorithm)
        for name, found in asked.items():
            if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer) or not len(found):
                raise Wrong(
                    f"{name} has to be a vector of integers, and is {found.dtype} of shape {found.shape}"
                )
            if (np.diff(found) <= 0).any() or found[0] < 1 or found[-1] > STEPS:
                raise Wrong(f"{name} has to increase within 1, ..., {STEPS}: {found[:5]} ... {found[-1]}")
            if most < len(found):
                raise Wrong(f"count_times() says at most {most}, {name} has {len(found)}")
        return f"{len(asked['level_times()'])} times"

    def shapes() -> str:
        method, nested = made["it"], True
        simulator = path_of(mechanism=Laplace())
        for replicates, group in groupby(LEVELS, method.runs):
            levels = [*group]
            rows = LANES if replicates == 1 else FEW_ROWS
            cells = [Cell(STEPS, method, level) for level in levels]
            record = simulator.run(SEED, range(rows * replicates), simulator.needs(cells, ()))
            found = method.intervals(record, STEPS, levels)
            fault = fault_in(method, found, (len(levels), 1, rows))
            if fault is not None:
                raise Wrong(fault)
            defined = np.isfinite(found.lower) & np.isfinite(found.upper)
            both = defined[:-1] & defined[1:]
            outside = (found.lower[1:] > found.lower[:-1]) | (found.upper[1:] < found.upper[:-1])
            nested = nested and not outside[both].any()
        return "" if nested else "an interval of a higher level need not contain that of a lower one"

    def truth() -> str:
        method = made["it"]
        if method.reads_truth():
            return "it does, and declares it: nothing recommends it"
        limits, others = limits_at(method, 0.0, False), limits_at(method, 0.375, True)
        length = np.nanmax(limits[1] - limits[0], initial=0.0)
        if not np.allclose(limits, others, rtol=0.0, atol=1e-6 * length, equal_nan=True):
            raise Wrong(
                "its intervals change with record.origin, or with the law in record.source; let "
                "reads_truth() return True if it is a yardstick"
            )
        return "intervals depend neither on record.origin nor on the law in record.source"

    yield "times", times
    yield "runs", lambda: str(len(rows_of(path_of(), range(2), [made["it"]]))) + " rows"
    yield "shapes, limits in order", shapes
    yield "reads no truth", truth


LEVELS = (0.5, 0.9, 0.99)
FEW_ROWS = 8


def limits_at(method: Any, origin: float, other: bool) -> Array:
    """Limits from paths of the median of N(0, 1), in a record without truth, shape (2, 1, 1, rows).

    Parameters
    ----------
    method : PathIntervalMethod
    origin : float
        Point that the record's sums are taken around.
    other : bool
        Whether the record names another law as its source.
    """
    from ldpflow.simulators.one_pass import run_path

    simulator = path_of(mechanism=Laplace())
    request = simulator.needs([Cell(STEPS, method, 0.9)], ())
    replicates = range(FEW_ROWS * method.runs(0.9))
    parts = [
        run_path(
            simulator, SEED, replicates[at : at + LANES], request.times, request.marked, request.sums,
            origin=np.array([origin]),
        )
        for at in range(0, len(replicates), LANES)
    ]  # fmt: skip
    record = joined(parts)
    if other:
        named = type("Named", (OnePass,), {"key": simulator.key})  # streams of a method follow the key
        law = Quantile(law="logistic", location=0.25, scale=2.0)
        record = replace(record, source=named(law, simulator.mechanism, simulator.algorithm))
    with np.errstate(all="ignore"):
        found = method.intervals(record.without_truth(), STEPS, [0.9])
    return np.stack([found.lower, found.upper])
