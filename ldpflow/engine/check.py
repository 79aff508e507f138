"""Is a run whole? Every part, every row, every sum; and putting right what is not."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ldpflow.engine.events import RunResult
from ldpflow.engine.growth import gaps
from ldpflow.engine.recompute import checked_share, recomputed
from ldpflow.engine.row_checks import cell_reason, row_reason
from ldpflow.engine.run import run_study
from ldpflow.errors import DamagedRun, InputError, LdpflowError, plain_line
from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.random.streams import STREAM_VERSION
from ldpflow.results.decomposition import DIAGNOSIS_COLUMNS
from ldpflow.results.summary import stored_summary, stored_trajectory_summary
from ldpflow.simulators.cell import Cell
from ldpflow.simulators.stored import described_simulator
from ldpflow.store import Dataset, Part, RunLock, RunStore, UnreadablePart
from ldpflow.store.dataset import REMOVED, crowded, each_once, overlapping
from ldpflow.store.part import arrange, subtract
from ldpflow.store.provenance import read_sessions
from ldpflow.study import Study
from ldpflow.study.plugins import loaded_names
from ldpflow.study.stored import (
    header_holds,
    needed_study,
    reads_files,
    stored_mapping,
    stored_plugins,
    stored_study,
)


@dataclass(frozen=True)
class Finding:
    """Something in a run that is not as it should be.

    ``bad`` are the parts that have to be computed again for it to go away; a repair that needs none
    (doubled rows, a gap, an old summary) has none.
    """

    what: str
    bad: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "what", plain_line(self.what))


def check_run(run: str, recompute: float | None = None) -> tuple[list[Finding], dict[str, int]]:
    """Look for anything in a run that is not as it should be; change nothing.

    Parameters
    ----------
    run : str
        Directory or URI.
    recompute : float, optional
        Share of the replicates, chosen at random, that is computed again and compared bit by bit.

    Returns
    -------
    findings : list of Finding
    counts : dict of str to int
        Parts and rows looked at.

    Raises
    ------
    InputError
        If there is no run.
    """
    checked_share(recompute)
    store = RunStore(run)
    with store.named_errors():
        if not store.holds_run():
            raise InputError("run", run, "a run directory")
        return examined(store, recompute)


def repair_run(run: str, **options: Any) -> RunResult:
    """Set bad parts aside, end doubled rows, and compute what is missing then.

    Parameters
    ----------
    run : str
    **options
        Of :func:`~ldpflow.engine.run.run_study`.

    Raises
    ------
    InputError
        If there is no run, its study cannot be read, or a sweep is writing to it.
    """
    store = RunStore(run)
    with store.named_errors(), RunLock(store):
        study = needed_study(store)
        findings, _ = examined(store)
        for name in sorted({name for finding in findings for name in finding.bad}):
            store.set_aside(UnreadablePart(name, ""))
        store.replicates.compact(crowded(store.replicates.scan(damaged=[])))
    return run_study(study, run, **options)


def examined(store: RunStore, recompute: float | None = None) -> tuple[list[Finding], dict[str, int]]:
    """All findings, and what was looked at."""
    study, mapping = None, {}
    findings: list[Finding] = []
    try:
        mapping = stored_mapping(store) or {}
        study = stored_study(store)
        findings += study_findings(store, study, mapping)
    except InputError as error:
        findings.append(Finding(f"study.toml: {error}"))
    findings += provenance_findings(store)
    good: dict[str, list[Part]] = {}
    bad: dict[str, str] = {}
    rows = 0
    for dataset in store.datasets():
        unusable: list[UnreadablePart] = []
        parts = dataset.scan(damaged=unusable)
        reasons = {part.name: part_reason(dataset, part, study) for part in parts}
        bad |= {part.name: part.reason for part in unusable}
        bad |= {name: reason for name, reason in reasons.items() if reason is not None}
        good[dataset.kind.folder] = [part for part in parts if part.name not in bad]
        rows += sum(part.num_rows for part in good[dataset.kind.folder])
    findings += [Finding(f"{name}: {reason}", (name,)) for name, reason in sorted(bad.items())]
    foreign = [name for dataset in store.datasets() for name in dataset.foreign()]
    findings += [Finding(f"{name}: not a part, and left alone; remove it by hand") for name in foreign]
    replicates, followed = good.values()
    findings += double_findings(store, replicates)
    broken = {name for finding in findings for name in finding.bad}
    whole = [part for part in replicates if part.name not in broken]
    with warnings.catch_warnings():
        # Broken parts are findings already.
        warnings.simplefilter("ignore")
        findings += [] if study is None else gap_findings(store, study)
        findings += summary_findings(store, whole)
        findings += trajectory_findings(store, bool(followed))
    if recompute is not None:
        findings += [Finding(what) for what in recomputed(store, [*whole, *followed], recompute)]
    return findings, {"parts": len(replicates) + len(followed) + len(bad), "rows": rows}


def agrees(stored: pa.Table, again: pa.Table) -> bool:
    """Whether a stored summary is the one computed again."""
    names = again.column_names
    same = stored.column_names == names
    return same and all(equal_columns(name, stored[name], again[name]) for name in names)


def equal_columns(name: str, stored: pa.ChunkedArray, again: pa.ChunkedArray) -> bool:
    """Whether a column of a summary is the one computed again.

    The last digits of normal probabilities and of theory are those of a library on one kind of processor.
    """
    if stored.equals(again):
        return True
    from_library = name in DIAGNOSIS_COLUMNS or name.startswith("theory_")
    if not from_library or stored.type != again.type or not pa.types.is_floating(stored.type):
        return False
    return len(stored) == len(again) and all(
        theirs == ours
        or (
            theirs is not None
            and ours is not None
            and math.isclose(theirs, ours, rel_tol=1e-9, abs_tol=1e-12)
        )
        for theirs, ours in zip(stored.to_pylist(), again.to_pylist(), strict=True)
    )


def trajectory_findings(store: RunStore, some: bool) -> Iterator[Finding]:
    """trajectories.parquet against one computed again from the rows."""
    try:
        stored = store.read_trajectory_summary()
    except InputError as error:
        yield Finding(f"trajectories.parquet: cannot be read: {error.value}")
        return
    try:
        again = stored_trajectory_summary(store, damaged=[])
    except (LdpflowError, KeyError, ValueError) as error:
        yield Finding(f"trajectories.parquet: not compared: {error}")
        return
    if stored is None and some:
        yield Finding("trajectories.parquet: absent; a sweep writes it again")
    if stored is not None and not agrees(stored, again):
        yield Finding("trajectories.parquet: its numbers are not those of the rows")


def study_findings(store: RunStore, study: Study | None, mapping: dict[str, Any]) -> Iterator[Finding]:
    """study.toml, read as a study and as tables."""
    missing = [name for name, _ in stored_plugins(mapping) if name not in loaded_names()]
    if study is None and missing:
        warnings.warn(
            f"{store.root}: its study needs the plug-in {', '.join(missing)}, which is not loaded; "
            "parts, rows and sums are checked, but not which replicates are missing",
            stacklevel=2,
        )
    elif study is None and reads_files(mapping):
        warnings.warn(
            f"{store.root}: its study reads a data file, which a check does not open: everything is checked, "
            "but a path of which no part is left is not missed",
            stacklevel=2,
        )
        yield from stored_gaps(store, mapping)
    elif study is None:
        yield Finding("study.toml: absent or not a study; a sweep writes it again")
    elif not header_holds(store, study):
        yield Finding("study.toml: its hash is not that of its content")


def provenance_findings(store: RunStore) -> Iterator[Finding]:
    """provenance.json."""
    try:
        read_sessions(store)
    except DamagedRun as error:
        yield Finding(f"provenance.json: {error}")


def part_reason(dataset: Dataset, part: Part, study: Study | None) -> str | None:
    """Reason why a part with a readable footer is bad, or None."""
    table = dataset.load(part)
    if isinstance(table, UnreadablePart):
        return None if table.reason == REMOVED else table.reason  # compacted away meanwhile
    try:
        rows = arrange(dataset.kind, table, part.cells)
    except ValueError as error:
        return str(error)
    if not all(rows.table[name].equals(table[name]) for name in dataset.kind.row_keys(table.schema)):
        return "its rows are not in order"
    reason = row_reason(dataset.kind, table) or cell_reason(part)
    return reason or origin_reason(part.path_key, part.meta, study)


def origin_reason(key: str, meta: dict[str, Any], study: Study | None) -> str | None:
    """The reason why a part's metadata is wrong, if it is."""
    try:
        simulator = described_simulator(meta)
    except (LdpflowError, KeyError, ValueError, TypeError, AttributeError):
        return "its path settings cannot be read"
    if simulator.key != key:
        return f"the settings in it are those of path p{simulator.key}"
    if study is not None and meta["seed"] != study.seed:
        return f"it has rows of seed {meta['seed']}, and the study has {study.seed}"
    if meta["stream_version"] != STREAM_VERSION:
        return f"it has rows of random streams {meta['stream_version']}"
    return None


def double_findings(store: RunStore, parts: list[Part]) -> list[Finding]:
    """Rows that lie in two parts, alike or not."""
    shared = overlapping(parts)
    findings = []
    for key in sorted({part.path_key for part in parts if part.name in shared}):
        group = [part for part in parts if part.path_key == key and part.name in shared]
        names = tuple(part.name for part in group)
        try:
            for _ in each_once(store.replicates.loaded(group, damaged=[]), store.replicates.load):
                pass
        except InputError as error:
            findings.append(Finding(f"path p{key}: {error}", names))
        else:
            findings.append(Finding(f"path p{key}: {len(names)} parts share rows (equal ones)"))
    return findings


def gap_findings(store: RunStore, study: Study) -> Iterator[Finding]:
    """Rows that the study needs and no part has."""
    for plan in study.plans():
        missing = gaps(store, plan, study.replicates)
        if missing:
            ranges = ", ".join(
                f"{gap.first} to {gap.last - 1} of "
                + (f"{len(gap.cells)} cells" if gap.cells else "the trajectory")
                for gap in missing[:3]
            )
            more = "" if len(missing) <= 3 else f" and {len(missing) - 3} more ranges"
            yield Finding(f"path p{plan.simulator.key}: replicates missing: {ranges}{more}")


def stored_gaps(store: RunStore, mapping: dict[str, Any]) -> Iterator[Finding]:
    """Replicates that paths with parts lack, by the number that study.toml names."""
    wanted = mapping.get("replicates")
    if not isinstance(wanted, int):
        return
    for dataset in store.datasets():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {key: dataset.finished(key) for key in dataset.path_keys()}
        for key, cells in found.items():
            for name, ranges in cells.items():
                cell = json.loads(name)
                runs = Cell.from_columns(cell).runs if cell.get("method") in INTERVAL_METHODS else 1
                for first, last in subtract(0, wanted // runs, ranges)[:1]:
                    yield Finding(f"path p{key}: replicates missing: {first} to {last - 1} of {name}")


def summary_findings(store: RunStore, parts: list[Part]) -> Iterator[Finding]:
    """The summary against one computed again from the rows."""
    try:
        stored = store.read_summary()
    except InputError as error:
        yield Finding(f"summary.parquet: cannot be read: {error.value}")
        return
    if stored is None:
        if parts:
            yield Finding("summary.parquet: absent; a sweep writes it again")
        return
    try:
        again = stored_summary(store, damaged=[])
    except (LdpflowError, KeyError, ValueError):
        yield Finding("summary.parquet: not compared, because of the findings above")
        return
    if not agrees(stored, again):
        yield Finding("summary.parquet: its numbers are not those of the rows")
