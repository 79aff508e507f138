"""Predicted bias of TR's own root: what no unit changes, where it is none, and simulation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.intervals.transcript import TranscriptRegression
from ldpflow.components.problems.laws import Law
from ldpflow.practice.planning.method import expected_fit
from ldpflow.simulators.approach import Approach
from ldpflow.study import Study

NOISE = math.e / (math.e - 1) ** 2
TR = TranscriptRegression()
TR3 = TranscriptRegression(degree=3, burn_in="0.01n")
SKEWED = Approach(Law("gamma", shape=0.8), 0.25, NOISE, 1.0, 0.51, 0.0, 50_000)
FAR = Approach(Law("exponential", scale=5.0), 0.5, NOISE, 11.7, 0.51, 500.0, 200_000)


def test_a_symmetric_law_leaves_no_bias_at_the_median():
    for method in (TR, TR3):
        found = expected_fit(Approach(Law("normal"), 0.5, NOISE, 1.0, 0.51, 0.0, 10**5), method)
        assert found.defined and found.bias == pytest.approx(0.0, abs=1e-6)


def test_a_polynomial_law_leaves_no_bias():
    """A uniform law is a line where the iterates are: every degree fits it."""
    case = Approach(Law("uniform"), 0.3, NOISE, 0.02, 0.51, 0.4, 10**6)
    for method in (TR, TR3):
        assert expected_fit(case, method).bias == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("method", [TR, TR3])
def test_a_unit_changes_nothing(method):
    scaled = replace(SKEWED, law=Law("gamma", 30.0, 1000.0, shape=0.8), c=1000.0, theta0=30.0)
    assert expected_fit(scaled, method).bias == pytest.approx(expected_fit(SKEWED, method).bias, rel=1e-6)


def test_a_higher_degree_has_less_bias():
    assert 0.4 < expected_fit(SKEWED, TR).bias < 0.6
    assert expected_fit(SKEWED, TR3).bias < 0.25


def test_digits_that_a_far_start_costs():
    """From 500, a hundred scales off: the sixth powers of the cubic's sums swamp what is left at the end."""
    assert expected_fit(FAR, TR).defined and not expected_fit(FAR, TR3).defined
    assert not expected_fit(replace(SKEWED, steps=3), TR).defined


def simulated(case, method, replicates):
    law = {"law": case.law.name, "scale": case.law.scale}
    law |= {} if case.law.shape is None else {"shape": case.law.shape}
    study = Study.from_mapping(
        {
            "name": "fit",
            "seed": 8,
            "replicates": 8,
            "problem": {"kind": "quantile", "tau": case.tau, **law},
            "mechanism": {"kind": "randomized_response", "epsilon": 1.0},
            "algorithm": {"kind": "ldp_sgd", "gamma": case.gamma, "c": case.c, "theta0": case.theta0},
            "grid": {"n": [case.steps], "level": 0.9},
            "method": [{"kind": "TR"}],
        }
    )
    (simulator,) = study.simulators()
    record = lf.simulate(simulator, 8, range(replicates), [case.steps], [method])
    return method.intervals(record, case.steps, [0.9])


@pytest.mark.slow
@pytest.mark.parametrize("method", [TR, TR3])
@pytest.mark.parametrize("case", [SKEWED, replace(SKEWED, law=Law("exponential"), tau=0.1)])
def test_bias_against_simulation(case, method):
    """800 replicates: within .15 standard errors and 4 Monte Carlo errors of .035."""
    found = simulated(case, method, 800)
    (estimate,) = found.estimate
    measured = (estimate.mean() - case.law.quantile(case.tau)) / np.median(found.se[0])
    assert measured == pytest.approx(expected_fit(case, method).bias, abs=0.15 + 4 * 0.035)


@pytest.mark.slow
def test_digits_against_simulation():
    """40 replicates of the far start: the cubic is undefined in most, the quadratic in none."""
    assert np.isnan(simulated(FAR, TR3, 40).lower).mean() > 0.8
    assert not np.isnan(simulated(FAR, TR, 40).lower).any()
