"""Checks of a component by simulation: true value, covariance, curvature, sensitivity, unbiasedness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.audit.bounds import claim_of
from ldpflow.audit.local import audit_mechanism
from ldpflow.mechanisms import Mechanism
from ldpflow.mechanisms.laplace import Laplace
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems import Problem
from ldpflow.problems.quantile import Quantile
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import fault_in
from ldpflow.testing.probe import Probe
from ldpflow.testing.running import SEED, STEPS, Wrong, cells_of, path_of, rows_of, runs

__all__ = ["mechanism_checks", "method_checks", "problem_checks"]

Array = NDArray[np.float64]

ERROR_RATE = 1e-4

AUDITED = 2000
"""Outputs on either input of the audit that shows that there can be one."""


def gradients(problem: Problem, mechanism: Mechanism, point: tuple[float, ...]) -> Array:
    """Private gradients of STEPS users in LANES replicates at one point, shape (users, d)."""
    simulator = OnePass(problem, mechanism, Probe(point=point))
    from ldpflow.simulators.run_path import run_path

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


def method_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Times, shapes and nesting of an interval method."""

    def times() -> str:
        found = np.asarray(made["it"].times(STEPS, LdpSgd()))
        if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
            raise Wrong(
                f"times() has to be a vector of integers, and is {found.dtype} of shape {found.shape}"
            )
        if (np.diff(found) <= 0).any() or found[0] < 1 or found[-1] != STEPS:
            raise Wrong(f"times() has to increase within 1, ..., {STEPS} and end there: {found[:5]} ...")
        count = made["it"].count_times(STEPS, LdpSgd())
        if count < len(found):
            raise Wrong(f"count_times() says at most {count}, times() has {len(found)}")
        return f"{len(found)} times"

    def shapes() -> None:
        method, levels = made["it"], [0.5, 0.9, 0.99]
        simulator = path_of(mechanism=Laplace())
        record = simulator.run(SEED, range(LANES), simulator.needs(cells_of(simulator, [method]), ()))
        found = method.intervals(record, STEPS, levels)
        fault = fault_in(method, found, (len(levels), 1, LANES))
        if fault is not None:
            raise Wrong(fault)
        defined = np.isfinite(found.lower) & np.isfinite(found.upper)
        both = defined[:-1] & defined[1:]
        if ((found.lower[1:] > found.lower[:-1]) | (found.upper[1:] < found.upper[:-1]))[both].any():
            raise Wrong("an interval of a higher level does not contain that of a lower one")

    yield "times", times
    yield "runs", lambda: str(len(rows_of(path_of(), range(2), [made["it"]]))) + " rows"
    yield "shapes, limits in order, levels nested", shapes
