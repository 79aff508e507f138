"""The constants of least squares, against moments of its own variates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ldpflow.components.problems.least_squares import LAWS, LeastSquares
from ldpflow.errors import InputError
from ldpflow.numerics.samplers import SAMPLERS
from ldpflow.numerics.streams import PLANE, lane_states


@pytest.mark.parametrize("law", list(LAWS))
def test_variates_have_mean_0_variance_1_and_the_stated_kurtosis(law):
    """80 planes, 3.3e5 draws: each moment within 5 SE."""
    sampler, unit, kurtosis = LAWS[law]
    state = lane_states(1, "data", law, range(32))
    planes = []
    for _ in range(80):
        plane = np.empty(PLANE)
        SAMPLERS[sampler](state, 0.0, plane)
        planes.append(plane)
    x = unit * np.concatenate(planes)
    for values, expected in ((x, 0.0), (x**2, 1.0), (x**4, kurtosis)):
        assert abs(values.mean() - expected) <= 5 * values.std() / math.sqrt(len(x)) + 1e-12


def test_constants():
    p = LeastSquares(d=10, kappa=100.0, norm=2.0, sigma=0.5)
    lam = np.array(p.lambdas)
    assert (lam[0], lam[-1]) == (1.0, pytest.approx(0.01))
    np.testing.assert_allclose(np.diff(np.log(lam)), np.log(lam[1]), rtol=1e-12)
    assert p.radius_square() == pytest.approx(lam.sum() + 2)
    assert LeastSquares(d=7).radius_square() == 9.0
    assert LeastSquares(d=7, design="rademacher").radius_square() == 7.0
    assert LeastSquares(d=7, design="laplace").radius_square() == pytest.approx(12.0)
    assert p.signal() ** 2 == pytest.approx(4 / 10 * lam.sum())
    assert p.tail() == (pytest.approx(1.633, abs=1e-3), 0.5)
    assert LeastSquares(errors="laplace").tail()[1] == 1.0
    assert p.l2_sensitivity() == math.inf


def test_problems_of_one_dimension_share_their_data():
    assert LeastSquares(sigma=0.1, kappa=9.0).data_key() == LeastSquares(norm=3.0).data_key()
    assert LeastSquares(d=3).data_key() != LeastSquares(d=4).data_key()


@pytest.mark.parametrize(
    "settings",
    [
        {"eigenvalues": (1.0, 2.0), "kappa": 3.0},
        {"coefficients": (1.0,), "d": 2},
        {"target": "y"},
        {"file": "x.csv"},
    ],
)
def test_what_does_not_go_together(settings):
    with pytest.raises(InputError):
        LeastSquares(**settings)
