"""The one-pass private regressions against their literal forms, on the same random numbers."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpflow as lf
from ldpflow.components.mechanisms import clipped_gaussian
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.least_squares import LAWS
from ldpflow.simulators.one_pass import OnePass
from tests import draws
from tests.kernels.uncompiled import run_path
from tests.oracles import private_regression as literal

SEED = 3
PLAIN = lf.LeastSquares(d=3, sigma=0.5)
SKEW = lf.LeastSquares(
    eigenvalues=(2.0, 1.0, 0.5), coefficients=(1.0, -3.0, 0.5), sigma=0.7, design="laplace"
)


def path_of(problem, algorithm, n, mechanism=None):
    horizon = n if algorithm.depends_on_horizon() else None
    mechanism = mechanism or lf.NoMechanism()
    return OnePass(problem, mechanism, algorithm.resolved(problem, horizon), horizon)


def records(path, replicate, n):
    p = path.problem
    z = draws.data(path, SEED, replicate, n)
    unit = [LAWS[law][1] for law in (p.design, p.errors)]
    X = z[:, :-1] * np.sqrt(p.lambdas) * unit[0]
    return X, X @ np.array(p.truth()) + p.sigma * unit[1] * z[:, -1]


def normals(path, replicate, count):
    return draws.planes(SEED, "mechanism", path.key, replicate, [Variate("normal")], count)[:, 0]


@pytest.mark.parametrize("problem", [PLAIN, SKEW])
@pytest.mark.parametrize("rule", ["corrected", "printed"])
def test_dp_ambssgd_is_the_literal_algorithm(problem, rule):
    n, T = 403, 6  # 67 records a step, one left over
    settings = {"doublings": 6, "c_zeta": 0.7, "domain": 16.0, "rule": rule, "infeasible_is": "warned"}
    algorithm = lf.DpAmbssgd(iterations=T, noise_multiplier=0.1, **settings)
    path = path_of(problem, algorithm, n)
    a = path.algorithm
    record = run_path(path, SEED, [4, 9], range(1, T + 1))
    for lane, replicate in enumerate((4, 9)):
        X, y = records(path, replicate, n)
        noise = normals(path, replicate, T * (7 + problem.dimension))
        w, zeta, share = literal.dp_ambssgd(
            X, y, T, 0.1, a.eta, a.radius, 0.7, 16.0, 6, 1e-3, noise, printed=rule == "printed"
        )
        np.testing.assert_allclose(record.iterates[:, :, lane], w, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(record.extras["threshold"][:, lane], zeta, rtol=1e-14)
        np.testing.assert_allclose(record.extras["clipped"][:, lane], np.cumsum(share), rtol=1e-12)
        assert 0 < share.mean() < 1
    row = path.trajectories(record, a.checkpoints(n)).to_pylist()[-1]
    last = literal.tail_average(w) - np.array(problem.truth())
    expected = 0.5 * float(np.array(problem.lambdas) @ last**2)
    assert (row["step"], row["n"], row["tail_exc"]) == (T, n, pytest.approx(expected, rel=1e-9))
    assert row["clipped"] == pytest.approx(share[-1], rel=1e-9)


def test_dp_mbssgd_is_the_literal_algorithm():
    path = path_of(PLAIN, lf.DpMbssgd(iterations=8, epsilon=30.0, clip=2.0, infeasible_is="warned"), 400)
    record = run_path(path, SEED, [2], range(1, 9))
    X, y = records(path, 2, 400)
    noise = normals(path, 2, 24)
    w, _ = literal.dp_mbssgd(X, y, 8, path.algorithm.alpha(), path.algorithm.eta, 2.0, noise)
    np.testing.assert_allclose(record.iterates[:, :, 0], w, rtol=1e-10)


@pytest.mark.parametrize("local", [True, False])
def test_single_records_with_and_without_the_shuffler(local):
    n = 300
    if local:
        path = path_of(PLAIN, lf.TailSgd(eta=0.05), n, lf.ClippedGaussian(clip=1.5, mu=2.0))
        alpha = 0.5
    else:
        path = path_of(PLAIN, lf.DpSsgd(epsilon=0.05, clip=1.5, eta=0.001), n)
        alpha = path.algorithm.noise_multiplier
    record = run_path(path, SEED, [7], range(1, n + 1))
    X, y = records(path, 7, n)
    noise = draws.planes(SEED, "mechanism", path.key, 7, [Variate("normal")] * 3, n)
    w, clipped = literal.dp_mbssgd(X, y, n, alpha, path.algorithm.eta, 1.5, noise)
    np.testing.assert_allclose(record.iterates[:, :, 0], w, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(record.extras["clipped"][:, 0], clipped)
    row = path.trajectories(record, (n,)).to_pylist()[0]
    assert row["clipped"] == pytest.approx(clipped[-1] / n)
    distance = literal.tail_average(w) - np.array(PLAIN.truth())
    assert row["tail_exc"] == pytest.approx(0.5 * distance @ distance, rel=1e-9)


@pytest.mark.parametrize(
    "algorithm",
    # Noise as of epsilon = .05 may leave a leading entry near 0, where elimination exchanges rows.
    [lf.OrdinaryLeastSquares(), lf.SufficientStatistics(), lf.SufficientStatistics(epsilon=0.05)],
)
def test_least_squares_from_moments(algorithm):
    n, d = 300, 3
    path = path_of(PLAIN, algorithm, n)
    a = path.algorithm
    estimates = run_path(path, SEED, range(16), [1]).iterates[0]
    for replicate in range(16):
        X, y = records(path, replicate, n)
        if algorithm.kind == "ols":
            expected = np.linalg.lstsq(X, y, rcond=None)[0]
        else:
            noise = normals(path, replicate, d * (d + 1) // 2 + d)
            bounds = (a.x_bound, a.y_bound, a.alpha())
            expected = literal.perturbed_statistics(X, y, *bounds, noise)
        np.testing.assert_allclose(estimates[:, replicate], expected, rtol=1e-8)


@pytest.fixture
def houses(tmp_path):
    """A file of 600 records, not centred, with dependent columns."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(600, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.7]]) + 0.4
    y = x @ [1.0, -2.0, 0.5] + rng.normal(size=600)
    file = tmp_path / "houses.parquet"
    pq.write_table(pa.table({"price": y, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}), file)
    return str(file), x, y


def test_a_file_is_shuffled_and_its_population_is_the_file(houses):
    file, x, y = houses
    problem = lf.LeastSquares(file=file, target="price")
    truth = np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(problem.truth(), truth, rtol=1e-10)
    np.testing.assert_allclose(problem.curvature(), x.T @ x / 600, rtol=1e-12)
    assert problem.error_variance() == pytest.approx(((y - x @ truth) ** 2).mean())
    low, *_, high = np.linalg.eigvalsh(x.T @ x / 600)
    assert low * 0.99 < problem.smallest() <= low
    assert high <= problem.largest() < 1.01 * high
    # All records, each once: ordinary least squares is w* itself, in every replicate.
    path = path_of(problem, lf.OrdinaryLeastSquares(), 600)
    estimates = run_path(path, SEED, range(5), [1]).iterates[0]
    np.testing.assert_allclose(estimates, np.tile(truth[:, None], 5), rtol=1e-10)
    # Half of them: another half in every replicate.
    path = path_of(problem, lf.OrdinaryLeastSquares(), 300)
    record = run_path(path, SEED, range(5), [1])
    assert len(np.unique(record.iterates[0, 0])) == 5
    excess = path.trajectories(record, (300,))["tail_exc"].to_numpy()
    w = record.iterates[0, :, 0] - truth
    assert excess[0] == pytest.approx(0.5 * w @ (x.T @ x / 600) @ w, rel=1e-9)


def test_a_file_with_dependent_columns_is_refused(tmp_path):
    x = np.arange(20.0)
    pq.write_table(pa.table({"y": x**2, "a": x, "b": 2 * x}), tmp_path / "f.parquet")
    problem = lf.LeastSquares(file=str(tmp_path / "f.parquet"), target="y")
    with pytest.raises(lf.InputError, match="columns none of which follows"):
        problem.truth()


def test_margin_of_the_thresholds():
    algorithm = lf.DpAmbssgd(noise_multiplier=10.513, doublings=20)
    assert algorithm.margin() == pytest.approx(literal.margin(10.513, 20, 1e-3), rel=1e-12)


def test_sensitivities_are_never_exceeded():
    lanes = clipped_gaussian.LANES
    rng = np.random.default_rng(6)
    zeta = 1.3
    kernel, parameters = SimpleNamespace(D=2), SimpleNamespace(clip=zeta, deviation=0.0)

    def clipped(v):
        g = np.zeros(2 * lanes)
        g[0], g[lanes] = v
        with np.errstate(all="ignore"):
            clipped_gaussian.randomise(kernel, g, np.zeros(20_000), 0, 0, parameters, np.zeros(lanes))
        return g[[0, lanes]]

    special = [[0.0, 0.0], [np.inf, 1.0], [np.nan, 0.0], [1e200, 1e200], [1e-320, 0.0]]
    vectors = [*special, [0.3, -0.4], *(rng.standard_normal((300, 2)) * 10.0 ** rng.uniform(-9, 9, (300, 1)))]
    values = np.array([clipped(v) for v in vectors])
    np.testing.assert_allclose(values[5:], [literal.clip(v, zeta) for v in vectors[5:]], rtol=1e-14)
    assert np.isfinite(values).all()
    assert np.linalg.norm(values, axis=1).max() <= zeta * (1 + 1e-15)
    # Attained by opposite ones; and the noise is alpha times as large.
    gap = clipped([5.0, 0.0]) - clipped([-5.0, 0.0])
    mechanism = lf.ClippedGaussian(clip=zeta, mu=0.25)
    assert gap[0] / mechanism.kernel_parameters(PLAIN)["deviation"] == pytest.approx(0.25)  # 1/alpha
