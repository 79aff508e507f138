"""Published numbers beside ours."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from ldpflow.errors import InputError
from ldpflow.published.compare import Comparison, compare
from ldpflow.published.tables import NAMES
from ldpflow.report.figures import Z95, clean
from ldpflow.report.numbers import short
from ldpflow.report.results import Results
from ldpflow.report.style import GREY, styled

__all__ = ["beside_published", "published_comparisons"]

OURS, PRINTED = "this run", "published"


def published_comparisons(results: Results) -> list[Comparison]:
    """Comparisons with every published study that shares a cell with the run."""
    found = (compare(results.table, name) for name in NAMES)
    return [comparison for comparison in found if comparison.rows]


def beside_published(results: Results) -> Any:
    """Coverage and length of published cells, printed and ours, with 95% intervals.

    Lengths are divided by the printed one, so that all n share an axis.
    """
    values = []
    for rows in (c.rows for c in published_comparisons(results)):
        for row in rows:
            scale = row.printed if row.measure == "length" else 1.0
            place = f"{row.method}, n = {short(row.n)}"
            panel = f"{row.measure}, τ = {row.tau:g}"
            if row.problem == "quantile_regression":
                panel += f", coordinate {row.coordinate}"
            # A rounding error, uniform within half a unit, adds its variance to the printed one.
            printed_se = math.hypot(row.printed_se, row.half_unit / math.sqrt(3.0))
            for who, value, se in ((OURS, row.ours, row.ours_se), (PRINTED, row.printed, printed_se)):
                values.append(
                    {
                        "panel": panel,
                        "cell": place,
                        "who": who,
                        "value": clean(value / scale),
                        "low": clean((value - Z95 * se) / scale),
                        "high": clean((value + Z95 * se) / scale),
                        "z": clean(row.z),
                        "measure": row.measure,
                    }
                )
    if not values:
        raise InputError("figure", "paper", "a run that has cells of a published study")
    order = list(dict.fromkeys(v["cell"] for v in values))
    colour: dict[str, Any] = dict(
        scale=alt.Scale(domain=[OURS, PRINTED], range=["#0072b2", GREY]), legend=alt.Legend(title=None)
    )
    shape = alt.Shape(
        "who:N",
        scale=alt.Scale(domain=[OURS, PRINTED], range=["circle", "diamond"]),
        legend=alt.Legend(title=None),
    )
    y = alt.Y("cell:N", sort=order, title=None)
    shift = alt.YOffset("who:N", scale=alt.Scale(domain=[OURS, PRINTED], paddingOuter=0.6))
    panels = []
    for panel in dict.fromkeys(v["panel"] for v in values):
        here = [v for v in values if v["panel"] == panel]
        axis = "coverage" if here[0]["measure"] == "coverage" else "length / published length"
        x = alt.X("value:Q", title=axis, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4))
        base = alt.Chart(alt.Data(values=here))
        bars = base.mark_rule(strokeWidth=1.6).encode(
            x=alt.X("low:Q"), x2="high:Q", y=y, yOffset=shift, color=alt.Color("who:N", **colour)
        )
        tips = [
            alt.Tooltip("cell:N"),
            alt.Tooltip("who:N"),
            alt.Tooltip("value:Q", format=".4g"),
            alt.Tooltip("z:Q", format=".2f"),
        ]
        points = base.mark_point(filled=True, size=55, opacity=1).encode(
            x=x, y=y, yOffset=shift, color=alt.Color("who:N", **colour), shape=shape, tooltip=tips
        )
        title = alt.TitleParams(panel, fontSize=11, fontWeight="normal")
        count = len({v["cell"] for v in here})
        panels.append(alt.layer(bars, points).properties(width=200, height=24 * count, title=title))
    text = (
        f"{len(values) // 2} published numbers beside this run's, with 95% intervals; largest |z| "
        f"{max(abs(v['z']) for v in values):.2f}."
    )
    return styled(alt.concat(*panels, columns=3), "This run and the published tables", text, 110)
