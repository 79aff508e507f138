"""Memory of the records of a path, counted before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ldpflow.algorithms import Algorithm
from ldpflow.errors import InputError
from ldpflow.intervals import IntervalMethod
from ldpflow.intervals.bootstrap import BlockBootstrap
from ldpflow.intervals.variance import BatchMeans
from ldpflow.random.lockstep import LANES

BUDGET = 128 * 2**20
"""Bytes that the record of LANES replicates of one path may take."""

BYTES_PER_TIME = 16 * LANES
"""Per recorded time and coordinate: a prefix sum and an iterate in every lane."""


def recorded_times(
    algorithm: Algorithm, methods: Iterable[tuple[int, Any]]
) -> tuple[int, tuple[int, int, IntervalMethod]]:
    """Upper bound of the number of times that a path records for its intervals, and its largest part.

    Parameters
    ----------
    algorithm : Algorithm
    methods : iterable of (int, IntervalMethod)
        Steps and method.

    Returns
    -------
    total : int
        Times that two methods share are counted twice, except for the same set of times.
    largest : tuple of int, int, IntervalMethod
        Times, steps and method of the largest part.
    """
    counts: dict[object, tuple[int, int, IntervalMethod]] = {}
    for steps, method in methods:
        # BB with another B has the same times; so has the same M at the same steps.
        key = (steps, method.kind, method.times_settings())
        if key not in counts:
            counts[key] = (method.count_times(steps, algorithm), steps, method)
    largest = max(counts.values(), key=lambda part: part[0])
    return sum(count for count, _, _ in counts.values()), largest


def check_budget(total: int, largest: tuple[int, int, IntervalMethod], dimension: int) -> None:
    """Refuse a path whose record does not fit, with the numbers.

    Raises
    ------
    InputError
        Naming the setting that makes most of the times.
    """
    fit = BUDGET // (BYTES_PER_TIME * dimension)
    if total <= fit:
        return
    count, steps, method = largest
    what = f"{method.kind} makes {count:,} of the {total:,} times to be recorded"
    field, value, hint = "method.kind", str(method.kind), "Fewer n or fewer methods would fit."
    if isinstance(method, BlockBootstrap):
        field, value = "method.beta", repr(method.beta)
        what = f"BB with beta = {method.beta} makes {count:,} blocks of the {total:,} times needed"
        least = math.ceil(100 * (1 - math.log(fit) / math.log(steps))) / 100
        if least > method.beta:
            hint = f"At this n, beta >= {least:.2f} would fit."
        else:
            hint = "Fewer values of n or beta in one study would fit."
    elif isinstance(method, BatchMeans):
        field, value = "method.M", repr(method.M)
        hint = f"M <= {fit - 1:,} would fit."
    raise InputError(
        field,
        float(value) if field == "method.beta" else value,
        f"at most {fit:,} recorded times on a path with {dimension} "
        + ("coordinate" if dimension == 1 else "coordinates"),
        f"{what} with {steps:,} steps: {readable(total * dimension * BYTES_PER_TIME)} for "
        f"{LANES} replicates; the budget is {readable(BUDGET)}. {hint}",
    )


def readable(size: float) -> str:
    """Bytes in units that a person reads."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} PiB"
