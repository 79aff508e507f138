"""The predictor of arrival against its literal form, its invariances and facts found by simulation."""

import math
from dataclasses import replace

import pytest

from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Component, Law
from ldpflow.practice.planning.sources import Source
from ldpflow.results.arrival import Arrival, feasible_n, predict_arrivals
from ldpflow.simulators.approach import Approach
from tests.oracles.closure import closure
from tests.oracles.column_law import example_column

LAWS = {
    "normal": Law("normal"),
    "exponential": Law("exponential"),
    "student_t": Law("student_t", df=3.0),
    "lognormal": Law("lognormal", shape=1.0),
}


def noise(epsilon):
    """Variance that randomised response adds to a gradient of spread 1."""
    return math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2


def case(law, tau, epsilon, c=1.0, gamma=0.51, theta0=0.0, n=100_000, scale=1.0):
    law = LAWS[law] if isinstance(law, str) else law
    return Approach(replace(law, scale=law.scale * scale), tau, noise(epsilon), c, gamma, theta0, n)


PARTS = Component(2, Law("normal")), Component(1, Law("normal", 4.0, 0.5))
TRIAL = case("exponential", 0.9, 1.0, n=200_000, scale=31.4)

CASES = {
    "normal": case("normal", 0.9, 1.0),
    "normal median": case("normal", 0.5, 1.0),
    "trial": TRIAL,
    "start too high": case("normal", 0.99, 0.5, scale=0.1, theta0=3.0),
    "lognormal": case("lognormal", 0.9, 2.0, c=3.0, gamma=0.7, theta0=2.0, n=30_000),
    "long": case("student_t", 0.9, 1.0, n=10**6),
    "column": case(Law("empirical", table=column_law(example_column())), 0.9, 1.0, c=1500.0, theta0=3000.0),
    "mixture": case(Law("mixture", components=PARTS), 0.5, 1.0),
    "few steps": case("normal", 0.9, 1.0, n=250),
}


@pytest.mark.parametrize("name", CASES)
def test_closure_is_the_literal_one(name):
    run = CASES[name]
    (found,) = predict_arrivals([run])
    law, truth = run.law, run.law.quantile(run.tau)
    settings = (law.cdf_values, run.tau, run.noise, run.c, run.gamma)
    bias, sd = closure(*settings, run.theta0, truth, run.steps)
    from_truth, _ = closure(*settings, truth, truth, run.steps)
    error = math.sqrt(run.variance() / run.steps) / law.density_at_quantile(run.tau)
    assert found.standard_error == pytest.approx(error, rel=1e-12)
    # Smooth stretches are integrated by fewer nodes, which moves the bias by less than this.
    assert found.bias == pytest.approx(bias / error, abs=2e-3, rel=1e-3)
    assert found.sd_ratio == pytest.approx(sd / error, rel=2e-3)
    assert found.bias_steps == pytest.approx(from_truth / error, abs=2e-3, rel=1e-3)
    assert found.bias_start + found.bias_steps == pytest.approx(found.bias, rel=1e-12)


@pytest.mark.parametrize("unit", [2.0**30, 1e-6])
def test_free_of_the_unit(unit):
    laws = ["normal", "lognormal", Law("empirical", table=column_law(example_column()))]
    settings = [(law, 0.9, 1.0, 0.5, 0.6, 0.2, 50_000) for law in laws]
    plain = predict_arrivals([case(*s) for s in settings])
    scaled = predict_arrivals(
        [case(law, tau, e, c * unit, g, t * unit, n, unit) for law, tau, e, c, g, t, n in settings]
    )
    for one, other in zip(plain, scaled, strict=True):
        for name in ("relaxation_times", "bias", "sd_ratio"):
            assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-9, abs=1e-9)
        assert other.standard_error == pytest.approx(unit * one.standard_error, rel=1e-9)


def test_many_at_once_are_each_alone():
    cases = [*CASES.values(), replace(TRIAL, steps=1000), TRIAL, replace(TRIAL, steps=400)]
    together = predict_arrivals(cases)
    assert together == [predict_arrivals([run])[0] for run in cases]


@pytest.mark.parametrize(
    ("law", "tau", "n", "digits"),
    [
        ("normal", 0.5, 0.0, 0.0), ("normal", 0.9, 2.105e5, 0.01), ("normal", 0.99, 2.77e7, 0.01),
        ("exponential", 0.9, 3.95e5, 0.01), ("lognormal", 0.9, 6.7e5, 0.03), ("student_t", 0.9, 5.0e5, 0.03),
    ],
)  # fmt: skip
def test_feasible_n(law, tau, n, digits):
    for one in (LAWS[law], replace(LAWS[law], location=5.0, scale=31.4)):
        assert feasible_n(one, tau, noise(1.0)) == pytest.approx(n, rel=digits, abs=0)


@pytest.mark.parametrize("records", [1, 16])
def test_feasible_n_is_that_of_the_bias_in_long_runs(records):
    """(25 b/(.1 K))^2 n, in users for any number of records per step."""
    long = replace(case("normal", 0.9, 1.0, theta0=1.28155), steps=10**8, records=records)
    (found,) = predict_arrivals([long])
    users = (250 * found.bias_steps / found.relaxation_times) ** 2 * long.steps * records
    assert Source().feasible(long) == pytest.approx(users, rel=0.05)


@pytest.mark.parametrize(
    ("k", "bias", "start", "steps", "w", "expected"),
    [
        (25.0, 0.1, 0.0, 0.1, 1.1, "arrived"), (24.9, 0.1, 0.0, 0.1, 1.0, "doubtful"),
        (60.0, 0.11, 0.0, 0.11, 1.0, "doubtful"), (60.0, 0.0, 0.0, 0.0, 1.11, "doubtful"),
        (60.0, 0.0, 0.0, 0.0, 0.89, "doubtful"), (15.0, -0.5, -0.2, -0.3, 1.25, "doubtful"),
        (14.9, 0.0, 0.0, 0.0, 1.0, "not_arrived"), (60.0, 0.6, 0.55, 0.05, 1.0, "not_arrived"),
        (60.0, 0.6, 0.2, 0.4, 1.0, "steps_too_large"), (60.0, 0.0, 0.0, 0.0, 1.26, "steps_too_large"),
        (60.0, math.nan, 0.0, 0.0, 1.0, "steps_too_large"),
    ],
)  # fmt: skip
def test_verdict(k, bias, start, steps, w, expected):
    assert Arrival(k, 1.0, bias, start, steps, w).verdict == expected


def grid():
    return [
        case(law, tau, epsilon, gamma=gamma, scale=scale)
        for law in LAWS
        for scale in (1e-2, 0.1, 1.0, 10.0, 100.0, 1e3)
        for tau in (0.5, 0.9, 0.99)
        for epsilon in (0.5, 1.0, 2.0)
        for gamma in (0.51, 0.7)
    ]
