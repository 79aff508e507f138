"""Plans of studies, of pilots and of public bounds: what is refused, what is said, what a goal takes."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.problems.laws import Law
from ldpflow.errors import InputError
from ldpflow.options import PlanOptions
from ldpflow.practice.planning import plans, rows
from ldpflow.practice.planning.method import RECOMMENDED, expected_interval, fits
from ldpflow.practice.planning.plans import add_recommended, judgement, name_of
from ldpflow.practice.planning.rows import arrival_cautions
from ldpflow.practice.planning.sources import Guess, Pilot, design
from ldpflow.results.arrival import predict_arrivals
from ldpflow.simulators.approach import Approach, approach
from ldpflow.study import Study
from ldpflow.sweeps import cautions
from tests.kernels import uncompiled
from tests.oracles.cells import step_covariance
from tests.oracles.column_law import example_column
from tests.studies import changed, quantile_path

NOISE = math.e / (math.e - 1) ** 2
TRIAL = {"tau": 0.9, "law": "exponential", "scale": 31.4}
ADVISED = {"c": 23.4, "theta0": 54.0, **TRIAL}


def test_a_path_that_does_not_arrive():
    plan = lf.plan(quantile_path(**TRIAL), half_width=2)
    (row,) = plan.rows
    assert plan.refused and row["recommended"] is None
    silent = ("standard_error", "half_width", "length", "n_needed", "epsilon_needed", "arrival_needed")
    assert {row[name] for name in silent} == {None}


def test_the_advice_is_followed():
    """With the advised steps the plan prints a length with its reservation, and names the method."""
    plan = lf.plan(quantile_path(**ADVISED), half_width=20.0, difference=2.0)
    (row,) = plan.rows
    assert not plan.refused and row["arrival"] == "doubtful" and row["recommended"] == "TR"
    assert row["relaxation_times_planned"] == pytest.approx(60.1, abs=0.1)
    assert row["bias_start"] + row["bias_steps"] == pytest.approx(0.37, abs=0.02)
    assert row["length"] == 2 * row["half_width"] == pytest.approx(2 * 1.6448536 * 0.7059, rel=1e-3)
    assert row["n_per_group"] > 0 and row["arrival_per_group"] is not None
    assert row["n_needed"] < 1000 and row["arrival_needed"] == "not_arrived"


AT_FEW_USERS = design(Law("exponential", scale=31.4), 0.9, 20_000, 0.51)
SENTENCES = {
    "not arrived": (TRIAL, [
        "c 1, theta0 0, n 200,000: not arrived for an average: 2.6 relaxation times, 10.60 oracle SE of",
        "bias, mostly from the start. Better for TR, in the unit of the data: c = 23, theta0 = 54.",
        "With them use TR (coverage 0.91, length 2.6). An average would then have 60 relaxation times, 0.37",
        "would cover 0.87. Below n = 4.0e5",
    ]),
    "doubtful, with steps near the rule's": (ADVISED, [
        "doubtful for an average: 60 relaxation times", "Use TR (coverage 0.91, length 2.6)",
    ]),
    "few users, with the rule's own steps": (
        {"n": 2e4, "c": AT_FEW_USERS.c, "theta0": AT_FEW_USERS.theta0, **TRIAL},
        ["steps too large for an average", "Use TR3 (coverage 0.9", "Below n = 4.0e5"],
    ),
    # The lengths of the study would give .61 for TR, whose mean is 1.07.
    "an average that spreads far": ({"n": 1000, "epsilon": 0.5}, [
        "Better for TR, in the unit of the data: c = 2.6,", "use TR (coverage 0.91). ",
        "a spread of 1.94 oracle SE",
    ]),
    "no steps do": (
        {"n": 1e5, "tau": 0.99, "scale": 31.4}, ["No steps are good at this n", "Below n = 2.8e7"],
    ),
}  # fmt: skip
"""Paths, and words of the one sentence that a plan has for each."""


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences(name):
    settings, words = SENTENCES[name]
    (text,) = lf.plan(quantile_path(**settings)).cautions
    assert [part for part in words if part not in text] == []
    assert ("Better" in text) == any("Better" in part for part in words), (
        "no steps are better than equal ones"
    )


def test_a_quantile_of_a_plugin_may_take_no_coordinate(monkeypatch):
    wanted = lf.plan(quantile_path()).rows
    monkeypatch.setattr(lf.Quantile, "quantile_target", lambda self: (self.tau, self.data_law()))
    assert lf.plan(quantile_path()).rows == wanted


def test_each_of_several_quantiles_is_followed_by_itself():
    """With the noise of a report about all of them; a sweep with an average warns of the worst of them."""
    several = changed(
        problem={"kind": "quantiles", "taus": [0.5, 0.9], "law": "exponential", "scale": 30.0},
        mechanism={"kind": "cells", "epsilon": 1.0},
        algorithm={"kind": "ldp_sgd", "gamma": 0.51, "c": [[10.0, 50.0]], "theta0": [[20.0, 50.0]]},
        grid={"n": [100_000], "level": 0.9},
        method=[{"kind": "BM"}],
    )
    study = Study.from_mapping(several)
    plan = lf.plan(study)
    for k, (row, tau) in enumerate(zip(plan.rows, (0.5, 0.9), strict=True)):
        noise = step_covariance([0.5, 0.9], 1.0)[k][k] - tau * (1 - tau)
        law = Law("exponential", scale=30.0)
        (own,) = predict_arrivals([Approach(law, tau, noise, (10, 50)[k], 0.51, (20, 50)[k], 100_000)])
        assert row["bias_steps"] == pytest.approx(own.bias_steps) and row["arrival"] == own.verdict
        assert row["coverage_predicted"] == pytest.approx(own.coverage(0.9))
    assert plan.rows[1]["arrival"] == "steps_too_large" and plan.rows[1]["bias_steps"] > 0.5
    assert "quantiles, exponential, tau 0.9, cells, epsilon 1, gamma 0.51, c 50" in plan.cautions[-1]
    ((words, line),) = arrival_cautions(study)
    assert words == "steps too large" and "tau 0.9, cells" in line and "c 50, theta0 50" in line


def test_a_plan_shows_as_a_short_table():
    plan = lf.plan("quickstart", n=[1e3, 1e5], epsilon=1)
    head, first, second, last = str(plan).splitlines()
    assert head.split() == ["n", "half_width", "arrival", "recommended"]
    assert first.split()[0] == "1000" and second.split()[0] == "1e5" and repr(plan) == str(plan)
    assert last.startswith(f"cautions: {len(plan.cautions)} ")


def test_a_pilots_plan():
    """The median of N(50, 10^2). The test of two means of variance V/n finds D with the power asked for."""
    pilot = {"amount": np.random.default_rng(4).normal(50.0, 10.0, 2500)}
    goal = {"half_width": 1, "response_rate": 0.3, "difference": 2.0, "power": 0.9}
    plan = lf.plan(pilot=pilot, tau=0.5, epsilon=1.0, n=200_000, **goal)
    (row,) = plan.rows
    assert not plan.refused and plan.table().num_rows == 1 and row["pilot"] == "column 'amount'"
    assert row["quantile"] == pytest.approx(50.0, abs=0.6)
    assert row["relaxation_times_planned"] == pytest.approx(60.0, rel=1e-9)
    assert row["sparsity_low"] < row["sparsity"] < row["sparsity_high"]
    assert row["sparsity_low"] < 10 * math.sqrt(2 * math.pi) < row["sparsity_high"]
    assert row["half_width_low"] / row["half_width"] == pytest.approx(row["sparsity_low"] / row["sparsity"])
    assert row["pilot_values"] == 2500 and row["recommended"] == "TR" and row["invitations"] == 666_667
    spread = row["sparsity"] * math.sqrt(0.25 + NOISE)
    assert row["half_width"] == pytest.approx(1.6448536 * spread / math.sqrt(200_000), rel=1e-6)

    def power(count):
        error = spread / math.sqrt(count) * 1.12  # of TR
        return NormalDist().cdf(2.0 / (error * math.sqrt(2)) - NormalDist().inv_cdf(0.95))

    assert power(row["n_per_group"]) >= 0.9 > power(row["n_per_group"] - 2)


SKEWED = {"pilot": {"amount": example_column(2000)}}


@pytest.fixture(scope="module")
def skewed():
    """A plan for an upper quantile of a skewed pilot."""
    return lf.plan(**SKEWED, tau=0.9, epsilon=1, n=[2e5, 1e6], half_width=100, response_rate=0.5)


def test_users_with_a_method_do_not_depend_on_the_n_asked_about(skewed):
    """Refused rows say it too; it is the first n, steps chosen for it, whose method is short enough."""
    (users,) = {row["n_with_method"] for row in skewed.rows}
    (method,) = {row["method_needed"] for row in skewed.rows}
    assert skewed.rows[0]["n_needed"] is None and users > skewed.rows[1]["n_needed"]
    assert {row["invitations_needed"] for row in skewed.rows} == {2 * users}
    source = Pilot(PlanOptions(**SKEWED))

    def short_enough(n):
        case = approach(source.path(0.9, 1.0, n), n)
        (arrival,) = predict_arrivals([case])
        found = source.method(arrival, case)
        length = None if found is None else expected_interval(arrival, found)
        return length is not None and length.length * 1.6448536 * arrival.standard_error <= 100

    assert short_enough(users) and not short_enough(int(users / 1.03))
    assert method in ("TR", "TR3")


def test_the_verdict_of_a_pilot_is_the_worst_but_a_twentieth(skewed):
    """The pilot's own law is doubtful, the resampled ones refuse; TR remains."""
    refused, doubtful = skewed.rows
    for row in skewed.rows:
        assert row["coverage_predicted_worst"] <= row["coverage_predicted"]
    assert (refused["arrival"], doubtful["arrival"]) == ("steps_too_large", "doubtful")
    assert refused["length"] is None and doubtful["length"] is not None
    assert "Use TR" in skewed.cautions[0] and "number 190 of 200 resampled pilots" in skewed.cautions[0]


def test_few_values_beyond_the_quantile_are_at_best_doubtful():
    small = {"amount": np.random.default_rng(4).normal(50.0, 10.0, 240)}
    plan = lf.plan(pilot=small, tau=0.1, epsilon=1, n=10**8)
    assert plan.rows[0]["arrival"] == "doubtful"
    assert any("24 of its 240 values lie beyond the 0.1 quantile" in text for text in plan.cautions)
    even = lf.plan(pilot={"amount": np.linspace(0.0, 100.0, 105)}, tau=0.47, epsilon=1, n=10**6)
    assert even.rows[0]["arrival"] == "doubtful"


@pytest.mark.parametrize("jitter", [None, 0.5])
def test_a_lattice_is_cautioned_unless_there_is_jitter(jitter):
    values = np.array([round(2 * NormalDist().inv_cdf((i + 0.5) / 120)) / 2 for i in range(120)])
    plan = lf.plan(pilot={"amount": values}, jitter=jitter, tau=0.5, epsilon=1, n=20_000)
    found = ["lie 0.5 apart" in text and "jitter = 0.5" in text for text in plan.cautions]
    assert any(found) == (jitter is None)


def test_a_plan_from_bounds():
    """Numbers are those of the normal law, verdict and method those of the worst of five laws."""
    plan = lf.plan(bounds=(0.0, 1000.0), tau=0.5, epsilon=1.0, n=200_000, half_width=5.0)
    (row,) = plan.rows
    assert row["theta0"] == 500.0 and row["recommended"] == "TR" and row["arrival"] == "not_arrived"
    assert row["relaxation_times_planned"] == pytest.approx(60.0, rel=1e-9)
    assert row["sparsity_low"] == pytest.approx(50 * math.sqrt(2 * math.pi)), "of the lognormal median"
    assert row["sparsity_high"] == row["sparsity"] == pytest.approx(125 * math.sqrt(2 * math.pi))
    assert row["coverage_predicted_worst"] < 0.6 < row["coverage_predicted"]
    average, guess = plan.cautions
    assert "not arrived for an average" in average and "the worst of the laws tried" in average
    assert "TR covers in all of them" in guess
    # Each of the laws says so by itself: relaxation times and a root without much bias.
    source = Guess(0.0, 1000.0)
    for case in source.tried(approach(source.path(0.5, 1.0, 200_000), 200_000)):
        assert predict_arrivals([case])[0].relaxation_times >= 25 and fits(case, "TR")
    with pytest.raises(InputError, match="check cannot be used with compare or bounds"):
        plan.check()


def test_laws_from_the_upper_bound_are_mirror_images():
    """Values counted from the other end: level 1 - tau and a reflected start are the same four paths."""

    def skewed(tau):
        source = Guess(0.0, 8.0)
        cases = source.tried(approach(source.path(tau, 1.0, 100_000), 100_000))
        found = {(case.law.name, case.tau, case.theta0, round(case.c, 9)) for case in cases}
        return {each for each in found if each[0] != "normal"}

    assert skewed(0.9) == skewed(0.1) and len(skewed(0.9)) == 4


SURVEY = {"tau": 0.5, "epsilon": 1, "n": 100}
REFUSED = {
    "quickstart": {
        "column": [1.0], "power": [1.0], "half_width": [-1, 1e-200, math.inf], "difference": [0],
        "response_rate": [0, 1.1, [0.1, 0.2]], "range": [(0, 1)], "liars": [0.1],
    },
    "bounds": {
        "tau": [None, [], 1.5], "epsilon": [None, 0], "n": [None, 0, 1.5], "level": [1.0],
        "bounds": [(1, 0), (1, 1), (0, math.inf), (math.nan, 1), (1, 0, 3), 5, "ab", (-1e308, 1e308),
                   [None], (0, 10**400)],
    },
    "pilot": {
        "pilot": ["no.csv", 5, [1.0, 2.0], np.ones(30), object()],
        "jitter": ["a", [1.0, 2.0], [1.0], -1.0], "missing_value": ["a", 0.5], "edges": ["ab", ()],
        "half_width": [(1, 2)],
    },
    "several": {"n": [1], "tau": [(0.5, 0.5)], "half_width": [(1, 2, 3)]},
    "compare": {
        "answers": [0, 3.0], "answer_below": [0.0], "difference": [0.1], "replicates": [0, "x", True],
        "bins": [3], "liars": [1.0],
        "range": [(1.0, -1.0), (1.0, math.inf), (0.0, 1.0, 2.0)], "half_width": [1e200],
    },
}  # fmt: skip
"""Values that no plan takes, by what is planned."""

GIVEN = {
    "quickstart": {"study": "quickstart"},
    "bounds": {"bounds": (0, 1), **SURVEY},
    "pilot": {"pilot": {"a": np.arange(200.0)}, **SURVEY},
    "several": {"pilot": {"a": np.arange(200.0)}, **SURVEY, "tau": (0.4, 0.5), "compare": True},
    "compare": {"study": "quickstart", "compare": True, "range": (0, 1)},
}


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("study", {}),
        ("study", GIVEN["pilot"] | {"bounds": (0, 1)}),
        ("study", GIVEN["quickstart"] | {"bounds": (0, 1)}),
        ("bounds", GIVEN["bounds"] | {"compare": True}),
        ("edges", GIVEN["pilot"] | {"edges": (0, 1), "transform": "sqrt"}),
        ("problem.transform", GIVEN["pilot"] | {"transform": "exp"}),
        ("problem.missing", GIVEN["pilot"] | {"missing": "keep"}),
        *(
            (name, GIVEN[kind] | {name: value})
            for kind, names in REFUSED.items()
            for name, values in names.items()
            for value in values
        ),
    ],
)
def test_settings_refused(field, settings):
    with pytest.raises(InputError) as caught:
        lf.plan(**settings)
    assert caught.value.field == field


def test_a_study_reads_the_values_of_its_own_axes():
    for epsilon in ("1", np.array([1])):
        assert lf.plan("quickstart", epsilon=epsilon).rows == lf.plan("quickstart", epsilon=1).rows
    with pytest.raises(InputError, match=r"mechanism\.epsilon"):
        lf.plan("quickstart", epsilon=100)


def test_cautions_of_a_sweep(monkeypatch):
    """One line per path that does not arrive; none for those that do, none for too many paths."""
    study = quantile_path(**TRIAL, methods=[{"kind": "BM"}])
    normal = study.replace({"problem.law": "normal", "problem.scale": 1.0, "n": [2000, 3000]})
    ((verdict, line),) = arrival_cautions(normal)
    assert verdict == "steps too large" and "n 3,000: steps too large for an average: " in line
    assert arrival_cautions(study.replace({"c": 23.4, "algorithm.theta0": 54.0})) == []
    assert arrival_cautions(study.replace({"c": [1.0, 23.4], "algorithm.theta0": 54.0})) != []
    assert cautions(study.replace(tau=[0.5, 0.8, 0.9])) == [
        "of 3 paths: not arrived in 3 (ldpflow plan says what to change)"
    ]
    monkeypatch.setattr(rows, "MOST_PATHS", 0)
    assert arrival_cautions(study) == []


@pytest.mark.parametrize(
    ("coverage", "high", "failures", "expected"),
    [
        (0.87, 0.88, 0.0, "good"), (0.87, 0.879, 0.0, "short"), (0.869, 0.9, 0.0, "short"),
        (0.95, 0.97, 0.05, "good"), (0.95, 0.97, 0.051, "undefined"),
    ],
)  # fmt: skip
def test_judgement(coverage, high, failures, expected):
    row = {"coverage_failures_as_misses": coverage, "coverage_failures_as_misses_high": high,
           "failure_share": failures, "level": 0.9}  # fmt: skip
    assert judgement(row) == expected


def test_recommended_methods_are_added_once():
    study = quantile_path(methods=[{"kind": "TR", "degree": 2}, {"kind": "BM"}])
    twice = add_recommended(add_recommended(study))
    kinds = [entry.kind for entry in twice.method]
    assert kinds == ["TR", "BM", "oracle", "TR"]
    assert name_of({"method": "TR", "degree": 3, "burn_in": "0.01n"}) == "TR3"
    assert name_of({"method": "TR", "degree": 2, "burn_in": None}) == "TR"
    assert name_of({"method": "BM"}) == "BM" and set(RECOMMENDED) == {"TR", "TR3"}


def test_a_check_simulates_the_recommended_methods(monkeypatch):
    uncompiled.use(monkeypatch)
    monkeypatch.setattr(plans, "CHECK_REPLICATES", 16)
    plan = lf.plan(quantile_path(1000, c=3.0, epsilon=3, seed=1))
    assert plan.rows[0]["recommended"] == "TR" and plan.check()
    assert {(name_of(row), row["replicates"]) for row in plan.checked} == {
        (name, 16) for name in ("oracle", "TR", "TR3")
    }
    plan.rows[0]["recommended"] = None
    assert not plan.check()


@pytest.mark.thorough
def test_a_check_is_good_where_nothing_is_wrong():
    """512 replicates of a median; TR is short there with probability below 1e-3 if it covers .9."""
    plan = lf.plan(quantile_path(2e4, epsilon=3, seed=3))
    assert plan.rows[0]["recommended"] == "TR" and plan.check()
    # Predictions: each comparison fails with probability 6e-5 if all is well.
    for row in (row for row in plan.checked if row["method"] != "TR"):
        assert abs(row["empirical_se"] - plan.rows[0]["standard_error"]) < 4 * row["empirical_se_mcse"]
        if row["method"] == "oracle":
            assert row["length_mean"] == pytest.approx(plan.rows[0]["length"], rel=1e-12)


def test_vectors_are_judged_by_their_slowest_direction_and_by_the_start_alone():
    """No number stands for the bias and spread of steps that a regression's plan does not predict."""
    study = Study.from_mapping(
        changed(
            problem={"kind": "linear_regression", "coefficients": [[1.0, 1.0]]},
            mechanism={"kind": "gaussian", "mu": 1.0},
            algorithm={"kind": "ldp_sgd", "gamma": 0.51, "c": [0.02, 5.0]},
            grid={"n": [1e5], "level": 0.9},
        )
    )
    plan = lf.plan(study)
    assert [row["arrival"] for row in plan.rows] == ["not_arrived", "not_arrived", "arrived", "arrived"]
    unknown = ("n_feasible", "bias_steps", "sd_ratio")
    assert {row[name] for row in plan.rows for name in unknown} == {None}
    first, second = plan.cautions
    assert "relaxation times, " in first and "count only the start's bias" in second
