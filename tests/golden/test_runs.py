"""Two studies that version 0.1.0 ran: their rows and summaries have the bits that it stored."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tomllib

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.special import ndtr

from ldpflow.cli import main
from ldpflow.engine.check import check_run
from ldpflow.engine.replay import replay
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.results.decomposition import DIAGNOSIS_COLUMNS
from ldpflow.results.summary import stored_summary, stored_trajectory_summary
from ldpflow.results.trajectories import read_trajectories
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.golden.make import HERE, as_text, canonical_rows, table_hash
from tests.oracles.rows_in_cells import cells_of
from tests.results.test_measures import JACKKNIFED, without_one

RUNS = HERE / "run-v1"
RUN_NAMES = ("one-pass", "finite-sum")
STORED = json.loads((HERE / "runs.json").read_text())
SUMMARIES = {"rows": "summary.parquet", "trajectories": "trajectories.parquet"}
MORE = 44


def sums_of_bits():
    """Hash of what the C library and SciPy return here for the functions that a diagnosis takes.

    Between seed and row there is none of them; the summary's diagnosis and theory's lines use them, and
    their last bits depend on version and processor.
    """
    x = np.arange(-400, 401) / 64.0
    values = [*ndtr(x).tolist(), float(np.sum(ndtr(x))), float(np.var(x * x))]
    values += [f(float(v)) for f in (math.exp, math.tanh) for v in x]
    values += [f(float(v)) for f in (math.log, math.sqrt) for v in x[401:]]
    values += [float(v) ** p for p in (0.3, 0.51, -0.6, 1.5) for v in x[401:]]
    return hashlib.sha256(" ".join(map(float.hex, values)).encode()).hexdigest()


def read_run(run):
    """Interval rows and trajectory rows of a run."""
    store = RunStore(run)
    return {
        "rows": store.replicates.read(damaged="refuse"),
        "trajectories": read_trajectories(store, damaged="refuse"),
    }


def summarise(run):
    """The two summaries of a run, computed from its rows."""
    store = RunStore(run)
    return {
        "rows": stored_summary(store, damaged="refuse"),
        "trajectories": stored_trajectory_summary(store, damaged="refuse"),
    }


def sweep(run, mapping):
    assert not run_study(Study.from_mapping(mapping), run, engine="serial").failed_batches


def study_of(name, **changes):
    return {**tomllib.loads((RUNS / name / "study.toml").read_text()), **changes}


@pytest.fixture(scope="module", params=RUN_NAMES)
def made(request, tmp_path_factory):
    """A run of one of the studies."""
    run = tmp_path_factory.mktemp("runs") / request.param
    sweep(run, study_of(request.param))
    return run


@pytest.fixture
def run(made, tmp_path):
    """A copy of it."""
    return shutil.copytree(made, tmp_path / made.name)


def assert_unchanged(run, up_to=None):
    """The rows of a run, or those of its first replicates, are the golden ones."""
    for kind, table in read_run(run).items():
        golden = STORED[run.name][kind]
        if up_to is not None:
            table = table.filter(pc.less(table["replicate"], up_to))
        assert table.num_rows == golden["count"]
        assert table_hash(table, golden["columns"]) == golden["sha256"]


def test_rows_have_the_stored_bits(run):
    assert_unchanged(run)
    assert check_run(str(run))[0] == []


def test_a_run_made_before_version_0_3_is_refused_with_one_message_and_left_alone(tmp_path, capsys):
    name = "one-pass"
    run = shutil.copytree(RUNS / name, tmp_path / "run")
    before = sorted(run.rglob("*"))
    for command in ("summary", "explain", "report", "export", "check", "cite"):
        more = ["-o", str(tmp_path / "out")] if command in ("report", "export") else []
        assert main([command, str(run), *more]) == 2, command
        captured = capsys.readouterr()
        assert "a version before 0.3" in captured.out + captured.err, command
    with pytest.raises(InputError, match="a version before 0.3"):
        sweep(run, study_of(name, replicates=MORE))
    assert sorted(file for file in run.rglob("*") if file.name != "tmp") == before


CHANGED = {f"{name}_mcse": name for name in JACKKNIFED}
"""The columns of the summary that later versions compute otherwise: by the delete-one jackknife."""


def depends_on_library(name):
    """Whether a column takes functions that are not the same bits on every machine."""
    return name.startswith("theory_") or name in DIAGNOSIS_COLUMNS


def assert_left_out_one_by_one(run, table, name):
    """A changed column of a summary, from the run's rows, by leaving out replicates literally."""
    keys, cells = cells_of(read_run(run)["rows"])
    names = keys.column_names
    literal = {}
    for key, cell in zip(keys.to_pylist(), cells, strict=True):
        kept = cell.finished()
        known = len(kept.ok) > 3 and (kept.has_se() or CHANGED[name] != "relative_error_model_se")
        literal[tuple(key.values())] = without_one(CHANGED[name], kept.estimate, kept.se) if known else None
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
    for kind, table in summarise(run).items():
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


def test_a_replicate_of_a_stored_run_is_computed_again_to_the_same_bits(run):
    keys = sorted(folder.name for folder in run.glob("*/path=p*"))
    for key in set(keys):
        computed, stored = replay(run, key.removeprefix("path=p"), 17)
        assert stored.num_rows > 0
        names = stored.column_names
        assert canonical_rows(computed, names) == canonical_rows(stored, names)


def test_a_stored_run_is_continued(run, tmp_path):
    study = study_of(run.name, replicates=MORE)
    sweep(run, study)
    assert_unchanged(run, up_to=36)
    assert check_run(str(run))[0] == []
    fresh = tmp_path / "fresh"
    sweep(fresh, study)
    for read in (read_run, summarise):
        for kind, expected in read(fresh).items():
            names = expected.column_names
            assert canonical_rows(read(run)[kind], names) == canonical_rows(expected, names)
    for kind, table in read_run(run).items():
        assert table.num_rows == STORED[run.name][kind]["count"] * MORE // 36
