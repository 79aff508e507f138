"""Looking before the end, one replicate at a time."""

import math
import statistics


def every_n(rows, first_n):
    """Coverage at all n, over replicates defined at all of them and over all replicates.

    A replicate is its rows (n, status, covered, length).
    """
    defined = hits = 0
    for replicate in rows:
        looks = [row for row in replicate if row[0] >= first_n]
        if all(status == "ok" for _, status, _, _ in looks):
            defined += 1
            if all(covered for _, _, covered, _ in looks):
                hits += 1
    return (hits / defined if defined else math.nan), hits / len(rows)


def at_stop(rows, first_n, target):
    """Share that stops, coverage there, mean and median n of stopping."""
    found = []
    for replicate in rows:
        for n, status, covered, length in sorted(replicate):
            if n >= first_n and status == "ok" and length < target:
                found.append((n, covered))
                break
    if not found:
        return 0.0, math.nan, math.nan, math.nan
    return (
        len(found) / len(rows),
        sum(covered for _, covered in found) / len(found),
        statistics.fmean(n for n, _ in found),
        statistics.median(n for n, _ in found),
    )
