"""Running a study: what is missing is simulated, stored and summarised."""

from __future__ import annotations

import os
import shlex
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.engine.batching import cut
from ldpflow.engine.choice import (
    busy_machine,
    chosen_engine,
    cores_of,
    python_seconds_of,
    seconds_of,
)
from ldpflow.engine.events import Listener, Phase, Planned, RunResult
from ldpflow.engine.executor import Executor, Outcome, ThreadExecutor
from ldpflow.engine.growth import declare_columns, gaps, planned, usable_parts
from ldpflow.engine.loop import Stop, Tally, drive, never
from ldpflow.engine.precision import Precision, Round, ahead, rounds
from ldpflow.engine.reached import reached
from ldpflow.errors import EngineLost, InputError, address_limit
from ldpflow.kernels.cache import cache_folder
from ldpflow.options import SweepOptions
from ldpflow.results.summary import stored_summary, stored_trajectory_summary
from ldpflow.store import (
    Aggregator,
    RunLock,
    RunStore,
    Session,
    UnreadablePart,
)
from ldpflow.store.dataset import crowded
from ldpflow.store.provenance import read_sessions
from ldpflow.study import Study
from ldpflow.study.plugins import plugins_of, sources_of

FEW_THREADS, MANY_ADDRESSES = 2, 2 * 2**30  # 8 threads ran out of addresses at 1.25 GiB; 32 did not at 2


def run_study(
    study: Study,
    out: str | os.PathLike[str],
    options: SweepOptions | None = None,
    *,
    on_engine: Callable[[str], None] | None = None,
    on_event: Listener | None = None,
    on_plan: Callable[[list[Planned]], None] | None = None,
    on_phase: Phase | None = None,
    should_stop: Stop = never,
    **given: Any,
) -> RunResult:
    """Compute what ``out`` lacks of the study, and its summary.

    Parameters
    ----------
    study : Study
    out : path or URI
        The run directory; what it holds already is kept and used.
    options : SweepOptions, optional
        ``max_time`` and ``max_memory`` are for ``should_stop``.
    on_engine : callable, optional
        Called with a line on the engine that was chosen, and why, before it starts.
    on_event : callable, optional
        Called with the progress after every batch.
    on_phase : callable, optional
        Called with what is waited for other than batches: Ray, the summary.
    on_plan : callable, optional
        Called once, before the first batch, with what is there and what is to be computed.
    should_stop : callable
        Asked at least twice a second for a reason to stop, or None; once there is one the run ends
        within seconds with what is finished on disk.
    given
        Options by name, in the place of ``options``.

    Raises
    ------
    InputError
        If the run directory cannot be used, is in use, or holds another study.
    StorageError
        If it cannot be read or written just now, as on a full disk.
    """
    options = options or SweepOptions(**given)
    precision = Precision.of(options)
    started = time.monotonic()
    store = RunStore(out)
    with store.named_errors():
        store.check_place()
    cache_folder()  # one that cannot be used is bad input, not a failure of every batch
    if options.fresh and (moved := moved_aside(store)) is not None:
        warnings.warn(f"{store.root}: the old run was moved to {moved}", stacklevel=2)
    with store.named_errors(), RunLock(store) as lock:
        warn_of_takeover(store, lock)
        store.clear_unfinished()
        if precision is not None and not study.method:
            raise InputError("target_mcse", precision, "a study with interval methods")
        session = begin(store, study)
        start = partial(executor_for, store, options, on_engine, on_phase)
        work = partial(fill, store, study, precision, start, started, on_phase)
        tally, summary, followed = complete(store, work, on_plan, on_event, on_phase, should_stop)
        end(session, tally, options.engine, precision)
    found = reached(study, summary, followed)
    if tally.lost is not None:
        raise EngineLost(
            f"{tally.lost}. {found['done_replicates']:,} of {found['wanted_replicates']:,} replicates are "
            f"stored and summarised in {store.root}; run the same command again to continue"
        )
    rows = pc.sum(summary["replicates"]).as_py() or 0
    failures = pc.sum(summary["failures"]).as_py() or 0
    return RunResult(
        out=store.root,
        failures=failures,
        failed_share=failures / rows if rows else 0.0,
        wall_seconds=time.monotonic() - started,
        stopped=tally.stopped,
        failed_batches=[described(store, outcome) for outcome in tally.failed],
        batches=tally.batches,
        **found,
    )


def warn_of_takeover(store: RunStore, lock: RunLock) -> None:
    """Say that the lock was that of a dead process, if it was."""
    if lock.took_over is not None:
        holder = lock.took_over
        warnings.warn(
            f"{store.root}: took over the lock of process {holder.get('pid')} on "
            f"{holder.get('host')}, which is dead",
            stacklevel=3,
        )


def begin(store: RunStore, study: Study) -> Session:
    """Write the study, its plug-ins and a session, before the first row of a run."""
    read_sessions(store)  # refuses a run of another version before anything in it is moved
    declare_columns(store, study, usable_parts(store, study))
    session = Session(store, study.seed)
    session.start()
    store.write_study(study.to_toml())
    for plugin in plugins_of(study.components()):
        for path, text in plugin.files:
            store.publish(f"{plugin.folder()}/{path}", text.encode())
    return session


def end(session: Session, tally: Tally, engine: str, precision: Precision | None) -> None:
    """Write how a session went."""
    session.end(
        {key: 1e9 * seconds / steps for key, (seconds, steps) in tally.by_path.items()},
        engine=engine,
        kernel_cpu_seconds=round(tally.kernel_seconds, 3),
        batch_cpu_seconds=round(tally.batch_seconds, 3),
        interrupted=tally.stopped is not None,
        stopped=tally.stopped,
        failed_batches=len(tally.failed),
        **({} if precision is None else {"precision": asdict(precision)}),
    )


def complete(
    store: RunStore,
    work: Callable[[Callable[[list[Planned]], None] | None, Listener | None, Stop], Tally],
    on_plan: Callable[[list[Planned]], None] | None,
    on_event: Listener | None,
    on_phase: Phase | None,
    should_stop: Stop,
) -> tuple[Tally, pa.Table, pa.Table]:
    """Do the work and summarise it; once more, if stored parts turn out to be unreadable."""
    tally = work(on_plan, on_event, should_stop)
    if on_phase is not None:
        on_phase("summarising the rows")
    summary, damaged = summarised(store)
    followed, lost = summarised_trajectories(store)
    damaged += lost
    if damaged and tally.stopped is None:
        # Their footers were whole, so they counted as done.
        for part in damaged:
            store.set_aside(part)
            warnings.warn(f"{store.full(part.name)} is computed again: {part.reason}", stacklevel=3)
        tally = work(None, on_event, should_stop)
        summary, _ = summarised(store)
        followed, _ = summarised_trajectories(store)
    return tally, summary, followed


def moved_aside(store: RunStore) -> str | None:
    """Move an old run away, unless a sweep is writing to it; its new name."""
    with store.named_errors():
        if not store.holds_run():
            return store.move_aside()
        with RunLock(store):
            return store.move_aside()


def fill(
    store: RunStore,
    study: Study,
    precision: Precision | None,
    start: Callable[[float, float], Executor],
    started: float,
    on_phase: Phase | None,
    on_plan: Callable[[list[Planned]], None] | None,
    on_event: Listener | None,
    should_stop: Stop,
) -> Tally:
    """Compute what is missing: all of it, or round by round until it is precise enough."""
    if precision is None:
        missing = [gap for plan in study.plans() for gap in gaps(store, plan, study.replicates)]
        if on_plan is not None:
            on_plan(planned(study, missing))
        todo = iter([Round([missing])] if missing else [])
    else:
        todo = rounds(store, study.plans(), precision, gaps)
    tally = Tally()
    executor: Executor | None = None
    try:
        for step in todo:
            executor = executor or start(seconds_of(step), python_seconds_of(step))
            batches = cut(step.missing, study.seed, executor.cores)
            listener = ahead(on_event, started, tally.steps, step.steps_left)
            tally.add(drive(batches, executor, listener, should_stop, on_phase))
            if tally.stopped is not None or tally.failed:
                break
    except EngineLost as error:
        tally.stopped = tally.lost = str(error)
    finally:
        if executor is not None:
            executor.close()
    return tally


def described(store: RunStore, outcome: Outcome) -> str:
    """A failed batch, why it failed, and what to type to see it again."""
    batch = outcome.batch
    last = batch.last - 1
    command = f"ldpflow replay {shlex.quote(store.root)} --path p{batch.simulator.key}"
    components = [*batch.simulator.parts().values(), *(cell.method for cell in batch.cells)]
    plugins = "".join(f" --plugin {shlex.quote(source)}" for source in sources_of(components))
    return (
        f"path p{batch.simulator.key}, replicates {batch.first} to {last}: {outcome.error}\n"
        f"  {command} --replicate {batch.first} --last {last}{plugins}"
    )


def executor_for(
    store: RunStore,
    options: SweepOptions,
    on_engine: Callable[[str], None] | None = None,
    on_phase: Phase | None = None,
    seconds: float = 0.0,
    python_seconds: float = 0.0,
) -> Executor:
    """The executor that a user asked for, or the one that suits the expected CPU time."""
    engine, address = options.engine, options.address
    cores = cores_of(engine, options.num_cpus)
    if engine == "auto" and address is not None:
        engine = "ray"
    elif engine == "auto":
        engine, why = chosen_engine(seconds, cores, python_seconds)
        if on_engine is not None:
            on_engine(why)
    if engine != "ray":
        if cores > FEW_THREADS and (limit := address_limit()) < MANY_ADDRESSES:
            allowed = f"at most {FEW_THREADS} threads with a limit of {limit / 2**30:.2f} GiB (ulimit -v)"
            raise InputError("num_cpus", cores, allowed, "More of them need 2 GiB of addresses.")
        return ThreadExecutor(Aggregator(store), cores)
    from ldpflow.engine.ray_executor import RayExecutor

    if address is None and on_engine is not None and (busy := busy_machine(options.nice)) is not None:
        on_engine(busy)
    if on_phase is not None:
        on_phase("starting Ray" if address is None else f"joining the Ray cluster at {address}")
    return RayExecutor(partial(Aggregator, store), options, store.root)


def summarise_run(store: RunStore) -> pa.Table:
    """Compute summary.parquet from the stored rows and write it."""
    return summarised(store)[0]


def summarised_trajectories(store: RunStore) -> tuple[pa.Table, list[UnreadablePart]]:
    """Write trajectories.parquet, if there are any; it, and the parts that turned out to be unreadable."""
    damaged: list[UnreadablePart] = []
    table = stored_trajectory_summary(store, damaged=damaged)
    if table.num_rows:
        store.write_trajectory_summary(table)
    return table, damaged


def summarised(store: RunStore) -> tuple[pa.Table, list[UnreadablePart]]:
    """Write the summary; it, and the parts whose rows turned out to be unreadable."""
    parts = store.replicates.scan(damaged=[])
    damaged: list[UnreadablePart] = []
    summary = stored_summary(store, damaged=damaged)
    if not damaged:
        # Many small parts; or rows twice, which a killed sweep's workers wrote after this one had begun.
        store.replicates.compact(crowded(parts))
    store.write_summary(summary)
    return summary, damaged
