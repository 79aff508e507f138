"""Sweeps that stop when they are precise enough: the rule, its bias, and what it does not depend on."""

import itertools
import math
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from ldpflow.engine.precision import BATCH, Precision, agresti_coull
from ldpflow.engine.run import progress_text, run_study
from ldpflow.errors import InputError
from ldpflow.options import SweepOptions
from ldpflow.results.columns import CellRows
from ldpflow.run import open_run
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.studies import changed


def cell(covered, length=1.0, ok=None) -> CellRows:
    count = len(covered)
    zeros, ones = np.zeros(count), np.ones(count)
    ok = np.ones(count, bool) if ok is None else ok
    length = np.broadcast_to(length, count).astype(float)
    covered = np.asarray(covered, float)
    return CellRows(np.arange(count), zeros, zeros, ones, zeros, length, covered, length, ok)


def stopping_point(covered, precision):
    for point in precision.schedule():
        x = int(np.sum(covered[:point]))
        share = (x + 2) / (point + 4)
        enough = math.sqrt(share * (1 - share) / point) <= precision.target_mcse
        if enough or point == precision.max_replicates:
            return point
    raise AssertionError


def points(precision, *columns, length=None):
    """Numbers of replicates that a path takes one after the other; a column says what a cell covers."""
    have, taken = 0, []
    lengths = np.ones(precision.max_replicates) if length is None else length
    while (
        point := precision.next_point([cell(c[:have], lengths[:have]) for c in columns], have)
    ) is not None:
        assert point > have
        have = point
        taken.append(point)
    return taken


@pytest.mark.parametrize("p", [0.6, 0.9, 0.99])
def test_stops_at_the_first_point_that_is_precise_enough(p):
    precision = Precision(0.012, max_replicates=2000)
    rng = np.random.default_rng(int(100 * p))
    for _ in range(10):
        covered = rng.random(2000) < p
        taken = points(precision, covered)
        assert taken[-1] == stopping_point(covered, precision)
        assert len(taken) < 8, "points that cannot be precise enough are skipped"
        # An earlier run that has more replicates than that decides the same.
        assert precision.next_point([cell(covered)], 2000) is None


def test_all_cells_of_a_path_must_be_there():
    rng = np.random.default_rng(1)
    precision = Precision(0.012, max_replicates=4000)
    easy, hard = rng.random(4000) < 0.98, rng.random(4000) < 0.8
    stop = points(precision, easy, hard)[-1]
    assert stop == stopping_point(hard, precision) > stopping_point(easy, precision)


def test_a_cell_without_a_finished_row_does_not_hold_up_the_others():
    precision = Precision(0.02, max_replicates=4000)
    dead = cell(np.zeros(512), ok=np.zeros(512, bool))
    assert precision.next_point([dead, cell(np.ones(512))], 512) is None


def test_length_target():
    precision = Precision(target_length=0.01, max_replicates=10_000)
    rng = np.random.default_rng(2)
    length = 1 + 0.3 * rng.standard_normal(10_000)
    have = points(precision, np.ones(10_000), length=length)[-1]
    assert have == pytest.approx(900, abs=2 * BATCH)
    here = length[:have]
    assert np.std(here, ddof=1) / np.mean(here) / math.sqrt(have) <= 0.01
    assert precision.next_point([cell(np.ones(300))], 300) is None, "constant lengths"


def stopped_coverage(p, precision):
    """Exact mean and sd of the reported coverage if intervals cover with probability p, and mean replicates.

    The number of hits at each point of the schedule is a random walk with binomial steps. Its law is followed
    without the walks that have stopped.
    """
    law = np.ones(1)  # probabilities of the number of hits while sampling has not stopped
    before = 0
    mean = square = replicates = 0.0
    for point in precision.schedule():
        more = point - before
        law = np.convolve(law, binom.pmf(np.arange(more + 1), more, p))
        stops = agresti_coull(np.arange(point + 1), point) <= precision.target_mcse
        hits = np.flatnonzero(stops | (point == precision.max_replicates))
        mean += float(np.sum(law[hits] * hits)) / point
        square += float(np.sum(law[hits] * hits.astype(float) ** 2)) / point**2
        replicates += point * float(np.sum(law[hits]))
        law[hits] = 0.0
        before = point
        if law.sum() < 1e-12:
            break
    return mean, math.sqrt(max(square - mean**2, 0.0)), replicates


@pytest.mark.parametrize("p", [0.8, 0.95])
def test_bias_of_the_reported_coverage_is_below_a_tenth_of_a_point(p):
    mean, sd, replicates = stopped_coverage(p, Precision(0.005))
    assert abs(mean - p) < 0.001
    assert sd == pytest.approx(0.005, rel=0.06)
    assert replicates == pytest.approx(p * (1 - p) / 0.005**2, rel=0.06)


@pytest.mark.parametrize(
    ("flag", "settings"),
    [
        ("target_mcse", {"target_mcse": float("nan")}),
        ("target_length", {"target_length": -1.0}),
        ("min_replicates", {"target_mcse": 0.01, "min_replicates": 100}),
        ("max_replicates", {"target_mcse": 0.01, "max_replicates": 100}),
    ],
)
def test_bad_input(flag, settings):
    with pytest.raises(InputError, match=flag):
        Precision.of(SweepOptions(**settings), STUDY)


STUDY = Study.from_mapping(
    changed(
        problem={"kind": "quantile", "tau": [0.5, 0.8]},
        mechanism={"kind": "randomized_response", "epsilon": 1},
        grid={"n": 300, "level": 0.9},
        method=[{"kind": "oracle"}, {"kind": "SN"}],
        replicates=1,
    )
)
PRECISION = Precision(0.017, min_replicates=200)


def stored(run) -> pa.Table:
    rows = RunStore(run).replicates.read(damaged="refuse")
    return rows.sort_by([(name, "ascending") for name in ("path", "replicate", "method")])


def test_a_sweep_that_stops_before_its_target_does_not_say_that_all_is_done(tmp_path):
    seen = []
    stop = {"on_event": seen.append, "should_stop": lambda: "asked" if seen else None}
    result = run_study(STUDY, tmp_path / "run", engine="serial", **asdict(PRECISION), **stop)
    assert result.stopped == "asked" and result.wanted_replicates == 0
    said = f"{result.finished_replicates} replicates or more of every path, which may not reach the target,"
    assert result.done_replicates > 2 and progress_text(vars(result)) == said
    assert [session["precision"] for session in open_run(tmp_path / "run").provenance] == [asdict(PRECISION)]


def test_the_engine_is_chosen_by_what_the_run_lacks(tmp_path, monkeypatch):
    work = []

    def note(seconds, cores, python_seconds):
        work.append(seconds)
        return "serial", ""

    monkeypatch.setattr("ldpflow.engine.run.choose_engine", note)
    run_study(STUDY.replace({"replicates": 296}), tmp_path / "run", engine="serial")
    for run in ("run", "new"):
        run_study(STUDY, tmp_path / run, **asdict(PRECISION), should_stop=lambda: "at once")
    # .9 (1 - .9)/.017^2 = 312 replicates are expected to do. The first run has 296; its next point is 456.
    assert work[0] / work[1] == pytest.approx((456 - 296) / 312)


@pytest.mark.thorough
def test_counts_follow_from_the_rows_alone(tmp_path):
    seen = []
    straight = run_study(STUDY, tmp_path / "a", engine="serial", **asdict(PRECISION), on_event=seen.append)
    summary = RunStore(tmp_path / "a").read_summary().to_pylist()
    counts = [row["replicates"] for row in summary]
    # Progress counts the whole way, over all rounds.
    done = [event.done_steps for event in seen]
    assert done == sorted(done) and done[-1] == 300 * sum(counts) / 2
    assert len(set(counts)) == 2, "paths end with different counts"
    assert straight.finished_replicates == min(counts)

    # Asked before each batch: every fifth time the sweep is to stop.
    stop = itertools.cycle([None, None, None, None, "asked"]).__next__
    while run_study(STUDY, tmp_path / "b", engine="serial", **asdict(PRECISION), should_stop=stop).stopped:
        pass
    assert stored(tmp_path / "b").equals(stored(tmp_path / "a"))

    run_study(STUDY.replace({"replicates": 333}), tmp_path / "c", engine="serial")
    run_study(STUDY, tmp_path / "c", engine="serial", **asdict(PRECISION))
    assert stored(tmp_path / "c").equals(stored(tmp_path / "a"))
