"""Every kernel against the literal recursion, on the same random numbers."""

import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.problems.column_law import column_law
from ldpflow.simulators.one_pass import OnePass, run_path
from tests import draws
from tests.kernels import uncompiled
from tests.oracles import cells, gaussian_sgd, mechanisms, recursion
from tests.oracles.column_law import example_column

SEED = 11


def records(path, replicate, count):
    z = draws.data(path, SEED, replicate, count)
    problem = path.problem
    if isinstance(problem, (lf.Quantile, lf.Quantiles)):
        return list(problem.location + problem.scale * z[:, 0])
    if isinstance(problem, lf.Quadratic):
        return list(problem.bound * z)
    if isinstance(problem, lf.LinearRegression):
        return list(zip(z[:, :-1], z[:, :-1] @ np.array(problem.coefficients) + z[:, -1], strict=True))
    if isinstance(problem, lf.LogisticRegression):
        x = z[:, :-1] if problem.covariates == "normal" else np.ones((count, 1))
        p = 1.0 / (1.0 + np.exp(-x @ np.array(problem.coefficients)))
        return list(zip(x, (z[:, -1] < p).astype(float), strict=True))
    # The library's shift makes F_e(0) = tau; the spec's formula for y is x' beta + e.
    law = problem.error_law()
    x = np.column_stack([np.ones(count), problem.bound * z[:, :-1]])
    y = x @ np.array(problem.coefficients) + law.location + law.scale * z[:, -1]
    return list(zip(x, y, strict=True))


def raw_gradient(problem):
    if isinstance(problem, lf.Quantile):
        return lambda x, theta: recursion.quantile_gradient(x, theta, problem.tau)
    if isinstance(problem, lf.Quadratic):
        h, truth = np.array(problem.curvatures), np.array(problem.truth())
        return lambda x, theta: h * (theta - truth) - x
    if isinstance(problem, lf.LinearRegression):
        c, clip = problem.huber, problem.clip
        return lambda xy, theta: gaussian_sgd.huber_gradient(*xy, theta, c, clip)
    if isinstance(problem, lf.LogisticRegression):
        return lambda xy, theta: gaussian_sgd.logistic_gradient(*xy, theta, problem.clip)
    return lambda xy, theta: recursion.quantile_regression_gradient(*xy, theta, problem.tau)


def sensitivity(problem):
    if isinstance(problem, lf.Quantile):
        return 1.0  # two values of -tau + 1{x <= theta}, one apart
    if isinstance(problem, lf.LogisticRegression):
        return 2.0 * problem.clip * np.sqrt(problem.dimension)
    if isinstance(problem, lf.Quadratic):
        return 2.0 * problem.bound * problem.dimension
    return mechanisms.quantile_regression_sensitivity(problem.tau, len(problem.coefficients), problem.bound)


def noise_scale(path, count):
    """What the standard noise of a user, or of a batch, is multiplied by: one number each."""
    mechanism, problem = path.mechanism, path.problem
    if isinstance(mechanism, lf.Laplace):
        return np.full(count, sensitivity(problem) / mechanism.epsilon)
    return 2.0 * problem.gradient_bound() / np.resize(mechanism.budgets or mechanism.mu, count)


def private_gradient(path, noise):
    mechanism, g, d = path.mechanism, raw_gradient(path.problem), path.problem.dimension
    if isinstance(mechanism, lf.RandomizedResponse):
        return recursion.private_quantile_gradient(path.problem.tau, mechanism.epsilon, noise[:, 0])
    if isinstance(mechanism, lf.NoMechanism):
        return lambda i, x, theta: g(x, theta)
    scale = noise_scale(path, len(noise))
    if getattr(mechanism, "mu_min", None) is not None:  # mu_i ~ U(mu_min, mu)
        scale *= mechanism.mu / (mechanism.mu_min + (mechanism.mu - mechanism.mu_min) * noise[:, d])
    return lambda i, x, theta: g(x, theta) + scale[i - 1] * noise[i - 1, :d]


def literal_path(path, replicate, n):
    algorithm = path.algorithm
    x = records(path, replicate, n)
    noise = draws.noise(path, SEED, replicate, n)
    d = path.problem.dimension
    start = np.array(algorithm.start(d))
    if isinstance(path.mechanism, lf.Cells):
        c, batch = algorithm.c * np.array(algorithm.step_factors() or 1.0), algorithm.records_per_step()
        budget = path.mechanism.epsilon
        return cells.path(x, noise[:, 0], path.problem.taus, budget, c, algorithm.gamma, start, batch)
    if isinstance(algorithm, lf.LdpSgd):
        if algorithm.radius is not None:
            return projected_path(path, x, noise, start)
        return recursion.ldp_sgd_path(x, private_gradient(path, noise), start, algorithm.c, algorithm.gamma)
    gradient, of_batches = private_gradient(path, noise), None
    if algorithm.noise == "batch":
        g = raw_gradient(path.problem)
        gradient, of_batches = lambda i, record, theta: g(record, theta), noise_scale(path, 1) * noise
    s, c, gamma = algorithm.batch_size, algorithm.c, algorithm.gamma
    return recursion.minibatch_path(x, gradient, start, c, gamma, s, of_batches)


def projected_path(path, x, noise, start):
    a, gradient = path.algorithm, private_gradient(path, noise)
    theta, iterates = start, []
    for i, record in enumerate(x, 1):
        theta = theta - recursion.learning_rate(i, a.c, a.gamma) * gradient(i, record, theta)
        theta = start + (theta - start) * min(1.0, a.radius / np.linalg.norm(theta - start))
        iterates.append(theta)
    return np.array(iterates)


def compare(record, lane, times, iterates, rtol=1e-10):
    at, atol = np.array(times) - 1, 1e-9 * max(1.0, np.max(record.algorithm.c))
    np.testing.assert_allclose(record.iterates[:, :, lane], iterates[at], rtol=rtol, atol=1e-12)
    sums = np.cumsum(iterates - record.source.problem.truth(), axis=0)
    np.testing.assert_allclose(record.prefix_sums[:, :, lane], sums[at], rtol=rtol, atol=atol)


MIXTURE = (
    lf.MixturePart(weight=3.0, law="normal", location=-1.0, scale=0.5),
    lf.MixturePart(law="gamma", shape=0.125),
    lf.MixturePart(law="lognormal", shape=0.5, scale=2.0),
)
TABLE = column_law(example_column()).text()
SIMPLE = ("normal", "laplace", "exponential", "uniform", "logistic")
LAWS = {
    **{law: lf.Quantile(tau=0.3, law=law, location=-1.0, scale=2.5) for law in SIMPLE},
    "student_t": lf.Quantile(tau=0.3, law="student_t", df=3.0, location=-1.0, scale=2.5),
    "lognormal": lf.Quantile(tau=0.9, law="lognormal", shape=0.6, scale=3.0),
    "weibull": lf.Quantile(tau=0.3, law="weibull", shape=0.7, location=1.0),
    "pareto": lf.Quantile(tau=0.7, law="pareto", shape=3.0),
    "gamma": lf.Quantile(tau=0.7, law="gamma", shape=0.125),
    "mixture": lf.Quantile(tau=0.7, law="mixture", components=MIXTURE, scale=2.0),
    "empirical": lf.Quantile(tau=0.9, law="empirical", law_table=TABLE),
}
LEVELS = {1: (0.7,), 3: (0.25, 0.5, 0.75), 6: (0.05, 0.1, 0.4, 0.5, 0.9, 0.99)}
OWN = {"c": (0.5, 1.0, 2.0), "theta0": (-0.5, 0.4, 1.5)}  # steps and a start for each quantile
CELLS = lf.Cells(epsilon=1.3)


def several(count):
    return lf.Quantiles(taus=LEVELS[count], location=0.2, scale=1.5)


def quartiles_of(problem):
    names = ("law", "location", "scale", "shape", "components", "law_table")
    return lf.Quantiles(taus=LEVELS[3], **{name: getattr(problem, name) for name in names})


GENERAL = {"covariates": "uniform", "bound": 0.5, "errors": "student_t", "df": 4.0, "error_scale": 2.0}
RESPONSE, LAPLACE, GAUSSIAN, NONE = lf.RandomizedResponse(), lf.Laplace(), lf.Gaussian(), lf.NoMechanism()
MU2, SGD = lf.Gaussian(mu=2.0), lf.LdpSgd()
LARGE = lf.LdpSgd(c=1000.0, theta0=1000.0)
QUANTILE, REGRESSION = lf.Quantile(tau=0.9), lf.QuantileRegression()
LINEAR = lf.LinearRegression(coefficients=(1.0, -0.5))
CLIPPED = lf.LinearRegression(coefficients=(1.0, -0.5), huber=0.7, bounding="clip", clip=1.5)
LOGISTIC = lf.LogisticRegression(coefficients=(1.0, 0.5), bounding="clip", clip=0.8)
PATHS = {
    "quantile-rr": (QUANTILE, RESPONSE, SGD),
    "quantile-laplace": (QUANTILE, lf.Laplace(epsilon=2.0), lf.LdpSgd(gamma=0.7, c=3.0)),
    "quantile-none": (QUANTILE, NONE, lf.LdpSgd(theta0=2.0)),
    **{f"law-{name}": (law, RESPONSE, LARGE if name == "empirical" else SGD) for name, law in LAWS.items()},
    "regression-laplace": (REGRESSION, LAPLACE, SGD),
    "regression-general": (
        lf.QuantileRegression(tau=0.8, coefficients=(1.0, -2.0), **GENERAL), LAPLACE, lf.LdpSgd(c=0.5)
    ),
    "huber-gaussian": (lf.LinearRegression(), MU2, lf.LdpSgd(gamma=0.6, c=0.4)),
    "huber-uniform": (LINEAR, lf.Gaussian(mu_min=1.0, mu=2.0), lf.LdpSgd(gamma=0.3)),
    "huber-clip-list-projected": (
        CLIPPED, lf.Gaussian(budgets=(1.0, 2.0, 0.5)), lf.LdpSgd(gamma=0.6, c=0.4, radius=1.5, theta0=0.2)
    ),
    "logistic-five": (lf.LogisticRegression(coefficients=(0.25,) * 5), GAUSSIAN, lf.LdpSgd(gamma=0.9, c=0.2)),
    "logistic-clip": (LOGISTIC, lf.Laplace(epsilon=3.0), SGD),
    "logistic-one": (
        lf.LogisticRegression(coefficients=(1.0,), covariates="one"), MU2, lf.LdpSgd(gamma=0.25)
    ),
    "quadratic": (
        lf.Quadratic(curvatures=(0.3, 1.0), minimiser=(-1.0, 1.0)), GAUSSIAN, lf.LdpSgd(gamma=0.6, c=0.5)
    ),
    "quadratic-laplace": (lf.Quadratic(), LAPLACE, SGD),
    "minibatch-gaussian": (lf.LinearRegression(), MU2, lf.MinibatchSgd(batch_size=4, noise="batch")),
    "minibatch-none": (QUANTILE, NONE, lf.MinibatchSgd(batch_size=7)),
    "minibatch-local": (QUANTILE, LAPLACE, lf.MinibatchSgd(batch_size=7)),
    "minibatch-local-rr": (QUANTILE, RESPONSE, lf.MinibatchSgd(batch_size=3)),
    "minibatch-central": (QUANTILE, LAPLACE, lf.MinibatchSgd(batch_size=7, noise="batch")),
    "minibatch-regression": (
        REGRESSION, LAPLACE, lf.MinibatchSgd(batch_size=5, noise="batch", theta0=0.3)
    ),
    **{f"cells-{count}": (several(count), CELLS, lf.LdpSgd(theta0=0.4)) for count in LEVELS},
    **{f"cells-{count}-batches": (several(count), CELLS, lf.MinibatchSgd(batch_size=4, c=0.7))
       for count in LEVELS},
    "cells-own": (several(3), CELLS, lf.LdpSgd(**OWN)),
    "cells-own-batches": (several(3), CELLS, lf.MinibatchSgd(batch_size=4, **OWN)),
    **{f"cells-{name}": (quartiles_of(LAWS[name]), CELLS, LARGE if name == "empirical" else SGD)
       for name in ("lognormal", "mixture", "empirical")},
}  # fmt: skip
PATHS = {name: OnePass(*parts) for name, parts in PATHS.items()}
# Compiled: each mechanism, both algorithms, functions that are called and such as are inlined.
COMPILED = (
    "quantile-rr",
    "regression-general",
    "huber-uniform",
    "logistic-five",
    "logistic-clip",
    "minibatch-central",
    "law-gamma",  # a table
    "law-mixture",  # several laws of which one is chosen
    "cells-6",  # as many coordinates as are inlined
    "cells-own-batches",
)


@pytest.mark.parametrize(
    "name", [p if p == "cells-empirical" else pytest.param(p, marks=pytest.mark.thorough) for p in PATHS]
)
def test_functions_of_the_kernel_are_the_literal_recursion(name):
    path, n = PATHS[name], 300
    steps = path.algorithm.steps(n)
    times = sorted({1, 2, 3, min(127, steps), min(128, steps), min(129, steps), steps // 2, steps})
    replicates = range(3, 9)
    record = uncompiled.run_path(path, SEED, replicates, times, times, ["self_normalization"])
    at, i = np.array(times) - 1, np.arange(1, steps + 1)[:, None]
    for r in (0, 5):
        iterates = literal_path(path, replicates[r], n)
        assert len(iterates) == steps
        compare(record, r, times, iterates)
        S = np.cumsum(iterates - np.array(path.problem.truth()), axis=0)
        weighted, squared = record.running_sums["self_normalization"][:, :, :, r]
        atol = 1e-7 * path.algorithm.c
        np.testing.assert_allclose(weighted, np.cumsum(i * S, axis=0)[at], rtol=1e-10, atol=atol)
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
    a = OnePass(QUANTILE, lf.RandomizedResponse(epsilon=0.5), SGD)
    b = OnePass(QUANTILE, lf.Laplace(epsilon=3.0), lf.LdpSgd(gamma=0.6))
    assert a.key != b.key
    assert (draws.data(a, SEED, 4, n) == draws.data(b, SEED, 4, n)).all()
    assert not (draws.noise(a, SEED, 4, n) == draws.noise(b, SEED, 4, n)).any()
    c = OnePass(QUANTILE, lf.RandomizedResponse(epsilon=0.5), SGD, horizon=n)
    assert c.key != a.key
    assert not (draws.data(a, SEED, 4, n) == draws.data(c, SEED, 4, n)).any()


BIT, HALF_BIT = (lf.RandomizedResponse(sampling=name) for name in ("private_bit", "private_bit_32"))


@pytest.mark.parametrize(
    ("run", "mechanism", "kind"),
    [
        (uncompiled.run_path, RESPONSE, "SN"),
        pytest.param(run_path, HALF_BIT, "SN", marks=pytest.mark.thorough),
        pytest.param(run_path, BIT, "TR", marks=pytest.mark.slow),
    ],
)
def test_neither_further_times_nor_running_sums_change_a_bit(run, mechanism, kind):
    path, n = OnePass(QUANTILE, mechanism, lf.LdpSgd(c=0.3)), 300
    few = run(path, SEED, range(32), [130, n])
    many = run(path, SEED, range(32), list(range(1, n + 1)))
    assert (many.prefix_sums[[129, n - 1]] == few.prefix_sums).all()
    assert (many.iterates[[129, n - 1]] == few.iterates).all()
    method = INTERVAL_METHODS[kind]()
    marked = sorted({*method.marked_times(n, path.algorithm, 1), n})
    sums = sorted({"self_normalization", *method.running_sums(1)})
    summed = run(path, SEED, range(32), sorted({130, *marked}), marked, sums)
    where = np.searchsorted(summed.times, [130, n])
    assert (summed.prefix_sums[where] == few.prefix_sums).all()
    assert (summed.iterates[where] == few.iterates).all()
    S = many.prefix_sums[:, 0]
    found = summed.running_sums["self_normalization"][:, -1, 0]
    np.testing.assert_allclose(found, [np.arange(1, n + 1) @ S, (S**2).sum(axis=0)], rtol=1e-9)


def test_records_of_a_mixture_have_its_law():
    """Kolmogorov and Smirnov on 5,000 records; fails with probability 1e-4 if all is well."""
    problem = lf.Quantile(law="mixture", components=MIXTURE[::2], scale=2.0)  # a table takes seconds to make
    path = OnePass(problem, RESPONSE, SGD)
    x = problem.location + problem.scale * draws.data(path, SEED, 1, 5000)[:, 0]
    assert stats.kstest(problem.data_law().cdf_values(x), "uniform").pvalue > 1e-4
