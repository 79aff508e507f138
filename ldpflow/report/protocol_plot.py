"""Length against the number of users, a line per protocol."""

from __future__ import annotations

from typing import Any

import altair as alt

from ldpflow.errors import InputError
from ldpflow.report.figures import (
    MAX_PANELS,
    Z95,
    left_out,
    lines,
    ordered,
    panel_name,
    panels,
    place_rows,
    said,
    scales,
    tooltip,
    usable_x,
)
from ldpflow.report.results import Results, Row, with_misses
from ldpflow.report.style import GREY, styled

__all__ = ["protocols"]

OWN = ("protocol", "algorithm", "mechanism", "sampling", "bins", "bits", "interaction_rounds", "k", "rounds")
"""Settings that belong to one protocol, and are not what a panel holds fixed."""

FOLLOWING = ("efficient_se", "scale_guess", "gamma", "c", "theta0", "batch_size", "horizon", "radius")
PREFERRED = ("oracle", "TR", "BM", "BB")
"""Interval methods of a path of which the first that a run has stands for LDP-SGD."""


def protocols(results: Results, x: str = "n") -> Any:
    """Mean length of every protocol's default interval, both axes logarithmic.

    The dashed line is twice z times the standard error of the efficiency bound. LDP-SGD has the
    oracle's length where the run has it. Cells whose intervals end at the range in more than half of
    the replicates are left out: such a length measures nothing.

    Raises
    ------
    InputError
        If the run has no table [protocol], or nothing to show over ``x``.
    """
    if not results.values("protocol"):
        raise InputError("figure", "protocols", "a run whose study has a table [protocol]")
    usable_x(results, x)
    rows = default_rows(results)
    factors = [name for name in results.varying(without=(x,)) if name not in (*OWN, *FOLLOWING)]
    for row in rows:
        row["panel"] = panel_name(results, row, factors)
        half = Z95 * (row["length_mcse"] or 0.0)
        row["low"], row["high"] = (
            max(row["length_mean"] - half, 0.1 * row["length_mean"]),
            row["length_mean"] + half,
        )
    rows = ordered(results, rows, factors)
    every = list(dict.fromkeys(row["panel"] for row in rows))
    shown, missing = every[:MAX_PANELS], every[MAX_PANELS:]
    rows = [with_misses(row) for row in rows if row["panel"] in shown]
    if not rows:
        raise InputError("figure", "protocols", "intervals that end inside the range")
    at = place_rows(results, x, rows)
    y = alt.Y(
        "length_mean:Q",
        title="mean length (unit of θ)",
        scale=alt.Scale(type="log", nice=False, padding=8),
        axis=alt.Axis(format="~g", tickCount=5, labelOverlap=True),
    )

    def layers(base: Any) -> list[Any]:
        bound = base.mark_line(color=GREY, strokeDash=[5, 4], strokeWidth=1.5).encode(
            x=alt.X(f"{x}:Q"), y=alt.Y("bound_length:Q")
        )
        tips = tooltip(results, x, "length_mean", "length_mcse", "coverage", "range_end_share")
        drawn = lines(base, at, y, "low", "high", scales(results, rows, x), tips)
        return [bound, *drawn] if x == "n" else drawn

    columns = (
        x,
        "length_mean",
        "length_mcse",
        "low",
        "high",
        "bound_length",
        "coverage",
        "range_end_share",
    )
    text = f"Mean length of every protocol's interval {said(results, rows, x)}."
    drawn = panels(rows, columns, layers)
    return styled(drawn, "Length by protocol", text, left_out=left_out(missing, []))


def default_rows(results: Results) -> list[Row]:
    """A row per cell of every protocol, of its default interval, with the bound's length beside it."""
    methods = [name for name in PREFERRED if name in results.values("method")]
    found = []
    for row in results.rows:
        if row["length_mean"] is None or (row.get("range_end_share") or 0.0) > 0.5:
            continue
        if row.get("protocol") is None:
            if row["method"] != (methods[0] if methods else row["method"]):
                continue
        elif row.get("limits") == "line":
            continue
        name = row.get("protocol") or row["algorithm"]
        bound = row.get("efficient_se")
        length = None if bound is None else 2.0 * normal_quantile(0.5 + row["level"] / 2.0) * bound
        found.append({**row, "series": name, "method": name, "bound_length": length})
    return found


def normal_quantile(p: float) -> float:
    """z with Phi(z) = p."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)
