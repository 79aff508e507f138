"""HTML page of an analysed transcript: estimates, intervals, flags, methods paragraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from ldpflow.components.problems.transform import inverse
from ldpflow.practice.transcripts.result import (
    ROOTS,
    SHORT,
    EstimatedCdf,
    limits_words,
    method_label,
    shown_columns,
    with_unit,
)
from ldpflow.report.charts import GREY, LABEL, METHODS, Layout, colours, draw, named_scale, style_chart
from ldpflow.report.figures import CAPTIONS
from ldpflow.report.page import render_page
from ldpflow.report.results import Row

if TYPE_CHECKING:
    from ldpflow.practice.transcripts.result import Analysis


def analysis_html(analysis: Analysis) -> str:
    """Render the whole page. It opens from disk without a network."""
    names = [analysis.coordinate_name(j) for j in range(len(analysis.verdicts))]
    figures, verdicts = [], []
    for j, (name, verdict) in enumerate(zip(names, analysis.verdicts, strict=True)):
        row = analysis.reported(j)
        root = row is not None and row["method"] in ROOTS and verdict.relaxation_times >= SHORT
        good = not verdict.flags and verdict.arrival in ("arrived", None, *(["doubtful"] if root else []))
        what = verdict.meaning or f"{len(verdict.flags) or 'no'} flags"
        text = ": ".join(filter(None, (name, what)))
        verdicts.append({"good": good, "text": text, "flags": verdict.words})
        if isinstance(analysis.progress, EstimatedCdf):
            drawn = {"cdf": cdf_chart(analysis, analysis.progress, j)}
        else:
            drawn = {"progress": progress_chart(analysis, j)}
        if any(row["lower"] is not None and row["coordinate"] == j for row in analysis.asked):
            drawn["limits" if "cdf" in drawn else "intervals"] = intervals_chart(analysis, j)
        for kind, chart in drawn.items():
            heading = ", ".join(filter(None, (CAPTIONS[kind]["heading"], name)))
            figures.append((f"{kind}-{j}", heading, CAPTIONS[kind]["caption"], chart))
    asked = analysis.asked
    shown = shown_columns(asked, analysis.unit)
    titles = [
        (method_label(row, asked), f"{row['level']:g}", analysis.coordinate_name(row["coordinate"]) or "0")
        for row in asked
    ]
    return render_page(
        "analysis.html.jinja",
        figures,
        name=analysis.file.rpartition("/")[2],
        lead=" ".join(
            f"{line[0].upper()}{line[1:]}." for line in map(analysis.interval_line, range(len(names)))
        ),
        verdicts=verdicts,
        analysis=analysis,
        range=range_words(analysis),
        head=["method", "level", "coordinate", *(title for title, _ in shown)],
        rows=[[*own, *(text(row) for _, text in shown)] for own, row in zip(titles, asked, strict=True)],
        oddities=analysis.oddities,
        notes=analysis.remarks(),
        methods=analysis.methods_paragraph(),
    )


def range_words(analysis: Analysis) -> str:
    """Public range of a protocol, in the unit of the values, and number of bins. Empty for a path."""
    collection = analysis.collection
    if collection.protocol is None:
        return ""
    bins = getattr(collection.protocol, "k", None)
    low, high = inverse(collection.scale, collection.protocol.range).tolist()
    return limits_words(low, high, analysis.unit) + (f", {bins} bins" if bins else "")


def progress_chart(analysis: Analysis, j: int) -> Any:
    progress = analysis.progress
    assert not isinstance(progress, EstimatedCdf)
    place: Row = {"row": (0, "all"), "panel": "all"}
    marked = set(progress.steps[:: max(len(progress.steps) // 7, 1)].tolist())
    points = [
        place | {"series": series, "x": step, "y": value} | ({"marked": 1} if step in marked else {})
        for series, values in (("iterate", progress.iterate), ("average", progress.average))
        for step, value in zip(progress.steps.tolist(), values[:, j].tolist(), strict=True)
    ]
    layout = Layout(
        "Estimates along the run",
        "step",
        with_unit("theta", analysis.unit),
        [("iterate", "oracle"), ("average", "BM")],  # series, each with the method whose colour it has
        log_x=True,
        ribbons=True,
    )
    return draw(points, layout)


def cdf_chart(analysis: Analysis, cdf: EstimatedCdf, j: int) -> Any:
    tau, row = analysis.collection.taus[j], analysis.reported(j)
    points = [{"x": x, "F": f} for x, f in zip(cdf.points.tolist(), cdf.values.tolist(), strict=True)]
    value = with_unit("value", analysis.unit)
    x: Any = alt.X("x:Q", title=value, scale=alt.Scale(zero=False))
    chart = alt.Chart(alt.Data(values=points)).mark_line(point=True, strokeWidth=1.2, color=GREY)
    layers = chart.encode(x=x, y=alt.Y("F:Q", title="F^"))
    if row is not None:
        limits = [{"lower": row["lower"], "upper": row["upper"], "F": tau}]
        base = alt.Chart(alt.Data(values=limits)).mark_rule(strokeWidth=3, color=METHODS["TR"])
        layers = layers + base.encode(x=alt.X("lower:Q", title=value), x2="upper:Q", y="F:Q")
    text = f"Estimated distribution function at {len(points)} points, and the interval at {tau:g}, if any."
    layers = layers.properties(width=620, height=300)
    return style_chart(layers, "Estimated distribution function", text)


def intervals_chart(analysis: Analysis, j: int) -> Any:
    several = len(analysis.collection.levels) > 1
    rows = [
        {name: row[name] for name in ("method", "estimate", "lower", "upper")}
        | {"name": method_label(row, analysis.asked) + (f", {100 * row['level']:g}%" if several else "")}
        for row in analysis.asked
        if row["coordinate"] == j and row["lower"] is not None
    ]
    shades = named_scale(colours([row["method"] for row in rows]))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("name:N", title=None, sort=[row["name"] for row in rows]),
        color=alt.Color("method:N", legend=None, scale=shades),
    )
    few = alt.Axis(tickCount=5, labelExpr=LABEL, labelOverlap=True)
    x: Any = alt.X("lower:Q", title=with_unit("theta", analysis.unit), scale=alt.Scale(zero=False), axis=few)
    chart = base.mark_rule(strokeWidth=2).encode(x=x, x2="upper:Q")
    chart = chart + base.mark_point(filled=True, size=50).encode(x="estimate:Q")
    text = f"Intervals of {', '.join(row['name'] for row in rows)}. The table below has their limits."
    return style_chart(chart.properties(width=620, height=max(80, 26 * len(rows))), "Intervals", text, 130)
