"""Replicates that are computed again, to compare them with their stored rows or to see why they failed."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.engine.loop import error_text
from ldpflow.errors import InputError, LdpflowError
from ldpflow.results.trajectories import read_trajectories
from ldpflow.simulators.families import runnable_simulator
from ldpflow.simulators.rows import Batch, BatchResult, simulate
from ldpflow.simulators.simulator import Cell, PathPlan, by_runs
from ldpflow.store.dataset import Damaged
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATE_ROWS, cell_id
from ldpflow.study import Study
from ldpflow.study.reading import check_plugins
from ldpflow.study.stored import stored_study

MOST_PATHS = 20  # in the list of an error


def replay(
    run: str | os.PathLike[str],
    path_key: str | None,
    replicate: int,
    last: int | None = None,
    damaged: Damaged = "refuse",
) -> tuple[pa.Table, pa.Table]:
    """Compute replicates ``replicate`` to ``last`` of a path again. Returns computed and stored rows.

    Rows are in the order of the store. A path without intervals has trajectories in the place of rows. If
    the replicates have no stored rows, all cells of the path in the study are computed. Nothing is stored.

    ``path_key`` has the first digits of the path's key, with or without the p of the folder's name. None
    chooses the only path. ``last`` is ``replicate`` by default.
    """
    store = RunStore(run)
    end = (replicate if last is None else last) + 1
    if end <= replicate:
        raise InputError("last", last, f"at least {replicate}, the value of `replicate`")
    with store.named_errors():
        parts = store.replicates.scan(damaged=damaged)
        study = stored_study(store)
        check_plugins(store, readable=study is not None)
        key = key_of(store, path_key, study, [part.path_key for part in parts])
        stored = store.replicates.read(key, within=(replicate, end), damaged=damaged).drop_columns("path")
    here = [part for part in parts if part.path_key == key]
    plan, replicates = planned_path(study, key)
    if plan is not None and plan.checkpoints and not plan.cells and study is not None:
        return replay_trajectory(store, plan, study.seed, replicate, end, damaged)
    if stored.num_rows:
        simulator = runnable_simulator(here[0].meta["path_settings"])
        seed = int(here[0].meta["seed"])
        heads = stored.filter(pc.equal(stored["coordinate"], 0)).drop_columns("replicate")
        distinct = heads.group_by(list(REPLICATE_ROWS.row_keys(stored.schema)[1:])).aggregate([])
        cells = tuple(Cell.from_columns(row) for row in distinct.to_pylist())
    elif study is not None and plan is not None and end <= replicates:
        simulator, seed, cells = runnable_simulator(plan.simulator.settings()), study.seed, plan.cells
    else:
        count = max([replicates, *(part.last for part in here)])
        raise InputError("replicate", replicate, f"a replicate of the study or the store, 0 to {count - 1}")
    rows = []
    for runs, group in by_runs(cells).items():
        # Rows that each use several replicates are numbered from 0 to count - 1.
        count = last_row(stored, group) if stored.num_rows else replicates // runs
        until = end if runs == 1 else min(end, count)
        if replicate < until:
            rows.append(simulate_again(Batch(simulator, seed, replicate, until, group)).rows)
    computed = pa.concat_tables(rows, promote_options="default").combine_chunks()
    order = [(name, "ascending") for name in REPLICATE_ROWS.row_keys(computed.schema)]
    names = [name for name in computed.column_names if name in stored.column_names]
    return computed.select(names).sort_by(order), stored.select(names).sort_by(order)


def key_of(store: RunStore, given: str | None, study: Study | None, stored: Sequence[str]) -> str:
    """Key of the only path, stored or in the study, whose key begins with ``given``."""
    planned = [] if study is None else [plan.simulator.key for plan in study.plans()]
    known = list(dict.fromkeys([*sorted(stored), *planned]))
    found = [key for key in known if key.startswith((given or "").removeprefix("p"))]
    if len(found) == 1:
        return found[0]
    shown = found or known
    keys = ", ".join(f"p{key}" for key in shown[:MOST_PATHS]) + ", ..." * (len(shown) > MOST_PATHS)
    value = given and f"p{given.removeprefix('p')}"
    hint = f"It has {keys or 'no path'}. The settings of paths are in paths.parquet."
    raise InputError("path", value, f"the key of one path of {store.root}, or its first digits", hint)


def last_row(stored: pa.Table, cells: Sequence[Cell]) -> int:
    """One more than the number of the last stored row of these cells."""
    wanted = {cell_id(cell.columns()) for cell in cells}
    keys = list(REPLICATE_ROWS.row_keys(stored.schema)[1:-1])
    rows = zip(stored["replicate"].to_pylist(), stored.select(keys).to_pylist(), strict=True)
    return max((replicate + 1 for replicate, row in rows if cell_id(row) in wanted), default=0)


def replay_trajectory(
    store: RunStore, plan: PathPlan, seed: int, first: int, end: int, damaged: Damaged
) -> tuple[pa.Table, pa.Table]:
    """Compute trajectories of a path again. Returns computed and stored trajectories."""
    simulator = runnable_simulator(plan.simulator.settings())
    batch = Batch(simulator, seed, first, end, (), (), plan.checkpoints)
    computed = simulate_again(batch).trajectories
    assert computed is not None
    rows = read_trajectories(store, damaged=damaged)
    inside = pc.and_(pc.greater_equal(rows["replicate"], first), pc.less(rows["replicate"], end))
    here = pc.and_(pc.equal(rows["path"], f"p{plan.simulator.key}"), inside)
    wanted = pc.is_in(rows["step"], value_set=computed["step"].unique())
    stored = rows.filter(pc.and_(here, wanted)).drop_columns("path")
    order = [(name, "ascending") for name in ("replicate", "n", "step")]
    return computed.sort_by(order), stored.sort_by(order)


def simulate_again(batch: Batch) -> BatchResult:
    try:
        return simulate(batch)
    except Exception as error:
        where = f"replicates {batch.first} to {batch.last - 1} of p{batch.simulator.key}"
        raise LdpflowError(f"{where} fail: {error_text(error)}") from error


def planned_path(study: Study | None, key: str) -> tuple[PathPlan | None, int]:
    """Plan of a path in a study, and the number of its replicates. (None, 0) if the study lacks the path."""
    plans = [] if study is None else study.plans()
    found = next((plan for plan in plans if plan.simulator.key == key), None)
    return found, 0 if study is None or found is None else study.replicates


def equal_bits(computed: pa.Table, stored: pa.Table) -> bool:
    return [*map(repr, computed.to_pylist())] == [*map(repr, stored.to_pylist())]
