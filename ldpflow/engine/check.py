"""Check of a run and its repair.

A check reads every part and verifies checksums. It tests the values of each row and compares the summary with
the rows. It can compute a random share of the replicates again and compare all bits with the stored rows.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.engine.batching import gaps
from ldpflow.engine.loop import RunResult
from ldpflow.engine.replay import equal_bits, planned_path, replay, replay_trajectory
from ldpflow.engine.run import run_study
from ldpflow.errors import DamagedRun, InputError, LdpflowError, plain_line, warn
from ldpflow.numerics.streams import STREAM_VERSION
from ldpflow.results.decomposition import DIAGNOSIS_COLUMNS
from ldpflow.results.published import Comparison, compare
from ldpflow.results.summary import stored_settings, stored_summary, stored_trajectory_summary
from ldpflow.simulators.families import described_simulator
from ldpflow.simulators.simulator import Cell
from ldpflow.store.dataset import REMOVED, Dataset, overlapping_parts, paths_to_compact
from ldpflow.store.files import RunLock
from ldpflow.store.part import Part, UnreadablePart, arrange
from ldpflow.store.provenance import read_sessions
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import FINISHED, REPLICATE_ROWS, TRAJECTORY_ROWS, Kind
from ldpflow.study import Study
from ldpflow.study.plugins import loaded_plugins
from ldpflow.study.reading import check_plugins, stored_mapping, stored_plugins
from ldpflow.study.stored import stored_study, study_to_run, uses_files

STATUSES = {REPLICATE_ROWS: (*FINISHED, "undefined", "diverged"), TRAJECTORY_ROWS: ("ok", "diverged")}
Fault = tuple[str, NDArray[np.bool_]]
"""Description of a fault, and True for each row that has it."""


def row_reason(kind: Kind, table: pa.Table) -> str | None:
    for what, where in row_faults(kind, table):
        if where.any():
            row = table.slice(int(where.argmax()), 1).to_pylist()[0]
            names = [name for name in ("replicate", "n", "method", "step") if name in row]
            at = ", ".join(f"{name} {row[name]}" for name in names)
            return f"{what} ({at}; {int(where.sum()):,} rows)"
    return None


def row_faults(kind: Kind, table: pa.Table) -> Iterator[Fault]:
    status = table["status"].to_numpy(zero_copy_only=False)
    yield f"a status is not one of {', '.join(STATUSES[kind])}", ~np.isin(status, STATUSES[kind])
    if kind is TRAJECTORY_ROWS:
        for name in table.column_names:
            if name.endswith(("_sq", "_norm")):
                yield f"{name} is negative", values(table[name]) < 0
        return
    done, ok = np.isin(status, FINISHED), status == "ok"
    lower, upper, truth, length = (values(table[n]) for n in ("lower", "upper", "truth", "length"))
    _, first, place = np.unique(table["coordinate"].to_numpy(), return_index=True, return_inverse=True)
    by_coordinate = truth[first][place]
    yield "the truth differs from that of other rows", (truth != by_coordinate) & ~np.isnan(by_coordinate)
    limits = np.isfinite(lower) & np.isfinite(upper)
    yield "limits of a finished row are not finite", done & ~limits
    yield "a row that is not finished has limits", ~done & ~(np.isnan(lower) & np.isnan(upper))
    yield "the lower limit is above the upper one", done & (lower > upper)
    covered = table["covered"]
    known = pc.is_valid(covered).to_numpy(zero_copy_only=False)
    yield "covered is null in a finished row, or not null in another row", known != done
    said = covered.fill_null(False).to_numpy(zero_copy_only=False)
    yield (
        "covered does not follow from limits and truth",
        done & (said != ((lower <= truth) & (truth <= upper))),
    )
    with np.errstate(invalid="ignore", over="ignore"):
        yield "length is not upper - lower", ok & ~(length == upper - lower)
    yield "a row whose status is not ok has a length", ~ok & ~np.isnan(length)
    yield "n is not positive", values(table["n"]) < 1
    level = values(table["level"])
    yield "a level is not between 0 and 1", ~((level > 0) & (level < 1))


def values(column: pa.ChunkedArray) -> NDArray[Any]:
    return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False))


def cell_reason(part: Part) -> str | None:
    """Reason why the settings of a cell fit no interval method, or None."""
    plugins = any(str(name).startswith("plugin") for name in part.meta.get("versions", {}))
    for cell in part.cells:
        method = INTERVAL_METHODS.get(str(cell.get("method")))
        bundled = method is not None and method.__module__.startswith("ldpflow.")
        if "method" not in cell or (plugins and not bundled):
            continue  # this process may have a plug-in with another method of that name
        try:
            Cell.from_columns({**cell})
        except (LdpflowError, KeyError, ValueError, TypeError):
            return f"no interval method has the settings {cell}"
    return None


BLOCK = 8
"""Replicates that are computed again together."""


def sample_blocks(parts: list[Part], share: float, chance: random.Random) -> list[tuple[int, int]]:
    """Choose about this share of the replicates of one path, in blocks, with at least one block of each part.

    Returns (first, end) of each block, ``end`` exclusive.
    """
    found = set()
    for part in parts:
        starts = range(part.first, part.last, BLOCK)
        for start in chance.sample(starts, math.ceil(share * len(starts))):
            found.add((start, min(start + BLOCK, part.last)))
    return sorted(found)


def recompute_share(store: RunStore, good: list[Part], share: float) -> Iterator[str]:
    """Compute a random share of the replicates again, and describe each difference from the readable parts.

    Each call chooses replicates at random, so a person who edits rows cannot know which rows are compared.
    """
    chance = random.Random()
    try:
        study = stored_study(store, to_run=True)
        check_plugins(store, readable=study is not None)
    except InputError as error:
        yield str(error)
        return
    by_path: dict[tuple[str, str], list[Part]] = {}
    for part in good:
        by_path.setdefault((part.kind.folder, part.path_key), []).append(part)
    for (folder, key), parts in sorted(by_path.items()):
        plan, _ = planned_path(study, key)
        for first, end in sample_blocks(parts, share, chance):
            where = f"path p{key}, replicates {first} to {end - 1}"
            try:
                if folder == store.replicates.kind.folder:
                    computed, stored = replay(store.address, key, first, end - 1, damaged=[])
                elif plan is not None and plan.checkpoints and study is not None:
                    computed, stored = replay_trajectory(store, plan, study.seed, first, end, [])
                else:
                    yield f"{where}: trajectories are not compared, since no study.toml has their checkpoints"
                    break
            except LdpflowError as error:
                yield f"{where}: cannot be computed again: {error}"
                break
            if not equal_bits(computed, stored):
                yield f"{where}: {folder} computed again differ from the stored ones"


@dataclass(frozen=True)
class Finding:
    """A fault of a run. ``bad`` has the names of parts that a repair has to compute again."""

    what: str
    bad: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "what", plain_line(self.what))


def check_run(run: str, recompute: float | None = None) -> tuple[list[Finding], dict[str, int]]:
    """Check a run without changing it. Returns the findings, and the numbers of parts and rows.

    ``recompute`` is the share of the replicates to compute again, above 0 and at most 1. None: no replicate.
    """
    if recompute is not None and not 0 < recompute <= 1:
        raise InputError("recompute", recompute, "a share of the replicates, above 0 and at most 1")
    store = RunStore(run)
    with store.named_errors():
        if not store.holds_run():
            raise InputError("run", run, "a run directory")
        return examine(store, recompute)


def repair_run(run: str, **options: Any) -> RunResult:
    """Set bad parts aside, remove repeated rows, and compute missing rows."""
    store = RunStore(run)
    with store.named_errors(), RunLock(store):
        study = study_to_run(store)
        findings, _ = examine(store)
        for name in sorted({name for finding in findings for name in finding.bad}):
            store.set_aside(UnreadablePart(name, ""))
        store.replicates.compact(paths_to_compact(store.replicates.scan(damaged=[])))
    return run_study(study, run, **options)


def examine(store: RunStore, recompute: float | None = None) -> tuple[list[Finding], dict[str, int]]:
    study = None
    findings: list[Finding] = []
    try:
        mapping = stored_mapping(store) or {}
        study = stored_study(store)
        findings += study_findings(store, study, mapping)
    except InputError as error:
        findings.append(Finding(f"study.toml: {error}"))
    try:
        read_sessions(store)
    except DamagedRun as error:
        findings.append(Finding(f"provenance.json: {error}"))
    (replicates, bad), (followed, others) = (checked_parts(dataset, study) for dataset in store.datasets())
    bad |= others
    findings += [Finding(f"{name}: {reason}", (name,)) for name, reason in sorted(bad.items())]
    foreign = [name for dataset in store.datasets() for name in dataset.foreign()]
    findings += [Finding(f"{name}: not a part, and left alone; remove it by hand") for name in foreign]
    findings += double_findings(store, replicates)
    broken = {name for finding in findings for name in finding.bad}
    whole = [part for part in replicates if part.name not in broken]
    with warnings.catch_warnings():
        # The warnings are about broken parts, which are findings already.
        warnings.simplefilter("ignore")
        findings += [] if study is None else gap_findings(store, study)
        findings += summary_findings("summary.parquet", store.read_summary, stored_summary, store, whole)
        everything = [*whole, *followed]
        findings += summary_findings("paths.parquet", store.read_paths, stored_settings, store, everything)
        read = store.read_trajectory_summary
        findings += summary_findings("trajectories.parquet", read, stored_trajectory_summary, store, followed)
    if recompute is not None:
        findings += [Finding(what) for what in recompute_share(store, everything, recompute)]
    rows = sum(part.num_rows for part in (*replicates, *followed))
    return findings, {"parts": len(replicates) + len(followed) + len(bad), "rows": rows}


def checked_parts(dataset: Dataset, study: Study | None) -> tuple[list[Part], dict[str, str]]:
    """Parts without a fault, and the faults of the other parts by name."""
    unusable: list[UnreadablePart] = []
    parts = dataset.scan(damaged=unusable)
    bad = {part.name: part.reason for part in unusable}
    for part in parts:
        if (reason := part_reason(dataset, part, study)) is not None:
            bad[part.name] = reason
    return [part for part in parts if part.name not in bad], bad


def equal_summaries(stored: pa.Table, again: pa.Table) -> bool:
    names = again.column_names
    return stored.column_names == names and all(map(equal_columns, names, stored.columns, again.columns))


def equal_columns(name: str, stored: pa.ChunkedArray, again: pa.ChunkedArray) -> bool:
    """Whether a stored column of a summary equals the same column computed again.

    Columns with normal probabilities or theoretical values may differ in the last digits, which depend on a
    library and the processor.
    """
    if stored.equals(again):
        return True
    if stored.type != again.type or not pa.types.is_floating(stored.type):
        return False
    if len(stored) != len(again) or not stored.is_null().equals(again.is_null()):
        return False
    ours, theirs = (column.drop_null().to_numpy() for column in (again, stored))
    if name in DIAGNOSIS_COLUMNS or name.startswith("theory_"):
        return np.allclose(theirs, ours, rtol=1e-9, atol=1e-12, equal_nan=True)
    return np.array_equal(theirs, ours, equal_nan=True)  # lengths of the oracle are NaN without a density


def study_findings(store: RunStore, study: Study | None, mapping: dict[str, Any]) -> Iterator[Finding]:
    missing = [name for name, _ in stored_plugins(mapping) if name not in loaded_plugins()]
    if study is None and (missing or uses_files(mapping)):
        what = f"needs the plug-in {', '.join(missing)}, which is not loaded"
        what = what if missing else "reads a data file, which a check does not open"
        warn(f"{store.root}: its study {what}; parts are checked, but missing parts are not found")
    elif study is None:
        yield Finding("study.toml: absent or not a study; a sweep writes it again")


def part_reason(dataset: Dataset, part: Part, study: Study | None) -> str | None:
    table = dataset.load(part)
    if isinstance(table, UnreadablePart):
        # A sweep may have merged the part into another one since the scan.
        return None if table.reason == REMOVED else table.reason
    try:
        rows = arrange(dataset.kind, table, part.cells)
    except ValueError as error:
        return str(error)
    if not all(rows.table[name].equals(table[name]) for name in dataset.kind.row_keys(table.schema)):
        return "its rows are not in order"
    reason = row_reason(dataset.kind, table) or cell_reason(part)
    return reason or origin_reason(part.path_key, part.meta, study)


def origin_reason(key: str, meta: dict[str, Any], study: Study | None) -> str | None:
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
    shared = overlapping_parts(parts)
    findings = []
    for key in sorted({part.path_key for part in parts if part.name in shared}):
        group = [part for part in parts if part.path_key == key and part.name in shared]
        names = tuple(part.name for part in group)
        try:
            for _ in store.replicates.merged(group, damaged=[]):
                pass
        except InputError as error:
            findings.append(Finding(f"path p{key}: {error}", names))
        else:
            findings.append(Finding(f"path p{key}: {len(names)} parts share rows, which are equal"))
    return findings


def gap_findings(store: RunStore, study: Study) -> Iterator[Finding]:
    for plan in study.plans():
        missing = gaps(store, plan, study.seed, study.replicates)
        if missing:
            span = f"{missing[0].first} to {missing[0].last - 1}"
            more = f" and {len(missing) - 1} more ranges" * (len(missing) > 1)
            yield Finding(f"path p{plan.simulator.key}: replicates missing: {span}{more}")


def summary_findings(
    file: str,
    read: Callable[[], pa.Table | None],
    compute: Callable[..., pa.Table],
    store: RunStore,
    parts: list[Part],
) -> Iterator[Finding]:
    try:
        stored = read()
    except InputError as error:
        if error.value != store.full("study.toml"):  # `examine` has a finding for this file
            yield Finding(f"{file}: cannot be read: {error.value}")
        return
    if stored is None:
        if parts:
            yield Finding(f"{file}: absent; a sweep writes it again")
        return
    try:
        again = compute(store, damaged=[])
    except (LdpflowError, KeyError, ValueError) as error:
        yield Finding(f"{file}: not compared: {error}")
        return
    if not equal_summaries(stored, again):
        yield Finding(f"{file}: its numbers are not those of the rows")


def verify_run(store: RunStore, against: str) -> Comparison:
    """Check the rows of a run, summarise them, and compare the summary with published numbers."""
    findings = []
    with store.named_errors():
        stored = store.read_summary()
        parts, bad = checked_parts(store.replicates, stored_study(store))
        if bad or (not parts and stored is None):
            found = [f"{name}: {reason}." for name, reason in bad.items()] or ["Nothing finished there."]
            raise InputError("run", store.root, "a run whose rows are whole", " ".join(found[:3]))
        summary = stored_summary(store, damaged="refuse") if parts else stored
    if not parts:
        findings = ["the run has no rows: the numbers are those of summary.parquet, and no rows confirm them"]
    elif stored is not None and not equal_summaries(stored, summary):
        findings = ["summary.parquet differs from the rows: the numbers here are computed from the rows"]
    return replace(compare(summary, against), findings=findings)
