"""Several quantiles from one report per user: the literal recursion, Q = 1, and the predicted spread."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.components.intervals.variance import asymptotic_variances
from ldpflow.components.mechanisms.cells import Cells
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.quantiles import Quantiles
from ldpflow.results.protocol_curves import cells_covariance
from ldpflow.simulators.one_pass import OnePass, run_path
from tests import draws
from tests.kernels import uncompiled
from tests.oracles import cells as oracle

SEED = 11
LEVELS = {1: (0.7,), 3: (0.25, 0.5, 0.75), 6: (0.05, 0.1, 0.4, 0.5, 0.9, 0.99)}


STEPS, BATCHES = LdpSgd(theta0=0.4), MinibatchSgd(batch_size=4, c=0.7)


@pytest.mark.parametrize(
    ("run", "algorithm", "count"),
    [
        *product([uncompiled.run_path], (STEPS, BATCHES), LEVELS),
        # Compiled: as many coordinates as are inlined, and as few as are called.
        (run_path, STEPS, 6),
        (run_path, BATCHES, 3),
    ],
)
def test_kernel_is_the_literal_recursion(run, algorithm, count):
    problem = Quantiles(taus=LEVELS[count], location=0.2, scale=1.5)
    path = OnePass(problem, Cells(epsilon=1.3), algorithm)
    n = 1200 if run is run_path else 600
    steps = algorithm.steps(n)
    times = [1, 2, 3, min(129, steps), steps]
    record = run(path, SEED, range(3, 9), times)
    batch = algorithm.records_per_step()
    for r in (0, 5):
        values = 0.2 + 1.5 * draws.data(path, SEED, 3 + r, n)[:, 0]
        uniforms = draws.noise(path, SEED, 3 + r, n)[:, 0]
        settings = (algorithm.c, algorithm.gamma, algorithm.theta0, batch)
        iterates = oracle.path(values, uniforms, problem.taus, 1.3, *settings)
        at = np.array(times) - 1
        np.testing.assert_allclose(record.iterates[:, :, r], iterates[at], rtol=1e-10, atol=1e-12)
        sums = np.cumsum(iterates - np.array(problem.truth()), axis=0)
        np.testing.assert_allclose(record.prefix_sums[:, :, r], sums[at], rtol=1e-10, atol=1e-9)


OWN = {"c": (0.5, 1.0, 2.0), "theta0": (-0.5, 0.4, 1.5)}


@pytest.mark.parametrize(
    ("run", "algorithm"),
    [
        (run_path, LdpSgd(**OWN)),
        (uncompiled.run_path, LdpSgd(**OWN)),
        (uncompiled.run_path, MinibatchSgd(batch_size=4, **OWN)),
    ],
)
def test_quantiles_with_steps_and_starts_of_their_own_are_the_literal_recursion(run, algorithm):
    problem = Quantiles(taus=LEVELS[3], location=0.2, scale=1.5)
    path = OnePass(problem, Cells(epsilon=1.3), algorithm)
    times = [1, 2, 150]
    record = run(path, SEED, range(2), times)
    n = 150 * algorithm.records_per_step()
    values, uniforms = 0.2 + 1.5 * draws.data(path, SEED, 1, n)[:, 0], draws.noise(path, SEED, 1, n)[:, 0]
    c, start = (np.array(OWN[name]) for name in ("c", "theta0"))
    batch = algorithm.records_per_step()
    iterates = oracle.path(values, uniforms, problem.taus, 1.3, c, 0.51, start, batch)
    at = np.array(times) - 1
    np.testing.assert_allclose(record.iterates[:, :, 1], iterates[at], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("count", LEVELS)
def test_reports_drawn_from_their_law_are_the_literal_recursion(count):
    problem = Quantiles(taus=LEVELS[count], law="logistic", scale=0.5)
    path = OnePass(problem, Cells(epsilon=0.8, sampling="private_bit"), LdpSgd())
    times = [1, 2, 200, 300]
    record = uncompiled.run_path(path, SEED, range(2), times)
    uniforms = draws.noise(path, SEED, 1, times[-1])[:, 0]
    cdf = stats.logistic(scale=0.5).cdf
    iterates = oracle.path_of_reports(cdf, uniforms, problem.taus, 0.8, 1.0, 0.51, 0.0)
    at = np.array(times) - 1
    np.testing.assert_allclose(record.iterates[:, :, 1], iterates[at], rtol=1e-9, atol=1e-12)


ONE, SEVERAL = Quantile(tau=0.7), Quantiles(taus=(0.7,))
TOGETHER = [
    (ONE, LdpSgd(), "data"),
    (SEVERAL, LdpSgd(), "private_bit"),
    (SEVERAL, MinibatchSgd(batch_size=3), "data"),
]


@pytest.mark.parametrize(
    ("problem", "algorithm", "sampling"),
    [
        pytest.param(*case, marks=() if case in TOGETHER else pytest.mark.slow)
        for case in product((ONE, SEVERAL), (LdpSgd(), MinibatchSgd(batch_size=3)), ("data", "private_bit"))
    ],
)
def test_one_quantile_gives_the_bits_of_randomised_response(sampling, algorithm, problem):
    """On the same streams, which differ between the two paths otherwise."""
    paths = [
        OnePass(Quantile(tau=0.7), RandomizedResponse(epsilon=0.9, sampling=sampling), algorithm),
        OnePass(problem, Cells(epsilon=0.9, sampling=sampling), algorithm),
    ]
    for path in paths:
        path.__dict__["key"] = "the same"
    sums = ["self_normalization"]
    records = [run_path(SameUsers(path), SEED, range(32), [1, 77, 3000], [3000], sums) for path in paths]
    assert (records[0].iterates == records[1].iterates).all()
    assert (records[0].prefix_sums == records[1].prefix_sums).all()
    first, second = (record.running_sums["self_normalization"] for record in records)
    assert (first == second).all()


class SameUsers:
    """A path whose users do not depend on how its problem is written."""

    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        return getattr(self.path, name)

    def __hash__(self):
        return hash(self.path)

    def __eq__(self, other):
        return self.path == other.path

    def data_key(self):
        return "the same"


def test_iterates_are_in_order():
    problem = Quantiles(taus=LEVELS[6])
    record = run_path(
        OnePass(problem, Cells(epsilon=0.3), LdpSgd(c=5.0)), SEED, range(32), list(range(1, 300))
    )
    assert (np.diff(record.iterates, axis=1) >= 0).all()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_covariance_of_a_step_is_that_of_the_theory(epsilon):
    problem = Quantiles(taus=LEVELS[3])
    path = OnePass(problem, Cells(epsilon=epsilon), LdpSgd())
    step = LdpSgd().step_covariance(problem, path.mechanism)
    expected = cells_covariance(problem.taus, epsilon)
    np.testing.assert_allclose(step, expected, rtol=1e-12)
    density = [problem.data_law().density_at_quantile(tau) for tau in problem.taus]
    np.testing.assert_allclose(asymptotic_variances(path), np.diag(expected) / np.square(density), rtol=1e-12)


def test_the_report_is_private_and_unbiased():
    """The matrix of cells and reports from the recursion's own numbers, all uniforms of a fine grid."""
    taus, epsilon = LEVELS[3], 0.7
    parameters = Cells(epsilon=epsilon).kernel_parameters(Quantiles(taus=taus))
    grid = (np.arange(200_000) + 0.5) / 200_000
    matrix = np.array(
        [
            np.bincount([oracle.report_of(cell, u, 4, epsilon) for u in grid[::20]], minlength=4)
            for cell in range(4)
        ]
    ) / len(grid[::20])
    assert matrix.max() / matrix.min() == pytest.approx(np.exp(epsilon), rel=2e-3)
    for report in range(4):
        values = oracle.private_step(report, taus, epsilon)
        below, above = parameters["below"], parameters["above"]
        assert values == pytest.approx([below[q] if report <= q else above[q] for q in range(3)], rel=1e-14)
    steps = np.array([oracle.private_step(report, taus, epsilon) for report in range(4)])
    at_truth = np.diff([0.0, *taus, 1.0]) @ (matrix @ steps)
    assert at_truth == pytest.approx(0.0, abs=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "low", "high"), [(1.0, 0.9, 1.2), (4.0, 0.9, 1.2)])
def test_spread_of_the_average_is_as_predicted(epsilon, low, high):
    """Quartiles of N(0, 1), n = 5e4, 320 replicates: the standard deviation over the predicted one."""
    path = OnePass(Quantiles(), Cells(epsilon=epsilon, sampling="private_bit"), LdpSgd())
    n = 50_000
    found = np.concatenate(
        [run_path(path, SEED, range(r, r + 32), [n]).prefix_sums[0] / n for r in range(0, 320, 32)], axis=1
    )
    ratio = found.std(axis=1) / np.sqrt(np.array(asymptotic_variances(path)) / n)
    assert (ratio > low).all()
    assert (ratio < high).all()
