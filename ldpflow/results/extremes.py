"""Cells in which some paths have exploded, though every number is finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["exploded"]

RATIO = 1e3
"""Mean length beside the median: finite moments keep them within a small factor. A thousand takes a length of
1000 R times the median in one of R replicates, or a share of them that has grown."""


def exploded(row: Mapping[str, Any]) -> bool:
    """Whether a cell's lengths are of several orders of magnitude, or larger than any estimate.

    Parameters
    ----------
    row : mapping
        A row of the summary.
    """
    mean, median = row.get("length_mean"), row.get("length_median")
    if mean is None or median is None or not math.isfinite(mean):
        return False
    return bool(mean > RATIO * median > 0)
