"""Sets of replicates as sorted lists of disjoint half-open ranges."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Ranges", "intersect", "subtract", "union"]

Ranges = list[tuple[int, int]]


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union, touching ranges merged and empty ones dropped."""
    merged: Ranges = []
    for first, last in sorted(ranges):
        if first >= last:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def intersect(ranges: Ranges, first: int, last: int) -> Ranges:
    """The part of sorted disjoint ranges that lies in [first, last)."""
    return [(max(a, first), min(b, last)) for a, b in ranges if a < last and first < b]


def subtract(first: int, last: int, ranges: Ranges) -> Ranges:
    """[first, last) without the sorted disjoint ranges."""
    left: Ranges = []
    for a, b in intersect(ranges, first, last):
        if first < a:
            left.append((first, a))
        first = b
    if first < last:
        left.append((first, last))
    return left
