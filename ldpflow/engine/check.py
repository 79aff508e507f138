"""Is a run whole? Every part, every row, every sum; and putting right what is not."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ldpflow.engine.events import RunResult
from ldpflow.engine.growth import gaps
from ldpflow.engine.replay import stored_study
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError, LdpflowError
from ldpflow.random.streams import STREAM_VERSION
from ldpflow.results import stored_cells
from ldpflow.results.summary import stored_trajectory_summary, summary_of
from ldpflow.simulators.path import Path
from ldpflow.store import Part, RunLock, RunStore, UnreadablePart, compact, trajectories
from ldpflow.store.part import arrange
from ldpflow.store.provenance import read_sessions
from ldpflow.store.reading import each_once, overlapping
from ldpflow.study import Study

__all__ = ["Finding", "check_run", "compact_run", "repair_run"]


@dataclass(frozen=True)
class Finding:
    """Something in a run that is not as it should be.

    ``bad`` are the parts that have to be computed again for it to go away; a repair that needs none
    (doubled rows, a gap, an old summary) has none.
    """

    what: str
    bad: tuple[str, ...] = ()


def check_run(run: str) -> tuple[list[Finding], dict[str, int]]:
    """Look for anything in a run that is not as it should be; change nothing.

    Parameters
    ----------
    run : str
        Directory or URI.

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
    store = RunStore(run)
    with store.named_errors():
        if not store.holds_run():
            raise InputError("run", run, "a run directory")
        return examined(store)


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
        study = stored_study(store)
        if study is None:
            raise InputError(
                "RUN",
                run,
                "a run with a study.toml that can be read",
                "Run the sweep with its study file instead: it repairs what it needs.",
            )
        findings, _ = examined(store)
        for name in sorted({name for finding in findings for name in finding.bad}):
            store.set_aside(UnreadablePart(name, ""))
        compact(store, doubled_paths(store.scan()[0]))
    return run_study(study, run, **options)


def compact_run(run: str) -> tuple[int, int]:
    """Merge small parts; number of parts before and after.

    Raises
    ------
    InputError
        If there is no run, a sweep is writing to it, or a part cannot be used.
    """
    store = RunStore(run)
    with store.named_errors():
        if not store.holds_run():
            raise InputError("run", run, "a run directory")
        with RunLock(store):
            return compact(store)


def examined(store: RunStore) -> tuple[list[Finding], dict[str, int]]:
    """All findings, and what was looked at."""
    study = stored_study(store)
    findings = list(study_findings(store, study))
    parts, unusable = store.scan()
    bad = {part.name: part.reason for part in unusable}
    rows = 0
    for part in parts:
        reason = part_reason(store, part, study)
        if reason is not None:
            bad[part.name] = reason
        else:
            rows += (part.last - part.first) * len(part.cells) * part.coordinates
    followed, points = trajectory_reasons(store, study)
    rows += points
    bad |= {name: reason for name, reason in followed.items() if reason is not None}
    findings += [Finding(f"{name}: {reason}", (name,)) for name, reason in sorted(bad.items())]
    good = [part for part in parts if part.name not in bad]
    findings += double_findings(store, good)
    broken = {name for finding in findings for name in finding.bad}
    whole = [part for part in good if part.name not in broken]
    if study is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of broken parts, which are findings already
            findings += gap_findings(store, study)
    findings += summary_findings(store, whole)
    findings += trajectory_findings(store, any(reason is None for reason in followed.values()))
    return findings, {"parts": len(parts) + len(unusable) + len(followed), "rows": rows}


def trajectory_reasons(store: RunStore, study: Study | None) -> tuple[dict[str, str | None], int]:
    """Why each part of trajectories is not good, None for those that are; and how many rows there are."""
    found: dict[str, str | None] = {}
    points = 0
    for part, table in trajectories.loaded(store, None, rows=True):
        if isinstance(part, UnreadablePart):
            found[part.name] = part.reason
            continue
        found[part.name] = origin_reason(part.path_key, part.meta, study)
        points += table.num_rows
    return found, points


def trajectory_findings(store: RunStore, some: bool) -> Iterator[Finding]:
    """trajectories.parquet against one computed again from the rows."""
    try:
        stored = trajectories.read_summary(store)
        again = stored_trajectory_summary(store)
    except (pa.ArrowException, LdpflowError, KeyError) as error:
        yield Finding(f"trajectories.parquet: not compared: {error}")
        return
    if stored is None and some:
        yield Finding("trajectories.parquet: absent; a sweep writes it again")
    if stored is not None and not stored.equals(again):
        yield Finding("trajectories.parquet: its numbers are not those of the rows")


def study_findings(store: RunStore, study: Study | None) -> Iterator[Finding]:
    """study.toml and provenance.json."""
    text = store.read_study()
    if study is None:
        yield Finding("study.toml: absent or not a study; a sweep writes it again")
    elif text is not None and text.partition("\n")[0] != f"# Resolved study, hash {study.hash()}":
        yield Finding("study.toml: its hash is not that of its content")
    try:
        read_sessions(store)
    except InputError as error:
        yield Finding(f"provenance.json: {error}")


def part_reason(store: RunStore, part: Part, study: Study | None) -> str | None:
    """Why a part whose footer is whole is not good, if it is not."""
    data = store.read(part.name)
    if data is None:
        return None  # compacted away meanwhile
    table = store.rows_of(part, data)
    if isinstance(table, UnreadablePart):
        return table.reason
    try:
        rows = arrange(table)
    except ValueError as error:
        return str(error)
    if (rows.first, rows.last, rows.name) != (part.first, part.last, part.name.split("/")[-1]):
        return "its rows are not those that its footer names"
    if not rows.table.equals(table) and not same_order(rows.table, table):
        return "its rows are not in order"
    return origin_reason(part.path_key, part.meta, study)


def origin_reason(key: str, meta: dict[str, Any], study: Study | None) -> str | None:
    """Why what a part says of its origin is not right, if it is not."""
    try:
        path = Path.from_settings(meta["path_settings"])
    except (KeyError, ValueError, TypeError):
        return "its path settings cannot be read"
    if path.key != key:
        return f"the settings in it are those of path p{path.key}"
    if study is not None and meta["seed"] != study.seed:
        return f"it has rows of seed {meta['seed']}, and the study has {study.seed}"
    if meta["stream_version"] != STREAM_VERSION:
        return f"it has rows of random streams {meta['stream_version']}"
    return None


def same_order(one: pa.Table, other: pa.Table) -> bool:
    """Whether key columns are equal row by row (NaN values make whole tables unequal)."""
    names = ("replicate", "n", "method", "coordinate")
    return all(one[name].equals(other[name]) for name in names)


def doubled_paths(parts: list[Part]) -> list[str]:
    """Paths with rows that lie in two parts."""
    shared = overlapping(parts)
    return sorted({part.path_key for part in parts if part.name in shared})


def double_findings(store: RunStore, parts: list[Part]) -> list[Finding]:
    """Rows that lie in two parts, alike or not."""
    shared = overlapping(parts)
    findings = []
    for key in doubled_paths(parts):
        group = [part for part in parts if part.path_key == key and part.name in shared]
        names = tuple(part.name for part in group)
        try:
            for _ in each_once(store.loaded(group), store.rows_of):
                pass
        except InputError as error:
            findings.append(Finding(f"path p{key}: {error}", names))
        else:
            findings.append(Finding(f"path p{key}: {len(names)} parts share rows (equal ones)"))
    return findings


def gap_findings(store: RunStore, study: Study) -> Iterator[Finding]:
    """What the study wants and no part has."""
    for plan in study.plans():
        missing = gaps(store, plan, study.replicates)
        if missing:
            ranges = ", ".join(
                f"{gap.first} to {gap.last - 1} of "
                + (f"{len(gap.cells)} cells" if gap.cells else "the trajectory")
                for gap in missing[:3]
            )
            more = "" if len(missing) <= 3 else f" and {len(missing) - 3} more ranges"
            yield Finding(f"path p{plan.path.key}: replicates missing: {ranges}{more}")


def summary_findings(store: RunStore, parts: list[Part]) -> Iterator[Finding]:
    """The summary against one computed again from the rows."""
    try:
        stored = store.read_summary()
    except pa.ArrowException as error:
        yield Finding(f"summary.parquet: cannot be read: {error}")
        return
    if stored is None:
        if parts:
            yield Finding("summary.parquet: absent; a sweep writes it again")
        return
    try:
        paths = {f"p{p.path_key}": Path.from_settings(p.meta["path_settings"]) for p in parts}
        again = summary_of(stored_cells(store, skip_unreadable=True), paths)
    except (LdpflowError, KeyError):
        yield Finding("summary.parquet: not compared, because of the parts above")
        return
    if not stored.equals(again):
        yield Finding("summary.parquet: its numbers are not those of the rows")
