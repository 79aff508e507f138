"""A new interval method is one class. No other code lists the method or its columns."""

from pathlib import Path
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

SUMMARY = 'Summary("whole_width_median", "median width", unit="unit of theta"),'
FURTHER = 'Summary("wide", "share wider than .3", beyond=0.3, caution="it is wide"),'
MODULE = (Path(__file__).parent / "api" / "plugin_method.py").read_text()
MODULE = MODULE.replace(SUMMARY, SUMMARY + FURTHER).replace(
    'of the interval"', 'of the interval", symbol="h", title="half"'
)

SIMPLE = changed(seed=11, replicates=70, mechanism__epsilon=1.0, grid={"n": 500}, method={"kind": "BM"})
GROWN = {**SIMPLE, "method": [{"kind": "BM"}, {"kind": "fixed_width", "half": [0.1, 0.2]}]}
NEW = ["half", "whole_width"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    file = tmp_path_factory.mktemp("plugin") / "new_method.py"
    file.write_text(MODULE)
    yield lf.load_plugin(str(file)).FixedWidth
    forget_plugins("fixed_width")


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory):
    """A run that had rows before the method was added. These rows keep their values."""
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
    assert known["half"].identifies and known["half"].meaning == "half width of the interval"
    assert known["whole_width"] == installed.diagnostics[0]
    own = rows.filter(pc.equal(rows["method"], "fixed_width"))
    assert set(own["half"].to_pylist()) == {0.1, 0.2}
    assert own["whole_width"].equals(pc.multiply(own["half"], 2.0))
    assert rows.select(NEW).drop_null().num_rows == own.num_rows
    assert check_run(str(run))[0] == []
    key = RunStore(run).replicates.path_keys()[0]
    computed, stored = replay(run, key, 69)
    assert computed.select(NEW).equals(stored.select(NEW)) and stored.num_rows == 3


def test_its_columns_are_in_the_summary(run, capsys):
    summary = RunStore(run).read_summary()
    assert [summary.name for summary in summaries_of(summary.schema)][-2:] == ["whole_width_median", "wide"]
    names = ("tau", "method", "half", "whole_width_median", "wide")
    assert [tuple(map(row.get, names)) for row in summary.to_pylist()] == [
        (tau, *cell)
        for tau in (0.5, 0.9)
        for cell in (("BM", None, None, None), ("fixed_width", 0.1, 0.2, 0.0), ("fixed_width", 0.2, 0.4, 1.0))
    ]
    table = printed(capsys, "summary", run)
    assert "half" in table and "whole_width_median" in table
    assert "fixed_width: it is wide in up to" in table
    assert "It is wide in" in printed(capsys, "explain", run, "--verbose")
    assert "2 ± 0" in printed(capsys, "compare", run, "--by", "half")


def test_its_columns_are_in_report_and_figure(run, capsys, tmp_path):
    printed(capsys, "report", run, "-o", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "fixed_width, h = 0.1" in text and "<dt>whole_width_median</dt><dd>median width.</dd>" in text
    printed(capsys, "plot", run, "coverage", "--x", "half", "-o", tmp_path / "figure.json")
    assert "h (half)" in (tmp_path / "figure.json").read_text()


@pytest.mark.parametrize(
    ("name", "said"),
    [("coverage", "a name that no other column of the summary has"), ("beta", "'beta' is declared as")],
)
def test_a_name_that_is_taken_is_refused(name, said, installed, tmp_path, monkeypatch):
    class Other(installed):
        diagnostics: ClassVar = (Column("whole_width", "double"), Column(name, "double"))

    monkeypatch.setitem(INTERVAL_METHODS, "fixed_width", Other)
    with pytest.raises(InputError, match=said):
        run_study(Study.from_mapping(GROWN), tmp_path / "run", engine="serial")


@pytest.mark.parametrize(
    ("method", "reads"),
    [
        (SuffixAverage(base="oracle"), True),
        (ConfidenceSequence(t_opt=300, base="oracle"), True),
        (JointRegion(base="oracle"), True),
        (SuffixAverage(base="TRC"), False),
        (Lugsail(base="BM"), False),
    ],
)
def test_a_method_reads_the_truth_if_what_it_holds_does(method, reads):
    assert method.reads_truth() is reads
