"""The page of an analysed transcript: estimates along the run, intervals, flags, methods paragraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from ldpflow.practice.transcripts.result import ARRIVAL, SHOWN, interval_words, method_label
from ldpflow.report.charts import GREY, METHODS, colours, named_scale, style_chart
from ldpflow.report.page import render_page, script_json

if TYPE_CHECKING:
    from ldpflow.practice.transcripts.result import Analysis

HEAD = ["method", "level", "coordinate", *(title for title, _, _ in SHOWN), "status"]

PROGRESS = (
    "What users were asked (the iterate), the average of all iterates so far, and the reported "
    "regression with its interval at halves of the run. A run that arrived has an average that "
    "does not drift any more."
)
INTERVALS = "What was asked for. All but TR and TR-BM are around an average, and share its bias."


def analysis_html(analysis: Analysis) -> str:
    """The whole page, which opens from disk without a network."""
    names = [analysis.coordinate_name(j) for j in range(len(analysis.verdicts))]
    sections, specs, verdicts = [], {}, []
    for j, (name, verdict) in enumerate(zip(names, analysis.verdicts, strict=True)):
        good = verdict.arrival == "arrived" and not verdict.flags
        text = ": ".join(filter(None, (name, ARRIVAL[verdict.arrival])))
        verdicts.append({"good": good, "text": text, "flags": verdict.words})
        figures = [("progress", "Estimates along the run", PROGRESS, progress_chart(analysis, j))]
        if any(row["status"] == "ok" and row["coordinate"] == j for row in analysis.asked):
            figures.append(("intervals", "Intervals", INTERVALS, intervals_chart(analysis, j)))
        for kind, title, caption, chart in figures:
            spec = specs[f"{kind}-{j}"] = chart.to_dict()
            heading = ", ".join(filter(None, (title, name)))
            section = {"id": f"{kind}-{j}", "heading": heading, "caption": caption, "tall": 0}
            sections.append(section | {"alt": spec["description"]})
    return render_page(
        "analysis.html.jinja",
        name=analysis.file.rpartition("/")[2],
        lead=" ".join(lead(analysis, j) for j in range(len(names))),
        verdicts=verdicts,
        facts=facts(analysis),
        sections=sections,
        head=HEAD,
        rows=[table_row(row, analysis) for row in analysis.asked],
        oddities=analysis.oddities,
        notes=analysis.notes,
        methods=analysis.methods_paragraph(),
        specs=script_json(specs),
    )


def lead(analysis: Analysis, j: int) -> str:
    """The interval to report of a coordinate, in a sentence."""
    name, row = analysis.coordinate_name(j), analysis.reported(j)
    where = f"{name[0].upper()}{name[1:]}: " if name else ""
    if row is None:
        return f"{where}no interval is defined."
    return f"{where}{interval_words(row)} by {method_label(row)}."


def facts(analysis: Analysis) -> list[tuple[str, str]]:
    collection, algorithm = analysis.collection, analysis.algorithm
    taus = ", ".join(f"{tau:g}" for tau in collection.taus)
    found = [
        ("Estimated", collection.problem + (f", τ = {taus}" if taus else "")),
        ("Reports", f"{analysis.users:,}"),
        ("Mechanism", analysis.privacy_words()),
        ("Steps", f"{analysis.steps:,}, {algorithm.step_constant():g} i^-{algorithm.step_exponent():g}"),
    ]
    if collection.batch_size > 1:
        found.append(("Reports to a step", f"{collection.batch_size:,}"))
    if analysis.sha256 is not None:
        found.append(("SHA-256 of the file", analysis.sha256))
    return found


def table_row(row: dict[str, Any], analysis: Analysis) -> list[str]:

    def cell(name: str, digits: int) -> str:
        value = row.get(name)
        return "-" if value is None else f"{value:.{digits}g}"

    return [
        method_label(row, analysis.asked),
        f"{row['level']:g}",
        analysis.coordinate_name(row["coordinate"]) or "0",
        *(cell(name, digits) for _, name, digits in SHOWN),
        row["status"],
    ]


def progress_chart(analysis: Analysis, j: int) -> Any:
    """Iterate and average over the steps, and the reported regression at halves of the run."""
    progress = analysis.progress
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
    y = alt.Y("value:Q", title="theta", scale=alt.Scale(zero=False))
    chart = alt.Chart(alt.Data(values=lines)).mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour)
    if fits:
        base = alt.Chart(alt.Data(values=fits)).encode(x=x, color=colour)
        chart = chart + base.mark_rule(strokeWidth=1.6).encode(y="lower:Q", y2="upper:Q")
        chart = chart + base.mark_point(filled=True, size=45).encode(y=y)
    row = analysis.reported(j)
    end = "" if row is None else f" The regression ends at {row['estimate']:.6g}."
    text = f"Iterate and average of theta over {analysis.steps:,} steps.{end}"
    return style_chart(chart.properties(width=620, height=300), "Estimates along the run", text)


def intervals_chart(analysis: Analysis, j: int) -> Any:
    """One line per method and level."""
    several = len(analysis.collection.levels) > 1
    rows = [
        {name: row[name] for name in ("method", "estimate", "lower", "upper")}
        | {"name": method_label(row, analysis.asked) + (f", {100 * row['level']:g}%" if several else "")}
        for row in analysis.asked
        if row["coordinate"] == j and row["status"] == "ok"
    ]
    shades = named_scale(colours([row["method"] for row in rows]))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("name:N", title=None, sort=[row["name"] for row in rows]),
        color=alt.Color("method:N", legend=None, scale=shades),
    )
    x: Any = alt.X("lower:Q", title="theta", scale=alt.Scale(zero=False))
    chart = base.mark_rule(strokeWidth=2).encode(x=x, x2="upper:Q")
    chart = chart + base.mark_point(filled=True, size=50).encode(x="estimate:Q")
    text = "; ".join(f"{row['name']}: {row['lower']:.6g} to {row['upper']:.6g}" for row in rows)
    return style_chart(chart.properties(width=620, height=max(80, 26 * len(rows))), "Intervals", text, 130)
