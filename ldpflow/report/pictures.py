"""Figures by name; those of forms of their own: explanation, zip plots, published numbers, the choice."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from inspect import signature
from typing import Any

import altair as alt
import numpy as np

from ldpflow.columns import short
from ldpflow.errors import InputError
from ldpflow.report.answers import findings
from ldpflow.report.charts import (
    COLUMNS,
    GREY,
    LABEL,
    MISSES,
    PICK,
    Z95,
    clean,
    log_marks,
    named_scale,
    panels,
    style_chart,
    y_title,
)
from ldpflow.report.figures import (
    CURVES,
    MEASURES,
    PLAIN,
    Asked,
    Curves,
    arrange,
    curves_of,
    measure,
    rates,
    risk,
    trajectory,
)
from ldpflow.report.results import Results, Row, with_misses
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED, ArenaEntry, ArenaSetting, settings_of
from ldpflow.results.decomposition import CAUSES
from ldpflow.results.published import NAMES, Comparison, compare
from ldpflow.results.summary import stored_cells
from ldpflow.store.schema import cell_id, cell_keys

INK = "#767c85"
RULE: dict[str, Any] = {"color": GREY, "strokeDash": [5, 4]}


# Explanation: the terms that add up to the difference of coverage and level

PARTS = {
    "bias": "#d55e00", "length": "#0072b2", "variability": "#008f68", "shape": "#b5609a",
    "several at once": "#6a6fd0", "dependence": "#9a7420", "asymmetric limits": "#3d8a9e",
    "no interval": "#7f7f7f",
}  # fmt: skip
"""Terms of the sum with their colours; see :mod:`ldpflow.results.decomposition`."""


def parts_of(row: Row, paired: Row) -> dict[str, float]:
    """Terms that add up to the coverage, failures as misses, less the level, where they are defined."""
    if row.get("main_cause") is None or "pairs_hit" not in paired:
        return {}
    found = {name: row[f"{name}_effect"] or 0.0 for name in CAUSES}
    pairs, hits = paired["pairs_covered"], paired["pairs_hit"]
    found["several at once"] = pairs - row["level"] - sum(found.values())
    found |= {"dependence": hits - pairs, "asymmetric limits": row["coverage"] - hits}
    return found | {"no interval": row["coverage_failures_as_misses"] - row["coverage"]}


def explanation(results: Results, asked: Asked = PLAIN) -> Any:
    """A stacked bar for each cell: the terms of coverage less level, and their sum with its error."""
    points: list[Row] = []
    if asked.color:
        raise InputError("color", list(asked.color), "nothing: colours are the parts of the explanation")
    if not results.rows:
        raise InputError("figure", "explanation", "a run with interval methods")
    place = arrange(results, results.rows, results.varying(), asked)
    for row in results.rows:
        parts = parts_of(row, results.paired(row))
        ends = {end: row[f"coverage_failures_as_misses_{end}"] - row["level"] for end in ("low", "high")}
        point = {**place(row), "series": row["series"], **ends, "cause": results.cause(row)}
        point["gap"] = row["coverage_failures_as_misses"] - row["level"]
        points.append(point | {name: value for name, value in parts.items() if abs(value) >= 5e-5})
    shown = [name for name in PARTS if any(name in point for point in points)]
    names = [row["series"] for row in sorted(results.rows, key=lambda row: row["series_rank"])]
    y = alt.Y("series:N", sort=list(dict.fromkeys(names)), title=None, axis=alt.Axis(labelLimit=130))
    heading = "coverage - level"
    x = alt.X("effect:Q", title=heading, axis=alt.Axis(tickCount=5, labelExpr=LABEL), stack="zero")
    colour = alt.Color(
        "part:N", scale=named_scale({n: PARTS[n] for n in shown}), legend=alt.Legend(title=None)
    )
    tips = [alt.Tooltip(f"{name}:N") for name in ("series", "panel", "part", "cause")]
    tips += [alt.Tooltip(f"{name}:Q", format="+.3f") for name in ("effect", "gap")]
    base = alt.Chart()
    fields: list[Any] = [*shown]
    bars = base.transform_fold(fields, as_=["part", "effect"]).transform_filter("isValid(datum.effect)")
    rank = "indexof(" + json.dumps(shown) + ", datum.part)"
    bars = bars.transform_calculate(rank=rank).mark_bar(height={"band": 0.75})
    layers = [
        bars.encode(x=x, y=y, color=colour, order="rank:Q", tooltip=tips),
        base.mark_rule(color=GREY).encode(x=alt.XDatum(0)),
        base.mark_rule(color=INK, strokeWidth=1.2).encode(x=alt.X("low:Q", title=heading), x2="high:Q", y=y),
        base.mark_point(fill="#ffffff", stroke="#1b1f24", strokeWidth=1, size=24, opacity=1).encode(
            alt.X("gap:Q", title=heading), y
        ),
    ]
    worst = min(points, key=lambda point: point["gap"])
    text = (
        f"Stacked bars of the parts of coverage less level in {len(points)} cells. Lowest: "
        f"{worst['gap']:+.3f} for {worst['series']}, {worst['panel']}; main cause: {worst['cause']}."
    )
    count = len({point.get("column", point["row"]) for point in points})
    size = {"width": {1: 480, 2: 340}.get(count, 200), "height": max(15 * len(set(names)), 60)}
    columns = ("series", "panel", "gap", "low", "high", "cause", "below", *shown)
    undefined = sum(not any(name in point for name in PARTS) for point in points)
    absent = f"{undefined:,} of {len(points):,} cells have no bar: no parts are defined." if undefined else ""
    drawn = panels(points, columns, layers, size)
    return style_chart(drawn, "Why coverage differs from its level", text, 130, absent)


# Zip plots (Morris, White and Crowther, 2019): every interval of a cell, the worst on top

MAX_INTERVALS = 150


def zip_plot(results: Results) -> Any:
    """Zip plots of the cells that the findings name.

    Intervals are ranked by |estimate - theta| / (length / 2): those above 1 miss (for symmetric methods; a
    bootstrap interval may be a little off that order). The colours of misses above the nominal level's line,
    and only there, is what a good method looks like.
    """
    y = alt.Y(
        "rank:Q",
        title="rank of |error| / half length (%)",
        scale=alt.Scale(domain=[0, 100]),
        axis=alt.Axis(values=[0, 50, 80, 90, 100], grid=False),
    )
    colour = alt.Color(
        "kind:N",
        scale=named_scale(MISSES),
        legend=alt.Legend(title="the interval", symbolType="stroke", symbolSize=200, symbolStrokeWidth=3),
    )
    x = alt.X("lower:Q", title="limits - θ", axis=alt.Axis(tickCount=4, labelExpr=LABEL))
    base = alt.Chart()
    drawn, names, absent, most = [], [], [], 0
    for reason, row in findings(results).cells:
        values = [line | results.picks(row) for line in intervals(results, row)]
        settings = results.names.settings(row, results.varying()) or "the only cell"
        if not values:
            absent.append(f"No zip plot of {row['series']} at {settings}: no replicate has an interval.")
            continue
        most = max(most, len(values))
        lost = f" ({with_misses(row)['coverage']:.3f} with failures as misses)" if row["failures"] else ""
        name = [f"{row['series']}: {reason}", settings, f"coverage {row['coverage']:.3f}{lost}"]
        names.append(name)
        lines = base.mark_rule(strokeWidth=1.1).encode(x=x, x2="upper:Q", y=y, color=colour)
        truth = base.mark_rule(color=GREY, strokeWidth=1).encode(x=alt.XDatum(0))
        level = base.mark_rule(**RULE).encode(y=alt.YDatum(100 * row["level"]))
        title = alt.TitleParams(
            name[0], subtitle=name[1:], fontSize=11, fontWeight=600, subtitleFontSize=11, anchor="start"
        )
        chart = alt.layer(lines, truth, level, data=alt.Data(values=values))
        drawn.append(chart.properties(width=210, height=170, title=title))
    if not drawn:
        raise InputError("figure", "zip", "a run with replicates whose rows can be read")
    text = (
        f"Zip plots of {len(names)} cells, up to {most} intervals each, ranked by error over half length: "
        f"{'; '.join(', '.join(lines) for lines in names)}."
    )
    found = alt.concat(*drawn, columns=COLUMNS)
    return style_chart(found, "Zip plots: the intervals themselves", text, left_out=" ".join(absent))


def intervals(results: Results, row: Row) -> list[Row]:
    """Evenly spaced ranks of the intervals of one cell, at most MAX_INTERVALS."""
    wanted = {cell_id({name: row.get(name) for name in cell_keys(results.table.schema)})}
    stored = stored_cells(results.store, row["path"].removeprefix("p"), wanted, damaged=results.damaged)
    found = (
        cell.finished()
        for keys, cells in stored
        for coordinate, cell in zip(keys["coordinate"].to_pylist(), cells, strict=True)
        if coordinate == row["coordinate"]
    )
    cell = next(found, None)
    if cell is None or not len(cell.ok):
        return []
    count = len(cell.ok)
    half = np.maximum((cell.upper - cell.lower) / 2, np.finfo(float).tiny)
    order = np.argsort(np.abs(cell.estimate - cell.truth) / half, kind="stable")
    ranks = np.unique(np.linspace(0, count - 1, min(count, MAX_INTERVALS)).round().astype(int))
    lines = []
    for rank in ranks.tolist():
        at = order[rank]
        low, high = float(cell.lower[at] - cell.truth[at]), float(cell.upper[at] - cell.truth[at])
        kind = "lies too high" if low > 0 else "lies too low" if high < 0 else "covers"
        centile = clean(100 * (rank + 0.5) / count)
        lines.append({"lower": clean(low), "upper": clean(high), "kind": kind, "rank": centile})
    return lines


# Published numbers

OURS, PRINTED = "this run", "published"


def published_comparisons(results: Results) -> list[Comparison]:
    found = (compare(results.table, name) for name in NAMES)
    return [comparison for comparison in found if comparison.rows]


def compare_with_published(results: Results) -> Any:
    """Coverage and length of published cells, printed and ours, with 95% intervals.

    Lengths are divided by the printed one, so that all n share an axis.
    """
    values = []
    for row in (row for comparison in published_comparisons(results) for row in comparison.rows):
        scale = row.printed if row.measure == "length" else 1.0
        vector = f", coordinate {row.coordinate}" if row.problem == "quantile_regression" else ""
        # A rounding error, uniform within half a unit, adds its variance to the printed one.
        printed_se = math.hypot(row.printed_se, row.half_unit / math.sqrt(3.0))
        for who, value, se in ((OURS, row.ours, row.ours_se), (PRINTED, row.printed, printed_se)):
            ends = {"value": value, "low": value - Z95 * se, "high": value + Z95 * se}
            values.append(
                {
                    "panel": f"{row.measure}, τ = {row.tau:g}{vector}",
                    "cell": f"{row.method}, n = {short(row.n)}",
                    "who": who,
                    **results.picks({"tau": row.tau, "n": row.n, "coordinate": row.coordinate}),
                    "z": clean(row.z),
                    "measure": row.measure,
                    **{name: clean(end / scale) for name, end in ends.items()},
                }
            )
    if not values:
        raise InputError("figure", "paper", "a run that has cells of a published study")
    order = list(dict.fromkeys(v["cell"] for v in values))
    key = alt.Legend(title=None)
    colour = alt.Color("who:N", scale=named_scale({OURS: "#0072b2", PRINTED: GREY}), legend=key)
    shape = alt.Shape("who:N", scale=named_scale({OURS: "circle", PRINTED: "diamond"}), legend=key)
    y = alt.Y("cell:N", sort=order, title=None)
    shift = alt.YOffset("who:N", scale=alt.Scale(domain=[OURS, PRINTED], paddingOuter=0.6))
    tips = [alt.Tooltip("cell:N"), alt.Tooltip("who:N")]
    tips += [alt.Tooltip("value:Q", format=".4g"), alt.Tooltip("z:Q", format=".2f")]
    drawn = []
    for panel in dict.fromkeys(v["panel"] for v in values):
        here = [v for v in values if v["panel"] == panel]
        axis = "coverage" if here[0]["measure"] == "coverage" else "length / published length"
        x = alt.X(
            "value:Q",
            title=axis,
            scale=alt.Scale(zero=False),
            axis=alt.Axis(tickCount=4, labelExpr=LABEL, labelOverlap=True),
        )
        base = alt.Chart(alt.Data(values=here)).encode(y=y, yOffset=shift, color=colour)
        bars = base.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q"), x2="high:Q")
        points = base.mark_point(filled=True, size=55, opacity=1).encode(x=x, shape=shape, tooltip=tips)
        title = alt.TitleParams(panel, fontSize=11, fontWeight="normal")
        height = 24 * len({v["cell"] for v in here})
        drawn.append(alt.layer(bars, points).properties(width=200, height=height, title=title))
    text = (
        f"{len(values) // 2} published numbers beside this run's, with 95% intervals; largest |z| "
        f"{max(abs(v['z']) for v in values):.2f}."
    )
    return style_chart(alt.concat(*drawn, columns=3), "This run and the published tables", text, 110)


# Coverage against length, the choice between methods

NAME = (0.4, 0.05)
"""Extent of a name in the figure: logarithm of length, and coverage."""

VERDICTS = {"recommended": "#d55e00", HOLDS: "#0072b2", UNDECIDED: "#cc79a7", FAILS: GREY}
"""Colours of the methods of a setting."""


def choice(results: Results, asked: Asked = PLAIN) -> Any:
    """Coverage against length of all methods, a panel per setting; names where no other is better."""
    if asked.color:
        raise InputError("color", list(asked.color), "nothing: colours are the states of the methods")
    settings = [s for s in settings_of(results.rows) if any(math.isfinite(e.length) for e in s.entries)]
    if not settings:
        raise InputError("figure", "choice", "a run with intervals")
    place = arrange(results, results.rows, results.varying(), asked)
    points: list[Row] = []
    for setting in settings:
        named = {id(entry) for entry in without_overlap(frontier(setting))}
        for entry in setting.entries:
            if not math.isfinite(entry.length):
                continue
            row = entry.row
            half = Z95 * (row.get("length_relative_mcse") or row.get("length_mcse") or 0.0)
            point: Row = place(dict(row)) | {"length": entry.length, "method": row["series"]}
            point |= {"coverage": entry.coverage, "level": row["level"]}
            point |= {end: row[f"coverage_failures_as_misses_{end}"] for end in ("low", "high")}
            point |= {"short": max(entry.length - half, entry.length / 10), "long": entry.length + half}
            point["label"] = row["series"] if id(entry) in named else ""
            point["kind"] = "recommended" if entry is setting.best else entry.state
            points.append(point)
    undefined = len(results.rows) - len(points)
    colour = alt.Color("kind:N", scale=named_scale(VERDICTS), legend=alt.Legend(title=None))
    lowest = min(min(point["low"] for point in points), min(point["level"] for point in points))
    scale = alt.Scale(domain=[max(lowest - 0.02, 0.0), 1.0], zero=False, nice=False)
    words = "coverage, failures as misses"
    heading = y_title(points, words)
    y = alt.Y("coverage:Q", scale=scale, title=heading, axis=alt.Axis(labelExpr=LABEL))
    across = alt.Scale(type="log", nice=False, padding=16)
    marks = log_marks(min(point["short"] for point in points), max(point["long"] for point in points))
    x = alt.X(
        "length:Q",
        scale=across,
        title="mean length / oracle length",
        axis=alt.Axis(labelExpr=LABEL, values=marks, labelOverlap=True),
    )
    base = alt.Chart()
    bars = base.mark_rule(strokeWidth=1.2).encode(color=colour)
    tips = [alt.Tooltip("method:N"), alt.Tooltip("kind:N")]
    tips += [alt.Tooltip(f"{name}:Q", format=".4g") for name in ("coverage", "length")]
    layers = [
        base.mark_rule(**RULE).encode(y=alt.Y("mean(level):Q", scale=scale, title=heading)),
        bars.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        bars.encode(x=alt.X("short:Q", scale=across), x2="long:Q", y=y),
        base.mark_point(filled=True, size=45, opacity=1).encode(x=x, y=y, color=colour, tooltip=tips),
        base.mark_text(align="left", dx=6, dy=-5, fontSize=10, color=GREY).encode(x=x, y=y, text="label:N"),
    ]
    chosen = [f"{s.best.row['series']} at {place(dict(s.best.row))['panel']}" for s in settings if s.best]
    text = (
        f"Coverage against mean length of {len({p['method'] for p in points})} methods in {len(settings)} "
        f"settings. Recommended: {'; '.join(chosen[:6]) or 'none'}."
    )
    columns = [name for name in points[0] if name not in ("row", "column") and not name.startswith(PICK)]
    absent = f"Left out: {undefined:,} cells without an interval." if undefined else ""
    size = None if heading else {"width": 200, "height": 150}
    drawn = panels(points, columns, layers, size, y=words)
    return style_chart(drawn, "Coverage against length", text, left_out=absent)


def frontier(setting: ArenaSetting) -> list[ArenaEntry]:
    """The recommended method, then those that no other beats in coverage and length at once."""
    known = [entry for entry in setting.entries if math.isfinite(entry.length)]
    unbeaten = [
        one
        for one in known
        if not any(other.coverage >= one.coverage and other.length < one.length for other in known)
    ]
    best = [entry for entry in known if entry is setting.best]
    return best + [entry for entry in unbeaten if entry is not setting.best]


def without_overlap(entries: list[ArenaEntry]) -> list[ArenaEntry]:
    """Entries whose names do not lie on that of one before."""
    found: list[ArenaEntry] = []
    for entry in entries:
        apart = (
            (abs(math.log(entry.length / other.length)), abs(entry.coverage - other.coverage))
            for other in found
        )
        if all(wide > NAME[0] or high > NAME[1] for wide, high in apart):
            found.append(entry)
    return found


@dataclass(frozen=True)
class Figure:
    """A figure: how it is drawn, its heading and its explanation on the report.

    ``draw`` takes the results and what can be asked of it: a factor on its axis (``x``), rows, columns and
    colours of its panels (``asked``).
    """

    draw: Callable[..., Any]
    heading: str
    caption: str

    def chart(self, results: Results, x: str = "n", **names: Any) -> Any:
        """Draw it; ``names`` may have ``rows``, ``cols`` and ``color``: names of factors."""
        takes = signature(self.draw).parameters
        given: dict[str, Any] = {"x": x} if "x" in takes else {}
        if "asked" in takes:
            given["asked"] = Asked.of(results, given.get("x"), **names)
        for field, value in names.items():
            if value and "asked" not in takes:
                raise InputError(field, value, f"nothing for the figure: {self.heading}")
        return self.draw(results, **given)


def along_a_path(name: str, curves: Curves) -> Figure:
    return Figure(
        partial(trajectory, name=name),
        curves.heading,
        f"Mean over replicates of {curves.axis}, with a 95% Monte Carlo band. Dashed lines are proved upper "
        "bounds of the mean, dotted ones the leading term of its expansion, where theory has them.",
    )


CAPTIONS: dict[str, dict[str, Any]] = tomllib.loads(
    files("ldpflow.report").joinpath("captions.toml").read_text(encoding="utf-8")
)
"""Heading and caption of the figures by name."""

DRAWN: dict[str, Callable[..., Any]] = {"choice": choice, "explanation": explanation, "zip": zip_plot}
DRAWN |= {"paper": compare_with_published, "rates": rates, "risk": risk}
DRAWN |= {name: partial(measure, name=name) for name in MEASURES}

FIGURES: dict[str, Figure] = {
    name: Figure(DRAWN[name], **words)
    for name, words in CAPTIONS.items()
    if name != "design-beta"  # the figure of coverage over another factor
} | {name: along_a_path(name, curves) for name, curves in CURVES.items()}


def figures_of(results: Results) -> dict[str, Figure]:
    """The figures that a run may have: FIGURES, and one for every further statistic of its trajectories."""
    further = {name: curves for name, curves in curves_of(results).items() if name not in FIGURES}
    return FIGURES | {name: along_a_path(name, curves) for name, curves in further.items()}
