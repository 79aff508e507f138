"""Audits of local mechanisms: private gradients of two records that are as far apart as records can be.

Outputs are those of the mechanism's own kernel function, compiled as in a sweep: the reports of a path whose
gradient is given and constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.audit.bounds import claim_of
from ldpflow.audit.distinguishing import Audit, Neighbours, audited
from ldpflow.audit.given_gradient import GivenGradient
from ldpflow.errors import InputError
from ldpflow.mechanisms import MECHANISMS, Mechanism
from ldpflow.problems.problem import Problem
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.reports import reports_of

Floats = NDArray[np.float64]

RECORDS = 30_000
POINTS = (0.0, 1.0, -3.0)
"""Where gradients of the problem are looked at."""

MAGNITUDES = (0.3, 1.0, 10.0, 1000.0)
"""Sizes of gradients that a mechanism is tried on that promises the same for every gradient."""


def outputs(path: OnePass, seed: int, count: int, replicate: int) -> Floats:
    """Private gradients of the first users of a replicate, shape (count, d)."""
    return np.concatenate([part[2] for part in reports_of(path, seed, replicate, count)])


def sampled_gradients(problem: Problem, seed: int) -> list[Floats]:
    """Gradients of simulated records at each of a few points, shape (N, d)."""
    nothing = MECHANISMS["none"].model_validate({})
    found = []
    for point in POINTS:
        algorithm = LdpSgd(c=1e-12, theta0=point)  # theta stands still
        found.append(outputs(OnePass(problem, nothing, algorithm), seed, RECORDS, 0))
    return found


def extreme_pairs(clouds: list[Floats], seed: int, most: int = 4) -> list[tuple[Floats, Floats]]:
    """Pairs of gradients of one cloud that lie far apart in L1 and in L2.

    Gradients at different points are in different clouds: neighbours are two records at the same point.
    """
    d = clouds[0].shape[1]
    rng = np.random.default_rng(seed)
    directions = [*np.eye(d), np.ones(d), *rng.normal(size=(16, d)), *rng.choice([-1.0, 1.0], (16, d))]
    pairs: list[tuple[Floats, Floats]] = []
    for gradients in clouds:
        along = [gradients @ direction for direction in directions]
        places = {(int(np.argmax(values)), int(np.argmin(values))) for values in along}
        pairs += [(gradients[a], gradients[b]) for a, b in sorted(places)]
    chosen: list[tuple[Floats, Floats]] = []
    for order in (1, 2):
        ranked = sorted(pairs, key=lambda pair: -float(np.linalg.norm(pair[0] - pair[1], ord=order)))
        chosen += [pair for pair in ranked[: most // 2] if not any(pair is known for known in chosen)]
    return chosen


def inputs_of(mechanism: Mechanism, problem: Problem, seed: int) -> list[tuple[Floats, Floats, Any]]:
    """Pairs of gradients, and the problem that claims their sensitivity."""
    d = problem.dimension
    bits = problem.gradient_values()
    if mechanism.unsuitable(GivenGradient(values=(0.0,) * d, original=problem)) is None:
        # It promises the same for every gradient, however large.
        unit = np.eye(d)[0]
        pairs = [(m * unit, -m * unit) for m in MAGNITUDES] + [(MAGNITUDES[-1] * unit, 0.0 * unit)]
        return [(a, b, {}) for a, b in pairs]
    claimed = {"l1": problem.l1_sensitivity(), "l2": problem.l2_sensitivity(), "bits": bits}
    if mechanism.reads_bit() and problem.levels() is not None:
        # Records in the first cell and the last one, and in neighbouring ones.
        cells = [np.where(np.arange(d) < cell, 0.0, 1.0) for cell in range(d + 1)]
        pairs = [(cells[0], cells[-1]), *zip(cells[1:], cells[:-1], strict=True)]
        return [(a, b, claimed | {"taus": problem.levels()}) for a, b in (pairs if d > 1 else pairs[:1])]
    if bits is not None:
        return [(np.array([bits[1]]), np.array([bits[0]]), claimed)]
    return [(a, b, claimed) for a, b in extreme_pairs(sampled_gradients(problem, seed), seed)]


def audit_mechanism(
    mechanism: Mechanism,
    problem: Problem,
    samples: int = 500_000,
    confidence: float = 0.999,
    seed: int = 1,
) -> Audit:
    """Hold a local mechanism to its claim, on gradients of a problem.

    Parameters
    ----------
    mechanism : Mechanism
    problem : Problem
        Whose gradients are randomised; its sensitivities are part of the claim.
    samples : int
        Outputs on each input, once to choose the test and once to count it.
    confidence : float
    seed : int

    Raises
    ------
    InputError
        If the mechanism claims nothing, or cannot be applied to the problem.
    """
    reason = mechanism.unsuitable(problem)
    if reason is not None:
        raise InputError("mechanism", mechanism.kind, f"a mechanism for {problem.kind}", reason)
    if mechanism.replaces_data():
        hint = "It simulates reports without values: audit sampling = 'data', whose reports it has."
        raise InputError("mechanism.sampling", getattr(mechanism, "sampling", None), "'data'", hint)
    claim = claim_of(mechanism.privacy())
    neighbours = []
    for number, (first, second, claimed) in enumerate(inputs_of(mechanism, problem, seed), start=1):
        problems = [
            GivenGradient(values=tuple(map(float, values)), original=problem, **claimed)
            for values in (first, second)
        ]
        paths = [OnePass(given, mechanism, LdpSgd()) for given in problems]

        def draw(which: int, count: int, stage: int, paths: list[OnePass] = paths) -> Floats:
            return outputs(paths[which], seed, count, stage)

        name = f"{number}: gradients {shown(first)} and {shown(second)}"
        neighbours.append(Neighbours(name, draw, (first, second)))
    return audited(mechanism, claim, neighbours, samples, confidence)


def shown(values: Floats) -> str:
    """A vector, a few numbers of it."""
    listed = ", ".join(f"{value:.4g}" for value in values[:4].tolist())
    return f"({listed}{', ...' if len(values) > 4 else ''})"
