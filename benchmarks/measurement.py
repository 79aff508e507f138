"""Rows of the table of benchmarks: measured values, their target, and whether they meet it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import numpy as np


class Skipped(Exception):
    """Raised if a row cannot be measured on this machine. The message says why."""


@dataclass(frozen=True)
class Measurement:
    """One row of the table.

    Parameters
    ----------
    name : str
        What ``--only`` selects.
    what : str
        The comparison in words.
    unit : str
        Unit of ``value`` and ``target``, for example ``times faster``.
    values : sequence of float
        One per repetition.
    target : float, optional
        None in rows without a target.
    better : {"higher", "lower"}
        Which side of the target is met.
    details : dict
        Measured times behind the ratio, and other facts for the reader.
    skipped : str, optional
        Why nothing was measured.
    failed : bool
        Whether the row failed with an error. False if a program is missing.
    """

    name: str
    what: str
    unit: str = ""
    values: Sequence[float] = ()
    target: float | None = None
    better: Literal["higher", "lower"] = "higher"
    details: dict[str, Any] = field(default_factory=dict)
    skipped: str | None = None
    failed: bool = False

    @property
    def value(self) -> float | None:
        """Median over the repetitions."""
        return median(self.values) if self.values else None

    @property
    def met(self) -> bool | None:
        """Whether the median meets the target. None without a target or a value."""
        if self.target is None or self.value is None:
            return None
        if self.better == "higher":
            return self.value >= self.target
        return self.value <= self.target

    def mapping(self) -> dict[str, Any]:
        """Row of the JSON file."""
        return {
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "value": rounded(self.value),
            "quartiles": [rounded(q) for q in quartiles(self.values)],
            "repetitions": len(self.values),
            "target": self.target,
            "better": self.better,
            "met": self.met,
            "details": {key: rounded(entry) for key, entry in self.details.items()},
            "skipped": self.skipped,
            "failed": self.failed,
        }


def quartiles(values: Sequence[float]) -> list[float]:
    """Lower and upper quartile, interpolated. A single value is both."""
    return np.quantile(values, [0.25, 0.75]).tolist() if len(values) else []  # type: ignore[no-any-return]


def rounded(value: Any) -> Any:
    """Round to four significant digits, which are more than a time has."""
    return float(f"{value:.4g}") if isinstance(value, float) else value
