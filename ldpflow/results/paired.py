"""Comparisons of two cells on the same replicates, or on the same simulated users.

Rows are paired by replicate. Pairing removes what the two have in common, so that a difference is
known far better than either coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.results.cells import CellRows, Floats
from ldpflow.results.measures import moments, total

__all__ = ["Contrast", "compare_cells", "compare_unpaired"]


@dataclass(frozen=True)
class Contrast:
    """A cell against a baseline, over the replicates of both; a replicate without an interval is a miss.

    Parameters
    ----------
    pairs : int
        Replicates of both, finished or not.
    only_this, only_baseline : int
        Discordant pairs: covered by one interval and not by the other (McNemar 1947).
    coverage_difference, coverage_difference_mcse : float
        Mean of d = covered - covered in the baseline, a share, and sd(d) / sqrt(pairs).
    length_ratio, length_ratio_mcse : float
        Over the pairs that both finished and in which both lengths measure something. Q = mean length /
        mean length of the baseline; its MCSE by the delta method is Q sqrt(sum psi^2 / (m (m - 1))) with
        m such pairs, psi = length / mean - length_0 / mean_0.
    paired : bool
        Whether rows are paired. Where they are on replicates of their own, ``pairs`` is the smaller
        number of rows, nothing is discordant, and variances add.
    undefined, undefined_baseline : float
        Share of those replicates that have no interval, in the cell and in the baseline.
    """

    pairs: int
    only_this: int
    only_baseline: int
    coverage_difference: float
    coverage_difference_mcse: float
    length_ratio: float
    length_ratio_mcse: float
    paired: bool = True
    undefined: float = math.nan
    undefined_baseline: float = math.nan


def nothing(paired: bool) -> Contrast:
    """No rows to compare."""
    return Contrast(0, 0, 0, math.nan, math.nan, math.nan, math.nan, paired)


def compare_cells(this: CellRows, baseline: CellRows) -> Contrast:
    """Compare paired rows; NaN where there is no pair, or no MCSE with one pair."""
    _, mine, other = np.intersect1d(
        this.replicate, baseline.replicate, assume_unique=True, return_indices=True
    )
    pairs = len(mine)
    if pairs == 0:
        return nothing(paired=True)
    d = hits(this)[mine] - hits(baseline)[other]
    difference, variance = moments(d)
    both = this.ok[mine] & baseline.ok[other]
    a, b = measured(this, mine[both]), measured(baseline, other[both])
    known = ~(np.isnan(a) | np.isnan(b))
    ratio, ratio_mcse = length_ratio(a[known], b[known])
    return Contrast(
        pairs=pairs,
        only_this=int(np.sum(d > 0)),
        only_baseline=int(np.sum(d < 0)),
        coverage_difference=difference,
        coverage_difference_mcse=math.sqrt(variance / pairs),
        length_ratio=ratio,
        length_ratio_mcse=ratio_mcse,
        undefined=1.0 - float(np.mean(this.ok[mine])),
        undefined_baseline=1.0 - float(np.mean(baseline.ok[other])),
    )


def compare_unpaired(this: CellRows, baseline: CellRows) -> Contrast:
    """Compare cells whose rows are on replicates of their own: standard errors add in squares."""
    counts = [len(this.ok), len(baseline.ok)]
    if not all(counts):
        return nothing(paired=False)
    (p, p_variance), (q, q_variance) = (moments(hits(cell)) for cell in (this, baseline))
    lengths = [cell.finished().lengths() for cell in (this, baseline)]
    lengths = [values[~np.isnan(values)] for values in lengths]
    (a, a_variance), (b, b_variance) = (
        moments(values) if len(values) else (math.nan, math.nan) for values in lengths
    )
    ratio = a / b if b > 0 else math.nan
    relative = (
        a_variance / len(lengths[0]) / a**2 + b_variance / len(lengths[1]) / b**2 if ratio > 0 else math.nan
    )
    return Contrast(
        pairs=min(counts),
        only_this=0,
        only_baseline=0,
        coverage_difference=p - q,
        coverage_difference_mcse=math.sqrt(p_variance / counts[0] + q_variance / counts[1]),
        length_ratio=ratio,
        length_ratio_mcse=ratio * math.sqrt(relative),
        paired=False,
        undefined=1.0 - float(np.mean(this.ok)),
        undefined_baseline=1.0 - float(np.mean(baseline.ok)),
    )


def hits(cell: CellRows) -> Floats:
    """1 where the interval covers, 0 where it does not or where there is none."""
    return np.where(cell.ok, cell.covered, 0.0)


def measured(cell: CellRows, at: NDArray[np.int64]) -> Floats:
    """Lengths of some finished rows, as :meth:`CellRows.lengths` has them among all that finished."""
    place = np.cumsum(cell.ok) - 1
    lengths: Floats = cell.finished().lengths()[place[at]]
    return lengths


def length_ratio(a: Floats, b: Floats) -> tuple[float, float]:
    """Ratio of mean lengths and its MCSE; NaN where there is none."""
    pairs = len(a)
    ratio = ratio_mcse = math.nan
    if pairs == 0:
        return ratio, ratio_mcse
    mean_a, mean_b = total(a) / pairs, total(b) / pairs
    if mean_b > 0:
        ratio = mean_a / mean_b
    if pairs > 1 and ratio > 0:
        psi = a / mean_a - b / mean_b
        ratio_mcse = ratio * math.sqrt(total(psi * psi) / (pairs * (pairs - 1)))
    return ratio, ratio_mcse
