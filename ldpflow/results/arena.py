"""Interval methods side by side in every setting of a run, and the rule that recommends one of them.

A setting is a path, n, level and coordinate. The rule uses Wilson's 95% interval for the coverage of a
method, failures counted as misses:

* A method holds its level if the lower end is at most :data:`TOLERANCE` below the level. It fails if the
  upper end is more than this below the level. Otherwise there are too few replicates to say: it is unclear.
* The recommended method has the shortest mean length of all methods that hold their level. If there are
  none, the method with the highest coverage is named as the nearest.
* Methods that read the truth (such as the oracle) and joint regions (for all coordinates at once) are not
  recommended. A method whose plug-in is not loaded may be one of these, so it is not recommended either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.columns import distinguishing_columns
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.errors import InputError
from ldpflow.results.measures import Z95, wilson
from ldpflow.settings import canonical_json
from ldpflow.simulators.simulator import Cell
from ldpflow.store.run_store import RunStore

TOLERANCE = 0.02
"""Largest shortfall of coverage below the level at which a method holds its level."""

CHANCE = 0.8
"""Least probability that a method is shown to hold its level, for :func:`least_replicates`."""

HOLDS, UNDECIDED, FAILS = "holds", "unclear", "fails"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class ArenaEntry:
    """A method in one setting, with its row of the summary."""

    row: Row
    state: str
    """Result of :func:`judge`."""
    barred: str
    """Result of :func:`why_barred`."""

    @property
    def length(self) -> float:
        """Mean length, relative to that of the oracle if known. Infinite if no interval is defined."""
        relative, mean = self.row.get("length_relative"), self.row["length_mean"]
        return next((float(length) for length in (relative, mean) if length is not None), math.inf)

    @property
    def coverage(self) -> float:
        return float(self.row["coverage_failures_as_misses"])


@dataclass(frozen=True)
class ArenaSetting:
    """All methods in one setting. Those that hold their level come first, the shortest on top.

    The other methods follow, the one with the highest coverage first.
    """

    keys: Row
    entries: tuple[ArenaEntry, ...]
    best: ArenaEntry | None
    """Recommended method, if one holds its level."""
    nearest: ArenaEntry | None
    """Method with the highest coverage of those that are not barred."""

    @property
    def reference(self) -> ArenaEntry | None:
        return self.best or self.nearest

    @property
    def undecided(self) -> bool:
        """Whether no method is recommended and more replicates could change that."""
        return self.best is None and any(not e.barred and e.state == UNDECIDED for e in self.entries)


def why_barred(row: Row) -> str:
    """Reason why a method is never recommended, or ""."""
    if not {row["method"], row.get("base") or row["method"]} <= set(INTERVAL_METHODS):
        return "its plug-in is not loaded"
    if Cell.from_columns(dict(row)).method.reads_truth():
        return "needs the truth"
    return "for all coordinates" if row["method"] == "joint" else ""


def not_judged(rows: Iterable[Row]) -> str:
    """A sentence that names the methods whose plug-ins are not loaded, or ""."""
    names = ", ".join(sorted({row["method"] for row in rows if why_barred(row).startswith("its plug-in")}))
    why = "A method whose plug-in is not loaded may need the truth."
    return f"Not judged: {names}. {why}" if names else ""


def judge(row: Row, tolerance: float = TOLERANCE) -> str:
    replicates = row["replicates"]
    low, high = wilson(round(row["coverage_failures_as_misses"] * replicates), replicates)
    least = float(row["level"]) - tolerance
    return HOLDS if low >= least else FAILS if high < least else UNDECIDED


def probability_to_hold(level: float, replicates: Any) -> Any:
    """Exact probability that :func:`judge` returns HOLDS, for a method whose true coverage is the level.

    The lower end of Wilson's interval for R replicates is at least p if hits >= R p + z sqrt(R p (1 - p)).
    """
    from scipy.special import bdtrc  # slow to load

    least = max(level - TOLERANCE, 0.0)
    hits = np.ceil(replicates * least + Z95 * np.sqrt(replicates * least * (1 - least)))
    return bdtrc(hits - 1, replicates, level)


def least_replicates(level: float) -> int:
    """Smallest R so that :func:`probability_to_hold` is at least :data:`CHANCE` for R or more replicates.

    The probability jumps up and down as the number grows.
    """
    counts = np.arange(1, 10_000)  # the result is below 5,000 for every level
    rare = counts[probability_to_hold(level, counts) < CHANCE]
    return 1 + int(max(rare, default=0))


def enough_in_words(levels: Iterable[float]) -> str:
    return (
        f"a method whose true coverage is its level is shown to hold it with a probability of {CHANCE:.0%} "
        f"from {max(map(least_replicates, levels), default=1):,} replicates on"
    )


KEYS = ("path", "n", "level", "coordinate")


def settings_of(rows: Iterable[Row], keys: Sequence[str] = KEYS) -> list[ArenaSetting]:
    groups: dict[tuple[Any, ...], list[ArenaEntry]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        groups.setdefault(key, []).append(ArenaEntry(row, judge(row), why_barred(row)))
    found = []
    for key, entries in groups.items():
        held = sorted((e for e in entries if e.state == HOLDS), key=lambda e: e.length)
        others = sorted((e for e in entries if e.state != HOLDS), key=lambda e: -e.coverage)
        best = next((entry for entry in held if not entry.barred), None)
        eligible = (entry for entry in entries if not entry.barred)
        nearest = max(eligible, key=lambda e: (e.coverage, -e.length), default=None)
        found.append(ArenaSetting(dict(zip(keys, key, strict=True)), (*held, *others), best, nearest))
    return found


def best_rows(store: RunStore, summary: pa.Table) -> pa.Table:
    """Rows of a summary that the rule recommends, one for every problem, mechanism, n, level and coordinate.

    If no method holds its level, the row is that of the nearest method, as its ``level_state`` shows.
    ``candidates`` is the number of rows from which the row was chosen.
    """
    from ldpflow.results.summary import stored_paths  # loads SciPy

    fixed = {
        path: canonical_json({table: simulator.settings().get(table) for table in ("problem", "mechanism")})
        for path, simulator in stored_paths(store.replicates, damaged="refuse").items()
    }
    rows = [row | {"fixed": fixed[row["path"]], "place": at} for at, row in enumerate(summary.to_pylist())]
    found = settings_of(rows, ("fixed", *KEYS[1:]))
    chosen = [
        (setting.reference, sum(not entry.barred for entry in setting.entries))
        for setting in found
        if setting.reference is not None
    ]
    if not chosen:
        allowed = "a run with an interval method that needs no knowledge of the truth"
        raise InputError("best", True, allowed, not_judged(rows))
    table = summary.take(pa.array([entry.row["place"] for entry, _ in chosen], pa.int64()))
    states = pa.array([entry.state for entry, _ in chosen], pa.string())
    counts = pa.array([count for _, count in chosen], pa.int64())
    return table.append_column("level_state", states).append_column("candidates", counts)


SHORT = (
    "coverage", "coverage_mcse", "coverage_failures_as_misses", "coverage_failures_as_misses_mcse",
    "level_state", "length_mean", "length_mcse",
    "bias", "bias_mcse", "replicates", "failures", "candidates",
)  # fmt: skip


def with_state(table: pa.Table) -> pa.Table:
    """Add ``level_state`` to a table of coverages. Other tables stay as they are."""
    if "level_state" in table.column_names or "coverage_failures_as_misses" not in table.column_names:
        return table
    return table.append_column("level_state", pa.array(map(judge, table.to_pylist()), pa.string()))


def settings_in(rows: Iterable[Row]) -> set[str]:
    """Names of the settings in the column ``vs``, such as ``beta`` in ``BB beta=0.75``."""
    return {word.partition("=")[0] for row in rows for word in str(row.get("vs")).split() if "=" in word}


def short_rows(summary: pa.Table, measures: Sequence[str] = SHORT, first: str = "truth") -> pa.Table:
    """Select some measures, and those columns left of ``first`` (the settings) that differ between rows."""
    rows = summary.to_pylist()
    if "level_state" in measures:
        summary = with_state(summary)
    names = summary.column_names
    settings = [name for name in names[: names.index(first)] if name != "path"]
    differing = distinguishing_columns(settings, rows, implied=True)
    named = {"n", "method", *settings_in(rows)}
    shown = [name for name in settings if name in differing or name in named]
    return summary.select([*shown, *(name for name in measures if name in names and name not in shown)])
