"""Several quantiles from one report per user: the literal recursion, and the predicted covariance."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.components.intervals.variance import asymptotic_variances
from ldpflow.simulators.one_pass import OnePass, run_path
from tests import draws
from tests.kernels import uncompiled
from tests.kernels.test_one_pass import LAWS, SEED, compare
from tests.oracles import cells as oracle

LEVELS = {1: (0.7,), 3: (0.25, 0.5, 0.75), 6: (0.05, 0.1, 0.4, 0.5, 0.9, 0.99)}


STEPS, BATCHES = lf.LdpSgd(theta0=0.4), lf.MinibatchSgd(batch_size=4, c=0.7)
OWN = {"c": (0.5, 1.0, 2.0), "theta0": (-0.5, 0.4, 1.5)}  # steps and a start for each quantile
OWN_STEPS, OWN_BATCHES = lf.LdpSgd(**OWN), lf.MinibatchSgd(batch_size=4, **OWN)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("run", "algorithm", "count"),
    [
        *product([uncompiled.run_path], (STEPS, BATCHES), LEVELS),
        *product([uncompiled.run_path], (OWN_STEPS, OWN_BATCHES), [3]),
        # Compiled: as many coordinates as are inlined, and as few as are called.
        (run_path, STEPS, 6),
        (run_path, BATCHES, 3),
        (run_path, OWN_STEPS, 3),
    ],
)
def test_kernel_is_the_literal_recursion(run, algorithm, count):
    problem = lf.Quantiles(taus=LEVELS[count], location=0.2, scale=1.5)
    path = OnePass(problem, lf.Cells(epsilon=1.3), algorithm)
    n = 1200 if run is run_path else 600
    steps = algorithm.steps(n)
    times = [1, 2, 3, min(129, steps), steps]
    record = run(path, SEED, range(3, 9), times)
    batch = algorithm.records_per_step()
    own = OWN if algorithm in (OWN_STEPS, OWN_BATCHES) else {"c": algorithm.c, "theta0": algorithm.theta0}
    c, start = (np.array(own[name]) for name in ("c", "theta0"))
    for r in (0, 5):
        values = 0.2 + 1.5 * draws.data(path, SEED, 3 + r, n)[:, 0]
        uniforms = draws.noise(path, SEED, 3 + r, n)[:, 0]
        iterates = oracle.path(values, uniforms, problem.taus, 1.3, c, algorithm.gamma, start, batch)
        compare(record, r, times, iterates)


LOGISTIC = {"law": "logistic", "scale": 0.5}, stats.logistic(scale=0.5), 0.0
WEIBULL = {"law": "weibull", "shape": 0.7, "scale": 2.0}, stats.weibull_min(0.7, scale=2.0), 1.0


@pytest.mark.parametrize(
    ("taus", "settings", "law", "start"),
    [*((taus, *LOGISTIC) for taus in LEVELS.values()), (LEVELS[3], *WEIBULL)],
)
def test_reports_drawn_from_their_law_are_the_literal_recursion(taus, settings, law, start):
    problem = lf.Quantiles(taus=taus, **settings)
    path = OnePass(problem, lf.Cells(epsilon=0.8, sampling="private_bit"), lf.LdpSgd(theta0=start))
    record = uncompiled.run_path(path, SEED, range(2), [1, 2, 200])
    uniforms = draws.noise(path, SEED, 1, 200)[:, 0]
    iterates = oracle.path_of_reports(law.cdf, uniforms, taus, 0.8, 1.0, 0.51, start)
    np.testing.assert_allclose(record.iterates[:, :, 1], iterates[[0, 1, 199]], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["lognormal", "empirical", pytest.param("mixture", marks=pytest.mark.thorough)]
)
def test_laws_of_one_quantile_are_laws_of_several(name):
    one = LAWS[name]
    settings = ("law", "location", "scale", "shape", "components", "law_table")
    problem = lf.Quantiles(taus=LEVELS[3], **{setting: getattr(one, setting) for setting in settings})
    scale = 1000.0 if name == "empirical" else 2.0
    path = OnePass(problem, lf.Cells(epsilon=1.3), lf.LdpSgd(c=scale, theta0=scale))
    times = [1, 2, 129, 150]
    record = uncompiled.run_path(path, SEED, range(3, 9), times)
    values = problem.location + problem.scale * draws.data(path, SEED, 5, 150)[:, 0]
    uniforms = draws.noise(path, SEED, 5, 150)[:, 0]
    iterates = oracle.path(values, uniforms, problem.taus, 1.3, scale, 0.51, scale)
    compare(record, 2, times, iterates)
    assert problem.truth() == tuple(problem.data_law().quantile(tau) for tau in problem.taus)


def test_covariance_of_a_step_is_that_of_the_reports():
    problem = lf.Quantiles(taus=LEVELS[3])
    path = OnePass(problem, lf.Cells(epsilon=0.3), lf.LdpSgd())
    step = lf.LdpSgd().step_covariance(problem, path.mechanism)
    expected = oracle.step_covariance(problem.taus, 0.3)
    np.testing.assert_allclose(step, expected, rtol=1e-12)
    density = [problem.data_law().density_at_quantile(tau) for tau in problem.taus]
    np.testing.assert_allclose(asymptotic_variances(path), np.diag(expected) / np.square(density), rtol=1e-12)
