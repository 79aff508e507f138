"""Comparison of protocols: known figures, cautions, and predictions against other replicates."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.errors import InputError
from ldpflow.practice.planning.compare import (
    EPSILONS,
    at_n,
    compare_protocols,
    first_of,
    forecasts,
    least_budget,
)
from ldpflow.practice.planning.forecasts import OneShotForecast, SgdForecast, Steps, Target
from tests.protocols.running import Z90
from tests.protocols.test_reference_table import LAWS as TABLE_LAWS

NORMAL = Law("normal")
RANGE = (-6.3, 9.7)
LOGNORMAL = Law("lognormal", shape=1.0)
TARGET = Target(NORMAL, 0.5, 0.9, together=(0.5,))


def rows_of(tau, **settings):
    rows = compare_protocols(NORMAL, [tau], 1.0, 10**5, RANGE, **settings)
    return {row.protocol: row for row in rows}


@pytest.fixture(scope="module")
def medians():
    return rows_of(0.5, half_width=0.05)


def test_sgd_with_the_interval_that_a_plan_recommends(medians):
    """TR at a median: 1.05 to 1.35 times the oracle's half width .0141, so 1.1 to 1.8 times its users."""
    sgd = medians["sgd"]
    assert sgd.interval == "TR" and 1.05 < sgd.half_width / 0.0141 < 1.35
    assert 1.1 < sgd.n_needed / 7961 < 1.8
    assert 1.05 < sgd.epsilon_needed / 0.262 < 1.4
    assert abs(sgd.coverage - 0.9) < 4 * sgd.coverage_mcse + 0.02


def test_sgd_is_blank_where_its_average_does_not_arrive():
    """c = 1 for the .9-quantile: plain plan has no length either, and TR is recommended at larger n."""
    sgd = rows_of(0.9, replicates=50, half_width=0.05)["sgd"]
    assert sgd.interval is None and sgd.half_width is None and sgd.coverage is None and sgd.efficiency is None
    assert any("steps too large" in caution for caution in sgd.cautions)
    assert sgd.n_needed > 35513 and sgd.interval_needed in ("TR", "TR3")


@pytest.mark.parametrize(
    ("tau", "expected"),
    [
        (0.5, {"haar": 0.062, "tree": 0.051, "oue": 0.041, "hrr": 0.039, "thresholds": 0.033, "grr": 0.013}),
        (0.9, {"haar": 0.070, "tree": 0.051, "oue": 0.034, "hrr": 0.033, "thresholds": 0.032, "grr": 0.011}),
    ],
)
def test_efficiency_by_formula(tau, expected):
    rows = rows_of(tau, replicates=20)
    assert rows["sgd"].efficiency_formula == pytest.approx(1.0)
    found = {name: rows[name].efficiency_formula for name in expected}
    assert found == pytest.approx(expected, abs=0.002)


def test_bins_and_half_widths_by_formula(medians):
    expected = {
        "haar": (64, 0.0565),
        "tree": (64, 0.0624),
        "oue": (32, 0.0697),
        "hrr": (32, 0.0713),
        "thresholds": (32, 0.0782),
        "grr": (32, 0.1252),
    }
    for forecast in forecasts(TARGET, RANGE, None, Steps()):
        if forecast.name in expected:
            bins, half_width = expected[forecast.name]
            assert medians[forecast.name].bins == bins
            assert Z90 * forecast.standard_error(10**5, 1.0) == pytest.approx(half_width, abs=1e-4)


@pytest.mark.parametrize("name", ["thresholds", "grr", "oue", "hrr", "haar", "tree"])
def test_half_widths_of_histograms_are_multiples_of_half_a_bin(medians, name):
    """The outer interval ends at edges: no formula of a standard error knows it."""
    row = medians[name]
    assert row.interval == "outer" and (2 * row.half_width * row.bins / 16.0) % 1 == pytest.approx(0.0)
    assert row.half_width > 2 * 0.05


def test_bins_that_are_too_wide_are_said_to_be():
    """512 bins of 62.5 in a range of 32,000: no n and no budget gives a half width of 20."""
    law = Law("exponential", scale=1000.0)
    steps = Steps(c=2000.0, theta0=500.0)
    rows = compare_protocols(
        law, [0.5], 1.0, 10**5, (0.0, 32_000.0), half_width=20.0, replicates=50, steps=steps
    )
    found = {row.protocol: row for row in rows}
    for name in ("thresholds", "grr", "oue", "hrr", "haar"):
        assert found[name].n_needed is None and found[name].epsilon_needed is None
        assert any("bins of 62.5 cannot give 20" in caution for caution in found[name].cautions)
    assert found["rounds"].n_needed is not None


def test_simulated_figures_are_near_those_of_the_reference_table(medians):
    """RMSE over the bound's standard error: haar 3.86, rounds 1.26, with 2,000 replicates each."""
    assert medians["haar"].efficiency == pytest.approx(3.86**-2, rel=0.15)
    assert medians["rounds"].efficiency == pytest.approx(1.26**-2, rel=0.15)
    assert 0.88 < medians["rounds"].coverage < 0.95
    assert medians["haar"].coverage > 0.98


def test_rows_come_by_users_needed(medians):
    needed = [row.n_needed for row in medians.values()]
    assert needed == sorted(needed)
    assert list(medians)[:2] == ["sgd", "rounds"]


@pytest.mark.parametrize("name", ["rounds", *[name for name in PROTOCOLS if name != "rounds"]])
def test_predictions_hold_on_other_replicates_or_carry_a_caution(medians, name):
    """2,000 replicates with other seeds at n and at the n found: within 5%, or the row says so."""
    row = medians[name]
    forecast = next(f for f in forecasts(TARGET, RANGE, None, Steps()) if f.name == name)
    again = forecast.simulate(row.n, 1.0, 2000, 99)
    assert again.half_width() == pytest.approx(row.half_width, rel=0.05)
    at_needed = forecast.simulate(row.n_needed, 1.0, 2000, 98)
    if not any("simulated again" in caution for caution in row.cautions):
        assert at_needed.half_width() <= 0.05 * 1.05


def test_too_few_users_are_cautioned():
    rows = compare_protocols(NORMAL, [0.9], 0.5, 10**4, RANGE, replicates=300)
    for row in rows:
        assert row.cautions, row.protocol
        if row.protocol != "sgd":
            assert "n too small" in row.cautions


def test_bias_inside_bins_is_cautioned():
    """GRR for a lognormal median at eps = .5, n = 1e5: its line interval would cover .001."""
    rows = compare_protocols(LOGNORMAL, [0.5], 0.5, 10**5, (0.0, 25.0), replicates=200)
    row = next(row for row in rows if row.protocol == "grr")
    assert any("bin bias" in caution for caution in row.cautions)
    assert row.coverage > 0.93


def test_a_quantile_outside_the_range_is_cautioned():
    rows = compare_protocols(NORMAL, [0.5], 1.0, 10**5, (1.0, 9.0), replicates=50)
    assert all("outside range" in row.cautions for row in rows if row.protocol != "sgd")


def test_limits_on_rounds_and_bits_are_cautioned():
    rows = rows_of(0.5, replicates=50, rounds_max=4, bits_max=4)
    assert any("rounds > 4" in caution for caution in rows["sgd"].cautions)
    assert any("rounds > 4" in caution for caution in rows["rounds"].cautions)
    assert any("bits > 4" in caution for caution in rows["oue"].cautions)
    assert not any("bits" in caution for caution in rows["haar"].cautions)


def test_liars_are_cautioned_by_how_far_they_move_an_estimate():
    rows = rows_of(0.5, replicates=50, liars=0.01)
    said = {
        name: float(caution.split()[2])
        for name, row in rows.items()
        for caution in row.cautions
        if caution.startswith("liars")
    }
    # .0109 in probability: 3.2 standard errors of LDP-SGD at n = 1e5.
    assert said["sgd"] == pytest.approx(3.2, abs=0.1)
    assert said["grr"] > 1


def test_a_response_rate_scales_the_users():
    """A quarter answers: twice the half width, to the error of two medians of 200."""
    quarter, full = (rows_of(0.5, replicates=200, response=rate)["sgd"] for rate in (0.25, 1.0))
    assert quarter.half_width == pytest.approx(2 * full.half_width, rel=0.08)
    assert (quarter.n, quarter.users, quarter.answers) == (10**5, 25_000, 1)


def test_several_quantiles():
    rows = compare_protocols(NORMAL, [0.25, 0.5, 0.75], 1.0, 10**5, RANGE, replicates=100)
    found = {(row.protocol, row.tau): row for row in rows}
    for tau, factor in ((0.25, 1.874), (0.5, 2.365), (0.75, 1.874)):
        assert found["cells", tau].efficiency_formula == pytest.approx(1 / factor, rel=1e-3)
        assert found["sgd", tau].efficiency_formula == pytest.approx(1 / 3, rel=1e-3)
        assert found["cells", tau].bits == 2.0
    alone = rows_of(0.5, replicates=100)
    assert found["haar", 0.5].efficiency_formula == alone["haar"].efficiency_formula
    assert {name: found[name, 0.5].users for name in ("sgd", "rounds", "cells", "haar")} == {
        "sgd": 33_333, "rounds": 33_333, "cells": 100_000, "haar": 100_000
    }  # fmt: skip
    assert found["cells", 0.5].interval == "TR" and found["cells", 0.5].coverage > 0.8
    assert "cells" not in alone


def test_first_value_that_is_enough():
    for first in (1, 2, 57, 100):
        assert first_of(range(1, 101), lambda value, first=first: value >= first) == first
    assert first_of(range(1, 101), lambda value: value > 100) is None


def test_smallest_budget_gives_the_half_width():
    """GRR with 10^6 users: the budget is enough, with other replicates too, and .9 of it is not."""
    forecast = OneShotForecast(TARGET, PROTOCOLS["grr"](range=RANGE))
    chosen = least_budget(forecast, 10**6, 0.1, 400, 1)
    assert chosen in EPSILONS
    assert forecast.simulate(10**6, chosen, 2000, 5).half_width() <= 0.1
    assert forecast.simulate(10**6, 0.9 * chosen, 2000, 5).half_width() > 0.1
    assert least_budget(SgdForecast(TARGET, Steps()), 1000, 1e-6, 400, 1) is None


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("tau", {"taus": [1.5]}),
        ("tau", {"taus": []}),
        ("tau", {"taus": [0.5, 0.5]}),
        ("epsilon", {"epsilon": 0.0}),
        ("n", {"n": 0}),
        ("level", {"level": 1.0}),
        ("half_width", {"half_width": -1.0}),
        ("response", {"response": 0.0}),
        ("liars", {"liars": 1.0}),
    ],
)
def test_impossible_settings_are_refused(field, settings):
    arguments = {"law": NORMAL, "taus": [0.5], "epsilon": 1.0, "n": 100, "ends": RANGE} | settings
    with pytest.raises(InputError) as error:
        compare_protocols(**arguments)
    assert error.value.field == field


def test_a_row_at_n_is_the_same_whatever_is_planned_with_it():
    forecast = OneShotForecast(TARGET, PROTOCOLS["haar"](range=RANGE))
    row = at_n(forecast, 10**5, 1.0, 100, 1)
    again = rows_of(0.5, replicates=100, half_width=0.1)["haar"]
    needs = {"n_needed": None, "interval_needed": None, "epsilon_needed": None}
    assert replace(again, **needs, cautions=()) == replace(row, cautions=())


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "exponential", "lognormal"])
def test_predictions_hold_in_every_cell_of_the_reference_table_or_carry_a_caution(law):
    """tau .5 and .9, eps .5 to 4, n = 1e4 and 1e5, 2,000 other replicates: half widths within 5%.

    At a jump of a histogram's median other replicates may be half a bin apart; where a caution says that
    intervals end at the range, or are undefined, nothing is promised.
    """
    made, ends = TABLE_LAWS[law]
    cautions = ("range_end", "n too small", "undefined")
    wrong, checked = [], 0
    for tau, epsilon, n in itertools.product((0.5, 0.9), (0.5, 1.0, 2.0, 4.0), (10**4, 10**5)):
        target = Target(made, tau, 0.9, together=(tau,))
        for forecast in list(forecasts(target, ends, None, Steps()))[1:]:
            row = at_n(forecast, n, epsilon, 2000, 1)
            again = forecast.simulate(n, epsilon, 2000, 99)
            checked += 1
            if any(word in " ".join(row.cautions) for word in cautions):
                continue
            jump = 0.0 if row.bins is None else 0.5 * (ends[1] - ends[0]) / row.bins
            if abs(again.half_width() - row.half_width) > max(0.05 * row.half_width, jump * (1 + 1e-9)):
                wrong.append((tau, epsilon, n, row.protocol, again.half_width(), row.half_width))
    assert checked == 16 * 7
    assert wrong == []
