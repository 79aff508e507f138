"""Elementary functions against mpmath, at the error they state."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from ldpflow.numerics import elementary
from ldpflow.numerics.elementary import jit

RNG = np.random.default_rng(20240520)


def relative_errors(function, reference, points):
    with mp.workdps(40):
        exact = [reference(mp.mpf(float(x))) for x in points]
        return max(
            float(abs((mp.mpf(function(float(x))) - e) / e)) for x, e in zip(points, exact, strict=True) if e
        )


@pytest.mark.parametrize(
    ("name", "reference", "points", "bound"),
    [
        (
            "log",
            mp.log,
            np.concatenate([RNG.random(2000), 2.0 ** -RNG.uniform(0, 53, 500), RNG.uniform(1, 1e9, 500)]),
            4e-16,
        ),
        ("exp", mp.exp, RNG.uniform(-690, 690, 3000), 1e-15),
        (
            "expm1",
            mp.expm1,
            np.concatenate([RNG.uniform(-30, 600, 2000), 10.0 ** RNG.uniform(-12, 0, 1000)]),
            1e-15,
        ),
        ("sin_quarter", lambda w: mp.sin(mp.pi * w / 2), RNG.uniform(-0.5, 0.5, 3000), 5e-16),
        ("cos_quarter", lambda w: mp.cos(mp.pi * w / 2), RNG.uniform(-0.5, 0.5, 3000), 5e-16),
    ],
)
def test_stated_error(name, reference, points, bound):
    assert relative_errors(getattr(elementary, name), reference, points) <= bound


def test_log_of_one_is_zero_and_monotone_around_it():
    around = [1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52]
    values = [elementary.log(x) for x in around]
    assert values[1] == 0.0
    assert values[0] < 0.0 < values[2]


def test_exp_clamps():
    assert elementary.exp(1e6) == elementary.exp(700.0)
    assert elementary.exp(-1e6) == elementary.exp(-700.0) > 0.0


def test_fma_rounds_once():
    @jit
    def fused(a, b, c):
        return elementary.fma(a, b, c)

    a = 1.0 + 2.0**-30
    assert fused(a, a, -1.0 - 2.0**-29) == 2.0**-60
    assert a * a - 1.0 - 2.0**-29 == 0.0
