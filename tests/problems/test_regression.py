"""Regression problems: population constants (spec 4.3), bounded gradients (A3), loss gaps; their records."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import ldpflow as lf
from ldpflow.components.problems.least_squares import LAWS
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.finite_sum import draw_records
from ldpflow.simulators.trajectories import excess_loss
from tests.draws import planes


@pytest.mark.parametrize(
    ("d", "h", "v"), [(5, 0.311973, 0.136921), (10, 0.164162, 0.035256), (20, 0.082137, 0.007891)]
)
def test_huber_constants(d, h, v):
    problem = lf.LinearRegression(coefficients=(1.0,) * d)
    assert problem.curvature()[0][0] == pytest.approx(h, abs=1e-6)
    assert problem.gradient_covariance()[d - 1][d - 1] == pytest.approx(v, abs=1e-6)
    assert problem.curvature()[0][1] == 0.0
    assert problem.gradient_bound() == pytest.approx(1.9021172413918)


@pytest.mark.parametrize(
    ("name", "along", "other"),
    [
        ("curvature", 0.061832, 0.081842),
        pytest.param("gradient_covariance", 0.034573, 0.042985, marks=pytest.mark.thorough),
    ],
)
def test_logistic_constants(name, along, other):
    problem = lf.LogisticRegression(coefficients=(1.0 / math.sqrt(5),) * 5)
    matrix = np.array(getattr(problem, name)())
    unit = np.ones(5) / math.sqrt(5)
    across = np.eye(5)[0] - np.eye(5)[1]
    assert unit @ matrix @ unit == pytest.approx(along, abs=1.5e-6)
    assert across @ matrix @ across / 2 == pytest.approx(other, abs=1.5e-6)


def test_constants_in_one_dimension():
    one = lf.LogisticRegression(coefficients=(1.0,), covariates="one")
    assert one.curvature()[0][0] == pytest.approx(0.19661193324148185)

    def term(x):
        p = 1 / (1 + math.exp(-0.7 * x))
        return min(1, 2 / x**2) * p * (1 - p) * x**2 * stats.norm.pdf(x)

    expected = 2 * integrate.quad(term, 1e-9, 40, points=[math.sqrt(2)])[0]
    assert lf.LogisticRegression(coefficients=(0.7,)).curvature()[0][0] == pytest.approx(expected, rel=1e-6)


def test_huber_flattens_outwards():
    """A10: one-point m = .0652 at R = 5 + sqrt(5), printed from 4e5 draws; h at R = 0."""
    problem = lf.LinearRegression()
    assert problem.one_point_convexity(5 + math.sqrt(5)) == pytest.approx(0.0652, abs=2e-4)
    assert problem.one_point_convexity(1e-6) == pytest.approx(0.311973, abs=1e-6)
    assert lf.LinearRegression(bounding="clip", clip=1.0).one_point_convexity(1.0) is None


def test_clipped_huber_constants():
    """Against 4e5 draws, at 4 standard errors."""
    rng = np.random.default_rng(2)
    problem = lf.LinearRegression(coefficients=(1.0,) * 3, bounding="clip", clip=1.5)
    x, e = rng.standard_normal((400_000, 3)), rng.standard_normal(400_000)
    r = np.linalg.norm(x, axis=1)
    cut = np.minimum(1.345, 1.5 / r)
    for matrix, values in (
        (problem.curvature(), (np.abs(e) < cut) * r**2 / 3),
        (problem.gradient_covariance(), np.clip(e, -cut, cut) ** 2 * r**2 / 3),
    ):
        assert abs(values.mean() - matrix[0][0]) < 4 * values.std() / math.sqrt(len(r))


@pytest.mark.parametrize("kind", [lf.LinearRegression, lf.LogisticRegression])
def test_excess_loss_against_its_second_order(kind):
    """Near theta* it is delta' H delta/2; the evaluation set has 2e4 covariates (about 2% off)."""
    problem = kind()
    delta = np.zeros((2, 5, 3))
    delta[0, :, 1] = 1e-3 * np.array([1.0, -2.0, 0.5, 0.0, 1.0])
    delta[1, :, 2] = 30.0
    theta = np.array(problem.truth())[None, :, None] + delta
    gap = excess_loss(problem, theta)
    assert gap[0, 0] == pytest.approx(0.0, abs=1e-12)
    h = np.array(problem.curvature())
    second = delta[0, :, 1] @ h @ delta[0, :, 1] / 2
    assert gap[0, 1] == pytest.approx(second, rel=0.05)
    assert gap[1, 2] > gap[0, 1]


def test_variates_have_variance_1_and_the_stated_kurtosis():
    laws = {"normal": stats.norm, "laplace": stats.laplace, "symmetric_uniform": stats.uniform(-1, 2)}
    laws["rademacher"] = stats.rv_discrete(values=((-1, 1), (0.5, 0.5)))
    for sampler, unit, kurtosis in LAWS.values():
        assert unit**2 * laws[sampler].moment(2) == pytest.approx(1.0)
        assert unit**4 * laws[sampler].moment(4) == pytest.approx(kurtosis)


def test_constants():
    p = lf.LeastSquares(d=10, kappa=100.0, norm=2.0, sigma=0.5)
    lam = np.array(p.lambdas)
    assert (lam[0], lam[-1]) == (1.0, pytest.approx(0.01))
    np.testing.assert_allclose(np.diff(np.log(lam)), np.log(lam[1]), rtol=1e-12)
    assert p.radius_square() == pytest.approx(lam.sum() + 2)
    assert lf.LeastSquares(d=7).radius_square() == 9.0
    assert lf.LeastSquares(d=7, design="rademacher").radius_square() == 7.0
    assert lf.LeastSquares(d=7, design="laplace").radius_square() == pytest.approx(12.0)
    assert p.signal() ** 2 == pytest.approx(4 / 10 * lam.sum())
    assert p.tail() == (pytest.approx(1.633, abs=1e-3), 0.5)
    assert lf.LeastSquares(errors="laplace").tail()[1] == 1.0
    assert p.l2_sensitivity() == math.inf


def test_what_does_not_go_together():
    own = {"eigenvalues": (1.0, 2.0), "kappa": 3.0}
    for settings in (own, {"coefficients": (1.0,), "d": 2}, {"target": "y"}, {"file": "x.csv"}):
        with pytest.raises(lf.InputError):
            lf.LeastSquares(**settings)


SEED, N = 3, 300  # more than two chunks


def drawn(problem, replicate):
    records = draw_records(problem, SEED, N, [0, replicate])
    x = records.rows.reshape(LANES, N, problem.d)[1]
    y = records.targets.reshape(LANES, N)[1]
    return x, y, planes(SEED, "data", problem.data_key(), replicate, problem.variates(), N)


@pytest.mark.thorough
@pytest.mark.parametrize(("direction", "u"), [("diagonal", (0.5,) * 4), ("axis", (1.0, 0, 0, 0))])
def test_two_classes(direction, u):
    problem = lf.NonconvexLogistic(d=4, bound=2.0, separation=1.5, direction=direction, label_noise=0.2)
    x, y, variates = drawn(problem, 7)
    for i in range(N):
        v = variates[i, 4]
        label = 1.0 if v < 0.5 else -1.0
        raw = variates[i, :4] + label * 1.5 * np.array(u)
        assert x[i] == pytest.approx(2.0 * raw / np.linalg.norm(raw), rel=1e-12)
        # What the uniform has left after the class decides whether the label is flipped.
        assert y[i] == (-label if (2.0 * v) % 1.0 < 0.2 else label)


@pytest.mark.thorough
def test_real_targets():
    problem = lf.RobustRegression(d=3, bound=2.0, signal=1.5, error_scale=0.7)
    x, y, variates = drawn(problem, 7)
    for i in range(N):
        raw = variates[i, :3]
        unit = raw / np.linalg.norm(raw)
        assert x[i] == pytest.approx(2.0 * unit, rel=1e-12)
        mean = 1.5 * (unit[0] - unit[1] + unit[2])
        assert y[i] == pytest.approx(mean + 0.7 * variates[i, 3], rel=1e-11, abs=1e-13)
