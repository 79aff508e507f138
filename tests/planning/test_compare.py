"""Comparison of protocols: known figures, cautions, refusals, and predictions against other replicates."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

import ldpflow as lf
from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.errors import InputError
from ldpflow.options import PlanOptions
from ldpflow.practice.planning import compare
from ldpflow.practice.planning.compare import (
    EPSILONS,
    compare_designs,
    find_budget,
    level_state,
    make_forecasts,
    predict_row,
    reaches,
    search_path,
    steps_of,
)
from ldpflow.practice.planning.forecasts import (
    DECIDING,
    CellsForecast,
    OneShotForecast,
    RoundsForecast,
    SgdForecast,
    Target,
)
from ldpflow.practice.planning.sources import Pilot
from ldpflow.results.arena import HOLDS, UNDECIDED
from ldpflow.results.protocol_curves import bit_variance
from ldpflow.study import Study
from tests.planning.conftest import FEW
from tests.protocols.running import Z90
from tests.studies import changed, quantile_path

NORMAL = Law("normal")
RANGE = (-6.3, 9.7)
TABLE_LAWS = {
    "normal": (NORMAL, RANGE),
    "exponential": (Law("exponential"), (0.0, 16.0)),
    "lognormal": (Law("lognormal", shape=1.0), (0.0, 25.0)),
}
TARGET = Target(NORMAL, 0.5, 0.9, together=(0.5,))
MAPPING = changed(
    problem={"kind": "quantile", "tau": [0.5, 0.8]},
    mechanism={"kind": "randomized_response", "epsilon": 1.0},
    algorithm={"kind": "ldp_sgd", "c": 2.0},
    grid={"n": [10_000], "level": 0.9},
    method=[{"kind": "oracle"}],
)
STUDY = Study.from_mapping(MAPPING)


def rows_of(law=NORMAL, taus=(0.5,), epsilon=1.0, n=10**5, ends=RANGE, replicates=50, **settings):
    pairs = compare_designs(law, taus, epsilon, n, ends=ends, replicates=replicates, **settings)
    rows = [row for row, _ in pairs]
    assert len({(row["protocol"], row["tau"]) for row in rows}) == len(rows)
    return {row["protocol"] if len(taus) == 1 else (row["protocol"], row["tau"]): row for row in rows}


def plan(study=STUDY, replicates=20, **settings):
    return lf.plan(study, compare=True, replicates=replicates, **settings)


@pytest.mark.thorough
def test_sgd_where_its_average_does_not_arrive():
    """c = 1 for the .9-quantile: the numbers are those of the recommended TR, and n_needed too."""
    sgd = rows_of(taus=[0.9], half_width=0.05, replicates=20, ends=None)["sgd"]
    assert sgd["interval"] == "TR" and 1.05 < sgd["half_width"] / sgd["half_width_bound"] < 1.4
    assert "steps too large for an average" in sgd["cautions"] and sgd["coverage"] > 0.6
    assert "TR is no average: its own bias is predicted as +0.06 SE" in sgd["cautions"]
    assert sgd["n_needed"] > 35513 and sgd["interval_needed"] in ("TR", "TR3")


def test_sgd_without_a_recommended_interval_is_blank():
    forecast = SgdForecast(replace(TARGET, tau=0.9, together=(0.9,)), lf.LdpSgd(c=0.05))
    sgd = predict_row(forecast, 10**5, 1.0, 20, 1)
    assert {sgd[name] for name in ("interval", "half_width", "coverage", "state", "state_bytes")} == {None}
    assert sgd["efficiency"] is None and "no interval is recommended" in " ".join(sgd["cautions"])
    assert forecast.design(10**5, 1.0) is None


# Efficiency by formula at tau .5 and .9; bins and half width by formula at .5.
FORMULAS = {
    "haar": (0.062, 0.070, 64, 0.0565),
    "tree": (0.051, 0.051, 64, 0.0624),
    "oue": (0.041, 0.034, 32, 0.0697),
    "hrr": (0.039, 0.033, 32, 0.0713),
    "thresholds": (0.033, 0.032, 32, 0.0782),
    "grr": (0.013, 0.011, 32, 0.1252),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    *efficiencies, bins, half_width = FORMULAS[name]
    for tau, efficiency in zip((0.9, 0.5), efficiencies[::-1], strict=True):
        target = replace(TARGET, tau=tau, together=(tau,))
        found = OneShotForecast(target, PROTOCOLS[name](range=RANGE))
        bound = bit_variance(tau, 1.0) / 10**5 / target.density**2
        assert bound / found.standard_error(10**5, 1.0) ** 2 == pytest.approx(efficiency, abs=0.002)
    assert found.bins(10**5, 1.0) == bins
    assert Z90 * found.standard_error(10**5, 1.0) == pytest.approx(half_width, abs=1e-4)


@pytest.mark.thorough
def test_bins_that_are_too_wide():
    """512 bins of 62.5 in a range of 32,000: no n and no budget gives a half width of 20."""
    target = Target(Law("exponential", scale=1000.0), 0.5, 0.9, (0.5,))
    forecast = OneShotForecast(target, PROTOCOLS["grr"](range=(0.0, 32_000.0)))
    row = predict_row(forecast, 10**5, 1.0, 50, 1, wanted=20.0)
    assert row["n_needed"] is None and row["epsilon_needed"] is None
    assert any("bins of 62.5 cannot give 20" in text for text in row["cautions"])


def test_simulated_figures_are_near_those_of_the_reference_table():
    """RMSE over the bound's standard error: haar 3.86, rounds 1.26, with 2,000 replicates each.

    TR at a median: 1.05 to 1.35 times the oracle's half width .0141, so 1.1 to 1.8 times its users.
    """
    medians = rows_of(half_width=0.05, replicates=500)
    sgd = medians["sgd"]
    assert sgd["interval"] == "TR" and 1.05 < sgd["half_width"] / 0.0141 < 1.35
    assert 1.1 < sgd["n_needed"] / 7961 < 1.8
    assert 1.05 < sgd["epsilon_needed"] / 0.262 < 1.4
    assert abs(sgd["coverage"] - 0.9) < 4 * sgd["coverage_mcse"] + 0.02
    assert medians["haar"]["efficiency"] == pytest.approx(3.86**-2, rel=0.15)
    assert medians["rounds"]["efficiency"] == pytest.approx(1.26**-2, rel=0.15)
    assert 0.88 < medians["rounds"]["coverage"] < 0.95
    assert medians["haar"]["coverage"] > 0.98
    # Sorted by the users needed.
    needed = [row["n_needed"] for row in medians.values()]
    assert needed == sorted(needed) and list(medians)[:2] == ["sgd", "rounds"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FEW else pytest.mark.thorough) for name in PROTOCOLS]
)
def test_predictions_hold_on_other_replicates_or_carry_a_caution(monkeypatch, name):
    """2,000 replicates with other seeds at n and at the n found: within 5%, or the row says so."""
    monkeypatch.setattr(compare, "PROTOCOLS", PROTOCOLS)
    forecast = next(f for f in make_forecasts(TARGET, RANGE) if f.name == name)
    row = predict_row(forecast, 10**5, 1.0, 500, 1, wanted=0.05)
    again = forecast.simulate(row["n"], 1.0, 2000, 99)
    assert again.half_width() == pytest.approx(row["half_width"], rel=0.05)
    if "simulated again" not in "".join(row["cautions"]):
        assert forecast.simulate(row["n_needed"], 1.0, 2000, 98).half_width() <= 0.05 * 1.05


def test_cautions():
    few = rows_of(taus=[0.9], epsilon=0.5, n=10**4, replicates=300)
    rows = rows_of(ends=(1.0, 9.0), liars=0.01)
    assert few["sgd"]["cautions"]
    for name in set(few) - {"sgd"}:
        assert "n too small" in few[name]["cautions"] and "outside range" in rows[name]["cautions"]
    # .0109 in probability: 3.2 standard errors of LDP-SGD at n = 1e5.
    assert rows["sgd"]["liars_shift"] / rows["sgd"]["half_width_bound"] * Z90 == pytest.approx(3.2, abs=0.05)
    haar = OneShotForecast(replace(TARGET, liars=0.01), PROTOCOLS["haar"](range=RANGE))
    assert haar.liars_shift(10**5, 1.0, 1) > haar.standard_error(10**5, 1.0)


def test_bias_inside_bins_is_cautioned():
    target = replace(TARGET, law=Law("lognormal", shape=1.0))
    row = predict_row(OneShotForecast(target, PROTOCOLS["haar"](range=(0.0, 25.0), k=32)), 10**5, 0.5, 200, 1)
    assert "bin bias" in row["cautions"][0] and row["coverage"] > 0.93


@pytest.mark.parametrize(("shift", "barred"), [(0.24, False), (0.26, False), (0.99, False), (1.01, True)])
def test_a_grid_of_values_counts_in_standard_errors(monkeypatch, shift, barred):
    """Half the distance of the values over the standard error: named above .25, no design above 1."""
    values = 2.0 * np.round(np.random.default_rng(8).normal(100.0, 15.0, 2000))
    law = Law("empirical", table=column_law(values))
    variance = (0.25 + math.e / (math.e - 1) ** 2) / law.density_at_quantile(0.5) ** 2
    monkeypatch.setattr(SgdForecast, "simulate", lambda *given: None)
    forecast = SgdForecast(Target(law, 0.5, 0.9, (0.5,)))
    n = round(variance * shift**2)  # 1 is half of the distance
    row = predict_row(forecast, n, 1.0, 20, 1)
    assert row["atoms"] == barred
    assert (f"up to 1 ({shift:.2f} SE)" in " ".join(row["cautions"])) == (shift > 0.25)
    histogram = OneShotForecast(forecast.target, PROTOCOLS["haar"](range=(0.0, 200.0)))
    assert not predict_row(histogram, n, 1.0, 20, 1)["atoms"], "its outer interval ends at edges"


def test_the_grid_of_a_pilot_is_in_the_unit_of_its_values():
    pilot = Pilot(PlanOptions(pilot={"a": np.arange(200) // 2 + 1.0}), "sqrt")
    assert pilot.spacing(pilot.law) == 1.0


@pytest.mark.parametrize(("tau", "factor"), [(0.25, 1.874), (0.5, 2.365)])
def test_variances_of_one_of_three_quantiles(tau, factor):
    """Over that of one bit of every user: a third of the users, a third of epsilon, or cells."""
    target = Target(NORMAL, tau, 0.9, together=(0.25, 0.5, 0.75))
    once, third = (bit_variance(tau, epsilon, 1) for epsilon in (1.0, 1 / 3))
    expected = {"sgd": 3.0, "rounds": 3.0, "sgd_epsilon": third / once, "cells": factor}
    for forecast in make_forecasts(target, RANGE):
        if forecast.name in expected:
            ratio = 10**5 * (forecast.standard_error(10**5, 1.0) * target.density) ** 2 / once
            assert ratio == pytest.approx(expected.pop(forecast.name), rel=1e-3)
            assert forecast.users(10**5) == (33_333 if forecast.splits_users else 10**5)
    assert not expected and CellsForecast(target).bits(10**5, 1.0) == 2.0


def test_budget_of_a_path_without_an_interval_at_the_largest(monkeypatch):
    """With 1 it reaches what is wanted, whatever is recommended with 12."""
    monkeypatch.setattr(SgdForecast, "expected_half_width", lambda self, n, e: 1 / e if e < 2 else math.inf)
    monkeypatch.setattr(SgdForecast, "simulate", lambda *given: None)
    row = {"n": 1000, "tau": 0.5, "epsilon": 1.0, "half_width": 1.0}
    for wanted, budget in ((2.0, 0.5), (0.8, None)):
        found = find_budget(row, SgdForecast(TARGET), wanted, 10, 1)
        assert found == (None if budget is None else pytest.approx(budget, rel=0.012))


def test_smallest_budget_gives_the_half_width():
    """10^6 users: the budget is enough, with other replicates too, and .9 of it is not."""
    forecast = OneShotForecast(TARGET, PROTOCOLS["haar"](range=RANGE))
    chosen = predict_row(forecast, 10**6, 1.0, 400, 1, wanted=0.1)["epsilon_needed"]
    assert chosen in EPSILONS
    assert forecast.simulate(10**6, chosen, 2000, 5).half_width() <= 0.1
    assert forecast.simulate(10**6, 0.9 * chosen, 2000, 5).half_width() > 0.1
    assert predict_row(SgdForecast(TARGET), 1000, 1.0, 20, 1, wanted=1e-6)["epsilon_needed"] is None


@pytest.fixture(scope="module")
def compared():
    return plan(range=RANGE, replicates=60)


def test_a_row_per_quantile_and_protocol(compared):
    rows = [(row["tau"], row["protocol"]) for row in compared.rows]
    assert sorted(rows) == sorted(itertools.product((0.5, 0.8), ["sgd", *FEW]))
    assert not compared.refused and compared.table().num_rows == 6
    assert all(row["epsilon"] == 1.0 and row["n"] == row["users"] == 10_000 for row in compared.rows)
    assert len(compared.cautions) == len([row for row in compared.rows if row["cautions"]])
    assert any("steps too large" in text and "tau 0.8" in text for text in compared.cautions)
    with pytest.raises(InputError) as error:
        compared.check()
    assert error.value.field == "check"


def test_a_comparison_shows_its_best_designs_the_pick_and_first_the_advice(compared):
    shown = str(compared)
    best = [row for row in compared.rows if row["rank"] is not None and row["rank"] <= 5]
    assert len(compared.rows) > len(best) > 0 and shown.startswith(compared.advice[0])
    head, *rows = [line for line in shown.splitlines() if line not in compared.advice][:-1]
    assert head.split()[0] == "protocol" and len(rows) == len(best)
    picks = {row["protocol"] for row in best if row["best"]}
    assert {line.split()[0] for line in rows if line.split()[1] == "*"} == picks
    assert f"all {len(compared.rows)} rows: plan.table()" in shown


@pytest.mark.parametrize("law", ["mixture", "empirical"])
def test_mixtures_and_columns_of_studies_are_compared(tmp_path, monkeypatch, law):
    monkeypatch.setattr(SgdForecast, "simulate", lambda *given: None)
    np.savetxt(tmp_path / "pilot.csv", np.random.default_rng(3).normal(size=1000), header="a", comments="")
    parts = [{"law": "normal"}, {"law": "normal", "location": 3.0}]
    own = {"components": parts} if law == "mixture" else {"file": str(tmp_path / "pilot.csv")}
    found = plan(quantile_path(2000, law=law, **own), range=RANGE)
    assert {"sgd", *FEW} == {row["protocol"] for row in found.rows}


def test_range_and_scale_of_the_study_s_own_protocols():
    mapping = MAPPING | {
        "protocol": {"kind": "haar", "epsilon": 1.0, "range": [-6.3, 9.7], "scale_guess": 0.2},
        "method": [{"kind": "oracle"}, {"kind": "inversion"}],
    }
    own = {row["protocol"]: row["bins"] for row in plan(Study.from_mapping(mapping), tau=0.5).rows}
    protocol = PROTOCOLS["haar"](range=RANGE, epsilon=1.0, scale_guess=0.2)
    by_default = protocol.model_copy(update={"scale_guess": None})
    assert own["haar"] == protocol.bins(10_000) != by_default.bins(10_000)


def test_drop_out_is_a_bias_that_no_n_repairs():
    found = plan(range=RANGE, tau=0.5, answer_below=1.0, answer_above=0.5)
    assert all("drop-out: bias -0.319 at every n" in row["cautions"] for row in found.rows)
    assert {row["users"] for row in found.rows} == {7500}


@pytest.mark.parametrize(("c", "interval"), [(1.0, "TR"), (0.001, None)])
def test_several_quantiles_have_the_steps_and_start_of_the_study(c, interval):
    steps = lf.LdpSgd(c=c, gamma=0.6, theta0=0.1)
    for kind in (SgdForecast, CellsForecast):
        forecast = kind(Target(NORMAL, 0.5, 0.9, together=(0.5, 0.9)), steps)
        assert forecast.algorithm(10_000) == steps and forecast.interval(10_000, 1.0) == interval


def test_several_answers_share_the_budget():
    forecast = SgdForecast(replace(TARGET, answers=3))
    mechanism, once = forecast.mechanism(2.0), SgdForecast(TARGET).standard_error(100, 2.0)
    assert (mechanism.kind, mechanism.answers, mechanism.epsilon) == ("deployed_response", 3, 2.0)
    assert forecast.messages() == forecast.bits(100, 2.0) == 3
    ratio = bit_variance(0.5, 2.0, 3) / bit_variance(0.5, 2.0, 1)
    assert (forecast.standard_error(100, 2.0) / once) ** 2 == pytest.approx(ratio)


def test_half_widths_are_those_that_a_sweep_measures(compared, tmp_path):
    """Outer intervals of a histogram: a standard error of its estimate does not know their length."""
    mapping = MAPPING | {
        "problem": {"kind": "quantile", "tau": 0.5},
        "protocol": {"kind": "haar", "epsilon": 1.0, "range": [-6.3, 9.7]},
        "method": [{"kind": "inversion", "limits": "outer"}],
        "replicates": 2000,
    }
    del mapping["mechanism"], mapping["algorithm"]
    (row,) = lf.sweep(Study.from_mapping(mapping), tmp_path / "run", executor="serial").summary().to_pylist()
    (haar,) = (r for r in compared.rows if r["protocol"] == "haar" and r["tau"] == 0.5)
    assert row["length_median"] / 2 == pytest.approx(haar["half_width"])


def test_one_replicate_can_reach_a_half_width():
    found = SimpleNamespace(lower=np.zeros(1), upper=np.ones(1))
    forecast = SimpleNamespace(simulate=lambda *given: found)
    assert reaches(forecast, 100, 1.0, 0.5, 1, 1) and not reaches(forecast, 100, 1.0, 0.4, 1, 1)


OF_A_PLUGIN = {"kind": "quantile", "tau": 0.5, "law": "ramp"}  # no protocol knows its distribution function
REFUSED = {
    "problem.kind": {
        "problem": {"kind": "linear_regression"},
        "mechanism": {"kind": "laplace", "epsilon": 1.0},
    },
    "problem.law": {"problem": OF_A_PLUGIN},
    "algorithm": {"algorithm": {"kind": "minibatch_sgd"}},
    "algorithm by quantile": {
        "problem": {"kind": "quantiles", "taus": [0.5, 0.9]},
        "mechanism": {"kind": "cells", "epsilon": 1.0},
        "algorithm": {"kind": "ldp_sgd", "c": [[1.0, 2.0]]},
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_studies_that_are_not_compared(name):
    lf.load_plugin(str(Path(__file__).parents[1] / "api" / "plugin_law.py"))
    with pytest.raises(InputError) as caught:
        plan(Study.from_mapping(MAPPING | REFUSED[name]), range=RANGE)
    assert caught.value.field == name.partition(" ")[0]


def test_users_of_a_path_are_corrected_by_the_error_of_its_expected_length():
    """Intervals 1.5 times as long as expected at the row, 1.2 times at the users found."""
    forecast = SimpleNamespace(
        expected_half_width=lambda n, epsilon: 10.0 / math.sqrt(n),
        simulate=lambda n, *_: SimpleNamespace(half_width=lambda: 12.0 / math.sqrt(n)),
    )
    asked = []

    def search(wanted):
        asked.append(wanted)
        return math.ceil((10.0 / wanted) ** 2)

    row = {"n": 100, "epsilon": 1.0, "half_width": 1.5}
    found = search_path(row, forecast, 0.5, search, lambda n: (n, 1.0), 100, 0)
    assert asked == pytest.approx([0.5 / 1.5, 0.5 / 1.2]) and found == pytest.approx((12.0 / 0.5) ** 2, abs=1)


class Undeclared(lf.LdpSgd):
    """Steps of a plug-in that are not c i^-gamma."""

    def step_constant(self):
        return math.nan


def test_the_first_suitable_algorithm_of_a_study_is_compared():
    algorithms = [Undeclared(), lf.MinibatchSgd(), lf.LdpSgd(c=2.0)]
    assert steps_of([{"algorithm": each} for each in algorithms]).c == 2.0
    with pytest.raises(InputError, match="steps c i"):
        steps_of([{"algorithm": algorithms[0]}])


def test_a_range_is_needed():
    with pytest.raises(InputError, match="range is missing"):
        plan()


@pytest.mark.parametrize(
    ("kind", "probability"), [(SgdForecast, 0.075), (RoundsForecast, 0.061), (OneShotForecast, 0.042)]
)
def test_probability_that_a_design_at_the_edge_passes(kind, probability):
    """A design that covers level - .03 exactly: the binomial law of its hits, batch by batch."""
    among, passed = np.ones(1), 0.0
    for batch in range(1, DECIDING + 1):
        among = np.convolve(among, binom.pmf(np.arange(1001), 1000, 0.87))
        if batch >= kind.batches:
            n = 1000 * batch
            states = np.array([level_state(0.9, hits / n, n) for hits in range(n + 1)])
            passed += among[states == HOLDS].sum()
            among[states != UNDECIDED] = 0.0
    assert passed == pytest.approx(probability, abs=5e-4)
