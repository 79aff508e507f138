"""Regression problems: population constants (spec 4.3), bounded gradients (A3), loss gaps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ldpflow.components.problems.linear_regression import LinearRegression
from ldpflow.components.problems.logistic_regression import LogisticRegression
from ldpflow.simulators.trajectories import excess_loss


@pytest.mark.parametrize(
    ("d", "h", "v"),
    [(5, 0.311973, 0.136921), (10, 0.164162, 0.035256), (20, 0.082137, 0.007891)],
)
def test_huber_constants(d, h, v):
    problem = LinearRegression(coefficients=(1.0,) * d)
    assert problem.curvature()[0][0] == pytest.approx(h, abs=1e-6)
    assert problem.gradient_covariance()[d - 1][d - 1] == pytest.approx(v, abs=1e-6)
    assert problem.curvature()[0][1] == 0.0
    assert problem.gradient_bound() == pytest.approx(1.9021172413918)


def test_logistic_constants():
    d = 5
    problem = LogisticRegression(coefficients=(1.0 / math.sqrt(d),) * d)
    unit = np.ones(d) / math.sqrt(d)
    across = np.eye(d)[0] - np.eye(d)[1]
    for matrix, (along, other) in (
        (np.array(problem.curvature()), (0.061832, 0.081842)),
        (np.array(problem.gradient_covariance()), (0.034573, 0.042985)),
    ):
        assert unit @ matrix @ unit == pytest.approx(along, abs=1.5e-6)
        assert across @ matrix @ across / 2 == pytest.approx(other, abs=1.5e-6)


def test_constants_in_one_dimension():
    one = LogisticRegression(coefficients=(1.0,), covariates="one")
    assert one.curvature()[0][0] == pytest.approx(0.19661193324148185)
    rng = np.random.default_rng(1)
    x = rng.standard_normal(400_000)
    problem = LogisticRegression(coefficients=(0.7,))
    p = 1 / (1 + np.exp(-0.7 * x))
    values = np.minimum(1, 2 / x**2) * p * (1 - p) * x**2
    error = values.std() / math.sqrt(len(x))
    assert abs(values.mean() - problem.curvature()[0][0]) < 4 * error


def test_huber_flattens_outwards():
    """A10: one-point m = .0652 at R = 5 + sqrt(5), against 4e5 draws; h at R = 0."""
    problem, distance = LinearRegression(), 5 + math.sqrt(5)
    rng = np.random.default_rng(6)
    x, e = rng.standard_normal((400_000, 5)), rng.standard_normal(400_000)
    u = np.minimum(1, 2 / (x**2).sum(axis=1))
    values = u * np.clip(e + distance * x[:, 0], -1.345, 1.345) * x[:, 0] / distance
    found = problem.one_point_convexity(distance)
    assert abs(values.mean() - found) < 4 * values.std() / math.sqrt(len(e))
    assert found == pytest.approx(0.0652, abs=2e-4)  # printed from 4e5 draws
    assert problem.one_point_convexity(1e-6) == pytest.approx(0.311973, abs=1e-6)
    assert LinearRegression(bounding="clip", clip=1.0).one_point_convexity(1.0) is None


def test_clipped_huber_constants():
    """Against 4e5 draws, at 4 standard errors."""
    rng = np.random.default_rng(2)
    problem = LinearRegression(coefficients=(1.0,) * 3, bounding="clip", clip=1.5)
    x, e = rng.standard_normal((400_000, 3)), rng.standard_normal(400_000)
    r = np.linalg.norm(x, axis=1)
    cut = np.minimum(1.345, 1.5 / r)
    for matrix, values in (
        (problem.curvature(), (np.abs(e) < cut) * r**2 / 3),
        (problem.gradient_covariance(), np.clip(e, -cut, cut) ** 2 * r**2 / 3),
    ):
        assert abs(values.mean() - matrix[0][0]) < 4 * values.std() / math.sqrt(len(r))


@pytest.mark.parametrize("kind", [LinearRegression, LogisticRegression])
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


def test_huber_loss_gap_by_simulation():
    rng = np.random.default_rng(4)
    problem = LinearRegression(coefficients=(1.0, 0.5))
    x, e = rng.standard_normal((200_000, 2)), rng.standard_normal(200_000)
    theta = np.array([0.2, -0.4])

    def rho(r):
        return np.where(np.abs(r) <= 1.345, r**2 / 2, 1.345 * np.abs(r) - 1.345**2 / 2)

    u = np.minimum(1, 2 / (x**2).sum(axis=1))
    values = u * (rho(e + x @ (np.array([1.0, 0.5]) - theta)) - rho(e))
    gap = excess_loss(problem, theta[None, :, None])[0, 0]
    assert gap == pytest.approx(values.mean(), rel=0.03)
