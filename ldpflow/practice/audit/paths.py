"""Audits of algorithms: all outputs of a run on two neighbouring lists of users.

The lists differ in one user. In most audits this user has a gradient beyond the clipping bound, with opposite
signs on the two lists, and all others have gradient 0. The functions below describe other lists. The
adversary knows the order of the users if the claim does not need a secret order.

Over a fixed data set the start is so far away that gradients do not change along the run. So every step moves
the outputs as far as the sensitivity allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.algorithms.algorithm import Algorithm
from ldpflow.components.algorithms.budget_split import BudgetSplit
from ldpflow.components.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.components.algorithms.finite_sum import FiniteSumAlgorithm
from ldpflow.components.algorithms.ldp_sgd import DpSsgd
from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.components.algorithms.regression import MinibatchRegression
from ldpflow.components.algorithms.sufficient_statistics import SufficientStatistics
from ldpflow.components.intervals.record import PathRecord
from ldpflow.components.mechanisms import MECHANISMS, Mechanism
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.errors import InputError
from ldpflow.numerics.elementary import jit
from ldpflow.numerics.streams import LANES
from ldpflow.practice.audit.distinguishing import Audit, Neighbours, claim_of, run_audit
from ldpflow.settings import Parameters
from ldpflow.simulators.finite_sum import Records, run_erm
from ldpflow.simulators.one_pass import OnePass, run_path

Floats = NDArray[np.float64]
Row = tuple[float, float]
Released = Callable[[PathRecord], Floats]

STEPS = 2  # steps of the audited run, if their number is a setting
HUGE = 1e9
NOTHING: Row = (0.0, 0.0)
MIRRORED: tuple[Row, Row] = ((1.0, HUGE), (1.0, -HUGE))
PLUS, MINUS = (1.0, -0.5), (1.0, 0.5)  # their gradients at theta = 0 are 1/2 and -1/2
NO_NOISE = MECHANISMS["none"].model_validate({})

FAR = 400.0  # first coordinate of the start
SLANT = 0.05  # minus the cosine of the angle between the replaced record and the start


def draw_batches(count: int, stage: int, run: Callable[[range], Floats]) -> Floats:
    """Outputs of ``count`` replicates, LANES at a time. Stages have different replicates."""
    starts = range(stage * 2**24, stage * 2**24 + count, LANES)
    return np.concatenate([run(range(start, start + LANES)) for start in starts])[:count]


@jit
def in_file_order(order, state, epoch, count):  # type: ignore[no-untyped-def]
    """Every epoch visits the records in file order."""
    for i in range(count):
        for lane in range(LANES):
            order[i * LANES + lane] = i


def neighbouring_records(n: int, which: int, position: int) -> Records:
    """n records in two coordinates. At w = (400, 0) only the record at ``position`` has a gradient, -x."""
    rows = np.tile([1.0, 0.0], (n, 1))
    rows[position] = [-SLANT, np.sqrt(1.0 - SLANT**2) * (1.0 if which == 0 else -1.0)]
    return Records(n, rows.reshape(-1), np.ones(n), np.zeros(LANES, np.int64))


def audit_data_set(
    algorithm: FiniteSumAlgorithm, n: int, samples: int, confidence: float = 0.999, seed: int = 1
) -> Audit:
    """Audit an algorithm of private empirical risk minimisation on n records. The output has all steps."""
    problem = NonconvexLogistic(d=2, penalty=0.0)
    plan = algorithm.plan(problem, n)
    # The accounting of trees holds for every order, so the audit may fix the order.
    ordered = hasattr(algorithm, "order")
    parts = {"draw_order": in_file_order} if ordered else {}
    times = range(1, plan.steps + 1)
    neighbours = []
    for position in range(n) if ordered else (0,):

        def draw(which: int, count: int, stage: int, position: int = position) -> Floats:
            records = neighbouring_records(n, which, position)
            key = f"audit/{algorithm.kind}/{which}"

            def run(replicates: range) -> Floats:
                start = (FAR, 0.0)
                found = run_erm(
                    problem, algorithm, plan, records, seed, key, replicates, times, start, **parts
                )
                return found.estimates[:, 1, :].T

            return draw_batches(count, stage, run)

        neighbours.append(
            Neighbours(f"{n} records, number {position + 1} replaced by its mirror image", draw)
        )
    return run_audit(algorithm, claim_of(algorithm.privacy()), neighbours, samples, confidence)


class GivenRegression(LeastSquares):
    """Least squares in one coordinate on given rows (x, y).

    ``bits`` are the two values of a gradient that is a bit, else None.
    """

    kind: Literal["given_regression"] = "given_regression"  # type: ignore[assignment]
    rows: tuple[Row, ...]
    bits: tuple[float, float] | None = None

    def gradient_values(self) -> tuple[float, float] | None:
        return self.bits

    def l1_sensitivity(self) -> float:
        return math.inf if self.bits is None else self.bits[1] - self.bits[0]

    def l2_sensitivity(self) -> float:
        return self.l1_sensitivity()

    def stored_records(self) -> int:
        return len(self.rows)

    def table(self) -> Floats:
        return np.array(self.rows)

    def kernel_parameters(self) -> Parameters:
        return {"error_scale": 1.0, "scales": (1.0,), "coefficients": (0.0,)}


def audit_path(
    algorithm: Algorithm, mechanism: Mechanism | None, samples: int, confidence: float, seed: int
) -> Audit:
    """Audit a one-pass algorithm. ``mechanism`` is None if the algorithm has noise of its own."""
    claim = claim_of(algorithm.privacy(mechanism or NO_NOISE))
    if isinstance(algorithm, DpSsgd):
        neighbours = shuffled_lists(algorithm, seed)
    elif isinstance(algorithm, MinibatchRegression):
        neighbours = batch_lists(algorithm, seed)
    elif isinstance(algorithm, SufficientStatistics):
        neighbours = moment_lists(algorithm, seed)
    elif mechanism is not None and (algorithm.records_per_step() == 1 or isinstance(algorithm, MinibatchSgd)):
        neighbours = gradient_lists(algorithm, mechanism, seed)
    else:
        raise InputError("algorithm.kind", algorithm.kind, "an algorithm whose reports an audit knows")
    return run_audit(algorithm, claim, neighbours, samples, confidence, mechanism)


def lists(
    name: str,
    paths: Sequence[OnePass],
    times: Sequence[int],
    released: Released,
    seed: int,
    secret_order: bool = False,
    perturbations: Sequence[int] = (0,),
) -> Neighbours:
    """A pair of paths on neighbouring lists of users, whose outputs are ``released(record)``.

    The record has the iterates at ``times`` of the path, then those of its perturbed paths.
    """

    def draw(which: int, count: int, stage: int) -> Floats:
        path, users = paths[which], None
        if not secret_order:  # a random state from which users are drawn in the order of the list
            order = np.repeat(np.arange(path.problem.stored_records(), dtype=np.uint64), LANES)
            users = np.concatenate([np.zeros(1, np.uint64), order])

        def run(replicates: range) -> Floats:
            found = [
                run_path(path, seed, replicates, times, users=users, perturbation=k) for k in perturbations
            ]
            iterates = np.concatenate([record.iterates for record in found])
            return released(replace(found[0], iterates=iterates))

        return draw_batches(count, stage, run)

    return Neighbours(name, draw)


def regression_paths(
    algorithm: Algorithm,
    rows: list[Row],
    place: int,
    pair: tuple[Row, Row],
    mechanism: Mechanism = NO_NOISE,
    bits: tuple[float, float] | None = None,
) -> list[OnePass]:
    """Paths of an algorithm on two lists of (x, y). They have the rows of ``pair`` at ``place``."""
    problems = [GivenRegression(d=1, rows=(*rows[:place], r, *rows[place + 1 :]), bits=bits) for r in pair]
    reason = algorithm.unsuitable(problems[0], mechanism) or mechanism.unsuitable(problems[0])
    if reason is not None:
        raise InputError("algorithm.kind", algorithm.kind, f"an algorithm for {mechanism.kind}", f"{reason}.")
    # Under a mechanism only the first step is audited, whatever the number of users.
    horizon = len(rows) if mechanism is NO_NOISE else None
    filled = algorithm.resolved(problems[0], horizon)
    return [OnePass(problem, mechanism, filled, horizon) for problem in problems]


def moves(record: PathRecord) -> Floats:
    """Differences of successive iterates of a record, shape (replicates, times)."""
    return np.diff(record.iterates[:, 0, :], axis=0, prepend=0.0).T


def estimates(record: PathRecord) -> Floats:
    return record.iterates[:, 0, :].T.copy()


def batch_lists(algorithm: MinibatchRegression, seed: int) -> list[Neighbours]:
    """Neighbours that differ in a record of the gradient set of a step, or of the first threshold set."""
    given = {"iterations": STEPS, "infeasible_is": "warned", "theta0": 0.0, "eta": algorithm.eta or 0.01}
    algorithm = algorithm.model_copy(update=given)
    records, level = 4, 0
    if isinstance(algorithm, DpAmbssgd):
        # The private threshold (DP-STAT) needs s >= 4 Gamma.
        records = algorithm.part * (math.ceil(4.0 * algorithm.margin()) + 1)
        level = round(records // algorithm.part - algorithm.margin())
        algorithm = algorithm.model_copy(update={"domain": algorithm.domain or 1.0})
    n = STEPS * records
    s, _ = algorithm.batches(n)

    def released(record: PathRecord) -> Floats:
        threshold = record.extras["threshold"].T
        return np.hstack([moves(record) / threshold, np.log(threshold)])

    found = []
    for place in range(s, n, records):
        name = f"{n} users, number {place + 1} replaced by its mirror image"
        paths = regression_paths(algorithm, [NOTHING] * n, place, MIRRORED)
        found.append(lists(name, paths, (1, 2), released, seed))
    if s:
        # One small residual decides whether the search of the threshold stops.
        small: list[Row] = [NOTHING if place < level else (0.0, HUGE) for place in range(s)]
        name = f"{n} users, {level} of the first {s} with a small residual, or one less"
        paths = regression_paths(algorithm, small + [NOTHING] * (n - s), 0, (NOTHING, (0.0, HUGE)))
        found.append(lists(name, paths, (1, 2), released, seed))
    return found


def shuffled_lists(algorithm: DpSsgd, seed: int) -> list[Neighbours]:
    """Neighbours in a secret order. n is the smallest power of two for which shuffling is proved."""
    given = {"clip": algorithm.clip or 1.0, "eta": algorithm.eta or 0.01, "theta0": 0.0}
    algorithm = algorithm.model_copy(update=given)

    def released(record: PathRecord) -> Floats:
        """The first report, the last one, and the sum of all."""
        found = moves(record)
        return np.hstack([found, found.sum(axis=1, keepdims=True)])

    for n in (2**k for k in range(6, 21)):
        try:
            algorithm.resolved(LeastSquares(d=1), n)
        except InputError:
            continue
        paths = regression_paths(algorithm, [NOTHING] * n, 0, MIRRORED)
        name = f"{n} users, one of them replaced by its mirror image"
        return [lists(name, paths, (1, n - 1, n), released, seed, secret_order=True)]
    raise InputError("algorithm.epsilon", algorithm.epsilon, "one that needs at most 1,048,576 users")


def moment_lists(algorithm: SufficientStatistics, seed: int) -> list[Neighbours]:
    """Neighbours for noisy second moments: a response with either sign, or a record replaced by zeros."""
    algorithm = algorithm.model_copy(update={"x_bound": 1.0, "y_bound": 1.0})
    n = 50
    pairs: dict[str, tuple[Row, Row]] = {
        "y replaced by -y": ((1.0, 1.0), (1.0, -1.0)),
        "a record replaced by zeros": ((1.0, 1.0), NOTHING),
    }
    found = []
    for name, pair in pairs.items():
        paths = regression_paths(algorithm, [(1.0, 0.0)] * n, 0, pair)
        found.append(lists(f"{n} records, {name}", paths, (1,), estimates, seed))
    return found


def gradient_lists(algorithm: Algorithm, mechanism: Mechanism, seed: int) -> list[Neighbours]:
    """Neighbours for one step under a mechanism: the first user's gradient has either sign."""
    changed: dict[str, Any] = {"theta0": 0.0} | ({"eta": 0.01} if algorithm.step_exponent() == 0.0 else {})
    algorithm = algorithm.model_copy(update=changed)
    size = algorithm.records_per_step()
    rows, pair, bits = [NOTHING] * size, MIRRORED, None
    if mechanism.unsuitable(GivenRegression(d=1, rows=(NOTHING,))) is not None:
        rows, pair, bits = [PLUS] * size, (PLUS, MINUS), (-0.5, 0.5)
    paths = regression_paths(algorithm, rows, 0, pair, mechanism, bits)
    name = f"the first {'batch' if size > 1 else 'report'}"
    released: Released = estimates
    perturbations = range(1)
    if isinstance(algorithm, BudgetSplit):
        # The collector multiplies the answer of a perturbed path by a public weight, so only its sign counts.
        name, perturbations = "all answers of the first user", range(algorithm.perturbed_paths() + 1)
        released = lambda record: np.sign(estimates(record))  # noqa: E731
    name = f"{name}: gradients of opposite signs"
    return [lists(name, paths, (1,), released, seed, perturbations=perturbations)]
