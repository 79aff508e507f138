"""What is recommended, and the words of a refusal with its advice."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ldpflow.planning.advice import advise, averages_from, expected, recommended, upwards
from ldpflow.planning.pilot import design
from ldpflow.problems.laws import Law
from ldpflow.simulators.approach import Approach
from ldpflow.theory.arrival import Arrival, approaches

NOISE = math.e / (math.e - 1) ** 2
TRIAL = Approach(Law("exponential", 0.0, 31.4), 0.9, NOISE, 1.0, 0.51, 0.0, 200_000)


def arrival(k, bias):
    return Arrival(k, 1.0, bias, 0.0, bias, 1.0, 0.0)


@pytest.mark.parametrize(
    ("k", "bias", "method"),
    [
        (25, 0.0, "TR"), (25, -0.5, "TR"), (44, -0.6, None), (45, -1.0, "TR"), (24.9, 0.0, None),
        (60, 1.01, "TR3"), (60, -1.5, "TR3"), (44, 1.2, None), (60, 1.6, None), (3, 0.0, None),
    ],
)  # fmt: skip
def test_recommended(k, bias, method):
    assert recommended(arrival(k, bias)) == method


@pytest.mark.parametrize(
    ("k", "bias", "method", "coverage", "length"),
    [
        (30, 0.1, "TR", 0.91, 1.18), (30, 0.9, "TR3", 0.92, 1.8), (60, 0.37, "TR", 0.91, 1.12),
        (60, 0.1, "TR3", 0.92, 1.3), (60, 1.4, "TR3", 0.91, 1.28), (20, 0.1, "TR", 0.90, 1.3),
    ],
)  # fmt: skip
def test_what_the_study_found(k, bias, method, coverage, length):
    assert expected(arrival(k, bias), method) == (coverage, length)


def test_nothing_is_known_of_lost_paths():
    assert expected(arrival(10, 0.0), "TR") is None and expected(arrival(60, 2.0), "TR") is None


def test_the_trials_advice():
    (found,) = approaches([TRIAL])
    advice = advise(TRIAL, found)
    assert advice.design.c == pytest.approx(23.4, abs=0.05)
    assert advice.design.theta0 == pytest.approx(53.8, abs=0.1)
    assert advice.c_range == pytest.approx((advice.design.c / 2, 2 * advice.design.c))
    assert advice.with_it.relaxation_times == pytest.approx(60.0, rel=1e-9)
    assert advice.with_it.bias == pytest.approx(0.37, abs=0.02)
    assert advice.method == "TR"
    assert advice.feasible == pytest.approx(3.95e5, rel=0.01)
    assert advice.sentences(0.9) == [
        "not arrived: with c = 1 the run has 2.6 relaxation times of the 25 it needs, and 10.6 SE of bias "
        "are left from the start (theta0 = 0, quantile 72.3). The oracle's length 2.32 would cover 0.00.",
        "better steps and start, in the unit of the data: c = 23 (60 relaxation times; anything in 12 .. "
        "47), theta0 = 54.",
        "with them: bias 0.37 SE; use TR 0.91 at length 2.6. The oracle's length 2.32 would cover 0.87. "
        "Below n = 4.0e5 no interval around an average (BB, BM, SN) can cover 90%.",
    ]


def test_steps_too_large():
    case = replace(TRIAL, law=Law("normal", 0.0, 0.01), steps=100_000)
    (found,) = approaches([case])
    first = advise(case, found).sentences(0.9)[0]
    assert first.startswith("steps too large: with c = 1 the run has 10,068 relaxation times; the size of")


def test_no_steps_do():
    case = replace(TRIAL, law=Law("normal"), tau=0.99, steps=100_000)
    (found,) = approaches([case])
    advice = advise(case, found)
    assert advice.method is None
    assert "no steps are good at n = 100,000" in advice.sentences(0.9)[1]
    assert "Below n = 2.8e7" in advice.sentences(0.9)[1]


@pytest.mark.parametrize(("n", "text"), [(0, "1"), (3.95e5, "4.0e5"), (4.0e5, "4.0e5"), (2.77e7, "2.8e7")])
def test_upwards(n, text):
    assert upwards(n) == text


def test_steps_near_the_rules_are_not_called_the_remedy_for_themselves():
    """The rule's own steps at few users: too large for an average, and the method is named instead."""
    rule = design(TRIAL.law, TRIAL.tau, 20_000, TRIAL.gamma)
    case = replace(TRIAL, steps=20_000, c=rule.c, theta0=rule.theta0)
    (found,) = approaches([case])
    assert found.verdict == "steps_too_large"
    _, remedy = advise(case, found).sentences(0.9)
    assert remedy.startswith("use TR3 0.9") and "with the steps as they are" in remedy
    assert "Below n = 4.0e5" in remedy


@pytest.mark.parametrize(("n", "said"), [(100, True), (99, True), (4 * 10**5, False)])
def test_averages_are_spoken_of_where_users_are_too_few(n, said):
    assert bool(averages_from(3.95e5, n, 0.9)) == said
