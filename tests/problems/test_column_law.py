"""The law of a column against its literal form, and its own definition."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Law
from tests.oracles import column_law as literal

RNG = np.random.default_rng(20240520)
U = (np.arange(100_000) + 0.5) / 100_000

COLUMNS = {
    "skewed, ties": literal.example_column(),
    "normal": RNG.normal(size=2500),
    "zeros": np.where(RNG.random(700) < 0.3, 0.0, np.round(RNG.lognormal(3, 1, 700), 1)),
    "negative": -RNG.exponential(5.0, 130),
    "far from zero": 1e6 + RNG.normal(size=400),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_table_is_the_literal_one(name):
    values = COLUMNS[name]
    law = column_law(values)
    p, s, q = literal.table(values)
    size = np.ptp(values)
    assert (law.p == p).all()
    # Prefix sums lose what the values' distance from 0 costs, a little more for the literal's sums.
    loss = 1e-13 * max(1.0, np.abs(values).max() / size) * len(values)
    assert law.s == pytest.approx(np.array(s), rel=loss, abs=0)
    assert np.abs(law.q - q).max() <= loss * size
    for u in (0.001, 0.01, 0.3, 0.5, 0.77, 0.9, 0.9999):
        assert law.quantiles(np.array([u]))[0] == pytest.approx(
            literal.quantile((p, s, q), u), rel=1e-12, abs=loss * size
        )
    # No library's power, logarithm or order of summation: every machine and NumPy gives these bits.
    assert (law.median, list(law.sparsities), law.q.tolist()) == literal.bits(values.tolist())


@pytest.mark.parametrize("name", COLUMNS)
def test_cdf_inverts_the_quantile_function(name):
    law = column_law(COLUMNS[name])
    x = law.quantiles(U)
    assert (np.diff(x) > 0).all()
    rounding = 4e-16 * np.abs(x) / law.s.min()  # of x itself, where the density is largest
    assert (np.abs(law.cdf_values(x) - U) <= 1e-12 + rounding).all()


def test_density_is_the_derivative_and_continuous():
    law = column_law(COLUMNS["normal"])
    for tau in (0.1, 0.25, 0.5, 0.73, 0.9, *law.p[5:-5:20]):
        h = 1e-7
        rise = np.diff(law.quantiles(np.array([tau - h, tau + h])))[0] / (2 * h)
        assert law.sparsity(tau) == pytest.approx(rise, rel=1e-5)
        x = law.quantiles(np.array([tau]))[0]
        near = law.cdf_values(x + np.array([-2e-4, -1e-4, 1e-4, 2e-4]) * 10)
        density = np.diff(near)[[0, 2]] / 1e-3
        # f' from the densities of two stretches 3e-3 apart; at a knot it is the mean of both sides.
        assert law.slope(tau) == pytest.approx(np.diff(density)[0] / 3e-3, rel=0.02, abs=2e-3)


def test_law_methods_agree():
    law = Law("empirical", 3.0, 2.0, table=column_law(COLUMNS["skewed, ties"]))
    x = np.array([law.quantile(tau) for tau in (0.1, 0.5, 0.9)])
    assert law.cdf_values(x) == pytest.approx([0.1, 0.5, 0.9], abs=1e-13)
    assert [law.cdf(v) for v in x] == pytest.approx([0.1, 0.5, 0.9], abs=1e-13)
    assert law.standard_density(law.standard_quantile(0.9)) / 2 == pytest.approx(
        law.density_at_quantile(0.9), rel=1e-10
    )
