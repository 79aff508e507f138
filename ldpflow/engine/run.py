"""Running a study: what is missing is simulated, stored and summarised."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ldpflow.cell import Cell, PathPlan
from ldpflow.engine.batching import GRID, Missing, cut
from ldpflow.engine.events import Listener, RunResult
from ldpflow.engine.executor import Executor
from ldpflow.engine.loop import Tally, drive
from ldpflow.engine.precision import Precision, Round, ahead, rounds
from ldpflow.engine.serial import SerialExecutor
from ldpflow.errors import InputError
from ldpflow.path import Path
from ldpflow.simulate import Batch, simulate
from ldpflow.store import Aggregator, RunLock, RunStore, Session, trajectories
from ldpflow.store.ranges import intersect, subtract
from ldpflow.study import Study
from ldpflow.summary import stored_summary, trajectory_summary_of

__all__ = ["replay", "run_study", "summarise_run"]

ENGINES = ("ray", "serial")


def run_study(
    study: Study,
    out: str | os.PathLike[str],
    *,
    engine: str = "ray",
    address: str | None = None,
    num_cpus: int | None = None,
    on_event: Listener | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    verbose: bool = False,
    precision: Precision | None = None,
) -> RunResult:
    """Compute what ``out`` lacks of the study, and its summary.

    Parameters
    ----------
    study : Study
    out : path or URI
        The run directory; what it holds already is kept and used.
    engine : {"ray", "serial"}
    address : str, optional
        A Ray cluster's address; a local Ray is started without it.
    num_cpus : int, optional
        Cores of the local Ray.
    on_event : callable, optional
        Told the progress after every batch.
    should_stop : callable
        Asked between batches; once true the run ends with what is finished on disk.
    verbose : bool
        Let Ray's log lines through.
    precision : Precision, optional
        Add replicates until every cell is this precise, instead of ``study.replicates``.

    Raises
    ------
    InputError
        If the run directory cannot be used, is in use, or belongs to another seed.
    """
    if engine not in ENGINES:
        raise InputError("--engine", engine, f"one of {', '.join(ENGINES)}")
    if engine == "serial" and address is not None:
        raise InputError("--address", address, "nothing with --engine serial")
    started = time.monotonic()
    store = RunStore(out)
    with RunLock(store) as lock:
        if lock.took_over is not None:
            holder = lock.took_over
            warnings.warn(
                f"{store.root}: took over the lock of process {holder.get('pid')} on "
                f"{holder.get('host')}, which is dead",
                stacklevel=2,
            )
        check_seed(store, study.seed)
        session = Session(store, study.seed)
        session.start()
        store.publish("study.toml", study.to_toml().encode())
        if precision is not None and not study.method:
            raise InputError("--target-mcse", precision, "a study with interval methods")
        if precision is None:
            missing = [gap for plan in study.plans() for gap in gaps(store, plan, study.replicates)]
            todo = iter([Round([missing])] if missing else [])
        else:
            todo = rounds(store, study.plans(), precision, gaps)
        tally = Tally()
        executor: Executor | None = None
        try:
            for step in todo:
                executor = executor or executor_for(engine, store, address, num_cpus, verbose)
                batches = [b for m in step.missing for b in cut(m, study.seed, executor.cores)]
                listener = ahead(on_event, started, tally.steps, step.steps_left)
                tally.add(drive(batches, executor, listener, should_stop))
                if tally.stopped or tally.failed:
                    break
        finally:
            if executor is not None:
                executor.close()
        summary = summarise_run(store)
        session.end(
            {key: 1e9 * seconds / steps for key, (seconds, steps) in tally.by_path.items()},
            engine=engine,
            kernel_cpu_seconds=round(tally.kernel_seconds, 3),
            batch_cpu_seconds=round(tally.batch_seconds, 3),
            interrupted=tally.stopped,
            failed_batches=len(tally.failed),
            **({} if precision is None else {"precision": asdict(precision)}),
        )
        followed = summarise_trajectories(store)
    counts = summary["replicates"] if followed is None or summary.num_rows else followed["replicates"]
    rows = pc.sum(summary["replicates"]).as_py() or 0
    failures = pc.sum(summary["failures"]).as_py() or 0
    return RunResult(
        out=store.root,
        finished_replicates=pc.min(counts).as_py() or 0,
        failures=failures,
        failed_share=failures / rows if rows else 0.0,
        wall_seconds=time.monotonic() - started,
        interrupted=tally.stopped,
        failed_batches=[f"{described(o.batch)}: {o.error}" for o in tally.failed],
    )


def described(batch: Batch) -> str:
    """A batch in words that can be typed."""
    return f"--path p{batch.path.key}, replicates {batch.first} to {batch.last - 1}"


def check_seed(store: RunStore, seed: int) -> None:
    """Refuse a run directory whose rows come from another seed."""
    parts, _ = store.scan()
    told = [part.meta for part in parts] + list(trajectories.trajectory_settings(store).values())
    for meta in told:
        if meta["seed"] != seed:
            raise InputError(
                "seed",
                seed,
                f"{meta['seed']}, the seed of the rows in {store.root}",
                "Choose another --out for another seed.",
            )


def gaps(store: RunStore, plan: PathPlan, replicates: int) -> list[Missing]:
    """What a path lacks: adjacent blocks that lack the same cells together."""
    columns = [cell.columns() for cell in plan.cells]
    found: list[Missing] = []
    untold = (
        subtract(0, replicates, trajectories.finished(store, plan.path.key, plan.checkpoints))
        if plan.checkpoints
        else []
    )
    for block in store.missing(plan.path.key, columns, replicates, GRID):
        cells = tuple(Cell.from_columns(dict(c)) for c in block.cells)
        if found and found[-1].last == block.first and found[-1].cells == cells:
            found[-1] = Missing(plan.path, found[-1].first, block.last, cells)
        else:
            found.append(Missing(plan.path, block.first, block.last, cells))
    together = [m for m in found if intersect(untold, m.first, m.last) == [(m.first, m.last)]]
    alone = untold
    for m in together:
        alone = [part for a, b in alone for part in subtract(a, b, [(m.first, m.last)])]
    return [
        *(replace(m, checkpoints=plan.checkpoints if m in together else ()) for m in found),
        *(Missing(plan.path, a, b, (), plan.checkpoints) for a, b in alone),
    ]


def executor_for(
    engine: str, store: RunStore, address: str | None, num_cpus: int | None, verbose: bool
) -> Executor:
    """The executor that a user asked for."""
    if engine == "serial":
        return SerialExecutor(Aggregator(store))
    from ldpflow.engine.cluster import RayExecutor

    root = os.path.abspath(store.root) if store.local else store.root
    return RayExecutor(partial(Aggregator, root), address, num_cpus, verbose=verbose)


def summarise_run(store: RunStore) -> pa.Table:
    """Compute summary.parquet from the stored rows and write it."""
    summary = stored_summary(store)
    store.write_summary(summary)
    return summary


def summarise_trajectories(store: RunStore) -> pa.Table | None:
    """Compute trajectories.parquet from the stored trajectories and write it, if there are any."""
    told = trajectories.trajectory_settings(store)
    if not told:
        return None
    paths = {f"p{key}": Path.from_settings(meta["path_settings"]) for key, meta in told.items()}
    table = trajectory_summary_of(trajectories.read(store), paths)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    store.publish("trajectories.parquet", sink.getvalue())
    return table


def replay(
    run: str | os.PathLike[str], path_key: str, replicate: int
) -> tuple[pa.Table, pa.Table]:
    """Compute one replicate of a path again.

    Returns
    -------
    computed, stored : pyarrow.Table
        Rows in the store's schema and order; equal bit for bit if all is well.

    Raises
    ------
    InputError
        If the run has no such path or replicate.
    """
    store = RunStore(run)
    key = path_key.removeprefix("p")
    parts, _ = store.scan()
    keys = sorted({part.path_key for part in parts})
    if key not in keys:
        known = ", ".join(f"p{k}" for k in keys[:5]) or "none"
        raise InputError("--path", path_key, f"a path of {store.root}", f"It has: {known}.")
    here = [p for p in parts if p.path_key == key]
    stored = store.read_rows(key)
    stored = stored.filter(pc.equal(stored["replicate"], replicate)).drop_columns("path")
    if stored.num_rows == 0:
        last = max(part.last for part in here) - 1
        raise InputError("--replicate", replicate, f"a stored replicate, 0 to {last}")
    path = Path.from_settings(here[0].meta["path_settings"])
    heads = stored.filter(pc.equal(stored["coordinate"], 0))
    cells = tuple(Cell.from_columns(row) for row in heads.to_pylist())
    batch = Batch(path, int(here[0].meta["seed"]), replicate, replicate + 1, cells)
    computed = simulate(batch).rows
    order = [("n", "ascending"), ("method", "ascending")]
    order += [(name, "ascending") for name in ("beta", "B", "multiplier", "M", "level")]
    order += [("coordinate", "ascending")]
    return computed.sort_by(order), stored.select(computed.column_names).sort_by(order)
