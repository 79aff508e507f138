"""Error and length that depend on each other: found, measured against all pairs, and named as a cause."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ldpflow.results import CellRows
from ldpflow.results.dependence import dependence
from ldpflow.results.diagnosis import diagnose
from ldpflow.results.explanation import extremes, failures


def cell(error, length) -> CellRows:
    error, half = np.asarray(error, float), np.asarray(length, float) / 2
    count = len(error)
    values = {
        "replicate": np.arange(count), "ok": np.ones(count, bool), "truth": np.zeros(count),
        "estimate": error, "lower": error - half, "upper": error + half, "length": 2 * half,
        "se": half / 1.645, "covered": np.abs(error) <= half,
    }  # fmt: skip
    return CellRows(**{f.name: values[f.name] for f in dataclasses.fields(CellRows) if f.name in values})


def test_the_effect_is_the_mean_over_all_pairs():
    rng = np.random.default_rng(1)
    error = rng.normal(size=40)
    length = np.abs(error) + rng.random(40)
    every = np.mean([abs(e) <= w / 2 for e in error for w in length])
    found = dependence(cell(error, length))
    assert found.effect == pytest.approx(np.mean(np.abs(error) <= length / 2) - every, abs=1e-12)
    assert found.constant == np.mean(np.abs(error) <= length.mean() / 2)


def test_independent_lengths_have_no_effect_in_19_of_20_cells():
    """Two jackknife errors: a false alarm in about 5%; 14 of 60 has probability below 1e-6."""
    rng = np.random.default_rng(2)
    cells = (cell(rng.normal(size=400), 3 + rng.random(400)) for _ in range(60))
    assert sum(dependence(rows).real for rows in cells) < 14


def test_dependence_is_named_where_it_is_the_largest_part():
    rng = np.random.default_rng(3)
    error = rng.standard_t(3, size=2000)
    length = 2 * np.abs(error) * rng.choice([0.9, 1.3], p=[0.02, 0.98], size=2000)
    rows = cell(error, length)
    between = dependence(rows)
    assert between.real and between.correlation > 0.8
    told = diagnose(rows, 0.9).sentence(None, between)
    assert "mainly the dependence of error and length" in told and "constant lengths" in told


def test_a_gap_within_two_mcse_is_no_gap_and_a_clear_bias_is_told():
    """Twelve replicates, bias of about four MCSE."""
    rng = np.random.default_rng(4)
    found = diagnose(cell(1.2 + rng.normal(size=12), np.full(12, 4.5)), 0.9)
    assert abs(found.coverage - 0.9) <= 2 * found.coverage_mcse
    told = found.sentence(None, None)
    assert "no gap beyond noise" in told and "bias is" in told


def test_paths_that_explode_and_failures_are_told():
    row = {"length_mean": 1e10, "length_median": 0.2, "failures": 0, "replicates": 500}
    assert "another order of magnitude" in extremes(row)[0] and failures(row) == []
    row |= {"length_mean": 0.3, "failures": 54, "replicates": 200, "coverage_failures_as_misses": 0.63}
    assert extremes(row) == [] and "54 of 200" in failures(row)[0] and "0.630" in failures(row)[0]
