"""Audits of one-pass algorithms: everything that a path releases about two neighbouring lists of users.

The lists are hostile. All users but one have no gradient, so that the path stands still but for the noise and
the one user who is replaced; this user has the largest gradient that clipping lets through, in opposite
directions. Users come in the order in which they are listed, which an adversary may know, but where the
claim rests on a secret order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms.algorithm import Algorithm
from ldpflow.algorithms.budget_split import BudgetSplit
from ldpflow.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.algorithms.dp_ssgd import DpSsgd
from ldpflow.algorithms.minibatch_regression import MinibatchRegression
from ldpflow.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.algorithms.sufficient_statistics import SufficientStatistics
from ldpflow.audit.audit import Audit, Neighbours, audited
from ldpflow.audit.bounds import claim_of
from ldpflow.audit.given_gradients import GivenGradients
from ldpflow.audit.given_regression import GivenRegression
from ldpflow.errors import InputError
from ldpflow.intervals.record import PathRecord
from ldpflow.mechanisms import MECHANISMS, Mechanism
from ldpflow.problems import Problem
from ldpflow.random.lockstep import LANES
from ldpflow.simulators.one_pass import OnePass, run_path

Floats = NDArray[np.float64]
Row = tuple[float, float]

STEPS = 2
"""Steps of an algorithm whose number of steps is a setting."""

HUGE = 1e9
NOTHING: Row = (0.0, 0.0)
ONE_SIDE: Row = (1.0, HUGE)
OTHER_SIDE: Row = (1.0, -HUGE)

MOST_USERS = 2**20

DEFAULT_MECHANISM = {"budget_split": "randomized_response", "minibatch_sgd": "laplace"}
"""Mechanism of an algorithm without a budget of its own; clipped_gaussian for others."""


@dataclass(frozen=True)
class Case:
    """Algorithm and two neighbouring lists of users that it is run on.

    Parameters
    ----------
    name : str
        The lists in words.
    paths : pair of OnePass
    times : tuple of int
        Steps after which the path is looked at.
    released : callable
        From a record to outputs, shape (replicates, numbers).
    secret_order : bool
        Whether the order of the users is random and secret.
    """

    name: str
    paths: tuple[OnePass, OnePass]
    times: tuple[int, ...]
    released: Callable[[PathRecord], Floats]
    secret_order: bool = False

    def neighbours(self, seed: int) -> Neighbours:
        """Outputs on either list."""

        def draw(which: int, count: int, stage: int) -> Floats:
            path = self.paths[which]
            users = None if self.secret_order else listed(path.problem.stored_records())
            found = []
            for first in range(0, count, LANES):
                start = stage * 2**24 + first
                replicates = range(start, start + LANES)
                found.append(self.released(self.records(path, seed, replicates, users)))
            result: Floats = np.concatenate(found)[:count]
            return result

        nothing = np.zeros(draw(0, 1, 2).shape[1])
        return Neighbours(self.name, draw, (nothing, nothing))

    def records(
        self, path: OnePass, seed: int, replicates: Sequence[int], users: NDArray[np.uint64] | None
    ) -> PathRecord:
        """The record of a path, with the moves of its perturbed paths beside it."""
        return run_path(path, seed, replicates, self.times, users=users)


def listed(count: int) -> NDArray[np.uint64]:
    """State that users are drawn from in the order of the list, the same in every lane."""
    order = np.repeat(np.arange(count, dtype=np.uint64), LANES)
    return np.concatenate([np.zeros(1, np.uint64), order])


def audit_path(
    algorithm: Algorithm, mechanism: Mechanism | None, samples: int, confidence: float, seed: int
) -> Audit:
    """Hold a one-pass algorithm to its claim.

    Parameters
    ----------
    algorithm : Algorithm
    mechanism : Mechanism or None
        None where the algorithm has its own noise.
    samples : int
        Runs on each list, once to choose the test and once to count it.
    confidence : float
    seed : int

    Raises
    ------
    InputError
        If nothing is claimed, or the algorithm cannot be run on such lists.
    """
    none = MECHANISMS["none"].model_validate({})
    claim = claim_of(algorithm.privacy(mechanism or none))
    if isinstance(algorithm, DpSsgd):
        cases = shuffled_cases(algorithm, none)
    elif isinstance(algorithm, MinibatchRegression):
        cases = batch_cases(algorithm, none)
    elif isinstance(algorithm, SufficientStatistics):
        cases = moment_cases(algorithm, none)
    elif mechanism is not None and (algorithm.records_per_step() == 1 or isinstance(algorithm, MinibatchSgd)):
        cases = gradient_cases(algorithm, mechanism)
    else:
        raise InputError(
            "algorithm.kind", algorithm.kind, "an algorithm whose reports an audit knows",
            "Of others it knows those that use one record a step, with a mechanism under them.",
        )  # fmt: skip
    settings = {
        f"{part.kind}.{name}" if part is mechanism else name: value
        for part in (algorithm, mechanism)
        if part is not None
        for name, value in part.model_dump().items()
        if name != "kind" and value is not None
    }
    neighbours = [case.neighbours(seed) for case in cases]
    return audited(algorithm.kind, settings, claim, neighbours, samples, confidence)


def regression_paths(
    algorithm: Algorithm, mechanism: Mechanism, lists: tuple[Sequence[Row], Sequence[Row]]
) -> tuple[OnePass, OnePass]:
    """The paths of an algorithm of private least squares on two lists of (x, y)."""
    first, second = (GivenRegression(d=1, rows=tuple(rows)) for rows in lists)
    n = len(first.rows)
    filled = algorithm.resolved(first, n)
    return OnePass(first, mechanism, filled, n), OnePass(second, mechanism, filled, n)


def replaced(rows: list[Row], place: int, first: Row, second: Row) -> tuple[list[Row], list[Row]]:
    """Two lists that differ in one place."""
    lists = []
    for row in (first, second):
        changed = rows.copy()
        changed[place] = row
        lists.append(changed)
    return lists[0], lists[1]


def moves(record: PathRecord) -> Floats:
    """theta_t - theta_{t-1} of every step looked at, shape (replicates, steps)."""
    result: Floats = np.diff(record.iterates[:, 0, :], axis=0, prepend=0.0).T
    return result


def batch_cases(algorithm: MinibatchRegression, none: Mechanism) -> list[Case]:
    """Mini-batches: a record of the gradient set of either step, and one of the first threshold set."""
    algorithm = algorithm.model_copy(update={"iterations": STEPS, "infeasible_is": "warned", "theta0": 0.0})
    if algorithm.eta is None:
        algorithm = algorithm.model_copy(update={"eta": 0.01})
    records, level = 4, 0
    if isinstance(algorithm, DpAmbssgd):
        # DP-STAT needs s >= 4 Gamma.
        records = algorithm.part * (math.ceil(4.0 * algorithm.margin()) + 1)
        level = round(records // algorithm.part - algorithm.margin())
        algorithm = algorithm.model_copy(update={"domain": algorithm.domain or 1.0})
    n = STEPS * records
    s, _ = algorithm.batches(n)

    def released(record: PathRecord) -> Floats:
        threshold = record.extras["threshold"].T
        return np.hstack([moves(record) / threshold, np.log(threshold)])

    cases = []
    for step in range(STEPS):
        lists = replaced([NOTHING] * n, step * records + s, ONE_SIDE, OTHER_SIDE)
        name = f"{n} users, number {step * records + s + 1} replaced by its mirror image"
        cases.append(Case(name, regression_paths(algorithm, none, lists), (1, 2), released))
    if s:
        # As many small residuals as let DP-STAT stop or not, one more or one less.
        small: list[Row] = [NOTHING if place < level else (0.0, HUGE) for place in range(s)]
        lists = replaced(small + [NOTHING] * (n - s), 0, NOTHING, (0.0, HUGE))
        name = f"{n} users, {level} of the first {s} with a small residual, or one less"
        cases.append(Case(name, regression_paths(algorithm, none, lists), (1, 2), released))
    return cases


def shuffled_cases(algorithm: DpSsgd, none: Mechanism) -> list[Case]:
    """Single records in a secret order; with as few users as its theorem admits."""
    given = {"clip": algorithm.clip or 1.0, "eta": algorithm.eta or 0.01, "theta0": 0.0}
    algorithm = algorithm.model_copy(update=given)
    n = 64
    while n <= MOST_USERS:
        lists = replaced([NOTHING] * n, 0, ONE_SIDE, OTHER_SIDE)
        try:
            paths = regression_paths(algorithm, none, lists)
        except InputError:
            n *= 2
            continue
        name = f"{n} users, one of them replaced by its mirror image"
        # The first report, the last one, and the sum of all.
        times = (1, n - 1, n)
        return [Case(name, paths, times, lambda record: with_sum(moves(record)), secret_order=True)]
    raise InputError("algorithm.epsilon", algorithm.epsilon, f"one for at most {MOST_USERS:,} users")


def with_sum(outputs: Floats) -> Floats:
    """Outputs and their sum."""
    return np.hstack([outputs, outputs.sum(axis=1, keepdims=True)])


def moment_cases(algorithm: SufficientStatistics, none: Mechanism) -> list[Case]:
    """Noisy second moments: a response at either end of its range, and a record that is there or is 0."""
    algorithm = algorithm.model_copy(update={"x_bound": 1.0, "y_bound": 1.0})
    n = 50
    rest: list[Row] = [(1.0, 0.0)] * n
    pairs = {
        "y replaced by -y": ((1.0, 1.0), (1.0, -1.0)),
        "a record replaced by zeros": ((1.0, 1.0), NOTHING),
    }
    return [
        Case(
            f"{n} records, {name}",
            regression_paths(algorithm, none, replaced(rest, 0, *pair)),
            (1,),
            lambda record: record.iterates[:, 0, :].T.copy(),
        )
        for name, pair in pairs.items()
    ]


@dataclass(frozen=True)
class SplitCase(Case):
    """The answers of all paths of a budget that is split, of the first user."""

    def records(
        self, path: OnePass, seed: int, replicates: Sequence[int], users: NDArray[np.uint64] | None
    ) -> PathRecord:
        """The first record, its iterates those of all paths, one after the other."""
        found = [
            run_path(path, seed, replicates, self.times, users=users, perturbation=k)
            for k in range(path.algorithm.perturbed_paths() + 1)
        ]
        iterates = np.concatenate([record.iterates for record in found])
        return replace(found[0], iterates=iterates)


def gradient_cases(algorithm: Algorithm, mechanism: Mechanism) -> list[Case]:
    """One step under a mechanism: the first user's gradient at either end, those of a batch's others 0."""
    changed: dict[str, Any] = {"theta0": 0.0} | ({"eta": 0.01} if algorithm.step_exponent() == 0.0 else {})
    algorithm = algorithm.model_copy(update=changed)
    size = algorithm.records_per_step()

    def problem(value: float) -> Problem:
        bounded = mechanism.unsuitable(GivenGradients(values=(0.0,))) is not None
        first = math.copysign(0.5, value) if bounded else value
        others = (0.5,) * (size - 1) if bounded else (0.0,) * (size - 1)
        return GivenGradients(values=(first, *others), bits=(-0.5, 0.5) if bounded else None)

    reason = algorithm.unsuitable(problem(HUGE), mechanism) or mechanism.unsuitable(problem(HUGE))
    if reason is not None:
        raise InputError("algorithm.kind", algorithm.kind, f"an algorithm for {mechanism.kind}", f"{reason}.")
    first, second = (
        OnePass(problem(value), mechanism, algorithm.resolved(problem(value), None))
        for value in (HUGE, -HUGE)
    )
    split = isinstance(algorithm, BudgetSplit)
    name = "all answers of the first user" if split else f"the first {'batch' if size > 1 else 'report'}"
    kind = SplitCase if split else Case

    def released(record: PathRecord) -> Floats:
        # Of a perturbed path's answer the weight is the collector's own: the sign is what the user said.
        values: Floats = record.iterates[:, 0, :].T.copy()
        return np.sign(values) if split else values

    return [kind(f"{name}: gradients of opposite signs", (first, second), (1,), released)]
