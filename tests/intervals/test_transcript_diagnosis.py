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

DECLARED = list(BUNDLED_SUMMARIES.values())


def summary(path, n, replicates=64):
    cells = (Cell(n, lf.BatchMeans(), 0.9), Cell(n, lf.TranscriptRegression(), 0.9))
    rows = simulate(Batch(path, 7, 0, replicates, cells)).rows
    key = "p" + path.key
    rows = rows.append_column("path", [[key] * rows.num_rows])
    return {row["method"]: row for row in summary_of([cells_of(rows)], {key: path}).to_pylist()}


def test_a_short_run_says_so():
    path = OnePass(lf.Quantile(tau=0.99), lf.RandomizedResponse(), lf.LdpSgd())
    found = summary(path, 3000)
    assert found["BM"]["too_short"] is None and found["BM"]["relaxation_times_median"] is None
    assert found["TR"]["too_short"] > 0.9
    assert found["TR"]["relaxation_times_median"] < 25
    (line, *_) = [line for line in cautions(list(found.values()), DECLARED) if "too short" in line]
    assert line.startswith("TR: the run is too short")
    said = sentences(found["TR"], [])
    assert any("relaxation times; 25 are needed): take a larger n" in sentence for sentence in said)
    assert any("undefined" in sentence for sentence in said) and "below 2" not in " ".join(said)
    assert "or a degree below 2" in " ".join(sentences(found["TR"] | {"poor_fit": 0.0}, []))
    assert sentences(found["BM"], []) == []


def test_a_sound_run_says_nothing():
    path = OnePass(lf.Quantile(), lf.RandomizedResponse(), lf.LdpSgd())
    found = summary(path, 10**5)
    assert found["TR"]["too_short"] == 0.0
    # K = p(0) sum eta_i: sum_{316 < i <= 1e5} i^-.51 = 541.
    assert found["TR"]["relaxation_times_median"] == pytest.approx(0.3989 * 541, rel=0.1)
    assert 1.0 <= found["TR"]["condition_median"] < 10
    # P(more than 5 of 64 with probability .01 each) < 1e-4.
    assert found["TR"]["poor_fit"] <= 5 / 64
    assert sentences(found["TR"] | {"poor_fit": 0.0}, []) == []


def test_large_steps_fit_poorly_and_the_remedy_helps():
    """c = 4, tau = .9: power 3 is significant in about half of the runs, 0 to 12 of 64 with prob. < 1e-6."""
    path = OnePass(lf.Quantile(tau=0.9), lf.RandomizedResponse(), lf.LdpSgd(c=4.0))
    found = summary(path, 3 * 10**4)["TR"]
    assert found["poor_fit"] > 0.2
    (said,) = [sentence for sentence in sentences(found, []) if "does not fit" in sentence]
    assert 'take degree = 3 with burn_in = "0.01n"' in said and "power 3 is significant" in said
    # No advice that another one contradicts, and no degree 3 for a run that is too short for it.
    for own in ({"failure_share": 0.2}, {"relaxation_times_median": 30.0}):
        said = " ".join(sentences(found | own, []))
        assert "take a larger n first" in said and "degree = 3 with" not in said and "below 2" not in said
    (said,) = [s for s in sentences(found | {"degree": 3}, []) if "does not fit" in s]
    assert "TR-BM" in said
    (said,) = [s for s in sentences(found | {"degree": 1}, [], vector=True) if "does not fit" in s]
    assert "early and the late half" in said and "degree = 2" in said
    (said,) = [s for s in sentences(found | {"condition_median": 1e9}, []) if "collinear" in s]
    assert "burn_in" in said


@pytest.mark.parametrize(
    ("problem", "flagged"),
    [
        pytest.param(lf.Quantile(tau=0.25, law="gamma", shape=0.8), True, marks=pytest.mark.slow, id="gamma"),
        pytest.param(lf.Quantile(tau=0.9), False, id="normal"),
    ],
)
def test_first_steps_that_move_the_estimate_are_flagged(problem, flagged):
    """A law whose support begins near the quantile: TR covers .84 there, and power 3 is not significant.

    512 replicates: the share is .14 and .006 in 2,048; one below .07, or above .03, has probability 1e-6.
    """
    path = OnePass(problem, lf.RandomizedResponse(), lf.LdpSgd())
    found = summary(path, 5 * 10**4, 512)["TR"]
    assert (found["early_steps"] > 0.07) if flagged else (found["early_steps"] < 0.03)
    said = [sentence for sentence in sentences(found, []) if "first 3 to 6% of the steps" in sentence]
    assert len(said) == flagged and all('burn_in = "0.1n"' in sentence for sentence in said)
