"""Sweeps and simulations in memory, from Python."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from ldpflow.errors import Caution, InputError, SweepFailed, SweepInterrupted, warn
from ldpflow.options import ENGINES, SweepOptions, make_options, with_options
from ldpflow.run import Run, notebook_shell
from ldpflow.settings import closest

if TYPE_CHECKING:
    from ldpflow.components.intervals.record import Record
    from ldpflow.simulators.simulator import Simulator
    from ldpflow.store.part import Part
    from ldpflow.store.run_store import RunStore
    from ldpflow.study import Study

CAUTION_LINES = 2
"""Most lines about paths that do not arrive. For more paths one line has the counts."""


@with_options(SweepOptions, "engine")
def sweep(
    study: Study | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    executor: Literal["auto", "threads", "ray", "serial"] = "auto",
    allow_failures: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Run:
    """Compute the missing replicates of a study and its summary.

    The rows are equal bit for bit on any executor and after any interruption.

    When the main thread ends, a sweep in a daemon thread stops and keeps its rows. The interpreter waits
    for this.

    Parameters
    ----------
    study : Study, str or path
        A study, the name of a bundled study, the path of a study file, or TOML text.
    out : path or URI, optional
        Run directory. Default: ``runs/<name of the study>``. A run directory with rows is continued.
    executor : {"auto", "threads", "ray", "serial"}
        ``threads``: a thread per core of this process; ``ray``: Ray tasks on all cores or a cluster;
        ``serial``: one thread; ``auto``: Ray if an address is given or the work takes more than a minute,
        else threads.
    {options}
    allow_failures : bool
        Return a run even if batches failed. ``run.result.failed_batches`` lists the failed batches.
    progress : bool, optional
        Whether to show a live display. Default: True in a notebook, else False.

    Returns
    -------
    Run
        Its attribute ``result`` says how the sweep ended.

    Raises
    ------
    InputError
        If the study or the run directory cannot be used.
    SweepFailed
        If a batch raised an exception and ``allow_failures`` is False.
    KeyboardInterrupt
        After an orderly stop, as its subclass :class:`SweepInterrupted`. Finished rows are kept. Compiled
        code runs on in its thread, and the interpreter waits for it.

    Warns
    -----
    Caution
        Before the first batch: for each broken assumption of a method, for paths that do not arrive, and for
        a run directory that holds other cells or another study.

    Examples
    --------
    >>> study = lf.Study(
    ...     problem=lf.Quantile(tau=0.5), mechanism=lf.RandomizedResponse(epsilon=1.0),
    ...     algorithm=lf.LdpSgd(gamma=0.51), methods=[lf.BlockBootstrap(B=50), lf.SelfNormalization()],
    ...     n=[1e3], replicates=40, name="mine",
    ... )
    >>> lf.sweep(study, "runs/mine", executor="serial")
    Run('runs/mine'): 2 cells, 40 replicates
    """
    if executor not in ENGINES:
        raise InputError("executor", executor, f"one of {', '.join(ENGINES)}", closest(executor, ENGINES))
    given = make_options(sweep, SweepOptions, options, engine=executor)
    run = run_sweep(study, out, given, progress)
    assert run.result is not None
    if run.result.failed_batches and not allow_failures:
        raise SweepFailed(run.result)
    return run


def run_sweep(
    study: Study | str | os.PathLike[str],
    out: str | os.PathLike[str] | None,
    options: SweepOptions,
    progress: bool | None = None,
    on_plan: Callable[[int, int], None] | None = None,
    on_engine: Callable[[str], None] | None = None,
    on_caution: Callable[[str], None] | None = None,
) -> Run:
    """Run a sweep with checked options, and return a run even if batches failed.

    ``on_plan`` receives the numbers of reused rows and of rows to compute. ``on_engine`` receives lines about
    the engine that ``auto`` chose. ``on_caution`` receives lines about the study and the run. Without
    ``on_caution`` these lines are warnings of the class :class:`ldpflow.Caution`.
    """
    from ldpflow.engine.loop import interpreter_open, interrupts, limits
    from ldpflow.engine.precision import Precision
    from ldpflow.engine.run import run_study, stored_parts
    from ldpflow.store.files import address_of
    from ldpflow.store.run_store import RunStore
    from ldpflow.study import Study
    from ldpflow.study.plugins import check_importable, is_importable, used_components

    chosen = study if isinstance(study, Study) else Study.load(study)
    Precision.of(options, chosen)  # refuses wrong targets
    root = f"runs/{chosen.name}" if out is None else address_of(out)
    components = used_components(chosen.components())
    if options.engine == "ray" or options.address is not None:
        check_importable(components)
    elif options.engine == "auto" and not all(map(is_importable, components)):
        options = replace(options, engine="threads")
    store = RunStore(root)
    warnings = cautions(chosen)
    with store.named_errors():
        store.check_place()
        if continued := not options.fresh and store.holds_run():
            parts, _ = stored_parts(store, chosen)  # refuses a run that cannot grow, before any warning
            warnings = [*describe_growth(store, chosen, parts), *warnings]
    for text in warnings:
        (on_caution or partial(warn, kind=Caution))(text)
    passed = limits(options.max_time, options.max_memory)
    shown: Any = nullcontext(lambda event: None)
    if notebook_shell() if progress is None else progress:
        from ldpflow.cli.progress import reporter

        shown = reporter(continued, options.until_precise)
    with interpreter_open() as ending, interrupts() as interrupted, shown as report:
        result = run_study(
            chosen,
            root,
            options,
            on_event=report,
            on_phase=report,
            on_plan=on_plan,
            on_engine=on_engine,
            should_stop=lambda: interrupted() or ending() or passed(),
        )
        run = Run(RunStore(root), result)
        stopped = interrupted() or ending()
    if stopped is not None:
        raise SweepInterrupted(result)
    return run


def describe_growth(store: RunStore, study: Study, parts: Sequence[Part]) -> list[str]:
    """Warn if a study has another name than the run, or adds cells while it lacks stored cells.

    Such a sweep may be a mistake. Cells of the run's last study count as stored, because an interrupted sweep
    may lack their rows.
    """
    from ldpflow.columns import counted
    from ldpflow.store.schema import cell_id
    from ldpflow.study.stored import stored_study

    rows = [part for part in parts if part.kind is store.replicates.kind]
    stored = {(f"p{part.path_key}", cell_id(cell)) for part in rows for cell in part.cells}
    try:
        before = stored_study(store)
    except InputError:  # an unreadable study.toml, which the sweep writes again
        before = None

    def keys_of_cells(study: Study) -> set[tuple[str, str]]:
        plans = study.plans()
        return {(f"p{plan.simulator.key}", cell_id(cell.columns())) for plan in plans for cell in plan.cells}

    wanted = keys_of_cells(study)
    added = wanted - stored - (set() if before is None else keys_of_cells(before))
    other = "" if before is None or before.name == study.name else before.name
    if not stored or not (added or other) or (not other and stored <= wanted):
        return []
    text = f"{study.name} adds {counted(len(added), 'cell')} to {len(stored):,} in {store.root}"
    text += f", the run of {other}" * bool(other)
    return [f"{text}: `out` gives a run of its own, `fresh` starts over"]


def cautions(study: Study) -> list[str]:
    """List methods and trajectories without rows, broken assumptions, and paths that do not arrive."""
    from ldpflow.practice.planning import arrival_cautions

    found = arrival_cautions(study)
    lines = [line for _, line in found]
    if len(lines) > CAUTION_LINES:
        counts = Counter(verdict for verdict, _ in found)
        texts = ", ".join(f"{verdict} in {count:,}" for verdict, count in counts.items())
        lines = [f"of {len(study.plans()):,} paths: {texts} (ldpflow plan says what to change)"]
    return [*study.left_out(), *study.warnings(), *lines]


def simulate(
    simulator: Simulator[Any, Any],
    seed: int,
    replicates: Sequence[int],
    n: Sequence[float] = (),
    methods: Sequence[Any] = (),
) -> Record:
    """Simulate a few replicates in memory and return their record.

    Parameters
    ----------
    simulator : Simulator
        One of ``study.simulators()``.
    seed : int
        Seed of the study: equal seeds and replicates give the bits of a sweep.
    replicates : sequence of int
        Indices of the replicates.
    n : sequence of int
        Numbers of users at which the record is kept.
    methods : sequence of IntervalMethod
        Methods for which the record keeps times and running sums. Afterwards
        ``method.intervals(record, n, [0.9])`` computes their intervals.

    Examples
    --------
    >>> (simulator, *_), method = lf.Study.load("quickstart").simulators(), lf.SelfNormalization()
    >>> record = lf.simulate(simulator, seed=1, replicates=range(8), n=[1e3], methods=[method])
    >>> method.intervals(record, 1000, [0.9]).lower.shape
    (1, 1, 8)
    """
    from ldpflow.components.intervals import IntervalMethod
    from ldpflow.components.intervals.variance import Oracle
    from ldpflow.simulators.simulator import Cell

    kinds: list[IntervalMethod] = [*methods] or [Oracle()]
    cells = tuple(Cell(int(users), method, 0.9) for users in n for method in kinds)
    record: Record = simulator.run(seed, replicates, simulator.needs(cells, ()))
    return record
