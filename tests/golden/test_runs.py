"""Two studies that version 0.1.0 ran: their rows and summaries have the bits that it stored."""

import json
import math
import shutil
import tomllib

import pyarrow.parquet as pq
import pytest

from ldpflow.cli import main
from ldpflow.engine.check import check_run
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.results.decomposition import DIAGNOSIS_COLUMNS
from ldpflow.results.summary import stored_summary, stored_trajectory_summary
from ldpflow.results.trajectories import read_trajectories
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.golden.make import HERE, as_text, table_hashes
from tests.results.test_measures import JACKKNIFED

RUNS = HERE / "run-v1"
RUN_NAMES = ("one-pass", "finite-sum")
STORED = json.loads((HERE / "runs.json").read_text())


def sweep(run, mapping):
    assert not run_study(Study.from_mapping(mapping), run, engine="serial").failed_batches


def study_of(name, **changes):
    return {**tomllib.loads((RUNS / name / "study.toml").read_text()), **changes}


@pytest.fixture(scope="module", params=RUN_NAMES)
def run(request, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / request.param
    sweep(run, study_of(request.param))
    return run


def test_rows_have_the_stored_bits(run):
    store = RunStore(run)
    rows, trajectories = store.replicates.read(damaged="refuse"), read_trajectories(store, damaged="refuse")
    for kind, table in (("rows", rows), ("trajectories", trajectories)):
        golden = STORED[run.name][kind]
        found = table_hashes(table, golden["columns"])
        assert (found["count"], found["sha256"]) == (golden["count"], golden["sha256"])
    assert check_run(str(run))[0] == []


def test_a_run_made_before_version_0_3_is_refused_with_one_message_and_left_alone(tmp_path, capsys):
    name = "one-pass"
    run = shutil.copytree(RUNS / name, tmp_path / "run")
    before = sorted(run.rglob("*"))
    for command in ("summary", "check"):
        assert main([command, str(run)]) == 2, command
        captured = capsys.readouterr()
        assert "a version before 0.3" in captured.out + captured.err, command
    with pytest.raises(InputError, match="a version before 0.3"):
        sweep(run, study_of(name, replicates=44))
    assert sorted(file for file in run.rglob("*") if file.name != "tmp") == before


CHANGED = {f"{name}_mcse": name for name in JACKKNIFED}
"""The columns of the summary that later versions compute otherwise: by the delete-one jackknife."""


def depends_on_library(name):
    return name.startswith("theory_") or name in DIAGNOSIS_COLUMNS


def close(ours, stored):
    if isinstance(ours, float) and isinstance(stored, float):
        return math.isclose(ours, stored, rel_tol=1e-9, abs_tol=1e-12)
    return ours == stored


@pytest.mark.parametrize(
    ("summarise", "file"),
    [(stored_summary, "summary.parquet"), (stored_trajectory_summary, "trajectories.parquet")],
)
def test_the_summary_of_a_stored_run_has_the_same_bits(run, summarise, file):
    table = summarise(RunStore(run), damaged="refuse")
    stored = pq.read_table(RUNS / run.name / file)
    assert table.num_rows == stored.num_rows
    for name in stored.column_names:
        ours, theirs = table[name].to_pylist(), stored[name].to_pylist()
        if name in CHANGED:
            assert [x is None for x in ours] == [x is None for x in theirs]
        elif depends_on_library(name):
            assert all(map(close, ours, theirs)), name
        else:
            assert [*map(as_text, ours)] == [*map(as_text, theirs)], name
