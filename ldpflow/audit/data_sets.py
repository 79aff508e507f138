"""Audits of algorithms over a fixed data set: everything that is released on two neighbouring data sets.

The data sets are small and hostile. All records but one have no gradient; the record that is replaced has
one of the largest norm, in opposite directions, and the start is so far out that this does not change along
the run. What is released moves as far as the sensitivity allows, step by step, and the test is the best
linear one over all steps. Orders that the accounting does not count on are known to the test.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms.finite_sum import FiniteSumAlgorithm, plan_of
from ldpflow.audit.audit import Audit, Neighbours, audited
from ldpflow.audit.bounds import claim_of
from ldpflow.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.random.elementary import jit
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.empirical_risk import Records
from ldpflow.simulators.finite_sum import run_erm

Floats = NDArray[np.float64]

FAR = 400.0
SLANT = 0.05
"""Cosine of the angle between the replaced record and the direction of the start."""


@jit
def in_file_order(order, state, epoch, count):  # type: ignore[no-untyped-def]
    """Every epoch visits the records as they lie: order[position * LANES + lane] = position."""
    for i in range(count):
        for lane in range(LANES):
            order[i * LANES + lane] = i


def neighbouring_records(n: int, which: int, position: int) -> Records:
    """n records in two coordinates; the one at ``position`` differs between the two data sets.

    With w = (400, 0) that record is wrongly classified by far, so that its logistic gradient is -x,
    with the second coordinate +-sqrt(1 - .05^2); the others are rightly classified by far and have none.
    """
    rows = np.tile([1.0, 0.0], (n, 1))
    rows[position] = [-SLANT, np.sqrt(1.0 - SLANT**2) * (1.0 if which == 0 else -1.0)]
    return Records(n, rows.reshape(-1), np.ones(n), np.zeros(LANES, np.int64))


def audit_algorithm(
    algorithm: FiniteSumAlgorithm,
    n: int = 4,
    samples: int = 200_000,
    confidence: float = 0.999,
    seed: int = 1,
) -> Audit:
    """Hold an algorithm of private empirical risk minimisation to its claim.

    Parameters
    ----------
    algorithm : FiniteSumAlgorithm
        With few epochs: every step is a coordinate of the output.
    n : int
        Records of the data sets.
    samples : int
        Runs on each data set, once to choose the test and once to count it.
    confidence : float
    seed : int
    """
    problem = NonconvexLogistic(d=2, penalty=0.0)
    plan = plan_of(problem, algorithm, n)
    # The accounting of trees holds for every order, so the audit may know it.
    ordered = hasattr(algorithm, "order")
    parts = {"draw_order": in_file_order} if ordered else {}
    neighbours = []
    for position in range(n) if ordered else (0,):

        def draw(which: int, count: int, stage: int, position: int = position) -> Floats:
            records = neighbouring_records(n, which, position)
            key = f"audit/{algorithm.kind}/{which}"
            found = []
            for first in range(0, count, LANES):
                replicates = range(stage * 2**24 + first, stage * 2**24 + first + LANES)
                run = run_erm(
                    problem,
                    algorithm,
                    plan,
                    records,
                    seed,
                    key,
                    replicates,
                    range(1, plan.steps + 1),
                    (FAR, 0.0),
                    **parts,
                )
                found.append(run.estimates[:, 1, :].T)
            result: Floats = np.concatenate(found)[:count]
            return result

        nothing = np.zeros(plan.steps)
        name = f"{n} records, number {position + 1} replaced by its mirror image"
        neighbours.append(Neighbours(name, draw, (nothing, nothing)))
    settings = {k: v for k, v in algorithm.model_dump().items() if k != "kind" and v is not None}
    claim = claim_of(algorithm.privacy())
    return audited(algorithm.kind, settings, claim, neighbours, samples, confidence)
