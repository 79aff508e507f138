"""The page of an analysed transcript: estimates along the run, intervals, flags, methods paragraph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from ldpflow.practice.transcripts.result import ARRIVAL, interval_words, method_label
from ldpflow.report.charts import GREY, colours, styled
from ldpflow.report.page import rendered, script_json

if TYPE_CHECKING:
    from ldpflow.practice.transcripts.result import Analysis

HEAD = [
    "method", "level", "coordinate", "estimate", "lower", "upper", "SE", "K", "lack of fit", "status",
]  # fmt: skip


def analysis_html(analysis: Analysis) -> str:
    """The whole page, which opens from disk without a network."""
    sections = []
    specs = {}
    for j in range(len(analysis.verdicts)):
        for name, heading, caption, chart in figures(analysis, j):
            spec = chart.to_dict()
            identity = f"{name}-{j}"
            specs[identity] = spec
            whose = analysis.coordinate_name(j)
            where = f", {whose}" if whose else ""
            sections.append(
                {
                    "id": identity,
                    "heading": heading + where,
                    "caption": caption,
                    "alt": spec["description"],
                }
            )
    return rendered(
        "analysis.html.jinja",
        name=analysis.file.rpartition("/")[2],
        lead=lead(analysis),
        verdicts=verdicts(analysis),
        facts=facts(analysis),
        sections=sections,
        head=HEAD,
        rows=[table_row(row, analysis) for row in analysis.asked],
        oddities=analysis.oddities,
        notes=analysis.notes,
        methods=analysis.methods_paragraph(),
        specs=script_json(specs),
    )


def lead(analysis: Analysis) -> str:
    """The intervals to report, in a sentence each."""
    found = []
    for j in range(len(analysis.verdicts)):
        whose = analysis.coordinate_name(j)
        where = f"{whose[0].upper()}{whose[1:]}: " if whose else ""
        row = analysis.reported(j)
        found.append(
            f"{where}no interval is defined."
            if row is None
            else f"{where}{interval_words(row)} by {method_label(row)}."
        )
    return " ".join(found)


def verdicts(analysis: Analysis) -> list[dict[str, Any]]:
    """Arrival and flags by coordinate."""
    return [
        {
            "good": verdict.arrival == "arrived" and not verdict.flags,
            "text": ": ".join(filter(None, (analysis.coordinate_name(j), ARRIVAL[verdict.arrival]))),
            "flags": verdict.words,
        }
        for j, verdict in enumerate(analysis.verdicts)
    ]


def facts(analysis: Analysis) -> list[tuple[str, str]]:
    """Facts on the collection, as names and values."""
    collection, algorithm = analysis.collection, analysis.algorithm
    taus = ", ".join(f"{tau:g}" for tau in collection.taus)
    target = collection.problem + (f", τ = {taus}" if taus else "")
    size = collection.batch_size
    found = [
        ("Estimated", target),
        ("Reports", f"{analysis.users:,}"),
        ("Mechanism", analysis.privacy_words()),
        ("Steps", f"{analysis.steps:,}, {algorithm.step_constant():g} i^-{algorithm.step_exponent():g}"),
    ]
    if size > 1:
        found.append(("Reports to a step", f"{size:,}"))
    if analysis.sha256 is not None:
        found.append(("SHA-256 of the file", analysis.sha256))
    return found


def table_row(row: dict[str, Any], analysis: Analysis) -> list[tuple[str, object]]:
    """Texts of a row, and what they sort by."""

    def cell(name: str, digits: int) -> tuple[str, object]:
        value = row.get(name)
        return ("-", "") if value is None else (f"{value:.{digits}g}", value)

    return [
        (name := method_label(row, analysis.asked), name),
        (f"{row['level']:g}", row["level"]),
        (analysis.coordinate_name(row["coordinate"]) or "0", row["coordinate"]),
        *(cell(name, 7) for name in ("estimate", "lower", "upper")),
        cell("se", 4),
        cell("relaxation_times", 4),
        cell("lack_of_fit", 3),
        (row["status"], row["status"]),
    ]


def figures(analysis: Analysis, j: int) -> list[tuple[str, str, str, Any]]:
    """(id, heading, caption, chart) of the figures of a coordinate."""
    found = [
        (
            "progress",
            "Estimates along the run",
            "What users were asked (the iterate), the average of all iterates so far, and the reported "
            "regression with its interval at halves of the run. A run that arrived has an average that "
            "does not drift any more.",
            progress_chart(analysis, j),
        )
    ]
    if any(row["status"] == "ok" and row["coordinate"] == j for row in analysis.asked):
        found.append(
            (
                "intervals",
                "Intervals",
                "What was asked for. All but TR and TR-BM are around an average, and share its bias.",
                intervals_chart(analysis, j),
            )
        )
    return found


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
    names = ["iterate", "average"] + (["regression"] if fits else [])
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(
            domain=names, range=[GREY, colours(["BM"])["BM"], colours(["TR"])["TR"]][: len(names)]
        ),
    )
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
    return styled(chart.properties(width=620, height=300), "Estimates along the run", text)


def intervals_chart(analysis: Analysis, j: int) -> Any:
    """One line per method and level."""
    rows = [
        {
            "name": method_label(row, analysis.asked)
            + (f", {100 * row['level']:g}%" if len(analysis.collection.levels) > 1 else ""),
            "method": row["method"],
            "estimate": row["estimate"],
            "lower": row["lower"],
            "upper": row["upper"],
        }
        for row in analysis.asked
        if row["coordinate"] == j and row["status"] == "ok"
    ]
    names = [row["name"] for row in rows]
    colour = colours([row["method"] for row in rows])
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("name:N", title=None, sort=names),
        color=alt.Color(
            "method:N",
            legend=None,
            scale=alt.Scale(domain=list(colour), range=list(colour.values())),
        ),
    )
    x: Any = alt.X("lower:Q", title="theta", scale=alt.Scale(zero=False))
    chart = base.mark_rule(strokeWidth=2).encode(x=x, x2="upper:Q")
    chart = chart + base.mark_point(filled=True, size=50).encode(x="estimate:Q")
    text = "; ".join(f"{r['name']}: {r['lower']:.6g} to {r['upper']:.6g}" for r in rows)
    return styled(chart.properties(width=620, height=max(80, 26 * len(rows))), "Intervals", text, 130)
