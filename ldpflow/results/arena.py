"""Interval methods side by side in every setting of a run, and which of them a rule would choose.

A setting is a path, n, level and coordinate. The rule is computed and the same everywhere:

* A method holds its level if its coverage, failures counted as misses, is not below the level by more than
  :data:`TOLERANCE` beyond Monte Carlo error (upper end of Wilson's 95% interval).
* Of the methods that hold it, the one with the shortest mean length is recommended; where none does, the
  one with the highest coverage is named as the nearest.
* The oracle needs the truth and is never recommended. A confidence sequence competes at one n like any
  other method, and loses by its length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.results.measures import wilson

__all__ = [
    "TOLERANCE",
    "Entry",
    "Setting",
    "Standing",
    "label_of",
    "needs_the_truth",
    "settings_of",
    "standings",
]

TOLERANCE = 0.02
"""How far below its level a method may cover and still hold it, beside Monte Carlo error."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """A method in one setting.

    Parameters
    ----------
    label : str
        Kind and the settings that are not at their default.
    row : mapping
        Its row of the summary.
    holds : bool
        Whether it holds its level.
    eligible : bool
        Whether it can be used without knowing the truth.
    """

    label: str
    row: Row
    holds: bool
    eligible: bool

    @property
    def length(self) -> float:
        """Mean length over the oracle's, infinite where no interval is defined."""
        value = self.row.get("length_relative")
        if value is None:
            value = self.row.get("length_mean")
        return math.inf if value is None else float(value)

    @property
    def coverage(self) -> float:
        """Coverage with failures as misses."""
        return float(self.row["coverage_failures_as_misses"])

    @property
    def bias_share(self) -> float | None:
        """Share of the gap to the level that bias alone explains; None without a gap beyond two MCSE."""
        coverage, error = self.row["coverage"], self.row["coverage_mcse"]
        effect = self.row.get("bias_effect")
        if coverage is None or effect is None or not error:
            return None
        gap = self.row["level"] - coverage
        return -effect / gap if gap > 2 * error else None


@dataclass(frozen=True)
class Setting:
    """All methods at one path, n, level and coordinate.

    Parameters
    ----------
    keys : dict
        path, n, level, coordinate.
    entries : tuple of Entry
        The shortest first among those that hold their level, then the others by coverage.
    best : Entry, optional
        What the rule recommends; None where no eligible method holds its level.
    nearest : Entry, optional
        The eligible method with the highest coverage.
    """

    keys: Row
    entries: tuple[Entry, ...]
    best: Entry | None
    nearest: Entry | None

    @property
    def reference(self) -> Entry | None:
        """What others are compared with: the best, or the nearest."""
        return self.best or self.nearest


@dataclass(frozen=True)
class Standing:
    """A method over all settings.

    Parameters
    ----------
    label : str
    eligible : bool
    settings, held, best : int
        In how many settings it is, holds its level, and is recommended.
    lowest : float
        Its lowest coverage, failures counted as misses.
    length : float or None
        Median over the settings where it holds its level of its mean length over the oracle's.
    """

    label: str
    eligible: bool
    settings: int
    held: int
    best: int
    lowest: float
    length: float | None


def label_of(row: Row) -> str:
    """Kind of a method and the settings that are not at their default: ``EBS, 3n^0.75, t``."""
    kind = INTERVAL_METHODS.get(row["method"])
    if kind is None:
        return str(row["method"])
    words = [str(row["method"])]
    for name, field in kind.model_fields.items():
        value = row.get(name)
        if name == "kind" or value is None or value == field.default:
            continue
        if name in ("quantile", "base", "block_rule"):
            words.append(f"of {value}" if name == "base" else str(value))
        elif isinstance(value, bool):
            words.append(name if value else f"no {name}")
        else:
            words.append(f"{name} = {value:g}" if isinstance(value, (int, float)) else f"{name} {value}")
    return ", ".join(words)


def needs_the_truth(row: Row) -> bool:
    """Whether a method uses the true covariance: the oracle, and what is built on it."""
    return "oracle" in (row["method"], row.get("base"))


def holds(row: Row, tolerance: float = TOLERANCE) -> bool:
    """Whether a row of the summary holds its level."""
    replicates = row["replicates"]
    hits = round(row["coverage_failures_as_misses"] * replicates)
    return wilson(hits, replicates)[1] >= float(row["level"]) - tolerance


def settings_of(rows: Iterable[Row], tolerance: float = TOLERANCE) -> list[Setting]:
    """The settings of a run in the order of its summary."""
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    for row in rows:
        key = tuple(row[name] for name in KEYS)
        entry = Entry(label_of(row), row, holds(row, tolerance), not needs_the_truth(row))
        groups.setdefault(key, []).append(entry)
    return [setting_of(dict(zip(KEYS, key, strict=True)), found) for key, found in groups.items()]


KEYS = ("path", "n", "level", "coordinate")


def setting_of(keys: Row, entries: Sequence[Entry]) -> Setting:
    """The entries in order, and what the rule says of them."""
    held = sorted((e for e in entries if e.holds), key=lambda e: (e.length, e.label))
    others = sorted((e for e in entries if not e.holds), key=lambda e: (-e.coverage, e.label))
    eligible = [entry for entry in entries if entry.eligible]
    return Setting(
        keys,
        (*held, *others),
        next((entry for entry in held if entry.eligible), None),
        max(eligible, key=lambda e: (e.coverage, -e.length, e.label), default=None),
    )


def standings(settings: Sequence[Setting]) -> list[Standing]:
    """Every method over all settings: those that hold their level most often first, then the shortest."""
    by_label: dict[str, list[tuple[Setting, Entry]]] = {}
    for setting in settings:
        for entry in setting.entries:
            by_label.setdefault(entry.label, []).append((setting, entry))
    found = []
    for label, places in by_label.items():
        lengths = [entry.length for _, entry in places if entry.holds and math.isfinite(entry.length)]
        found.append(
            Standing(
                label,
                places[0][1].eligible,
                len(places),
                sum(entry.holds for _, entry in places),
                sum(setting.best is entry for setting, entry in places),
                min(entry.coverage for _, entry in places),
                median(lengths) if lengths else None,
            )
        )
    return sorted(found, key=lambda s: (-s.held / s.settings, s.length or math.inf, s.label))
