"""A sweep: compare a study with the rows of a run, simulate missing rows, store them and summarise the run.

A run may get more replicates, other n, budgets, levels and interval methods, and further problems,
mechanisms and algorithms. The seed and all other settings of paths with rows do not change.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.components.intervals.interval import columns_of
from ldpflow.engine.batching import cut, gaps
from ldpflow.engine.loop import (
    Listener,
    Outcome,
    Phase,
    RunResult,
    Stop,
    Tally,
    ThreadExecutor,
    drive,
)
from ldpflow.engine.precision import Precision, rounds
from ldpflow.engine.prediction import ROW_SECONDS, busy_machine, choose_engine, cores_of, seconds_of
from ldpflow.errors import EngineLost, InputError, address_limit, warn
from ldpflow.numerics.kernels import cache_folder
from ldpflow.numerics.streams import STREAM_VERSION
from ldpflow.options import SweepOptions
from ldpflow.results.summary import (
    names_of_summary,
    stored_settings,
    stored_summary,
    stored_trajectory_summary,
)
from ldpflow.settings import canonical_json
from ldpflow.simulators.families import runnable_simulator
from ldpflow.simulators.rows import Batch
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.dataset import paths_to_compact
from ldpflow.store.files import RunLock
from ldpflow.store.part import Part, UnreadablePart
from ldpflow.store.provenance import Session, read_sessions
from ldpflow.store.run_store import Aggregator, RunStore
from ldpflow.store.schema import cell_id, cell_keys
from ldpflow.study import Study
from ldpflow.study.plugins import MAIN, plugin_flags, plugins_of

if TYPE_CHECKING:
    from ldpflow.engine.ray_executor import RayExecutor

BUDGET = ("epsilon", "mu", "delta")  # settings that may change while a run grows


def ignore(*event: object) -> None:
    """Do nothing at an event."""


def stored_parts(store: RunStore, study: Study) -> tuple[list[Part], list[UnreadablePart]]:
    """Parts that the study can use, and parts that are broken or of another seed. Changes nothing.

    Refuses a run of another seed or with other settings, and shows the differences.
    """
    sessions = read_sessions(store)  # refuses a run of another version
    parts: list[Part] = []
    unusable: list[UnreadablePart] = []
    for dataset in store.datasets():
        parts += dataset.scan(damaged=unusable)
    own = {"seed": study.seed, "stream_version": STREAM_VERSION}
    foreign = [part for part in parts if any(part.meta[name] != own[name] for name in own)]
    if foreign:
        if not sessions or sessions[-1].get("seed") != study.seed or len(foreign) == len(parts):
            raise refusal(store, [(name, [foreign[0].meta[name]], [own[name]]) for name in own])
        # The run has the study's seed, and someone has put a part of another seed into it.
        unusable += [UnreadablePart(p.name, f"it has rows of seed {p.meta['seed']}") for p in foreign]
    parts = [part for part in parts if part not in foreign]
    check_plugins(store, parts, study)
    check_paths(store, parts, study)
    return parts, unusable


def usable_parts(store: RunStore, study: Study) -> list[Part]:
    """Parts that the study can use. Sets the other parts aside (see :func:`stored_parts`)."""
    parts, unusable = stored_parts(store, study)
    for part in unusable:
        text = f"{store.full(part.name)} cannot be used and is computed again: {part.reason}"
        warn(f"{text} (moved to {store.set_aside(part)})")
    return parts


def check_plugins(store: RunStore, parts: Iterable[Part], study: Study) -> None:
    """Refuse to continue rows of a plug-in whose source has changed."""
    for plugin in plugins_of(study.components()):
        for part in parts:
            before = part.meta["versions"].get(plugin.version_name)
            if before not in (None, plugin.sha256):
                raise InputError(
                    f"plugins.{plugin.name}", f"SHA-256 {plugin.sha256}",
                    f"the source of the rows in {store.root}, SHA-256 {before}",
                    f"The run has a copy of that source in {store.full(plugin.folder(before))}. "
                    "Choose another `out` for the changed source, or start over with `fresh`.",
                )  # fmt: skip


def check_paths(store: RunStore, parts: Iterable[Part], study: Study) -> None:
    """Refuse a study that changes settings of paths with rows."""
    by_key = {part.path_key: part.meta["path_settings"] for part in parts}
    had = [fixed_settings(runnable_simulator(settings)) for settings in by_key.values()]
    wanted = [fixed_settings(plan.simulator) for plan in study.plans()]
    texts = [{canonical_json(design) for design in designs} for designs in (had, wanted)]
    if texts[0] <= texts[1] or texts[1] <= texts[0]:
        return
    changes = []
    for name in sorted({name for design in (*had, *wanted) for name in design}):
        before, after = (distinct_values(d.get(name) for d in designs) for designs in (had, wanted))
        changes.append((name, before, after))
    raise refusal(store, changes)


def fixed_settings(simulator: Simulator[Any, Any]) -> dict[str, Any]:
    """Settings of a simulator, without budget and n, by their names in a study file."""
    settings: dict[str, Any] = {"grid.independent_n": simulator.horizon is not None}
    for table, part in simulator.parts().items():
        kept = {"kind", *(column.name for column in part.setting_columns())}
        for name, value in part.model_dump(mode="json", include=kept).items():
            if value is not None and name not in BUDGET:
                settings[f"{table}.{name}"] = value
    return settings


def distinct_values(values: Iterable[Any]) -> list[Any]:
    texts = {canonical_json(value): value for value in values if value is not None}
    return [texts[text] for text in sorted(texts)]


def refusal(store: RunStore, changes: Sequence[tuple[str, list[Any], list[Any]]]) -> InputError:
    """Error for a study whose settings differ from a run's. ``changes``: names with old and new values."""
    texts = [(name, list_values(had), list_values(wanted)) for name, had, wanted in changes if had != wanted]
    names, old, new = zip(*texts, strict=True)
    beside = "" if "seed" in names else "keep the old values beside the new ones, "
    return InputError(
        ", ".join(names),
        "; ".join(new),
        f"{'; '.join(old)}, as for the rows in {store.root}",
        f"Choose another `out`, {beside}or start over with `fresh`, which moves the old run aside."
        + "".join(f"\n  - {name} = {had}\n  + {name} = {wanted}" for name, had, wanted in texts),
    )


def list_values(values: list[Any]) -> str:
    texts = [canonical_json(value) for value in values[:6]] + ["..."] * (len(values) > 6)
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]" if texts else "absent"


def declare_columns(store: RunStore, study: Study, parts: Sequence[Part]) -> None:
    """Add to the run the columns that components of the study declare.

    Refuses a name that two components declare differently, or that a column of the summary has.
    """
    plans = study.plans()
    methods = dict.fromkeys(cell.method for plan in plans for cell in plan.cells)
    try:
        measures = (column for plan in plans for column in plan.simulator.measures())
        for dataset, columns in ((store.replicates, columns_of(methods)), (store.trajectories, measures)):
            dataset.declare(columns, [part for part in parts if part.kind is dataset.kind])
    except ValueError as error:
        kinds = ", ".join(dict.fromkeys(method.kind for method in methods))
        raise InputError("method", kinds, "columns that agree", str(error)) from None
    taken = names_of_summary(plan.simulator for plan in plans)
    for column in store.replicates.further:
        for name in {column.name, *(summary.name for summary in column.summaries)} & taken:
            allowed = "a name that no other column of the summary has"
            raise InputError(f"column {name}", column.meaning, allowed)


def count_finished(
    study: Study, summary: pa.Table, followed: pa.Table, until_precise: bool
) -> dict[str, int]:
    counts: dict[tuple[str, str], int] = {}
    for row in summary.select([*cell_keys(summary.schema), "path", "replicates"]).to_pylist():
        path, replicates = row.pop("path"), row.pop("replicates")
        counts[path, cell_id(row)] = replicates
    trajectories: dict[str, int] = {}
    if followed.num_rows:
        for row in followed.group_by("path").aggregate([("replicates", "min")]).to_pylist():
            trajectories[row["path"]] = row["replicates_min"]
    least: list[int] = []  # smallest number over the cells of each path
    for plan in study.plans():
        path = f"p{plan.simulator.key}"
        own = [trajectories.get(path, 0)] if plan.checkpoints else []
        for cell in plan.cells:
            rows = counts.get((path, cell_id(cell.columns())), 0)
            # The last replicates of the study may be too few for a row.
            left = study.replicates % cell.runs if rows == study.replicates // cell.runs else 0
            own.append(rows * cell.runs + left)
        if own:
            least.append(min(own))
    wanted = sys.maxsize if until_precise else study.replicates
    return {
        "finished_replicates": min(least, default=0),
        "done_replicates": sum(min(count, wanted) for count in least),
        "wanted_replicates": 0 if until_precise else len(least) * study.replicates,
    }


def progress_text(counts: Mapping[str, int]) -> str:
    if counts["wanted_replicates"]:
        return f"{counts['done_replicates']:,} of {counts['wanted_replicates']:,} replicates"
    least = f"{counts['finished_replicates']:,} replicates or more of every path"
    return f"{least}, which may not reach the target,"


# With a limit of 1.25 GiB of addresses, 8 threads failed. With 2 GiB, 32 threads worked.
FEW_THREADS, MANY_ADDRESSES = 2, 2 * 2**30


def run_study(
    study: Study,
    out: str | os.PathLike[str],
    options: SweepOptions | None = None,
    *,
    on_engine: Callable[[str], None] | None = None,
    on_event: Listener = ignore,
    on_plan: Callable[[int, int], None] | None = None,
    on_phase: Phase = ignore,
    should_stop: Stop = lambda: None,
    **given: Any,
) -> RunResult:
    """Compute the rows of the study that a run lacks, and the summary of the run.

    Rows in the run directory ``out`` are kept and used. Options may be given by name instead of ``options``.

    Parameters
    ----------
    on_engine : callable, optional
        Called with a line that names the chosen engine and the reason, before the engine starts.
    on_event : callable
        Called with the progress after each batch.
    on_plan : callable, optional
        Called with the numbers of stored and of missing rows, before the first batch. Not called with a
        target precision.
    on_phase : callable
        Called with a few words when the sweep waits for Ray or for the summary, and with "" when batches run.
    should_stop : callable
        Called at least twice a second. Returns a reason to stop as text, or None. After a reason the sweep
        ends within seconds, with all finished batches stored.

    Raises
    ------
    InputError
        If ``out`` cannot be used, is in use or has rows of another study.
    StorageError
        If the disk is full.
    EngineLost
        If Ray has lost a process.
    """
    options = options or SweepOptions(**given)
    precision = Precision.of(options, study)
    started = time.monotonic()
    cache_folder()  # a kernel folder that cannot be used raises an error here, not in every batch
    store = RunStore(out)
    with store.named_errors():
        store.check_place()
        if options.fresh and store.holds_run():
            with RunLock(store):  # no other sweep may write to the run
                warn(f"{store.root}: the old run was moved to {store.move_aside()}")
    store.again = options.again
    with store.named_errors(), RunLock(store) as lock:
        if (holder := lock.took_over) is not None:
            owner = f"process {holder.get('pid')} on {holder.get('host')}"
            warn(f"{store.root}: took over the lock of {owner}, which is dead")
        store.clear_unfinished()
        session = begin_session(store, study, precision)

        start = partial(executor_for, store, study, options, precision, on_engine or ignore, on_phase)
        run = partial(drive, started=started, listener=on_event, should_stop=should_stop, on_phase=on_phase)
        tally = fill(rounds_of(store, study, precision, on_plan or ignore), start, run)
        on_phase("summarising the rows")
        summary, followed, damaged = write_summaries(store)
        if damaged and tally.stopped is None:
            # The footers of these parts are whole, so the rows counted as stored.
            for part in damaged:
                store.set_aside(part)
                warn(f"{store.full(part.name)} is computed again: {part.reason}")
            tally = fill(rounds_of(store, study, precision, ignore), start, run)
            summary, followed, _ = write_summaries(store)
        session.end(
            {key: 1e9 * seconds / steps for key, (seconds, steps) in tally.by_path.items()},
            engine=options.engine,
            kernel_cpu_seconds=round(sum(seconds for seconds, _ in tally.by_path.values()), 3),
            batch_cpu_seconds=round(tally.batch_seconds, 3),
            interrupted=tally.stopped is not None,
            stopped=tally.stopped,
            failed_batches=len(tally.failed),
        )
    found = count_finished(study, summary, followed, options.until_precise)
    if tally.lost is not None:
        done = f"{progress_text(found)} are stored and summarised in {store.root}"
        raise EngineLost(f"{tally.lost}. {done}; {options.again} to continue")
    rows = pc.sum(summary["replicates"]).as_py() or 0
    failures = pc.sum(summary["failures"]).as_py() or 0
    return RunResult(
        out=store.root,
        failures=failures,
        failed_share=failures / rows if rows else 0.0,
        wall_seconds=time.monotonic() - started,
        stopped=tally.stopped,
        failed_batches=[failure_text(store, outcome) for outcome in tally.failed],
        batches=tally.batches,
        **found,
    )


def begin_session(store: RunStore, study: Study, precision: Precision | None) -> Session:
    """Write the study, its plug-ins and the start of a session to a run."""
    declare_columns(store, study, usable_parts(store, study))
    session = Session(store, study.seed)
    session.entry |= {} if precision is None else {"precision": asdict(precision)}
    session.record()
    store.write_study(study.to_toml())
    for plugin in plugins_of(study.components()):
        for path, text in plugin.files:
            store.publish(f"{plugin.folder()}/{path}", text.encode())
    return session


def missing_batches(store: RunStore, study: Study, replicates: int) -> list[Batch]:
    return [gap for plan in study.plans() for gap in gaps(store, plan, study.seed, replicates)]


def rounds_of(
    store: RunStore, study: Study, precision: Precision | None, on_plan: Callable[[int, int], object]
) -> Iterator[list[Batch]]:
    """Iterate over rounds, lists of missing batches: one, or several until the target precision is met."""
    if precision is not None:
        yield from rounds(store, study, precision)
        return
    missing = missing_batches(store, study, study.replicates)
    whole = sum(
        plan.simulator.dimension * sum(study.replicates // cell.runs for cell in plan.cells)
        + study.replicates * len(plan.checkpoints)
        for plan in study.plans()
    )
    computed = sum(gap.rows for gap in missing)
    on_plan(whole - computed, computed)
    if missing:
        yield missing


def fill(
    todo: Iterator[list[Batch]],
    start: Callable[[list[Batch]], ThreadExecutor | RayExecutor],
    run: Callable[..., None],
) -> Tally:
    """Compute rounds ``todo`` with ``run`` (:func:`drive`). The first round starts the executor."""
    tally = Tally()
    executor: ThreadExecutor | RayExecutor | None = None
    try:
        for missing in todo:
            executor = executor or start(missing)
            run(cut(missing, executor.cores), executor, tally)
            if tally.stopped is not None or tally.failed:
                break
    except EngineLost as error:
        tally.stopped = tally.lost = str(error)
    finally:
        if executor is not None:
            executor.close()
    return tally


def failure_text(store: RunStore, outcome: Outcome) -> str:
    batch = outcome.batch
    last = batch.last - 1
    text = f"path p{batch.simulator.key}, replicates {batch.first} to {last}: {outcome.error}"
    flags = plugin_flags([*batch.simulator.parts().values(), *(cell.method for cell in batch.cells)])
    if f" --plugin {MAIN}." in flags:  # no command can load a class of a notebook
        return text
    command = f"ldpflow replay {shlex.quote(store.root)} --path p{batch.simulator.key}"
    return f"{text}\n  {command} --replicate {batch.first} --last {last}{flags}"


def executor_for(
    store: RunStore,
    study: Study,
    options: SweepOptions,
    precision: Precision | None,
    on_engine: Callable[[str], None],
    on_phase: Phase,
    missing: list[Batch],
) -> ThreadExecutor | RayExecutor:
    """Start the executor that the options name, or choose one by the expected CPU time.

    ``missing`` has the batches of the first round.
    """
    engine, address = options.engine, options.address
    cores = cores_of(engine, options.num_cpus)
    if engine == "auto" and address is not None:
        engine = "ray"
    elif engine == "auto":
        if precision is not None:
            expected = missing_batches(store, study, precision.expected(study.level))
            missing = max(missing, expected, key=seconds_of)
        python_seconds = ROW_SECONDS * sum(batch.rows for batch in missing)
        engine, why = choose_engine(seconds_of(missing), cores, python_seconds)
        on_engine(why)
    if engine != "ray":
        if cores > FEW_THREADS and (limit := address_limit()) < MANY_ADDRESSES:
            allowed = f"at most {FEW_THREADS} threads with a limit of {limit / 2**30:.2f} GiB (ulimit -v)"
            raise InputError("num_cpus", cores, allowed, "More of them need 2 GiB of addresses.")
        return ThreadExecutor(Aggregator(store), cores)
    from ldpflow.engine.ray_executor import RayExecutor

    if address is None and (busy := busy_machine(options.nice)) is not None:
        on_engine(busy)
    on_phase("starting Ray" if address is None else f"joining the Ray cluster at {address}")
    return RayExecutor(partial(Aggregator, store), options, store.root)


def write_summaries(store: RunStore) -> tuple[pa.Table, pa.Table, list[UnreadablePart]]:
    """Write the summaries of rows and of trajectories, and the settings of the paths.

    Returns both summaries, and the parts with unreadable rows.
    """
    parts = store.replicates.scan(damaged=[])
    damaged: list[UnreadablePart] = []
    summary = stored_summary(store, damaged=damaged)
    if not damaged:
        # Merges small parts, and parts that share rows, which workers of a killed sweep may have written.
        store.replicates.compact(paths_to_compact(parts))
    store.write_summary(summary)
    store.write_summary(stored_settings(store, damaged=[]), "paths.parquet")
    followed = stored_trajectory_summary(store, damaged=damaged)
    if followed.num_rows:
        store.write_summary(followed, "trajectories.parquet")
    return summary, followed, damaged
