"""Parts of trajectories: the same bits through Ray, after a stop, after damage; nothing is lost."""

import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from ldpflow.engine import batching
from ldpflow.engine.check import check_run, repair_run
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.results.trajectories import read_trajectories
from ldpflow.store.part import PartMeta
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.faults.study import rewrite
from tests.studies import changed

STUDY = changed(
    seed=8, problem={"kind": "quadratic", "curvatures": [[0.3, 1.0]]},
    mechanism={"kind": "gaussian", "mu": [1.0, 2.0]},
    grid={"n": 300}, trajectory={"points": 4}, method=[{"kind": "BM"}],
)  # fmt: skip


@pytest.fixture(autouse=True)
def several_parts(monkeypatch):
    """Batches as small as they get: four parts per path."""
    monkeypatch.setattr(batching, "TARGET_SECONDS", 1e-9)


def part_names(run):
    return [part.name for part in RunStore(run).trajectories.scan(damaged="refuse")]


def sweep(out, study=STUDY, **options):
    run_study(Study.from_mapping(study), out, **{"engine": "serial", **options})
    return read_trajectories(RunStore(out), damaged="refuse")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "TARGET_SECONDS", 1e-9)
        sweep(folder / "run")
        sweep(folder / "other", {**STUDY, "seed": 9})
    assert len(part_names(folder / "run")) == 8
    return folder


def same(run, whole):
    stores = RunStore(run), RunStore(whole / "run")
    rows = [read_trajectories(store, damaged="refuse") for store in stores]
    summaries = [store.read_trajectory_summary() for store in stores]
    return rows[0].equals(rows[1]) and summaries[0].equals(summaries[1]) and check_run(str(run))[0] == []


def test_a_stopped_sweep_goes_on_where_it_was(whole, tmp_path):
    seen = []
    stop = {"on_event": seen.append, "should_stop": lambda: "enough" if len(seen) > 2 else None}
    sweep(tmp_path, **stop)
    before = {name: RunStore(tmp_path).read(name) for name in part_names(tmp_path)}
    assert 0 < len(before) < 8
    sweep(tmp_path)
    assert same(tmp_path, whole)
    assert all(RunStore(tmp_path).read(name).equals(data) for name, data in before.items())


def test_paths_without_steps_to_follow_count_their_replicates(tmp_path):
    protocol = {"kind": "haar", "epsilon": 1.0, "range": [-8.0, 8.0]}
    study = {name: STUDY[name] for name in ("name", "seed", "grid", "trajectory")} | {
        "replicates": 8, "problem": {"kind": "quantile"}, "protocol": protocol,
        "method": [{"kind": "inversion"}],
    }  # fmt: skip
    result = run_study(Study.from_mapping(study), tmp_path, engine="serial")
    assert (result.finished_replicates, result.done_replicates) == (8, 8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("replaced", [True, False])
def test_a_damaged_part_is_set_aside_and_computed_again(replaced, whole, tmp_path):
    """By another study's part of that very name, in a sweep; missing, by a repair.

    tests/store/test_damage.py has more kinds, of parts of intervals.
    """
    run = tmp_path / "run"
    shutil.copytree(whole / "run", run)
    part = sorted(run.glob("trajectories/*/part-32-64-*.parquet"))[0]
    part.unlink()
    if replaced:
        (other,) = (whole / "other").glob(f"*/{part.parent.name}/{part.name}")
        shutil.copy(other, part)
    findings, _ = check_run(str(run))
    # What cannot be used is named as it is computed again.
    with warnings.catch_warnings(record=True) as named:
        warnings.simplefilter("always")
        if replaced:
            assert any(name.startswith("trajectories/path=") for f in findings for name in f.bad)
            sweep(run)
        else:
            assert any("replicates missing: 32 to 63" in f.what for f in findings)
            repair_run(str(run), engine="serial")
    said = [str(warning.message) for warning in named]
    assert replaced == any("trajectories/path=" in text and "is computed again" in text for text in said)
    assert same(run, whole)
    assert len(list(run.glob("set_aside/trajectories/*/*.parquet"))) == replaced


def test_a_negative_square_is_found(whole, tmp_path):
    run = shutil.copytree(whole / "run", tmp_path / "run")

    def negate(table, meta):
        at = table.column_names.index("last_sq")
        return table.set_column(at, table.schema.field(at), pc.negate(table["last_sq"]))

    rewrite(min((run / "trajectories").rglob("*.parquet")), negate)
    assert any("last_sq is negative" in finding.what for finding in check_run(str(run))[0])


def test_two_values_of_a_row_are_refused(whole, tmp_path):
    shutil.copytree(whole / "run", tmp_path / "run")
    store = RunStore(tmp_path / "run")
    part = store.trajectories.scan(damaged="refuse")[0]
    file = Path(store.full(part.name))
    table = pq.read_table(file)
    at = table.schema.get_field_index("last_sq")
    changed = table.set_column(at, "last_sq", pa.array([0.0] * table.num_rows))
    # The same replicates under another set of checkpoints that shares some of them.
    users = [*part.meta["checkpoints"][:3], 299]
    n = pa.array([users[i % 4] for i in range(table.num_rows)], pa.int64())
    changed = changed.set_column(1, "n", n).set_column(2, "step", n)
    meta = PartMeta(8, part.meta["stream_version"], part.meta["path_settings"], {})
    store.trajectories.write(part.path_key, changed, meta, [{"checkpoints": users}])
    with pytest.raises(InputError, match="two values of last_sq"):
        read_trajectories(store, damaged="refuse")
