"""Named laws against each other, SciPy and mpmath; the law of a column against its literal form."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Component, Law
from tests.oracles import column_law as column_oracle

MIXTURE = Law(
    "mixture",
    components=(
        Component(3.0, Law("normal", -1.0, 0.5)),
        Component(1.0, Law("gamma", 1.0, 2.0, shape=2.5)),
        Component(1.0, Law("student_t", 0.0, 3.0, df=3.0)),
    ),
)

LAWS = {
    "normal": (Law("normal", 1.0, 2.0), stats.norm(1, 2)),
    "laplace": (Law("laplace"), stats.laplace()),
    "exponential": (Law("exponential", scale=31.4), stats.expon(scale=31.4)),
    "uniform": (Law("uniform", -1.0, 4.0), stats.uniform(-1, 4)),
    "logistic": (Law("logistic"), stats.logistic()),
    "student_t": (Law("student_t", df=3.0), stats.t(3)),
    "student_t, few": (Law("student_t", df=0.7), stats.t(0.7)),
    "student_t, many": (Law("student_t", df=1000.0), stats.t(1000)),
    "lognormal": (Law("lognormal", scale=3.0, shape=0.6), stats.lognorm(0.6, scale=3)),
    "weibull": (Law("weibull", scale=2.0, shape=0.7), stats.weibull_min(0.7, scale=2)),
    "pareto": (Law("pareto", shape=3.0), stats.pareto(3)),
    "gamma": (Law("gamma", shape=2.5), stats.gamma(2.5)),
    "gamma, small": (Law("gamma", shape=0.3), stats.gamma(0.3)),
    "gamma, large": (Law("gamma", shape=900.0), stats.gamma(900)),
}
TAUS = (1e-6, 0.3, 0.999)
ALL = {name: law for name, (law, _) in LAWS.items()} | {"mixture": MIXTURE, "bimodal": Law("bimodal")}


def exact_cdf(law, x):
    with mp.workdps(40):
        return float(law.standard.cdf((mp.mpf(x) - law.location) / mp.mpf(law.scale)))


@pytest.mark.parametrize("name", LAWS)
def test_against_scipy(name):
    law, reference = LAWS[name]
    for tau in TAUS:
        x = law.quantile(tau)
        assert x == pytest.approx(reference.ppf(tau), rel=1e-8, abs=1e-12)
        assert law.density_at_quantile(tau) == pytest.approx(reference.pdf(x), rel=1e-8)
        assert exact_cdf(law, x) == pytest.approx(reference.cdf(x), rel=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_cdf_inverts_the_quantile_function_and_the_fast_one_is_the_exact_one(name):
    law = ALL[name]
    for tau in TAUS:
        x = law.quantile(tau)
        rounding = 4e-16 * (abs(x) + abs(law.location)) * law.density_at_quantile(tau)
        assert abs(exact_cdf(law, x) - tau) <= rounding + 1e-16
    x = np.array([law.quantile(1e-12), law.quantile(1 - 1e-12), -1e9, 0.0, 1e-200, 1e9]).reshape(2, -1)
    found = law.cdf_values(x)
    assert found.shape == x.shape
    assert np.abs(found - [[exact_cdf(law, v) for v in row] for row in x]).max() < 1e-12
    for tau in (1e-4, 0.42):
        assert law.cdf_values(np.array([law.quantile(tau)])) == pytest.approx(tau, abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_slope_is_the_derivative_of_the_density(name):
    law = ALL[name]
    for tau in (0.3, 0.9):
        z = law.standard_quantile(tau)
        with mp.workdps(40):
            derivative = mp.diff(law.standard.density, mp.mpf(z)) / law.scale**2
        assert law.slope_at_quantile(tau) == pytest.approx(float(derivative), rel=1e-8, abs=1e-12)


def test_slope_at_a_peak_is_the_mean_of_both_sides():
    assert Law("laplace").slope_at_quantile(0.5) == 0.0


def test_mixture_is_the_weighted_sum():
    parts = [(0.6, stats.norm(-1, 0.5)), (0.2, stats.gamma(2.5, 1, 2)), (0.2, stats.t(3, 0, 3))]
    for tau in TAUS:
        x = brentq(lambda x, tau=tau: sum(w * law.cdf(x) for w, law in parts) - tau, -400, 400, xtol=1e-13)
        assert MIXTURE.quantile(tau) == pytest.approx(x, rel=1e-7)
        density = sum(w * law.pdf(x) for w, law in parts)
        assert MIXTURE.density_at_quantile(tau) == pytest.approx(density, rel=1e-7)


RNG = np.random.default_rng(20240520)
U = (np.arange(100_000) + 0.5) / 100_000

COLUMNS = {
    "skewed, ties": column_oracle.example_column(),
    "normal": RNG.normal(size=2500),
    "zeros": np.where(RNG.random(700) < 0.3, 0.0, np.round(RNG.lognormal(3, 1, 700), 1)),
    "negative": -RNG.exponential(5.0, 130),
    "far from zero": 1e6 + RNG.normal(size=400),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_table_is_the_literal_one(name):
    values = COLUMNS[name]
    law = column_law(values)
    found = law.p.tolist(), list(law.sparsities), law.q.tolist(), law.median
    # No library's power, logarithm or order of summation: every machine and NumPy gives these bits.
    assert found == (expected := column_oracle.table(values.tolist()))
    for u in (0.001, 0.01, 0.3, 0.5, 0.77, 0.9, 0.9999):
        size = np.abs(law.q).max()
        assert law.quantiles(np.array([u]))[0] == pytest.approx(
            column_oracle.quantile(expected, u), rel=1e-12, abs=1e-12 * size
        )


@pytest.mark.parametrize("name", COLUMNS)
def test_cdf_of_a_column_inverts_its_quantile_function(name):
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
