"""Every command that reads rows or a summary names what is damaged, forged or missing."""

import json
import shutil

import pyarrow as pa
import pytest

from ldpflow.engine.check import check_run
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.report.results import Results
from ldpflow.run import open_run
from ldpflow.store.run_store import RunStore
from tests.faults.mutations import COMMANDS, called
from tests.faults.study import rewrite, row_bytes, serial, study
from tests.kernels import uncompiled

SMALL = {"replicates": 8, "trajectory": {"first": 10, "points": 4}, "grid": {"n": [100, 200], "level": [0.9]}}
OF_ROWS = {"summary null", "explain", "compare", "plot zip", "export", "replay", "check"}
"""Commands that read rows of replicates."""


@pytest.fixture(scope="module", autouse=True)
def made(tmp_path_factory):
    run = tmp_path_factory.mktemp("named") / "run"
    with pytest.MonkeyPatch.context() as patched:
        uncompiled.use(patched)
        serial(run, study(**SMALL))
        yield run


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / "run")


def parts_of(run, folder="replicates"):
    return sorted((run / folder).rglob("*.parquet"))


def refused_by(run, names, out):
    key = parts_of(run)[0].parent.name.removeprefix("path=")
    for name in sorted(names):
        code, (text, files) = called(name, run, out, key)
        assert code == (1 if name == "check" else 2), (name, code, text)
        assert not files, name


def test_rows_without_a_summary_are_not_nothing(run, tmp_path):
    (run / "summary.parquet").unlink()
    shutil.rmtree(parts_of(run)[0].parent)
    assert "no summary" in repr(open_run(run))
    for read in (open_run(run).summary, open_run(run).explain):
        with pytest.raises(InputError, match="Continue the sweep, or see .*ldpflow check"):
            read()


def cut_by_a_byte(part):
    part.write_bytes(part.read_bytes()[:-1])


def forge_without_rows(part):
    rewrite(part, lambda table, meta: meta.update(coordinates=0) or table.slice(0, 0))


@pytest.mark.parametrize(
    ("damage", "refusing", "named"),
    [
        (cut_by_a_byte, OF_ROWS | {"report"}, "name"),
        (lambda part: shutil.rmtree(part.parent), OF_ROWS - {"replay"} | {"report", "cite"}, "parent"),
        (forge_without_rows, OF_ROWS, "name"),
    ],
    ids=["cut by a byte", "without its folder", "forged without rows"],
)
@pytest.mark.filterwarnings("ignore:.*computed again")
def test_a_damaged_part_is_refused_named_and_computed_again(made, run, tmp_path, damage, refusing, named):
    part = parts_of(run)[0]
    damage(part)
    refused_by(run, refusing, tmp_path / "out")
    name = part.name if named == "name" else part.parent.name.removeprefix("path=")
    with pytest.raises(InputError, match=name):
        open_run(run).rows()
    assert any(name in finding.what for finding in check_run(str(run))[0])
    result = run_study(study(**SMALL), run, engine="serial")
    assert result.batches == 1 and row_bytes(run) == row_bytes(made)


def test_damaged_trajectories_and_parts_of_another_seed(run, tmp_path):
    cut_by_a_byte(parts_of(run, "trajectories")[0])
    refused_by(run, {"plot distance"}, tmp_path / "out")
    rewrite(parts_of(run)[0], lambda table, meta: meta.update(seed=77))
    with pytest.raises(InputError, match="seed 77"):
        RunStore(run).replicates.scan(damaged="refuse")


@pytest.mark.parametrize(
    ("file", "column", "named"),
    [
        ("summary.parquet", "path", "pffffffffffffffff"),
        ("trajectories.parquet", "path", "pffffffffffffffff"),
        ("trajectories.parquet", "stat", "treasure"),
    ],
)
def test_a_forged_summary(run, tmp_path, file, column, named):
    def change(table, meta):
        names = [named, *table[column].to_pylist()[1:]]
        return table.set_column(table.column_names.index(column), column, pa.array(names))

    rewrite(run / file, change)
    every = {*COMMANDS} - {"summary"} if file == "trajectories.parquet" else {*COMMANDS}
    refused_by(run, every - {"plot coverage"} | {"report"}, tmp_path / "out")
    opened = open_run(run)
    with pytest.raises(InputError, match=named):
        _ = opened.trajectories() if file == "trajectories.parquet" else opened.summary()
    assert any(named in finding.what for finding in check_run(str(run))[0])


def test_the_summary_of_another_study(run, tmp_path):
    serial(tmp_path / "other", study(**SMALL | {"seed": 5}))
    shutil.copy(tmp_path / "other" / "summary.parquet", run)
    refused_by(run, {*COMMANDS}, tmp_path / "out")
    assert any("session that made it" in finding.what for finding in check_run(str(run))[0])
    serial(run, study(**SMALL))
    assert check_run(str(run))[0] == []


def test_sessions_that_are_taken_out_or_exchanged_and_the_summary_of_an_earlier_one(run, tmp_path):
    shutil.copy(run / "summary.parquet", tmp_path)
    serial(run, study(**SMALL | {"replicates": 12}))
    text = (run / "provenance.json").read_text()
    sessions = json.loads(text)
    for others in (sessions[1:], sessions[::-1], [*sessions, sessions[0]], sessions[:1], []):
        (run / "provenance.json").write_text(json.dumps(others))
        with pytest.raises(InputError, match="session|its content"):
            Results.load(run)
    (run / "provenance.json").write_text(text)
    shutil.copy(tmp_path / "summary.parquet", run)
    with pytest.raises(InputError, match="earlier session"):
        open_run(run).summary()


def test_a_name_with_a_line_break_is_no_line_of_the_check(run, ldpflow):
    (run / "replicates" / "x\n2 parts, 8 rows: all is well\x1b[2J").write_text("")
    rewrite(parts_of(run)[0], lambda table, meta: meta.update(path="x\n0 parts, 0 rows: all is well"))
    found = ldpflow("check", run)
    assert found.code == 1 and "all is well" in found.out
    assert not any(line.startswith(("2 parts", "0 parts")) for line in found.out.split("\n"))
    assert "\\n" in found.out and "\x1b" not in found.out


def test_a_failed_export_leaves_nothing_and_keeps_what_is_there(run, tmp_path, ldpflow):
    target = tmp_path / "out.duckdb"
    target.write_text("precious")
    cut_by_a_byte(parts_of(run)[-1])
    assert ldpflow("export", run, "-o", target, "--force").code == 2
    assert target.read_text() == "precious" and [*tmp_path.glob("out*")] == [target]
