"""The page of an analysed transcript: estimates along the run, intervals, flags, methods paragraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from ldpflow.components.problems.transform import inverse
from ldpflow.practice.transcripts.result import (
    ARRIVAL,
    EstimatedCdf,
    interval_words,
    limits_words,
    method_label,
    shown_columns,
    shown_number,
)
from ldpflow.report.charts import GREY, METHODS, colours, named_scale, style_chart
from ldpflow.report.page import render_page, script_json

if TYPE_CHECKING:
    from ldpflow.practice.transcripts.methods import Row as AnalysisRow
    from ldpflow.practice.transcripts.result import Analysis

PROGRESS = (
    "What users were asked (the iterate), the average of all iterates so far, and the reported "
    "regression with its interval at halves of the run. A run that arrived has an average that "
    "does not drift any more."
)
CDF = (
    "F^ at the edges of the bins, or at the thresholds that were asked at, without a fit: neither monotone "
    "nor within [0, 1]. The rule is the interval to report, at the height of the quantile's level."
)
INTERVALS = "What was asked for. All but TR and TR-BM are around an average, and share its bias."


def analysis_html(analysis: Analysis) -> str:
    """The whole page, which opens from disk without a network."""
    names = [analysis.coordinate_name(j) for j in range(len(analysis.verdicts))]
    sections, specs, verdicts = [], {}, []
    for j, (name, verdict) in enumerate(zip(names, analysis.verdicts, strict=True)):
        good = verdict.arrival in ("arrived", None) and not verdict.flags
        what = f"{len(verdict.flags) or 'no'} flags" if verdict.arrival is None else ARRIVAL[verdict.arrival]
        text = ": ".join(filter(None, (name, what)))
        verdicts.append({"good": good, "text": text, "flags": verdict.words})
        if isinstance(analysis.progress, EstimatedCdf):
            chart = cdf_chart(analysis, analysis.progress, j)
            figures = [("cdf", "Estimated distribution function", CDF, chart)]
            caption = "What was asked for."
        else:
            figures = [("progress", "Estimates along the run", PROGRESS, progress_chart(analysis, j))]
            caption = INTERVALS
        if any(row["lower"] is not None and row["coordinate"] == j for row in analysis.asked):
            figures.append(("intervals", "Intervals", caption, intervals_chart(analysis, j)))
        for kind, title, caption, chart in figures:
            spec = specs[f"{kind}-{j}"] = chart.to_dict()
            heading = ", ".join(filter(None, (title, name)))
            section = {"id": f"{kind}-{j}", "heading": heading, "caption": caption}
            sections.append(section | {"tall": 0, "left_out": None, "alt": spec["description"]})
    shown = shown_columns(analysis.asked, analysis.unit)
    return render_page(
        "analysis.html.jinja",
        name=analysis.file.rpartition("/")[2],
        lead=" ".join(lead(analysis, j) for j in range(len(names))),
        verdicts=verdicts,
        facts=facts(analysis),
        sections=sections,
        head=[
            "method",
            "level",
            "coordinate",
            *(title for title, _, _ in shown),
            "status",
        ],
        rows=[table_row(row, analysis) for row in analysis.asked],
        oddities=analysis.oddities,
        notes=[
            text for text in (*analysis.notes, analysis.scale_words(), analysis.adversarial_words()) if text
        ],
        methods=analysis.methods_paragraph(),
        specs=script_json(specs),
    )


def lead(analysis: Analysis, j: int) -> str:
    """The interval to report of a coordinate, in a sentence."""
    name, row = analysis.coordinate_name(j), analysis.reported(j)
    where = f"{name[0].upper()}{name[1:]}: " if name else ""
    if row is None:
        return f"{where}no interval is defined."
    return f"{where}{interval_words(row, analysis.unit)} by {method_label(row)}."


def facts(analysis: Analysis) -> list[tuple[str, str]]:
    collection, algorithm = analysis.collection, analysis.algorithm
    taus = ", ".join(f"{tau:g}" for tau in collection.taus)
    found = [
        ("Estimated", collection.problem + (f", τ = {taus}" if taus else "")),
        ("Reports", f"{analysis.users:,}" + (f" in {analysis.files} files" if analysis.files > 1 else "")),
        ("Mechanism", analysis.privacy_words()),
    ]
    if algorithm is not None:
        steps = f"{analysis.steps:,}, {algorithm.step_constant():g} i^-{algorithm.step_exponent():g}"
        found.append(("Steps", steps))
    elif collection.protocol is not None:
        low, high = collection.protocol.ends
        bins = getattr(collection.protocol, "k", None)
        low, high = inverse(collection.scale, (low, high)).tolist()
        range_words = limits_words(low, high, analysis.unit)
        found.append(("Range", range_words + (f", {bins} bins" if bins else "")))
        found.append(("Rounds", f"{analysis.steps}"))
    if collection.batch_size > 1:
        found.append(("Reports to a step", f"{collection.batch_size:,}"))
    if analysis.sha256 is not None:
        what = "the file" if analysis.files == 1 else "the files, one after the other"
        found.append((f"SHA-256 of {what}", analysis.sha256))
    return found


def table_row(row: AnalysisRow, analysis: Analysis) -> list[str]:
    return [
        method_label(row, analysis.asked),
        f"{row['level']:g}",
        analysis.coordinate_name(row["coordinate"]) or "0",
        *(shown_number(row, name, digits) for _, name, digits in shown_columns(analysis.asked)),
        row["status"],
    ]


def with_unit(title: str, analysis: Analysis) -> str:
    return f"{title} ({analysis.unit})" if analysis.unit else title


def progress_chart(analysis: Analysis, j: int) -> Any:
    """Iterate and average over the steps, and the reported regression at halves of the run."""
    progress = analysis.progress
    assert not isinstance(progress, EstimatedCdf)
    lines = [
        {"step": step, "value": value, "what": what}
        for what, values in (("iterate", progress.iterate), ("average", progress.average))
        for step, value in zip(progress.steps.tolist(), values[:, j].tolist(), strict=True)
    ]
    fits = [
        {
            "step": row["n"] // analysis.collection.batch_size,
            "value": row["estimate"],
            "lower": row["lower"],
            "upper": row["upper"],
            "what": "regression",
        }
        for row in progress.fits
        if row["coordinate"] == j and row["status"] == "ok"
    ]
    shades = {"iterate": GREY, "average": METHODS["BM"]} | ({"regression": METHODS["TR"]} if fits else {})
    colour = alt.Color("what:N", title=None, scale=named_scale(shades))
    powers = alt.Axis(values=[10**k for k in range(len(str(analysis.steps)))], format="~s")
    x = alt.X("step:Q", title="step", scale=alt.Scale(type="log", nice=False), axis=powers)
    y = alt.Y("value:Q", title=with_unit("theta", analysis), scale=alt.Scale(zero=False))
    chart = alt.Chart(alt.Data(values=lines)).mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour)
    if fits:
        base = alt.Chart(alt.Data(values=fits)).encode(x=x, color=colour)
        chart = chart + base.mark_rule(strokeWidth=1.6).encode(y="lower:Q", y2="upper:Q")
        chart = chart + base.mark_point(filled=True, size=45).encode(y=y)
    row = analysis.reported(j)
    end = (
        "" if row is None else f" The regression ends at {row['estimate']:.6g} {analysis.unit}".rstrip() + "."
    )
    text = f"Iterate and average of theta over {analysis.steps:,} steps.{end}"
    return style_chart(chart.properties(width=620, height=300), "Estimates along the run", text)


def cdf_chart(analysis: Analysis, cdf: EstimatedCdf, j: int) -> Any:
    """F^ and, at the height tau, the interval to report."""
    tau, row = analysis.collection.taus[j], analysis.reported(j)
    points = [{"x": x, "F": f} for x, f in zip(cdf.points.tolist(), cdf.values.tolist(), strict=True)]
    value = with_unit("value", analysis)
    x: Any = alt.X("x:Q", title=value, scale=alt.Scale(zero=False))
    chart = alt.Chart(alt.Data(values=points)).mark_line(point=True, strokeWidth=1.2, color=GREY)
    layers = chart.encode(x=x, y=alt.Y("F:Q", title="F^"))
    end = "No interval is defined."
    if row is not None:
        limits = [{"lower": row["lower"], "upper": row["upper"], "F": tau}]
        base = alt.Chart(alt.Data(values=limits)).mark_rule(strokeWidth=3, color=METHODS["TR"])
        layers = layers + base.encode(x=alt.X("lower:Q", title=value), x2="upper:Q", y="F:Q")
        end = f"The interval at {tau:g} is {limits_words(row['lower'], row['upper'], analysis.unit)}."
    text = f"Estimated distribution function at {len(points)} points. {end}"
    layers = layers.properties(width=620, height=300)
    return style_chart(layers, "Estimated distribution function", text)


def intervals_chart(analysis: Analysis, j: int) -> Any:
    """One line per method and level."""
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
    x: Any = alt.X("lower:Q", title=with_unit("theta", analysis), scale=alt.Scale(zero=False))
    chart = base.mark_rule(strokeWidth=2).encode(x=x, x2="upper:Q")
    chart = chart + base.mark_point(filled=True, size=50).encode(x="estimate:Q")
    text = "; ".join(
        f"{row['name']}: {limits_words(row['lower'], row['upper'], analysis.unit)}" for row in rows
    )
    return style_chart(chart.properties(width=620, height=max(80, 26 * len(rows))), "Intervals", text, 130)
