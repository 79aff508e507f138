"""Distribution functions of populations, and ``rounds`` against NumPy and simulated users."""

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Component, Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import call, run_rounds
from ldpflow.components.protocols.protocol import budget
from ldpflow.components.protocols.round_counts import (
    CODES,
    cdf_at,
    fieller,
    fit_logistic,
    grid_posterior,
    population_of,
)
from ldpflow.results.protocol_curves import bit_variance
from tests.oracles import protocols as oracle
from tests.protocols.running import Z90, keys

RNG = np.random.default_rng(20261122)


def some_reports(count=11, tau=0.7, eps=1.0, n=4000):
    x = np.sort(RNG.uniform(-3, 3, count))
    asked = np.full(count, float(n))
    p = oracle.keep(eps)
    ones = RNG.binomial(n, (1 - p) + (2 * p - 1) * stats.norm.cdf(x)).astype(float)
    return x, asked, ones, np.log(tau / (1 - tau))


@pytest.mark.parametrize(("epsilon", "points"), [(0.1, 91), (4.0, 45)])
def test_posterior_on_the_grid(epsilon, points):
    x, asked, ones, logit = some_reports(eps=epsilon)
    asked[2] = 0.0
    scales = 6.0 * np.geomspace(1 / 200, 1 / 10, 6)
    use = asked > 0
    expected = oracle.posterior(x[use], asked[use], ones[use], epsilon, 0.7, -2.0, 2.5, scales, points)
    found = grid_posterior(x, asked, ones, -2.0, 2.5, scales, points, logit, budget(epsilon))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_local_fit_and_its_interval(epsilon):
    x, asked, ones, logit = some_reports(eps=epsilon)
    u = x / 3.0
    found = fit_logistic(u, asked, ones, 3.0, budget(epsilon))
    beta, information = oracle.logistic_fit(u, asked, ones, epsilon, 3.0)
    assert found[:2] == pytest.approx(beta, rel=1e-9)
    assert found[2:] == pytest.approx([information[0, 0], information[0, 1], information[1, 1]], rel=1e-9)
    limits = oracle.fieller(beta, information, logit, Z90)
    result = fieller(found, logit, Z90)
    if limits is None:
        assert np.isnan(result).all()
    else:
        assert result == pytest.approx(limits, rel=1e-9)


def test_no_bounded_set_is_no_interval():
    """Reports of 1 become rarer with the threshold: no slope that is distinct from 0 fits."""
    u = np.array([-0.5, 0.5])
    fit = fit_logistic(u, np.full(2, 2000.0), np.array([1100.0, 900.0]), 0.5, budget(0.5))
    assert fit[1] == pytest.approx(0.05)
    assert np.isnan(fieller(fit, 0.0, Z90)).all()


@pytest.mark.parametrize(
    ("rounds", "populations"),
    [(5, 500), *(pytest.param(rounds, 1500, marks=pytest.mark.slow) for rounds in (3, 5))],
)
def test_law_of_the_run_is_that_of_simulated_users(rounds, populations):
    """Estimates, lengths and undefined shares of populations of 3,000 users; 1% in all."""
    n, tau, eps = 3000, 0.7, 2.0
    protocol = PROTOCOLS["rounds"](epsilon=eps, range=(-6.3, 9.7), rounds=rounds)
    run = run_rounds(protocol, Law("normal"), tau, n, keys("users", populations))
    rng = np.random.default_rng(2)
    users = [
        oracle.rounds(rng, rng.normal(size=n), -6.3, 9.7, tau, eps, rounds, Z90) for _ in range(populations)
    ]
    simulated = np.array([estimate for estimate, _ in users])
    lengths = np.array([limits[1] - limits[0] for _, limits in users if limits is not None])
    limits = run.intervals([Z90])
    found = limits.upper[0, 0] - limits.lower[0, 0]
    defined = np.isfinite(found)
    assert stats.ks_2samp(run.estimate, simulated).pvalue > 0.01 / 3
    assert stats.ks_2samp(found[defined], lengths).pvalue > 0.01 / 3
    table = [[defined.sum(), (~defined).sum()], [len(lengths), len(users) - len(lengths)]]
    assert stats.fisher_exact(table).pvalue > 0.01 / 3
    asked = protocol.asked(n, tau)
    counts = [8, *[3] * (rounds - 2), 2]
    assert (run.received == sum(a * c for a, c in zip(asked, counts, strict=True))).all()


def test_a_quantile_outside_the_range_ends_at_the_range():
    protocol = PROTOCOLS["rounds"](epsilon=4.0, range=(2.0, 6.0))
    run = run_rounds(protocol, Law("normal"), 0.5, 10**5, keys("outside", 50))
    assert (run.estimate < 2.4).all()
    lower = run.intervals([Z90]).lower
    assert np.isfinite(lower).sum() > 25 and (lower[np.isfinite(lower)] == 2.0).all()


def test_error_and_coverage_with_several_answers():
    """Median of a normal law: RMSE 1.26 of the bound's standard error with one answer, coverage .91.

    1,000 replicates: standard errors .03 and .009.
    """
    n, epsilon, answers = 10**5, 4.0, 4
    protocol = PROTOCOLS["rounds"](epsilon=epsilon, answers=answers, range=(-6.3, 9.7))
    run = run_rounds(protocol, Law("normal"), 0.5, n, keys("several", 1000))
    limits = run.intervals([Z90])
    error = np.sqrt(bit_variance(0.5, epsilon, answers) / n) * np.sqrt(2 * np.pi)
    assert 1.1 < np.sqrt(np.mean(run.estimate**2)) / error < 1.5
    covered = (limits.lower <= 0) & (limits.upper >= 0)
    assert 0.88 < covered.mean() < 0.95
    assert (run.received <= n).all() and (run.received > 0.55 * n).all()


# Distribution functions of populations against those of the laws

DRAW = np.random.default_rng(20261122)
POINTS = np.concatenate([DRAW.normal(0, 3, 40), DRAW.uniform(0, 30, 40), [0.0, 1.0, -50.0, 50.0, 1e-12]])
SHAPES = {"lognormal": 0.7, "weibull": 1.7, "pareto": 2.2, "gamma": 3.3}
COLUMN = column_law(np.exp(DRAW.normal(size=500)))


def law(name, **settings):
    df = 2.5 if name == "student_t" else None
    table = COLUMN if name == "empirical" else None
    return Law(name, df=df, shape=SHAPES.get(name), table=table, **settings)


MIXTURE = Law(
    "mixture",
    location=1.0,
    scale=2.0,
    components=(Component(1.0, law("normal", location=-1.0, scale=0.5)), Component(3.0, law("gamma"))),
)
LAWS = [law(name, location=0.25, scale=2.0) for name in CODES] + [MIXTURE]


def cdf_values(law, points):
    values = np.empty(len(points))
    call(cdf_at, values, population_of(law), points)
    return values


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_arrays_give_the_law_s_distribution_function(law):
    x = 0.25 + 2.0 * POINTS
    assert cdf_values(law, x) == pytest.approx(law.cdf_values(x), abs=2e-12)
