"""Draws from tables: every cell against the quantile function, and the law of many draws."""

import mpmath as mp
import numpy as np
import pytest

from ldpflow.components.problems.column_law import column_law
from ldpflow.numerics.distributions import HALF, TABLE_SAMPLERS, cell_edges, gamma_table
from tests.oracles import column_law as literal
from tests.random.test_samplers import fill, raw


def test_draws_of_a_column_are_its_quantiles():
    values = literal.example_column()
    law, p_s_q = column_law(values), literal.table(values)
    u, _ = raw()
    x = fill(TABLE_SAMPLERS["empirical"], law.sampling_table())
    assert (np.abs(x - law.quantiles(u)) <= np.spacing(x)).all()
    assert x[:200] == pytest.approx([literal.quantile(p_s_q, v) for v in u[:200]], rel=1e-12)


def test_every_cell_of_a_column():
    """Uniforms chosen by hand: both ends and the middle of every cell, in both halves."""
    law = column_law(np.random.default_rng(1).lognormal(3, 1, 2500))
    table = law.sampling_table().reshape(-1, 4)
    edges = cell_edges()
    width = 2.0 ** (np.arange(HALF) // 16 - 53) / 16
    for place in (0.0, 0.5, 1.0 - 2.0**-40):
        d = place * width
        for half, u in ((table[:HALF], edges + d), (table[HALF:], 1.0 - (edges + d))):
            # 1 - t has no rounding error for the t of a draw; here the smallest ones do.
            exact = edges + d > 2.0**-45
            q, s, r, _ = half.T
            expected = law.quantiles(u)[exact]
            assert (q + d * (s + d * r))[exact] == pytest.approx(expected, rel=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [0.125, 20.0])
def test_draws_of_a_gamma_law(shape):
    u, _ = raw()
    x = fill(TABLE_SAMPLERS["gamma"], gamma_table(shape))
    with mp.workdps(30):
        for k in range(0, 4000, 50):
            p = mp.gammainc(mp.mpf(shape), 0, mp.mpf(float(x[k])), regularized=True)
            assert abs(p - mp.mpf(float(u[k]))) < 2e-15


def test_smallest_and_largest_draws_of_a_gamma_law():
    """Relative precision in the lower tail, where a probability says little."""
    table = gamma_table(0.125).reshape(-1, 8)
    for cell in (0, 1, 17, 300, HALF - 1):
        t = cell_edges()[cell] + 2.0 ** (cell // 16 - 53) / 32  # the middle: p = 0
        with mp.workdps(40):
            for half, end in ((0, "b"), (HALF, "a")):
                x = mp.mpf(float(table[half + cell, 0]))
                excess = mp.gammainc(mp.mpf(0.125), regularized=True, **{end: x}) - mp.mpf(t)
                density = x ** (mp.mpf(0.125) - 1) * mp.exp(-x) / mp.gamma(mp.mpf(0.125))
                assert abs(excess / (density * x)) < 1e-14
