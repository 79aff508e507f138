"""Two studies that version 0.1.0 ran: their rows and summaries have the bits that it stored."""

from __future__ import annotations

import json
import math
import shutil
import tomllib

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ldpflow.errors import InputError
from tests.golden import adapter
from tests.golden.canonical import as_text, canonical_rows, table_hash
from tests.golden.make_runs import HERE, RUN_NAMES, RUNS, sums_of_bits
from tests.oracles.rows_in_cells import cells_of
from tests.results.test_measures import JACKKNIFED, jackknife, without_one

STORED = json.loads((HERE / "runs.json").read_text())
SUMMARIES = {"rows": "summary.parquet", "trajectories": "trajectories.parquet"}
MORE = 44


def study_of(name, **changes):
    return {**tomllib.loads((RUNS / name / "study.toml").read_text()), **changes}


@pytest.fixture(scope="module", params=RUN_NAMES)
def made(request, tmp_path_factory):
    """A run of one of the studies."""
    run = tmp_path_factory.mktemp("runs") / request.param
    adapter.continued(run, study_of(request.param))
    return run


@pytest.fixture
def run(made, tmp_path):
    """A copy of it."""
    return shutil.copytree(made, tmp_path / made.name)


def assert_unchanged(run, up_to=None):
    """The rows of a run, or those of its first replicates, are the golden ones."""
    for kind, table in adapter.read_run(run)._asdict().items():
        golden = STORED[run.name][kind]
        if up_to is not None:
            table = table.filter(pc.less(table["replicate"], up_to))
        assert table.num_rows == golden["count"]
        assert table_hash(table, golden["columns"]) == golden["sha256"]


def test_rows_have_the_stored_bits(run):
    assert_unchanged(run)
    assert adapter.findings(run) == []


@pytest.mark.parametrize("name", RUN_NAMES)
def test_a_run_made_before_version_0_3_is_refused_with_one_message_and_left_alone(name, tmp_path, capsys):
    run = shutil.copytree(RUNS / name, tmp_path / "run")
    before = sorted(run.rglob("*"))
    for command in ("summary", "explain", "report", "export", "check", "cite"):
        more = ["-o", str(tmp_path / "out")] if command in ("report", "export") else []
        assert adapter.command_line([command, str(run), *more]) == 2, command
        captured = capsys.readouterr()
        assert "a version before 0.3" in captured.out + captured.err, command
    with pytest.raises(InputError, match="a version before 0.3"):
        adapter.continued(run, study_of(name, replicates=MORE))
    assert sorted(file for file in run.rglob("*") if file.name != "tmp") == before


CHANGED = {
    "relative_error_model_se_mcse": lambda kept: jackknife(kept.estimate, kept.se) if kept.has_se() else None,
    "empirical_se_mcse": lambda kept: without_one(JACKKNIFED["empirical_se"], kept.estimate),
    "skewness_mcse": lambda kept: without_one(JACKKNIFED["skewness"], kept.estimate),
}
"""The columns of the summary that later versions compute otherwise: by the delete-one jackknife."""


def depends_on_library(name):
    """Whether a column takes functions that are not the same bits on every machine."""
    return name.startswith("theory_") or name in adapter.DIAGNOSIS_COLUMNS


def assert_left_out_one_by_one(run, table, name):
    """A changed column of a summary, from the run's rows, by leaving out replicates literally."""
    keys, cells = cells_of(adapter.read_run(run).rows)
    names = keys.column_names
    literal = {
        tuple(key.values()): CHANGED[name](cell.finished()) if len(cell.finished().ok) > 3 else None
        for key, cell in zip(keys.to_pylist(), cells, strict=True)
    }
    found = {tuple(row[key] for key in names): row[name] for row in table.to_pylist()}
    for key, value in found.items():
        assert (value is None) == (literal[key] is None)
        assert value is None or math.isclose(value, literal[key], rel_tol=1e-9)


def close(ours, stored):
    if isinstance(ours, float) and isinstance(stored, float):
        return math.isclose(ours, stored, rel_tol=1e-9, abs_tol=1e-12)
    return ours == stored


def test_the_summary_of_a_stored_run_has_the_same_bits(run):
    same_library = sums_of_bits() == STORED["sums_of_bits"]
    looked_at = 0
    for kind, table in adapter.summarised(run)._asdict().items():
        file = RUNS / run.name / SUMMARIES[kind]
        if not file.exists():
            assert table.num_rows == 0
            continue
        stored = pq.read_table(file)
        assert table.num_rows == stored.num_rows
        for name in stored.column_names:
            ours, theirs = table[name].to_pylist(), stored[name].to_pylist()
            if name in CHANGED:
                assert [x is None for x in ours] == [x is None for x in theirs]
                assert_left_out_one_by_one(run, table, name)
                continue
            if same_library or not depends_on_library(name):
                assert [*map(as_text, ours)] == [*map(as_text, theirs)], name
            else:
                assert all(map(close, ours, theirs)), name
        looked_at += stored.num_rows
    assert looked_at > 0


def test_the_command_line_prints_the_summary(run, capsys):
    assert adapter.command_line(["summary", str(run), "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    kind = "rows" if STORED[run.name]["rows"]["count"] else "trajectories"
    assert printed == adapter.summarised(run)._asdict()[kind].to_pylist()


def test_a_replicate_of_a_stored_run_is_computed_again_to_the_same_bits(run):
    keys = sorted(folder.name for folder in run.glob("*/path=p*"))
    for key in set(keys):
        computed, stored = adapter.replayed(run, key.removeprefix("path=p"), 17)
        assert stored.num_rows > 0
        names = stored.column_names
        assert canonical_rows(computed, names) == canonical_rows(stored, names)


def test_a_stored_run_is_continued(run, tmp_path):
    study = study_of(run.name, replicates=MORE)
    adapter.continued(run, study)
    assert_unchanged(run, up_to=36)
    assert adapter.findings(run) == []
    fresh = tmp_path / "fresh"
    adapter.continued(fresh, study)
    for made, expected in (
        *zip(adapter.read_run(run), adapter.read_run(fresh), strict=True),
        *zip(adapter.summarised(run), adapter.summarised(fresh), strict=True),
    ):
        names = expected.column_names
        assert canonical_rows(made, names) == canonical_rows(expected, names)
    counts = [t.num_rows for t in adapter.read_run(run)]
    golden = STORED[run.name]
    assert counts == [golden[k]["count"] * MORE // 36 for k in ("rows", "trajectories")]
