"""Samplers: transforms of the very bits drawn, to 1e-12 in probability. Tables: every cell, and the law."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from ldpflow.components.problems.column_law import column_law
from ldpflow.numerics import distributions, samplers
from ldpflow.numerics.distributions import HALF, TABLE_SAMPLERS, cell_edges, gamma_table
from ldpflow.numerics.streams import CHUNK, LANES, PLANE, lane_states
from tests.oracles import column_law as literal

LAW_ERROR = 1e-12
LAWS = {
    "exponential": stats.expon(), "laplace": stats.laplace(), "logistic": stats.logistic(),
    "truncated_normal": stats.truncnorm(-1, 1),
}  # fmt: skip


def fill(sampler, *parameter, planes=1):
    state, out = lane_states(20240520, "data", "k", range(LANES)), np.empty((planes, PLANE))
    for plane in out:
        sampler(state, *parameter, plane)
    return out.reshape(-1)


def raw(planes=1):
    bits = fill(samplers.fill_bits, planes=planes).view(np.uint64)
    return ((bits >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52, bits


def draw(name, parameter=0.0, planes=1):
    return fill(samplers.SAMPLERS[name], parameter, planes=planes)


def error_in_probability(law, x, reference):
    """|F(x) - F(reference)|, by the density (F itself rounds at 1e-16)."""
    return np.max(np.abs(x - reference) * law.pdf(reference))


def test_a_uniform_is_the_midpoint_of_its_cell_and_a_sign_the_first_bit():
    u, bits = raw()
    sign = np.where(bits >> np.uint64(63), -1.0, 1.0)
    assert (draw("uniform") == u).all()
    assert (draw("symmetric_uniform") == 2.0 * u - 1.0).all()
    assert (draw("rademacher") == sign).all()
    assert (draw("bimodal") == draw("normal", planes=2)[PLANE:] + 1.5 * sign).all()


def test_uniforms_of_32_bits_are_halves_of_words_with_a_fraction_that_a_plane_shares():
    out = draw("uniform_32", planes=2)
    _, bits = raw(planes=2)
    words = bits.reshape(-1, LANES)
    for k in range(2):
        found = out[k * PLANE : (k + 1) * PLANE].reshape(CHUNK, LANES)
        mine = words[k * 65 : (k + 1) * 65]
        fraction = ((mine[64] >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52
        halves = np.stack([mine[:64] >> np.uint64(32), mine[:64] & np.uint64(0xFFFFFFFF)], axis=1)
        expected = (halves.reshape(CHUNK, LANES).astype(float) + fraction) * 2.0**-32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", LAWS)
def test_inversion(name):
    u, bits = raw()
    law = LAWS[name]
    reference = law.isf(u) if name == "exponential" else law.ppf(u)
    if name == "laplace":
        reference = np.where(bits & np.uint64(1), -np.log(u), np.log(u))
    assert error_in_probability(law, draw(name), reference) <= LAW_ERROR


def polar(u, bits):
    """Angle of the second half's draws: a quarter turn of width pi/2, swapped and signed by bits."""
    angle = np.pi / 2 * (u - 0.5)
    swap = (bits & np.uint64(2)) != 0
    sign = np.where(bits & np.uint64(1), -1.0, 1.0)
    first = sign * np.where(swap, np.sin(angle), np.cos(angle))
    second = sign * np.where(swap, np.cos(angle), np.sin(angle))
    return first, second


def test_normal_transform():
    u, bits = raw()
    half = PLANE // 2
    cosine, sine = polar(u[half:], bits[half:])
    r = np.sqrt(-2.0 * np.log(u[:half]))
    reference = np.concatenate([r * cosine, r * sine])
    assert error_in_probability(stats.norm(), draw("normal"), reference) <= LAW_ERROR


@pytest.mark.parametrize("df", [0.5, 1.0, 3.0, 30.0, 1e5])
def test_student_transform(df):
    u, bits = raw(planes=2)
    cosine, _ = polar(u[PLANE:], bits[PLANE:])
    reference = np.sqrt(df * np.expm1(-2.0 / df * np.log(u[:PLANE]))) * cosine
    law = stats.t(df)
    assert error_in_probability(law, draw("student_t", df), reference) <= LAW_ERROR


@pytest.mark.parametrize("shape", [0.06, 0.7, 30.0])
def test_transforms_with_a_shape(shape):
    u, _ = raw()
    assert draw("lognormal", shape / 4) == pytest.approx(np.exp(shape / 4 * draw("normal")), rel=1e-13)
    assert np.log(draw("weibull", shape)) == pytest.approx(np.log(-np.log(u)) / shape, rel=1e-13)
    assert np.log(draw("pareto", shape)) == pytest.approx(-np.log(u) / shape, rel=1e-13)
    assert np.isfinite(draw("weibull", shape)).all() and np.isfinite(draw("pareto", shape)).all()


@pytest.mark.parametrize("first", [1, 129, 10**8])
def test_step_sizes(first):
    eta = np.empty(CHUNK)
    samplers.step_sizes(first, 2.0, 0.51, eta)
    expected = 2.0 * np.arange(first, first + CHUNK, dtype=float) ** -0.51
    np.testing.assert_allclose(eta, expected, rtol=5e-15)


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


@pytest.mark.parametrize("octaves", [6, pytest.param(52, marks=pytest.mark.thorough)])
def test_smallest_and_largest_draws_of_a_gamma_law(monkeypatch, octaves):
    """Relative precision in the lower tail, where a probability says little."""
    half = 16 * octaves
    monkeypatch.setattr(distributions, "OCTAVES", octaves)
    monkeypatch.setattr(distributions, "HALF", half)
    table = distributions.compute_gamma_table(0.125).reshape(-1, 8)
    for cell in (0, 1, 17, half // 3, half - 1):
        t = 2.0 ** (cell // 16 - octaves - 1) * (1 + (cell % 16 + 0.5) / 16)  # the middle: p = 0
        with mp.workdps(40):
            for start, end in ((0, "b"), (half, "a")):
                x = mp.mpf(float(table[start + cell, 0]))
                excess = mp.gammainc(mp.mpf(0.125), regularized=True, **{end: x}) - mp.mpf(t)
                density = x ** (mp.mpf(0.125) - 1) * mp.exp(-x) / mp.gamma(mp.mpf(0.125))
                assert abs(excess / (density * x)) < 1e-14
