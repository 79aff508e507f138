"""Result of an analysed transcript: rows, flags, verdicts, and estimates over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.algorithms import Algorithm
from ldpflow.transcripts.collection import Collection
from ldpflow.transcripts.methods import Row
from ldpflow.transcripts.verdict import Verdict, around_average

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Progress:
    """Estimates along the run.

    Parameters
    ----------
    steps : ndarray of int64, shape (P,)
    average, iterate : ndarray, shape (P, d)
        Mean of theta_1..theta_i, and theta_i.
    fits : list of dict
        Rows of the reported regression at fractions of the run.
    """

    steps: NDArray[np.int64]
    average: Floats
    iterate: Floats
    fits: list[Row]


@dataclass(frozen=True)
class Analysis:
    """Intervals from a transcript, and what it says about its own soundness.

    Parameters
    ----------
    rows : list of dict
        One per method, level and coordinate: method, its settings, level, coordinate, estimate, se, lower,
        upper, relaxation_times, condition, lack_of_fit, status; ``asked`` for what was asked for.
    verdicts : list of Verdict
        By coordinate, at the first level.
    users, steps : int
    collection : Collection
    algorithm : Algorithm
    start : tuple of float
        theta0.
    file : str
    sha256 : str or None
    oddities, notes : list of str
        What is odd about the reports; what was done that was not asked for.
    progress : Progress
    users_compared : bool
        Whether a column of users showed that no user has two reports.
    """

    rows: list[Row]
    verdicts: list[Verdict]
    users: int
    steps: int
    collection: Collection
    algorithm: Algorithm
    start: tuple[float, ...]
    file: str
    sha256: str | None
    oddities: list[str]
    notes: list[str]
    progress: Progress = field(repr=False)
    users_compared: bool = False

    @property
    def asked(self) -> list[Row]:
        """The rows that were asked for."""
        return [row for row in self.rows if row["asked"]]

    @property
    def flags(self) -> list[str]:
        """Flags of all coordinates, each once."""
        return list(dict.fromkeys(flag for verdict in self.verdicts for flag in verdict.flags))

    def exit_code(self, strict: bool = False) -> int:
        """0, or 1 where what was asked for cannot be used (see Verdict)."""
        averages = any(around_average(method.model_dump()) for method in self.collection.methods)
        return max(verdict.exit_code(strict, averages) for verdict in self.verdicts)

    def reported(self, coordinate: int = 0) -> Row | None:
        """The row to report of a coordinate, or None.

        Returns
        -------
        dict or None
            None where no interval is defined: the flags of the coordinate's verdict have ``undefined``.
        """
        place = self.verdicts[coordinate].reported
        return None if place is None else self.rows[place]

    def methods_paragraph(self) -> str:
        """A paragraph for a methods section."""
        from ldpflow.transcripts.wording import methods_paragraph

        return methods_paragraph(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON; what is undefined is None."""
        from ldpflow.transcripts.wording import as_dict

        return as_dict(self)

    def __str__(self) -> str:
        from ldpflow.transcripts.wording import verdict_lines

        return "\n".join(verdict_lines(self))
