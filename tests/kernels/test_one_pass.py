"""Every kernel against the literal recursion, on the same random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.components.mechanisms.gaussian import Gaussian
from ldpflow.components.mechanisms.laplace import Laplace
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.linear_regression import LinearRegression
from ldpflow.components.problems.logistic_regression import LogisticRegression
from ldpflow.components.problems.quadratic import Quadratic
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.quantile_regression import QuantileRegression
from ldpflow.simulators.families import simulator_from_settings
from ldpflow.simulators.one_pass import OnePass, run_path
from tests import draws
from tests.kernels import uncompiled
from tests.oracles import gaussian_sgd, mechanisms, recursion

SEED = 11
LAWS = ["normal", "laplace", "exponential", "uniform", "logistic", "student_t"]


def records(path, replicate, count):
    """The users' data, in the problem's units."""
    z = draws.data(path, SEED, replicate, count)
    problem = path.problem
    if isinstance(problem, Quantile):
        return list(problem.location + problem.scale * z[:, 0])
    if isinstance(problem, Quadratic):
        return list(problem.bound * z)
    if isinstance(problem, LinearRegression):
        return list(zip(z[:, :-1], z[:, :-1] @ np.array(problem.coefficients) + z[:, -1], strict=True))
    if isinstance(problem, LogisticRegression):
        x = z[:, :-1] if problem.covariates == "normal" else np.ones((count, 1))
        p = 1.0 / (1.0 + np.exp(-x @ np.array(problem.coefficients)))
        return list(zip(x, (z[:, -1] < p).astype(float), strict=True))
    # The library's shift makes F_e(0) = tau; the spec's formula for y is x' beta + e.
    law = problem.error_law()
    x = np.column_stack([np.ones(count), problem.bound * z[:, :-1]])
    y = x @ np.array(problem.coefficients) + law.location + law.scale * z[:, -1]
    return list(zip(x, y, strict=True))


def raw_gradient(problem):
    if isinstance(problem, Quantile):
        return lambda x, theta: recursion.quantile_gradient(x, theta, problem.tau)
    if isinstance(problem, Quadratic):
        h, truth = np.array(problem.curvatures), np.array(problem.truth())
        return lambda x, theta: h * (theta - truth) - x
    if isinstance(problem, LinearRegression):
        c, clip = problem.huber, problem.clip
        return lambda xy, theta: gaussian_sgd.huber_gradient(*xy, theta, c, clip)
    if isinstance(problem, LogisticRegression):
        return lambda xy, theta: gaussian_sgd.logistic_gradient(*xy, theta, problem.clip)
    return lambda xy, theta: recursion.quantile_regression_gradient(*xy, theta, problem.tau)


def sensitivity(problem):
    if isinstance(problem, Quantile):
        return 1.0  # two values of -tau + 1{x <= theta}, one apart
    if isinstance(problem, LogisticRegression):
        return 2.0 * problem.clip * np.sqrt(problem.dimension)
    return mechanisms.quantile_regression_sensitivity(problem.tau, len(problem.coefficients), problem.bound)


def private_gradient(path, noise):
    """A(g(x_i, theta)) with the i-th noise, i = 1, 2, ..."""
    mechanism, problem = path.mechanism, path.problem
    g = raw_gradient(problem)
    if isinstance(mechanism, RandomizedResponse):
        return recursion.private_quantile_gradient(problem.tau, mechanism.epsilon, noise[:, 0])
    if isinstance(mechanism, Gaussian):
        d = problem.dimension
        mu = np.full(len(noise), mechanism.mu)
        if mechanism.mu_min is not None:
            mu = mechanism.mu_min + (mechanism.mu - mechanism.mu_min) * noise[:, d]
        if mechanism.budgets is not None:
            mu = np.resize(mechanism.budgets, len(noise))
        scale = 2.0 * problem.gradient_bound() / mu
        return lambda i, x, theta: g(x, theta) + scale[i - 1] * noise[i - 1, :d]
    if isinstance(mechanism, Laplace):
        delta = sensitivity(problem)
        return lambda i, x, theta: mechanisms.add_laplace(g(x, theta), delta, mechanism.epsilon, noise[i - 1])
    return lambda i, x, theta: g(x, theta)


def literal_path(path, replicate, n):
    algorithm = path.algorithm
    x = records(path, replicate, n)
    noise = draws.noise(path, SEED, replicate, n)
    d = path.problem.dimension
    start = np.full(d, algorithm.theta0)
    if isinstance(algorithm, LdpSgd):
        if algorithm.radius is not None:
            return projected_path(path, x, noise, start)
        return recursion.ldp_sgd_path(x, private_gradient(path, noise), start, algorithm.c, algorithm.gamma)
    gradient, of_batches = private_gradient(path, noise), None
    if algorithm.noise == "batch":
        g = raw_gradient(path.problem)
        if isinstance(path.mechanism, Gaussian):
            scale = 2.0 * path.problem.gradient_bound() / path.mechanism.mu
        else:
            scale = sensitivity(path.problem) / path.mechanism.epsilon
        gradient, of_batches = lambda i, record, theta: g(record, theta), scale * noise
    s, c, gamma = algorithm.batch_size, algorithm.c, algorithm.gamma
    return recursion.minibatch_path(x, gradient, start, c, gamma, s, of_batches)


def projected_path(path, x, noise, start):
    """The literal recursion with every iterate projected onto the ball around the start."""
    a, gradient = path.algorithm, private_gradient(path, noise)
    theta, iterates = start, []
    for i, record in enumerate(x, 1):
        theta = theta - recursion.learning_rate(i, a.c, a.gamma) * gradient(i, record, theta)
        theta = start + (theta - start) * min(1.0, a.radius / np.linalg.norm(theta - start))
        iterates.append(theta)
    return np.array(iterates)


quantile = Quantile(tau=0.9)
regression = QuantileRegression()
PATHS = {
    "quantile-rr": OnePass(quantile, RandomizedResponse(), LdpSgd()),
    "quantile-laplace": OnePass(quantile, Laplace(epsilon=2.0), LdpSgd(gamma=0.7, c=3.0)),
    "quantile-none": OnePass(quantile, NoMechanism(), LdpSgd(theta0=2.0)),
    **{
        f"law-{law}": OnePass(
            Quantile(tau=0.3, law=law, location=-1.0, scale=2.5, df=3.0 if law == "student_t" else None),
            RandomizedResponse(epsilon=0.5),
            LdpSgd(),
        )
        for law in LAWS
    },
    "regression-laplace": OnePass(regression, Laplace(), LdpSgd()),
    "regression-general": OnePass(
        QuantileRegression(
            tau=0.8,
            coefficients=(1.0, -2.0),
            covariates="uniform",
            bound=0.5,
            errors="student_t",
            df=4.0,
            error_scale=2.0,
        ),
        Laplace(epsilon=4.0),
        LdpSgd(c=0.5),
    ),
    "huber-gaussian": OnePass(LinearRegression(), Gaussian(mu=2.0), LdpSgd(gamma=0.6, c=0.4)),
    "huber-uniform": OnePass(
        LinearRegression(coefficients=(1.0, -0.5)), Gaussian(mu_min=1.0, mu=2.0), LdpSgd(gamma=0.3)
    ),
    "huber-clip-list-projected": OnePass(
        LinearRegression(coefficients=(1.0, -0.5), huber=0.7, bounding="clip", clip=1.5),
        Gaussian(budgets=(1.0, 2.0, 0.5)),
        LdpSgd(gamma=0.6, c=0.4, radius=1.5, theta0=0.2),
    ),
    "logistic-five": OnePass(
        LogisticRegression(coefficients=(0.25,) * 5), Gaussian(), LdpSgd(gamma=0.9, c=0.2)
    ),
    "logistic-clip": OnePass(
        LogisticRegression(coefficients=(1.0, 0.5), bounding="clip", clip=0.8),
        Laplace(epsilon=3.0),
        LdpSgd(),
    ),
    "logistic-one": OnePass(
        LogisticRegression(coefficients=(1.0,), covariates="one"),
        Gaussian(mu=2.0),
        LdpSgd(gamma=0.25),
    ),
    "quadratic": OnePass(
        Quadratic(curvatures=(0.3, 1.0), minimiser=(-1.0, 1.0)),
        Gaussian(),
        LdpSgd(gamma=0.6, c=0.5),
    ),
    "minibatch-gaussian": OnePass(
        LinearRegression(), Gaussian(mu=2.0), MinibatchSgd(batch_size=4, noise="batch")
    ),
    # With laws of their own, which so have a fast test.
    "minibatch-none": OnePass(Quantile(tau=0.9, law="laplace"), NoMechanism(), MinibatchSgd(batch_size=7)),
    "minibatch-local": OnePass(quantile, Laplace(), MinibatchSgd(batch_size=7)),
    "minibatch-local-rr": OnePass(
        Quantile(tau=0.9, law="uniform"), RandomizedResponse(), MinibatchSgd(batch_size=3)
    ),
    "minibatch-central": OnePass(
        Quantile(tau=0.9, law="logistic"), Laplace(), MinibatchSgd(batch_size=7, noise="batch")
    ),
    "minibatch-regression": OnePass(
        regression, Laplace(), MinibatchSgd(batch_size=5, noise="batch", theta0=0.3)
    ),
}
# Compiled: each mechanism, both algorithms, functions that are called and such as are inlined.
COMPILED = (
    "quantile-rr",
    "regression-general",
    "huber-uniform",
    "logistic-five",
    "logistic-clip",
    "minibatch-central",
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PATHS)
def test_functions_of_the_kernel_are_the_literal_recursion(name):
    path, n = PATHS[name], 300
    steps = path.algorithm.steps(n)
    times = sorted({1, 2, 3, min(127, steps), min(128, steps), min(129, steps), steps // 2, steps})
    replicates = range(3, 9)
    record = uncompiled.run_path(path, SEED, replicates, times, times, ["self_normalization"])
    truth = np.array(path.problem.truth())
    for r in (0, 5):
        iterates = literal_path(path, replicates[r], n)
        assert len(iterates) == steps
        at = np.array(times) - 1
        np.testing.assert_allclose(record.iterates[:, :, r], iterates[at], rtol=1e-10, atol=1e-12)
        S = np.cumsum(iterates - truth, axis=0)
        np.testing.assert_allclose(record.prefix_sums[:, :, r], S[at], rtol=1e-10, atol=1e-9)
        i = np.arange(1, steps + 1)[:, None]
        weighted, squared = record.running_sums["self_normalization"][:, :, :, r]
        np.testing.assert_allclose(weighted, np.cumsum(i * S, axis=0)[at], rtol=1e-10, atol=1e-7)
        np.testing.assert_allclose(squared, np.cumsum(S**2, axis=0)[at], rtol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [p if p in COMPILED else pytest.param(p, marks=pytest.mark.slow) for p in PATHS]
)
def test_compiled_it_has_the_same_bits(name):
    path, sums = PATHS[name], ["self_normalization"]
    last = path.algorithm.steps(300)
    times = sorted({1, min(129, last), last})
    record, plain = (
        run(path, SEED, range(32), times, times, sums) for run in (run_path, uncompiled.run_path)
    )
    assert (record.iterates == plain.iterates).all() and (record.prefix_sums == plain.prefix_sums).all()
    assert (record.running_sums[sums[0]] == plain.running_sums[sums[0]]).all()


def test_users_meet_every_mechanism_and_step_size():
    n = 500
    a = OnePass(quantile, RandomizedResponse(epsilon=0.5), LdpSgd())
    b = OnePass(quantile, Laplace(epsilon=3.0), LdpSgd(gamma=0.6))
    assert a.key != b.key
    assert (draws.data(a, SEED, 4, n) == draws.data(b, SEED, 4, n)).all()
    assert not (draws.noise(a, SEED, 4, n) == draws.noise(b, SEED, 4, n)).any()
    c = OnePass(quantile, RandomizedResponse(epsilon=0.5), LdpSgd(), horizon=n)
    assert c.key != a.key
    assert not (draws.data(a, SEED, 4, n) == draws.data(c, SEED, 4, n)).any()


def test_recording_more_times_changes_no_bit():
    path, run = PATHS["quantile-rr"], uncompiled.run_path
    few = run(path, SEED, range(32), [130, 200])
    many = run(path, SEED, range(32), list(range(1, 260)), [200], ["self_normalization"])
    assert (many.prefix_sums[[129, 199]] == few.prefix_sums).all()
    assert (many.iterates[[129, 199]] == few.iterates).all()


def test_path_key_ignores_settings_at_their_default_and_nothing_else():
    base = OnePass(Quantile(), RandomizedResponse(), LdpSgd())
    assert base.key == OnePass(Quantile(tau=0.5), RandomizedResponse(epsilon=1.0), LdpSgd()).key
    # Pinned: the address of every stored replicate depends on it.
    assert base.key == "fdcc28972bebf3f4"
    changed = [
        OnePass(Quantile(tau=0.4), RandomizedResponse(), LdpSgd()),
        OnePass(Quantile(), RandomizedResponse(epsilon=2.0), LdpSgd()),
        OnePass(Quantile(), RandomizedResponse(), LdpSgd(theta0=0.1)),
        OnePass(Quantile(), Laplace(), LdpSgd()),
        OnePass(Quantile(), RandomizedResponse(), LdpSgd(), horizon=100),
        OnePass(Quantile(), RandomizedResponse(sampling="private_bit"), LdpSgd()),
        OnePass(Quantile(), RandomizedResponse(sampling="private_bit_32"), LdpSgd()),
    ]
    assert len({base.key, *(p.key for p in changed)}) == 8
    assert all(simulator_from_settings(p.settings()) == p for p in changed)
