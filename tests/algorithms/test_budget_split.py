"""Perturbed paths against the literal recursion, their interval, and what they promise."""

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.intervals.variance import asymptotic_covariance
from ldpflow.components.problems.laws import Variate
from ldpflow.numerics.constants import normal_quantile
from ldpflow.numerics.running_sums import PERTURBED
from ldpflow.numerics.streams import CHUNK
from ldpflow.simulators.one_pass import OnePass, run_path
from tests import draws
from tests.kernels import uncompiled
from tests.kernels.test_one_pass import SEED, private_gradient, records
from tests.oracles import recursion

B = 4
ALGORITHM = lf.BudgetSplit(perturbations=B, gamma=0.6, c=0.5)
PATHS = {
    "quantile-rr": OnePass(lf.Quantile(tau=0.7), lf.RandomizedResponse(epsilon=10.0), ALGORITHM),
    "quantile-none": OnePass(lf.Quantile(tau=0.7), lf.NoMechanism(), ALGORITHM),
    "regression-gaussian": OnePass(
        lf.LinearRegression(coefficients=(1.0, -0.5)), lf.Gaussian(mu=20.0), ALGORITHM
    ),
    "regression-laplace": OnePass(
        lf.QuantileRegression(coefficients=(0.5, -1.0)), lf.Laplace(epsilon=50.0), ALGORITHM
    ),
}


def literal(path, k, replicate, n):
    """theta_i = theta_{i-1} - eta_i w_i A(g(X_i, theta_{i-1})) with A of eps/(B + 1)."""
    mechanism = path.mechanism
    if mechanism.kind == "gaussian":
        mechanism = lf.Gaussian(mu=mechanism.mu / np.sqrt(B + 1))
    elif mechanism.kind != "none":
        mechanism = type(mechanism)(epsilon=mechanism.epsilon / (B + 1))
    variates = mechanism.variates(path.problem)
    key = path.key
    if k:
        key, variates = f"{path.key}/perturbed={k}", (*variates, Variate("exponential"))
    drawn = draws.planes(SEED, "mechanism", key, replicate, variates, n)
    noise, w = (drawn[:, :-1], drawn[:, -1]) if k else (drawn, np.ones(n))
    a = private_gradient(OnePass(path.problem, mechanism, lf.LdpSgd()), noise)
    return recursion.ldp_sgd_path(
        records(path, replicate, n),
        lambda i, x, theta: w[i - 1] * np.atleast_1d(a(i, x, theta)),
        np.zeros(path.problem.dimension),
        ALGORITHM.c,
        ALGORITHM.gamma,
    )


@pytest.mark.parametrize(
    ("name", "run"),
    [
        *((name, uncompiled.run_path) for name in PATHS),
        pytest.param("quantile-rr", run_path, marks=pytest.mark.thorough),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__module__.rpartition(".")[2],
)
def test_every_path_against_the_literal_recursion(name, run):
    path = PATHS[name]
    times = [1, CHUNK, 150]
    record = run(path, SEED, [5, 9], times, [CHUNK, 150], [PERTURBED, "self_normalization"])
    for lane, replicate in enumerate((5, 9)):
        own = literal(path, 0, replicate, 150)
        assert record.iterates[:, :, lane] == pytest.approx(own[np.array(times) - 1], abs=1e-10)
        for k in range(1, B + 1):
            sums = np.cumsum(literal(path, k, replicate, 150) - record.origin, axis=0)
            for time in (CHUNK, 150):
                found = record.running(PERTURBED, time)[k - 1, :, lane]
                assert found == pytest.approx(sums[time - 1], abs=1e-10)


def test_interval_is_the_spread_of_the_perturbed_averages():
    path = PATHS["regression-laplace"]
    record = uncompiled.run_path(path, SEED, [5, 9], [300], [300], [PERTURBED])
    found = lf.PerturbedBootstrap().intervals(record, 300, [0.9])
    for lane, replicate in enumerate((5, 9)):
        averages = [literal(path, k, replicate, 300).mean(axis=0) for k in range(B + 1)]
        se = np.std(averages[1:], axis=0, ddof=1)
        assert found.estimate[:, lane] == pytest.approx(averages[0], abs=1e-10)
        assert found.se[:, lane] == pytest.approx(se, rel=1e-8)
        half = normal_quantile(0.95) * se
        assert found.lower[0, :, lane] == pytest.approx(averages[0] - half, abs=1e-9)


def test_privacy_is_the_whole_budget_and_noise_that_of_a_share():
    path = PATHS["quantile-rr"]
    statement = ALGORITHM.privacy(path.mechanism)
    assert (statement.notion, statement.epsilon, statement.unit) == ("eps-LDP", 10.0, "record")
    share = ALGORITHM.randomiser(path.mechanism)
    assert (B + 1) * share.epsilon == pytest.approx(10.0)
    assert ALGORITHM.randomiser(lf.NoMechanism()) == lf.NoMechanism()


def test_a_mechanism_whose_budget_is_not_split_is_refused():
    refused = ALGORITHM.unsuitable(lf.LeastSquares(), lf.ClippedGaussian())
    assert refused == "it splits epsilon of eps-LDP, or mu of gaussian"
    for path in PATHS.values():
        assert ALGORITHM.unsuitable(path.problem, path.mechanism) is None


@pytest.mark.parametrize("name", PATHS)
def test_oracle_has_the_noise_of_one_share(name):
    path = PATHS[name]
    alone = OnePass(path.problem, path.randomiser, lf.LdpSgd())
    assert asymptotic_covariance(path) == asymptotic_covariance(alone)
