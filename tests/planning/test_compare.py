"""Comparison of protocols: known figures, cautions, and predictions against other replicates."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ldpflow.errors import InputError
from ldpflow.planning.compare import at_n, compare_protocols, forecasts
from ldpflow.planning.counts_forecast import OneShotForecast
from ldpflow.planning.forecast import SgdForecast, Steps, Target
from ldpflow.planning.needed import EPSILONS, first_budget
from ldpflow.problems.laws import Law
from ldpflow.protocols import PROTOCOLS
from tests.protocols.running import Z90
from tests.protocols.test_reference_table import LAWS as TABLE_LAWS

NORMAL = Law("normal")
RANGE = (-6.3, 9.7)
LOGNORMAL = Law("lognormal", shape=1.0)


def rows_of(tau, **settings):
    rows = compare_protocols(NORMAL, [tau], 1.0, 10**5, RANGE, **settings)
    return {row.protocol: row for row in rows}


@pytest.fixture(scope="module")
def medians():
    return rows_of(0.5, half_width=0.05)


@pytest.mark.slow
def test_sgd_by_its_asymptotic_variance(medians):
    sgd = medians["sgd"]
    assert sgd.half_width == pytest.approx(0.0141, abs=5e-5)
    assert sgd.n_needed == 7961
    assert sgd.epsilon_needed == pytest.approx(0.262, abs=0.0011)
    assert rows_of(0.9, half_width=0.05, replicates=50)["sgd"].n_needed == 35513


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
    for name, (bins, half_width) in expected.items():
        assert medians[name].bins == bins
        assert medians[name].half_width_formula == pytest.approx(half_width, abs=1e-4)


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
    target = Target(NORMAL, 0.5, 0.9, Z90, together=(0.5,))
    forecast = next(f for f in forecasts(target, RANGE, None, Steps()) if f.name == name)
    again = forecast.simulate(row.n, 1.0, 2000, 99)
    assert Z90 * again.rmse(0.0) == pytest.approx(row.half_width, rel=0.1)
    at_needed = forecast.simulate(row.n_needed, 1.0, 2000, 98)
    if not any("n needed" in caution for caution in row.cautions):
        # 5% and the Monte Carlo error of two RMSEs of 2,000 replicates.
        assert Z90 * at_needed.rmse(0.0) == pytest.approx(0.05, rel=0.05 + 4 * 0.023)


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
    half = rows_of(0.5, replicates=50, response=0.25)["sgd"].half_width
    assert half == pytest.approx(2 * 0.0141, abs=1e-4)


def test_several_quantiles():
    rows = compare_protocols(NORMAL, [0.25, 0.5, 0.75], 1.0, 10**5, RANGE, replicates=100)
    found = {(row.protocol, row.tau): row for row in rows}
    for tau, factor in ((0.25, 1.874), (0.5, 2.365), (0.75, 1.874)):
        assert found["cells", tau].efficiency_formula == pytest.approx(1 / factor, rel=1e-3)
        assert found["sgd", tau].efficiency_formula == pytest.approx(1 / 3, rel=1e-3)
        assert found["cells", tau].bits == 2.0
    alone = rows_of(0.5, replicates=100)
    assert found["haar", 0.5].half_width_formula == alone["haar"].half_width_formula
    assert "cells" not in alone


def test_smallest_budget_is_the_first_that_is_enough():
    target = Target(NORMAL, 0.5, 0.9, Z90, together=(0.5,))
    for forecast in (SgdForecast(target, Steps()), OneShotForecast(target, PROTOCOLS["grr"](range=RANGE))):
        chosen = first_budget(forecast, 10**6, 0.04)
        assert Z90 * forecast.standard_error(10**6, chosen) <= 0.04
        before = EPSILONS[EPSILONS.index(chosen) - 1]
        assert Z90 * forecast.standard_error(10**6, before) > 0.04
    assert first_budget(SgdForecast(target, Steps()), 10, 1e-6) is None


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
    target = Target(NORMAL, 0.5, 0.9, Z90, together=(0.5,))
    forecast = OneShotForecast(target, PROTOCOLS["haar"](range=RANGE))
    row = at_n(forecast, 10**5, 1.0, 100, 1)
    again = rows_of(0.5, replicates=100, half_width=0.1)["haar"]
    needs = {"n_needed": None, "n_formula": None, "epsilon_needed": None}
    assert replace(again, **needs, cautions=()) == replace(row, cautions=())


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "exponential", "lognormal"])
def test_predictions_hold_in_every_cell_of_the_reference_table_or_carry_a_caution(law):
    """tau .5 and .9, eps .5 to 4, n = 1e4 and 1e5, 2,000 other replicates: half widths within 5%.

    A difference above 5% must exceed three Monte Carlo errors of the check to count; where a caution says
    that half widths are uncertain, or that intervals end at the range, nothing is promised.
    """
    made, ends = TABLE_LAWS[law]
    cautions = ("heavy tails", "range_end", "n too small", "undefined")
    wrong, checked = [], 0
    for tau, epsilon, n in itertools.product((0.5, 0.9), (0.5, 1.0, 2.0, 4.0), (10**4, 10**5)):
        target = Target(made, tau, 0.9, Z90, together=(tau,))
        for forecast in forecasts(target, ends, None, Steps())[1:]:
            row = at_n(forecast, n, epsilon, 2000, 1)
            again = forecast.simulate(n, epsilon, 2000, 99)
            ratio = Z90 * again.rmse(target.truth) / row.half_width
            allowed = 0.05 + 3 * again.rmse_error(target.truth)
            checked += 1
            if abs(ratio - 1) > allowed and not any(word in " ".join(row.cautions) for word in cautions):
                wrong.append((tau, epsilon, n, row.protocol, ratio, row.cautions))
    assert checked == 16 * 7
    assert wrong == []
