"""The diagnosis of regression on the transcript, from the rows to the summary and the terminal."""

from __future__ import annotations

import pytest

from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.cell import Cell
from ldpflow.cli.tables import cautions
from ldpflow.intervals.batch_means import BatchMeans
from ldpflow.intervals.transcript_regression import TranscriptRegression
from ldpflow.mechanisms.randomized_response import RandomizedResponse
from ldpflow.path import Path
from ldpflow.problems.quantile import Quantile
from ldpflow.simulate import Batch, simulate
from ldpflow.summary import summary_of


def summary(path, n):
    cells = (Cell(n, BatchMeans(), 0.9), Cell(n, TranscriptRegression(), 0.9))
    rows = simulate(Batch(path, 7, 0, 64, cells)).rows
    key = "p" + path.key
    rows = rows.append_column("path", [[key] * rows.num_rows])
    return {row["method"]: row for row in summary_of(rows, {key: path}).to_pylist()}


def test_a_short_run_says_so():
    path = Path(Quantile(tau=0.99), RandomizedResponse(), LdpSgd())
    found = summary(path, 3000)
    assert found["BM"]["too_short"] is None and found["BM"]["relaxation_times_median"] is None
    assert found["TR"]["too_short"] > 0.9
    assert found["TR"]["relaxation_times_median"] < 25
    (line, *_) = [line for line in cautions(list(found.values())) if "too short" in line]
    assert line.startswith("TR: the run is too short")


def test_a_sound_run_says_nothing():
    path = Path(Quantile(), RandomizedResponse(), LdpSgd())
    found = summary(path, 10**5)
    assert found["TR"]["too_short"] == 0.0
    # K = p(0) sum eta_i: sum_{316 < i <= 1e5} i^-.51 = 541.
    assert found["TR"]["relaxation_times_median"] == pytest.approx(0.3989 * 541, rel=0.1)
    assert 1.0 <= found["TR"]["condition_median"] < 10
    # P(more than 5 of 64 with probability .01 each) < 1e-4.
    assert found["TR"]["poor_fit"] <= 5 / 64
