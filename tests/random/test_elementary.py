"""Elementary and distribution functions against mpmath, at the error they state."""

import mpmath as mp
import numpy as np
import pytest

from ldpflow.numerics import counts, distributions, elementary
from ldpflow.numerics.elementary import jit

RNG = np.random.default_rng(20240520)
POINTS = np.sort(
    np.concatenate([RNG.normal(0, 3, 2000), RNG.uniform(-40, 40, 500), [0.0, 1e-300, -1e-300, 1e9, -1e9]])
)


def relative_errors(function, reference, points):
    with mp.workdps(40):
        exact = [reference(mp.mpf(float(x))) for x in points]
        return max(
            float(abs((mp.mpf(function(float(x))) - e) / e)) for x, e in zip(points, exact, strict=True) if e
        )


LOG_POINTS = np.concatenate([RNG.random(2000), 2.0 ** -RNG.uniform(0, 53, 500), RNG.uniform(1, 1e9, 500)])
EXPM1_POINTS = np.concatenate([RNG.uniform(-30, 600, 2000), 10.0 ** RNG.uniform(-12, 0, 1000)])
LOG1M_POINTS = np.concatenate([np.geomspace(1e-300, 0.3, 500), np.linspace(0.2, 0.999, 300)])


@pytest.mark.parametrize(
    ("function", "reference", "points", "bound"),
    [
        (elementary.log, mp.log, LOG_POINTS, 4e-16),
        (elementary.exp, mp.exp, RNG.uniform(-690, 690, 3000), 1e-15),
        (elementary.expm1, mp.expm1, EXPM1_POINTS, 1e-15),
        (elementary.sin_quarter, lambda w: mp.sin(mp.pi * w / 2), RNG.uniform(-0.5, 0.5, 3000), 5e-16),
        (elementary.cos_quarter, lambda w: mp.cos(mp.pi * w / 2), RNG.uniform(-0.5, 0.5, 3000), 5e-16),
        (counts.log1m, lambda x: mp.log1p(-x), LOG1M_POINTS, 1e-15),
    ],
)
def test_relative_error_is_the_stated_one(function, reference, points, bound):
    assert relative_errors(function, reference, points) <= bound


@pytest.mark.parametrize(
    ("cdf", "reference", "bound"),
    [
        (distributions.cdf_normal, mp.ncdf, 1e-13),
        (distributions.cdf_laplace, lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2, 1e-15),
        (distributions.cdf_exponential, lambda x: 1 - mp.exp(-x) if x > 0 else mp.mpf(0), 1e-15),
        (distributions.cdf_logistic, lambda x: 1 / (1 + mp.exp(-x)), 1e-15),
        (distributions.cdf_uniform, lambda x: min(max(x, 0), 1), 0.0),
    ],
)
def test_distribution_functions_have_the_stated_error_and_increase(cdf, reference, bound):
    values = [cdf(float(x)) for x in POINTS]
    with mp.workdps(40):
        assert (
            max(abs(mp.mpf(v) - reference(mp.mpf(float(x)))) for v, x in zip(values, POINTS, strict=True))
            <= bound
        )
    assert min(values) >= 0.0 and max(values) <= 1.0 and (np.diff(values) >= -1e-13).all()


def test_values_at_ends():
    below, one, above = (elementary.log(x) for x in (1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52))
    assert below < one == 0.0 < above
    assert elementary.exp(1e6) == elementary.exp(700.0)
    assert elementary.exp(-1e6) == elementary.exp(-700.0) > 0.0


def test_fma_rounds_once():
    @jit
    def fused(a, b, c):
        return elementary.fma(a, b, c)

    a = 1.0 + 2.0**-30
    assert fused(a, a, -1.0 - 2.0**-29) == 2.0**-60
    assert a * a - 1.0 - 2.0**-29 == 0.0
