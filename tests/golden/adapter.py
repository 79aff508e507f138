"""The names inside ldpflow that the golden tests use: a change of layout edits this file alone."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ldpflow.cli import main as command_line
from ldpflow.engine.check import check_run
from ldpflow.engine.replay import replay as compute_again
from ldpflow.engine.run import run_study
from ldpflow.results.decomposition import DIAGNOSIS_COLUMNS
from ldpflow.results.summary import stored_summary, stored_trajectory_summary
from ldpflow.results.trajectories import read_trajectories
from ldpflow.simulators.rows import Batch, rows_schema, simulate
from ldpflow.simulators.simulator import by_runs
from ldpflow.store.part import PartMeta
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES, TRAJECTORIES, cell_id
from ldpflow.study import Study

__all__ = [
    "DIAGNOSIS_COLUMNS",
    "Planned",
    "Rows",
    "bundled_studies",
    "columns",
    "command_line",
    "continued",
    "findings",
    "plans_of",
    "read_run",
    "replayed",
    "summarised",
    "tiny_run",
    "write_part",
    "write_trajectory_part",
]

WORKFLOWS = Path(__file__).parents[2] / "workflows"


class Rows(NamedTuple):
    """Interval rows and trajectory rows; None where there are none of a kind."""

    rows: pa.Table | None
    trajectories: pa.Table | None


class Planned(NamedTuple):
    """A path of a study: its key, the ids of its cells, and the checkpoints of its trajectory."""

    key: str
    cells: list[str]
    checkpoints: list[int]


def columns(studies=()):
    """Names of the columns of interval rows and of trajectory rows.

    Behind those that every part has come further columns of the methods of these studies, by name.
    """
    names = list(REPLICATES.names)
    found = {
        name
        for mapping in studies
        for plan in Study.from_mapping(mapping).plans()
        for name in rows_schema(plan.cells).names
    }
    return {"rows": names + sorted(found - {*names}), "trajectories": list(TRAJECTORIES.names)}


def bundled_studies():
    """Files of the bundled studies, by name."""
    return {file.stem: file for file in sorted(WORKFLOWS.rglob("*.toml"))}


def plans_of(file):
    """What the study in a file wants, in the order of its paths."""
    study = Study.from_mapping(tomllib.loads(file.read_text()))
    return [
        Planned(plan.simulator.key, [cell_id(cell.columns()) for cell in plan.cells], list(plan.checkpoints))
        for plan in study.plans()
    ]


def tiny_run(mapping):
    """Every path of a study with its replicates in one batch: path key and rows.

    Cells whose rows are made of several replicates have a batch of their own.
    """
    study = Study.from_mapping(mapping)
    for plan in study.plans():
        grouped = by_runs(plan.cells) or {1: ()}
        checkpoints = plan.checkpoints
        tables, trajectories = [], None
        for runs, cells in sorted(grouped.items()):
            made = simulate(
                Batch(plan.simulator, study.seed, 0, study.replicates // runs, cells, (), checkpoints)
            )
            tables.append(made.rows)
            trajectories, checkpoints = trajectories or made.trajectories, ()
        rows = pa.concat_tables(tables, promote_options="default") if plan.cells else None
        yield plan.simulator.key, Rows(rows, trajectories)


def write_part(run, key, rows, settings):
    """Write interval rows as a part with fixed metadata; the file."""
    store = RunStore(run)
    table = pa.Table.from_pylist(rows, schema=REPLICATES)
    return Path(store.full(store.replicates.write(key, table, fixed_meta(settings))))


def write_trajectory_part(run, key, checkpoints, rows, settings):
    """Write trajectory rows as a part with fixed metadata; the file."""
    store = RunStore(run)
    table = pa.Table.from_pylist(rows, schema=TRAJECTORIES)
    cells = [{"checkpoints": checkpoints}]
    name = store.trajectories.write(key, table, fixed_meta(settings), cells)
    return Path(store.full(name))


def fixed_meta(settings):
    return PartMeta(seed=7, stream_version=1, path_settings=settings, versions={"ldpflow": "0", "numpy": "0"})


def read_run(run):
    """All stored rows of a run."""
    store = RunStore(run)
    return Rows(store.replicates.read(damaged="refuse"), read_trajectories(store, damaged="refuse"))


def summarised(run):
    """The two summaries of a run, computed from its rows."""
    store = RunStore(run)
    return Rows(stored_summary(store, damaged="refuse"), stored_trajectory_summary(store, damaged="refuse"))


def findings(run):
    """What a check of the run finds."""
    return [finding.what for finding in check_run(str(run))[0]]


def continued(run, mapping):
    """Compute what a run lacks of a study, in this process."""
    result = run_study(Study.from_mapping(mapping), run, engine="serial")
    assert not result.failed_batches


def replayed(run, key, replicate):
    """One replicate of a path computed again, and as stored."""
    return compute_again(run, key, replicate)
