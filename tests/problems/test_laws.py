"""Named laws: quantile, density and distribution function against each other, SciPy and mpmath."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from ldpflow.components.problems.laws import Component, Law

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


@pytest.mark.parametrize("name", LAWS)
def test_against_scipy(name):
    law, reference = LAWS[name]
    for tau in TAUS:
        x = law.quantile(tau)
        assert x == pytest.approx(reference.ppf(tau), rel=1e-8, abs=1e-12)
        assert law.density_at_quantile(tau) == pytest.approx(reference.pdf(x), rel=1e-8)
        assert law.cdf(x) == pytest.approx(reference.cdf(x), rel=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_cdf_inverts_the_quantile_function(name):
    law = ALL[name]
    for tau in TAUS:
        x = law.quantile(tau)
        rounding = 4e-16 * (abs(x) + abs(law.location)) * law.density_at_quantile(tau)
        assert abs(law.cdf(x) - tau) <= rounding + 1e-16
    assert law.cdf(math.inf) == 1.0 and law.cdf(-math.inf) == 0.0


@pytest.mark.parametrize("name", ALL)
def test_fast_cdf(name):
    law = ALL[name]
    x = [law.quantile(tau) for tau in (1e-12, 1e-4, 0.42, 1 - 1e-12)]
    x = np.array([*x, -1e9, 0.0, 1e-200, 1e9]).reshape(2, -1)
    found = law.cdf_values(x)
    assert found.shape == x.shape
    assert np.abs(found - [[law.cdf(v) for v in row] for row in x]).max() < 1e-12


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
