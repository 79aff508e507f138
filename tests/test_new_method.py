"""A new interval method is one class: nothing else knows its columns, and nothing lists it."""

from __future__ import annotations

from typing import ClassVar

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.columns import Column
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.intervals.nested import ConfidenceSequence, JointRegion, SuffixAverage
from ldpflow.components.intervals.variance import Lugsail
from ldpflow.engine.check import check_run
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.results.columns import summaries_of
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES, declared_columns
from ldpflow.study import Study
from tests.studies import changed, forget_plugins

MODULE = '''
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

import ldpflow as lf
from ldpflow.columns import Column, Summary
from ldpflow.components.intervals.interval import average, symmetric_limits
from ldpflow.settings import Setting

SUMMARIES = (
    Summary("distance_median", "median of the distance", unit="unit of theta"),
    Summary("far", "share with a distance > .01", beyond=0.01, caution="it is far from 0"),
)


@lf.register
class Stretched(lf.PathIntervalMethod):
    """The average and a half width of stretch / sqrt(steps)."""

    kind: Literal["stretched"] = "stretched"
    stretch: Annotated[
        float, Field(gt=0), Setting("unit of theta", "half width at one step", symbol="s", title="stretch")
    ] = 3.0
    doubled: Annotated[bool, Setting(meaning="whether the half width is doubled")] = False

    diagnostics: ClassVar = (
        Column("distance", "double", "unit of theta", "distance of the average from 0", summaries=SUMMARIES),
    )

    def times(self, steps, algorithm):
        return np.array([steps], dtype=np.int64)

    def intervals(self, record, n, levels):
        estimate = average(record, n)
        half = np.full_like(estimate, self.stretch * (1 + self.doubled) / np.sqrt(n))
        limits = symmetric_limits(estimate, [1.0 for _ in levels], half)
        return lf.Intervals(estimate, None, *limits, {"distance": np.abs(estimate)})
'''

SIMPLE = changed(seed=11, replicates=70, mechanism__epsilon=1.0, grid={"n": 500}, method={"kind": "BM"})
GROWN = {**SIMPLE, "method": [{"kind": "BM"}, {"kind": "stretched", "stretch": [2.5, 4.0]}]}
NEW = ["stretch", "doubled", "distance"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    file = tmp_path_factory.mktemp("plugin") / "stretched_intervals.py"
    file.write_text(MODULE)
    yield lf.load_plugin(str(file)).Stretched
    forget_plugins("stretched")


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory):
    """A run that had rows before the method came; they keep their values."""
    run = tmp_path_factory.mktemp("new") / "run"
    run_study(Study.from_mapping(SIMPLE), run, engine="serial")
    before = RunStore(run).replicates.read(damaged="refuse")
    run_study(Study.from_mapping(GROWN), run, engine="serial")
    rows = RunStore(run).replicates.read(damaged="refuse")
    old = rows.filter(pc.equal(rows["method"], "BM"))
    assert old.select(before.column_names).equals(before)
    return run


def printed(capsys, *arguments):
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_its_columns_are_in_the_replicates(run, installed):
    parts = run.glob("replicates/*/*.parquet")
    assert {tuple(pq.read_schema(part).names) for part in parts} == {(*REPLICATES.names, *NEW)}
    rows = RunStore(run).replicates.read(damaged="refuse")
    known = declared_columns(rows.schema)
    assert known["stretch"].identifies and known["stretch"].meaning == "half width at one step"
    assert known["distance"] == installed.diagnostics[0]
    own = rows.filter(pc.equal(rows["method"], "stretched"))
    assert set(own["stretch"].to_pylist()) == {2.5, 4.0} and set(own["doubled"].to_pylist()) == {False}
    assert own["distance"].equals(pc.abs(own["estimate"]))
    assert rows.select(NEW).drop_null().num_rows == own.num_rows
    assert check_run(str(run))[0] == []
    key = RunStore(run).replicates.path_keys()[0]
    computed, stored = replay(run, key, 69)
    assert computed.select(NEW).equals(stored.select(NEW)) and stored.num_rows == 3


def test_its_columns_are_in_the_summary(run, capsys):
    summary = RunStore(run).read_summary()
    assert [summary.name for summary in summaries_of(summary.schema)][-2:] == ["distance_median", "far"]
    rows = summary.to_pylist()
    assert [(row["tau"], row["method"], row["stretch"]) for row in rows] == [
        (tau, *cell) for tau in (0.5, 0.9) for cell in (("BM", None), ("stretched", 2.5), ("stretched", 4.0))
    ]
    assert rows[0]["far"] is None and rows[1]["far"] > 0.5 and rows[1]["distance_median"] > 0
    table = printed(capsys, "summary", run)
    assert "stretch" in table and "distance_median" in table
    assert "stretched: it is far from 0 in up to" in table
    assert "It is far from 0 in" in printed(capsys, "explain", run, "--verbose")
    assert "1.6 ± 0" in printed(capsys, "compare", run, "--by", "stretch")


def test_its_columns_are_in_report_and_figure(run, capsys, tmp_path):
    printed(capsys, "report", run, "-o", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "stretched, s = 2.5" in text and "<dt>distance_median</dt><dd>median of the distance.</dd>" in text
    printed(capsys, "plot", run, "coverage", "--x", "stretch", "-o", tmp_path / "figure.json")
    assert "s (stretch)" in (tmp_path / "figure.json").read_text()


@pytest.mark.parametrize(
    ("name", "said"),
    [("coverage", "a name that no other column of the summary has"), ("beta", "'beta' is declared as")],
)
def test_a_name_that_is_taken_is_refused(name, said, installed, tmp_path, monkeypatch):
    class Other(installed):
        diagnostics: ClassVar = (Column("distance", "double"), Column(name, "double"))

    monkeypatch.setitem(INTERVAL_METHODS, "stretched", Other)
    with pytest.raises(InputError, match=said):
        run_study(Study.from_mapping(GROWN), tmp_path / "run", engine="serial")


@pytest.mark.parametrize(
    ("method", "reads"),
    [
        (SuffixAverage(base="oracle"), True),
        (ConfidenceSequence(base="oracle"), True),
        (JointRegion(base="oracle"), True),
        (SuffixAverage(base="TRC"), False),
        (Lugsail(base="BM"), False),
    ],
)
def test_a_method_reads_the_truth_if_what_it_holds_does(method, reads):
    assert method.reads_truth() is reads
