"""The diagnosis of regression on the transcript, from the rows to the summary and the terminal."""

import pytest

import ldpflow as lf
from ldpflow.cli.sheets import cautions
from ldpflow.results.columns import BUNDLED_SUMMARIES
from ldpflow.results.explanation import cautions as sentences
from ldpflow.results.summary import summary_of
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from tests.oracles.rows_in_cells import cells_of


def summary(problem, n, c=1.0, replicates=64):
    path = OnePass(problem, lf.RandomizedResponse(), lf.LdpSgd(c=c))
    # OBM is there for its sums: the explanation of all methods has a kernel with the same sums.
    methods = (lf.BatchMeans(), lf.TranscriptRegression(), lf.OverlappingBlocks())
    cells = [Cell(n, method, 0.9) for method in methods]
    rows = simulate(Batch(path, 7, 0, replicates, tuple(cells))).rows
    key = "p" + path.key
    rows = rows.append_column("path", [[key] * rows.num_rows])
    return {row["method"]: row for row in summary_of([cells_of(rows)], {key: path}).to_pylist()}


@pytest.mark.thorough
def test_a_short_run_says_so():
    found = summary(lf.Quantile(tau=0.99), 3000)
    assert found["BM"]["too_short"] is None and found["BM"]["relaxation_times_median"] is None
    assert found["TR"]["too_short"] > 0.9
    assert found["TR"]["relaxation_times_median"] < 25
    lines = cautions(list(found.values()), [*BUNDLED_SUMMARIES.values()])
    assert any(line.startswith("TR: the run is too short") for line in lines)
    assert any("take a larger n" in sentence for sentence in sentences(found["TR"], []))
    assert sentences(found["BM"], []) == []


def test_a_sound_run_says_nothing():
    found = summary(lf.Quantile(), 10**5)["TR"]
    assert found["too_short"] == 0.0
    # K = p(0) sum eta_i: sum_{316 < i <= 1e5} i^-.51 = 541.
    assert found["relaxation_times_median"] == pytest.approx(0.3989 * 541, rel=0.1)
    assert 1.0 <= found["condition_median"] < 10
    # P(more than 5 of 64 with probability .01 each) < 1e-4.
    assert found["poor_fit"] <= 5 / 64 and found["early_steps"] <= 5 / 64
    assert sentences(found | {"poor_fit": 0.0, "early_steps": 0.0}, []) == []


def test_large_steps_fit_poorly():
    """c = 4, tau = .9: power 3 is significant in about half of the runs, 0 to 12 of 64 with prob. < 1e-6."""
    assert summary(lf.Quantile(tau=0.9), 3 * 10**4, c=4.0)["TR"]["poor_fit"] > 0.2


@pytest.mark.slow
def test_first_steps_that_move_the_estimate_are_flagged():
    """A law whose support begins near the quantile: TR covers .84 there, and power 3 is not significant.

    512 replicates: the share is .14 in 2,048; one below .07 has probability 1e-6.
    """
    problem = lf.Quantile(tau=0.25, law="gamma", shape=0.8)
    assert summary(problem, 5 * 10**4, replicates=512)["TR"]["early_steps"] > 0.07
