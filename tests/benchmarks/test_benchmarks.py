"""The benchmarks' arithmetic and the naive loops; never how fast anything is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import peers, report
from benchmarks.measurement import Measurement, quartiles


def test_median_quartiles_and_verdict():
    row = Measurement("x", "x", "times", [3.0, 1.0, 2.0], 2.0, "higher")
    assert row.value == 2.0
    assert row.met is True
    assert quartiles(row.values) == [1.5, 2.5]
    assert Measurement("x", "x", "times", [3.0], 2.0, "lower").met is False
    assert Measurement("x", "x", "ns", [3.0]).met is None
    assert Measurement("x", "x", target=2.0, skipped="no R").met is None


def test_text_and_json_tell_the_same():
    rows = [
        Measurement("x", "x", "times", [3.0, 2.0], 2.0, details={"ns": 1.0}),
        Measurement("y", "y", skipped="no R"),
    ]
    assert report.line(rows[0]).startswith("met ")
    assert report.line(rows[1]) == "skipped  y: no R"
    read = json.loads(report.json_text(report.context(True, None), rows))
    assert [row["value"] for row in read["rows"]] == [2.5, None]
    assert read["rows"][1]["skipped"] == "no R"


@pytest.mark.parametrize("generator", ["Generator", "np.random"])
def test_naive_quantile_estimates_the_quantile(generator):
    # One path: sd of the average is about sqrt(2.8 / n) (S over G squared) = 0.006; 8 sd allowed.
    n = 100_000
    sums = np.empty(1)
    settings = (n, 0.5, np.e / (1 + np.e), 1.0, 0.51, 0.0, np.array([n]), sums)
    if generator == "Generator":
        peers.naive_quantile_generator(np.random.default_rng(1), *settings)
    else:
        peers.naive_quantile_legacy(1, *settings)
    assert abs(sums[0] / n) < 0.05
