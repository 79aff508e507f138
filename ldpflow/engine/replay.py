"""Computing replicates again, to compare them with their stored rows or to see why they failed."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.columns import distinguishing_columns
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

MOST_PATHS = 20  # that an error lists


def replay(
    run: str | os.PathLike[str],
    path_key: str | None,
    replicate: int,
    last: int | None = None,
    damaged: Damaged = "refuse",
) -> tuple[pa.Table, pa.Table]:
    """Rows of replicates ``replicate`` to ``last`` of a path: computed again, and as stored.

    They have the store's schema and order, or are trajectories of a path without intervals. The replay
    succeeds if both are equal bit for bit. For replicates without rows all cells of the study are computed.
    Nothing is stored. ``path_key``: first digits of the path's key, with or without the p of the folder;
    None: the only path.
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
        raise InputError("replicate", replicate, f"a stored replicate, 0 to {count - 1}")
    rows = []
    for runs, group in by_runs(cells).items():
        # Cells whose rows take several replicates have fewer rows, also numbered from 0.
        count = last_row(stored, group) if stored.num_rows else replicates // runs
        until = end if runs == 1 else min(end, count)
        if replicate < until:
            rows.append(simulate_again(Batch(simulator, seed, replicate, until, group)).rows)
    computed = pa.concat_tables(rows, promote_options="default").combine_chunks()
    order = [(name, "ascending") for name in REPLICATE_ROWS.row_keys(computed.schema)]
    names = [name for name in computed.column_names if name in stored.column_names]
    return computed.select(names).sort_by(order), stored.select(names).sort_by(order)


def key_of(store: RunStore, given: str | None, study: Study | None, stored: Sequence[str]) -> str:
    """The key of a path, stored or in the study, that begins like the given one; refuses none or several."""
    known: dict[str, str] = dict.fromkeys(sorted(stored), "")
    if study is not None:
        keys = (plan.simulator.key for plan in study.plans())
        known |= zip(keys, settings_apart(study), strict=True)
    found = [key for key in known if key.startswith((given or "").removeprefix("p"))]
    if len(found) == 1:
        return found[0]
    shown = found or list(known)
    lines = "".join(f"\n  p{key}  {known[key]}".rstrip() for key in shown[:MOST_PATHS])
    more = f"\n  and {len(shown) - MOST_PATHS} more" if len(shown) > MOST_PATHS else ""
    value = given and f"p{given.removeprefix('p')}"
    raise InputError(
        "path", value, f"the key of one path of {store.root}, or its first digits", f"It has:{lines}{more}"
    )


def settings_apart(study: Study) -> list[str]:
    """Settings of each path that distinguish it from the others."""
    columns = [plan.simulator.columns() for plan in study.plans()]
    names = [*dict.fromkeys(name for c in columns for name in c)]
    varying = distinguishing_columns(names, columns)
    return [" ".join(f"{name}={c[name]}" for name in varying if c.get(name) is not None) for c in columns]


def last_row(stored: pa.Table, cells: Sequence[Cell]) -> int:
    """One more than the number of the last stored row of these cells."""
    wanted = {cell_id(cell.columns()) for cell in cells}
    keys = list(REPLICATE_ROWS.row_keys(stored.schema)[1:-1])
    rows = zip(stored["replicate"].to_pylist(), stored.select(keys).to_pylist(), strict=True)
    return max((replicate + 1 for replicate, row in rows if cell_id(row) in wanted), default=0)


def replay_trajectory(
    store: RunStore, plan: PathPlan, seed: int, first: int, end: int, damaged: Damaged
) -> tuple[pa.Table, pa.Table]:
    """Trajectories of a path without intervals: computed again, and as stored."""
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
    """Simulate a batch; an error names it."""
    try:
        return simulate(batch)
    except Exception as error:
        where = f"replicates {batch.first} to {batch.last - 1} of p{batch.simulator.key}"
        raise LdpflowError(f"{where} fail: {error_text(error)}") from error


def planned_path(study: Study | None, key: str) -> tuple[PathPlan | None, int]:
    """A study's plan of a path, and its replicates; (None, 0) without one."""
    plans = [] if study is None else study.plans()
    found = next((plan for plan in plans if plan.simulator.key == key), None)
    return found, 0 if study is None or found is None else study.replicates


def equal_bits(computed: pa.Table, stored: pa.Table) -> bool:
    """Whether two tables of :func:`replay` are equal, every bit of every number; NaN equals NaN."""
    return [*map(repr, computed.to_pylist())] == [*map(repr, stored.to_pylist())]
