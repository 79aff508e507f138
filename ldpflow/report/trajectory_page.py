"""Trajectories in the report: sentences and tables."""

from __future__ import annotations

from typing import Any

from ldpflow.report.numbers import rounded, short, with_error
from ldpflow.report.results import Results, Row

__all__ = ["last_points", "trajectory_lead"]


def trajectory_lead(results: Results) -> str:
    """The followed paths in a sentence; nothing where there are none."""
    rows = results.followed
    if not rows:
        return ""
    parts = []
    for name in results.path_varying:
        found = sorted({row[name] for row in rows if row[name] is not None})
        values = ", ".join(short(v) for v in found[:10]) + (", ..." if len(found) > 10 else "")
        parts.append(f"{results.names.label(name)} in {{{values}}}")
    paths = len({row["path"] for row in rows})
    steps = len({row["step"] for row in rows})
    text = f"{paths} path{'s' if paths > 1 else ''} followed at {steps} checkpoints"
    text += f" up to n = {short(max(row['n'] for row in rows))}"
    if parts:
        text += ": " + "; ".join(parts)
    counts = sorted({row["replicates"] for row in rows})
    each = short(counts[0]) if len(counts) == 1 else f"{short(counts[0])} to {short(counts[-1])}"
    return f"{text}. {each} replicates per path."


def last_points(results: Results, most: int) -> dict[str, Any]:
    """Every path at its last checkpoint, a row per statistic, and which bounds a mean is above."""
    rows = results.followed
    last = {row["path"]: row["step"] for row in rows}
    for row in rows:
        last[row["path"]] = max(last[row["path"]], row["step"])
    ends = [row for row in rows if row["step"] == last[row["path"]]]
    names = results.path_varying
    meanings = results.meanings
    place = {stat: i for i, stat in enumerate(meanings)}
    ends.sort(key=lambda r: ([(r[k] is not None, r[k]) for k in names], place[r["stat"]]))
    bounded = [r for r in rows if r["theory_bound"] is not None and r["mean"] is not None]
    above = [r for r in bounded if r["mean"] > r["theory_bound"]]
    stats = [stat for stat in meanings if any(r["stat"] == stat for r in ends)]
    head = [
        *(results.names.label(n) for n in names),
        "n",
        "step",
        "statistic",
        "mean ± MCSE",
        "5%",
        "median",
        "95%",
        "mean / bound",
        "mean / leading term",
        "replicates",
        "diverged",
    ]
    return {
        "head": head,
        "rows": [cells(row, names) for row in ends[:most]],
        "left": max(len(ends) - most, 0),
        "bounded": f"{len(bounded):,}" if bounded else "",
        "above": f"{len(above):,}" if above else "",
        "diverged": f"{sum(r['failures'] for r in ends if r['stat'] == stats[0]):,}",
        "meaning": [(stat, meanings[stat]) for stat in stats],
    }


def cells(row: Row, names: list[str]) -> list[tuple[str, str]]:
    """(text, sort value) of one row."""
    found = [(short(row[k]), plain(row[k])) for k in (*names, "n", "step", "stat")]
    found.append((with_error(row["mean"], row["mcse"]), plain(row["mean"])))
    found += [(rounded(row[k], 3), plain(row[k])) for k in ("q05", "q50", "q95")]
    for kind in ("bound", "limit"):
        theory = row[f"theory_{kind}"]
        ratio = row["mean"] / theory if theory and row["mean"] is not None else None
        found.append((rounded(ratio, 3), plain(ratio)))
    return found + [(f"{row[k]:,}", plain(row[k])) for k in ("replicates", "failures")]


def plain(value: object) -> str:
    """Sort key of a cell; empty where there is no value."""
    return "" if value is None else str(value)
