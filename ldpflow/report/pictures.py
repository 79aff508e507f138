"""All figures by name, and the functions of some: explanation, zip, paper, choice."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from ldpflow.errors import InputError
from ldpflow.report import charts, figures
from ldpflow.report.answers import COVERAGE, findings
from ldpflow.report.figures import CAPTIONS, CURVES, Asked, Curves, arrange, interval
from ldpflow.report.results import Results, Row, distinct
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED, settings_of
from ldpflow.results.measures import Z95
from ldpflow.results.published import NAMES, Comparison, compare
from ldpflow.results.summary import stored_cells
from ldpflow.store.schema import cell_id, cell_keys

# Explanation: the terms that add up to the difference of coverage and level

PARTS = {
    "bias": "bias", "length": "length", "variability": "variability", "shape": "shape",
    "joint": "several at once", "dependence": "dependence", "limits": "asymmetric limits",
}  # fmt: skip
"""Words for the effects of an explanation: see :mod:`ldpflow.results.decomposition`."""
NO_BREAK = "\u00a0=\u00a0"
# Light colours, since the colours of methods are dark.
COLOURS = ("#eedd88", "#77aadd", "#bbcc33", "#ffaabb", "#dddddd", "#b9a0d8", "#99ddff", "#55585e")


def parts_of(row: Row) -> dict[str, float]:
    """Terms that add up to coverage, failures as misses, less level. Empty if they are not defined."""
    found = {PARTS[name]: row[f"{name}_effect"] for name in PARTS if row.get(f"{name}_effect") is not None}
    if found:
        found["no interval"] = row[COVERAGE] - row["coverage"]
    return found


def explanation(results: Results, asked: Asked) -> Any:
    """Draw a stacked bar for each cell: the terms of coverage less level, and their sum with its error."""
    points: list[Row] = []
    if asked.color:
        raise InputError("color", list(asked.color), "nothing: colours are the parts of the explanation")
    if not results.rows:
        raise InputError("figure", "explanation", "a run with interval methods")
    place = arrange(results, results.rows, results.varying(), asked)
    for row in results.rows:
        explained = results.explained[results.identity(row)]
        ends = {end: row[f"{COVERAGE}_{end}"] - row["level"] for end in ("low", "high")}
        ends["gap"] = row[COVERAGE] - row["level"]
        point = {**place(row), "series": row["series"], **ends, "cause": explained["cause"]}
        parts = parts_of(explained).items()
        points.append(point | {name: value for name, value in parts if abs(value) >= 5e-5})
    colours = zip((*PARTS.values(), "no interval"), COLOURS, strict=True)
    shown = {name: shade for name, shade in colours if any(name in point for point in points)}
    names = [*results.series]
    y = alt.Y("series:N", sort=names, title=None, axis=alt.Axis(labelLimit=0))
    heading = "coverage - level"
    x = alt.X("effect:Q", title=heading, axis=alt.Axis(tickCount=5, labelExpr=charts.LABEL), stack="zero")
    colour = alt.Color("part:N", scale=charts.named_scale(shown), legend=alt.Legend(title=None))
    tips = ["series:N", "panel:N", "part:N", "cause:N", "effect:Q", "gap:Q"]
    base = alt.Chart()
    fields: list[Any] = [*shown]
    bars = base.transform_fold(fields, as_=["part", "effect"]).transform_filter("isValid(datum.effect)")
    rank = "indexof(" + json.dumps([*shown]) + ", datum.part)"
    bars = bars.transform_calculate(rank=rank)
    bars = bars.mark_bar(height={"band": 0.75}, stroke="#55585e", strokeWidth=0.4)
    layers = [
        bars.encode(x=x, y=y, color=colour, order="rank:Q", tooltip=tips),
        base.mark_rule(color=charts.GREY).encode(x=alt.XDatum(0)),
        base.mark_rule(color="#767c85", strokeWidth=1.2).encode(
            x=alt.X("low:Q", title=heading), x2="high:Q", y=y
        ),
        base.mark_point(fill="#ffffff", stroke="#1b1f24", strokeWidth=1, size=24, opacity=1).encode(
            alt.X("gap:Q", title=heading), y
        ),
    ]
    text = f"Stacked bars of the parts of coverage less level in {len(points)} cells."
    count = len({point.get("column", point["row"]) for point in points})
    # Labels of rows are turned by 90 degrees: a row must be as high as its label is long.
    longest = max(len(line) for point in points for line in point["row"][1].split(", "))
    height = max(15 * len(names), 60, round(charts.LETTER * longest))
    size = {"width": {1: 480, 2: 340}.get(count, 200), "height": height}
    undefined = sum(not any(name in point for name in shown) for point in points)
    absent = f"{undefined:,} of {len(points):,} cells have no bar: no parts are defined." if undefined else ""
    drawn = charts.panels(points, layers, size)
    chart = charts.style_chart(drawn, "Why coverage differs from its level", text, 130, absent)
    chart.usermeta["height"] = height
    return chart


# Zip plots (Morris, White and Crowther, 2019): intervals of a cell, ordered by error

MAX_INTERVALS = 150
REACH = 3.0
"""Limits are cut at this multiple of the 90% quantile of their distances from the truth."""


def zip_plot(results: Results) -> Any:
    """Draw zip plots of the cells that the findings name.

    Intervals are ranked by |estimate - theta| / (length / 2). A symmetric interval misses theta if this ratio
    is above 1. If coverage equals the level, the coloured misses begin at the line of the level.
    """
    heading = "rank of |error| / half length (%)"
    ticks = alt.Axis(values=[0, 50, 80, 90, 100], grid=False, labelExpr=charts.LABEL)
    y = alt.Y("rank:Q", title=heading, scale=alt.Scale(domain=[0, 100]), axis=ticks)
    colour = alt.Color(
        "kind:N",
        scale=charts.named_scale(charts.MISSES),
        legend=alt.Legend(title="the interval", symbolType="stroke", symbolSize=200, symbolStrokeWidth=3),
    )
    x = alt.X("lower:Q", title="limits - θ", axis=alt.Axis(tickCount=4, labelExpr=charts.LABEL))
    base = alt.Chart()
    points: list[Row] = []
    absent = []
    cells = findings(results).cells
    for reason, row in cells:
        lines = intervals(results, row)
        settings = results.names.settings(row, results.varying())
        if not lines:
            at = f"{row['series']} at {settings}" if settings else row["series"]
            absent.append(f"No zip plot of {at}: no replicate has an interval.")
            continue
        lost = f" ({row[COVERAGE]:.3f} with failures as misses)" if row["failures"] else ""
        lines_of_name = (f"{row['series']}: {reason}", settings, f"coverage {row['coverage']:.3f}{lost}")
        name = "\n".join(filter(None, lines_of_name))
        fixed = results.picks(row) | {"row": (len(points), name), "level": 100 * row["level"]}
        points += [line | fixed for line in lines]
    if others := len(results.rows) - len({id(row) for _, row in cells}):
        absent.append(
            f"Not drawn: {others:,} of {len(results.rows):,} cells. The title of a panel says why its cell "
            "is drawn. A condition (`where`) chooses other cells."
        )
    if not points:
        raise InputError("figure", "zip", "a run with replicates whose rows can be read")
    layers = [
        base.mark_rule(strokeWidth=1.1).encode(x=x, x2="upper:Q", y=y, color=colour),
        base.mark_rule(color=charts.GREY, strokeWidth=1).encode(x=alt.XDatum(0)),
        base.mark_rule(**charts.RULE).encode(y=alt.Y("mean(level):Q", title=heading)),
    ]
    count = len({point["row"] for point in points})
    text = f"Zip plots of {count} cells: intervals are ranked by error over half length."
    drawn = charts.panels(points, layers, {"width": 210, "height": 170}, x="independent")
    return charts.style_chart(drawn, "Zip plots: the intervals themselves", text, left_out=" ".join(absent))


def intervals(results: Results, row: Row) -> list[Row]:
    """Intervals of one cell at evenly spaced ranks, at most MAX_INTERVALS."""
    wanted = {cell_id({name: row.get(name) for name in cell_keys(results.table.schema)})}
    stored = stored_cells(results.store, row["path"].removeprefix("p"), wanted, damaged=results.damaged)
    cells = [
        cell.finished()
        for keys, cells in stored
        for coordinate, cell in zip(keys["coordinate"].to_pylist(), cells, strict=True)
        if coordinate == row["coordinate"]
    ]
    if not cells or not len(cells[0].ok):
        return []
    (cell,) = cells
    count = len(cell.ok)
    half = np.maximum((cell.upper - cell.lower) / 2, np.finfo(float).tiny)
    order = np.argsort(np.abs(cell.estimate - cell.truth) / half, kind="stable")
    ranks = charts.spread(range(count), MAX_INTERVALS)
    low, high = ((limits - cell.truth)[order[ranks]] for limits in (cell.lower, cell.upper))
    # A single huge interval would make all others invisible.
    sizes = np.abs([low, high])
    finite = sizes[np.isfinite(sizes)]
    reach = REACH * float(np.quantile(finite, 0.9)) if len(finite) else 1.0
    kinds = np.where(low > 0, "lies too high", np.where(high < 0, "lies too low", "covers"))
    ends = np.clip([low, high], -reach, reach)
    return [
        {"lower": lower, "upper": upper, "kind": kind, "rank": 100 * (rank + 0.5) / count}
        for rank, lower, upper, kind in zip(ranks, *ends.tolist(), kinds.tolist(), strict=True)
    ]


def published_comparisons(results: Results) -> list[Comparison]:
    return [found for name in NAMES if (found := compare(results.table, name)).rows]


def compare_with_published(results: Results) -> Any:
    """Draw coverage and length of published cells, as printed and of this run, with 95% intervals.

    Lengths are divided by the printed length: all n then share an axis.
    """
    points: list[Row] = []
    ranks: dict[str, int] = {}
    rows = [row for comparison in published_comparisons(results) for row in comparison.rows]
    for row in rows:
        scale = row.printed if row.measure == "length" else 1.0
        vector = f", coordinate {row.coordinate}" if row.problem == "quantile_regression" else ""
        panel = f"{row.measure}, τ = {row.tau:g}{vector}"
        place = {"row": (ranks.setdefault(panel, len(ranks)), panel), "column": (row.method, row.method)}
        place |= results.picks({"tau": row.tau, "n": row.n, "coordinate": row.coordinate})
        # A printed number has a rounding error, uniform within half a unit of its last digit.
        printed_se = math.hypot(row.printed_se, row.half_unit / math.sqrt(3.0))
        for series, value, se in (
            ("this run", row.ours, row.ours_se),
            ("published", row.printed, printed_se),
        ):
            point = place | {"panel": f"{panel}, {row.method}", "series": series, "x": row.n}
            points.append(point | {"y": value / scale} | interval(value / scale, se / scale, log=False))
    if not points:
        raise InputError("figure", "paper", "a run that has cells of a published study")
    layout = charts.Layout(
        "This run and the published tables",
        "n (users)",
        "coverage, or length / published length",
        [("this run", "BB"), ("published", "oracle")],
        ranked=True,
    )
    return charts.draw(points, layout)


FILLS = {HOLDS: 1.0, UNDECIDED: 0.45, FAILS: 0.0}
"""Opacity of the symbol of a method, by its state in a setting."""


def choice(results: Results, asked: Asked) -> Any:
    """Draw coverage against length of all methods, a panel per setting. The recommended method has a name."""
    if asked.color:
        raise InputError("color", list(asked.color), "nothing: colours are the methods")
    settings = settings_of(results.rows)
    place = arrange(results, results.rows, results.varying(), asked)
    points: list[Row] = []
    for setting in settings:
        for entry in setting.entries:
            if not 0 < entry.length < math.inf:
                continue
            row = entry.row
            half = Z95 * (row.get("length_relative_mcse") or row.get("length_mcse") or 0.0)
            point: Row = place(dict(row)) | {"length": entry.length, "method": row["series"]}
            point |= {"coverage": entry.coverage, "level": row["level"]}
            point |= {end: row[f"{COVERAGE}_{end}"] for end in ("low", "high")}
            point |= {"short": max(entry.length - half, entry.length / 10), "long": entry.length + half}
            best = entry is setting.best
            point |= {"kind": "recommended" if best else entry.state, "label": row["series"] if best else ""}
            points.append(point | {"full": FILLS[entry.state]})
    if not points:
        raise InputError("figure", "choice", "a run with intervals")
    undefined = len(results.rows) - len(points)
    drawn = charts.series_looks([*results.series.items()])
    key = alt.Legend(title=None)
    shades = charts.named_scale({name: look.color for name, look in drawn.items()})
    shapes = charts.named_scale({name: look.shape for name, look in drawn.items()})
    colour = alt.Stroke("method:N", scale=shades, legend=key)
    symbol = alt.Fill("method:N", scale=shades, legend=key), alt.Shape("method:N", scale=shapes, legend=key)
    scale = alt.Scale(zero=False, nice=False, padding=8)
    words = "coverage, failures as misses"
    heading = charts.y_title(points, words)
    y = alt.Y("coverage:Q", scale=scale, title=heading, axis=alt.Axis(labelExpr=charts.LABEL))
    across = alt.Scale(type="log", nice=False, padding=16)
    marks = charts.log_marks(min(point["short"] for point in points), max(point["long"] for point in points))
    ticks = alt.Axis(labelExpr=charts.LABEL, values=marks, labelOverlap=True)
    relative = any(row.get("length_relative") is not None for row in results.rows)
    axis = "mean length / oracle length" if relative else "mean length"
    x = alt.X("length:Q", scale=across, title=axis, axis=ticks)
    base = alt.Chart()
    bars = base.mark_rule(strokeWidth=1.2).encode(stroke=colour)
    tips = ["method:N", "kind:N", "coverage:Q", "length:Q"]
    layers = [
        base.mark_rule(**charts.RULE).encode(y=alt.Y("mean(level):Q", scale=scale, title=heading)),
        bars.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        bars.encode(x=alt.X("short:Q", scale=across), x2="long:Q", y=y),
        base.mark_point(opacity=1, strokeWidth=1.2, size=80).encode(
            *(x, y, colour, *symbol), fillOpacity=alt.FillOpacity("full:Q", scale=None), tooltip=tips
        ),
        base.mark_text(align="left", dx=6, dy=-5, color=charts.GREY).encode(x=x, y=y, text="label:N"),
    ]
    methods = {point["method"] for point in points}
    text = f"Coverage against mean length of {len(methods)} methods in {len(settings)} settings."
    absent = f"Left out: {undefined:,} cells without intervals of a length above 0." if undefined else ""
    size = None if heading else {"width": 200, "height": 150}
    figure = charts.panels(points, layers, size, y=words)
    return charts.style_chart(
        figure, "Coverage against length", text, left_out=absent, wrapped=len(results.series) > 5
    )


class Figure(NamedTuple):
    """A figure: the function that draws it, its heading and its caption.

    ``draw`` takes the results. It may also take the factor on the axis (``x``), and factors of rows, columns
    and colours (``asked``).
    """

    draw: Callable[..., Any]
    heading: str
    caption: str
    marks: str = "Bars: 95% Monte Carlo intervals."
    """Sentence on lines, bands and bars, below the title of a figure in a file."""
    dashes: str = ""
    """Sentence on a line of theory, added if the figure has one."""

    def chart(self, results: Results, x: str = "n", **names: Any) -> Any:
        """Draw the figure. ``names`` has factors for ``rows``, ``cols`` and ``color``."""
        takes = signature(self.draw).parameters
        given: dict[str, Any] = {"x": x} if "x" in takes else {}
        if "asked" in takes:
            given["asked"] = Asked.of(results, given.get("x"), **names)
        for field, value in names.items():
            if value and "asked" not in takes:
                raise InputError(field, value, f"nothing for the figure: {self.heading}")
        chart = self.draw(results, **given)
        dashes = self.dashes if self.dashes and any("shared" in p for p in chart.data.values) else ""
        chart.usermeta["marks"] = f"{constants(results)}. {dashes}{self.marks}"
        return chart


def constants(results: Results) -> str:
    """Text of the main settings that do not vary, and of the number of replicates."""
    rows = [*results.rows, *results.followed]
    found = []
    for name in ("level", "epsilon", "mu", "law", "tau", "n"):
        values = {row[name] for row in rows if name in row}
        found += [results.names.value(name, value) for value in values if len(values) == 1 and value]
    counts = distinct(rows, "replicates")
    found.append(f"{' to '.join(dict.fromkeys(f'{end:,}' for end in (counts[0], counts[-1])))} replicates")
    return ", ".join(found).replace(" = ", NO_BREAK)


def along_a_path(name: str, curves: Curves) -> Figure:
    words = CAPTIONS["trajectory"]
    caption = words["caption"].format(curves.axis)
    caption += f" {words['theory']}" if name in ("distance", "excess-loss") else ""
    return Figure(partial(figures.trajectory, name=name), curves.heading, caption, words["marks"])


DRAWN: dict[str, Callable[..., Any]] = {
    **{name: partial(figures.measure, name=name) for name in figures.MEASURES},
    **{name: partial(figures.at_end, name=name) for name in figures.ENDS},
    **{"choice": choice, "explanation": explanation, "zip": zip_plot, "paper": compare_with_published},
}
FIGURES: dict[str, Figure] = {
    **{name: Figure(DRAWN[name], **caption) for name, caption in CAPTIONS.items() if name in DRAWN},
    **{name: along_a_path(name, curves) for name, curves in CURVES.items()},
}


def figures_of(results: Results) -> dict[str, Figure]:
    """Figures that a run may have: FIGURES, and one per further statistic of its trajectories."""
    return FIGURES | {name: along_a_path(name, curves) for name, curves in figures.curves_of(results).items()}
