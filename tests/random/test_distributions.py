"""Distribution functions against mpmath, at the error they state."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from ldpflow.numerics import distributions

RNG = np.random.default_rng(20240520)
POINTS = np.concatenate(
    [RNG.normal(0, 3, 2000), RNG.uniform(-40, 40, 500), [0.0, 1e-300, -1e-300, 1e9, -1e9]]
)

REFERENCE = {
    "normal": (mp.ncdf, 1e-13),
    "laplace": (lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2, 1e-15),
    "exponential": (lambda x: 1 - mp.exp(-x) if x > 0 else mp.mpf(0), 1e-15),
    "logistic": (lambda x: 1 / (1 + mp.exp(-x)), 1e-15),
    "uniform": (lambda x: min(max(x, 0), 1), 0.0),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_stated_error(name):
    reference, bound = REFERENCE[name]
    function = getattr(distributions, f"cdf_{name}")
    with mp.workdps(40):
        errors = [abs(mp.mpf(function(float(x))) - reference(mp.mpf(float(x)))) for x in POINTS]
    assert float(max(errors)) <= bound


@pytest.mark.parametrize("name", REFERENCE)
def test_a_probability_and_increasing(name):
    x = np.sort(POINTS)
    values = np.array([getattr(distributions, f"cdf_{name}")(float(v)) for v in x])
    assert values.min() >= 0.0
    assert values.max() <= 1.0
    assert (np.diff(values) >= -1e-13).all()
