"""Layout of figures: panels, axes, place and look of a series, texts under the pointer.

What a figure shows is said by the files that draw one: .measure_plots, .risk_plot, .zip_plots, ...
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from ldpflow.errors import InputError
from ldpflow.report.numbers import short
from ldpflow.report.results import Results, Row
from ldpflow.report.style import ramp, series_scales

__all__ = [
    "COLUMNS",
    "LABEL",
    "MAX_PANELS",
    "MAX_RANKED",
    "Z95",
    "clean",
    "decades",
    "is_number",
    "left_out",
    "lines",
    "ordered",
    "panel_name",
    "panels",
    "panels_of",
    "place_rows",
    "said",
    "scales",
    "series_of",
    "spread",
    "tooltip",
    "usable_x",
    "without_setting",
]

Z95 = 1.959963984540054
MAX_PANELS = 12
WIDTH, HEIGHT, COLUMNS = 240, 190, 3
SIZES = {1: (520, 280), 2: (380, 250)}
"""Of the panels, where there are few."""
MAX_RANKED = 8
"""Most values of x that stand at equal distances."""
LABEL = (
    "abs(datum.value) >= 0.01 && abs(datum.value) < 10000 ? format(datum.value, '~g') : "
    "replace(replace(format(datum.value, '~e'), 'e+0', ''), 'e+', 'e')"
)


def panels_of(results: Results, x: str, also: Sequence[str] = ()) -> list[str]:
    """The parameters whose combinations are the panels of a figure over ``x``."""
    return results.varying(without=(x, *also))


def panel_name(results: Results, row: Row, factors: Sequence[str]) -> str:
    """Title of a panel."""
    return results.names.settings(row, factors) or "all"


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Evenly spaced items, the first and the last among them, no more than the limit."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def left_out(panels: Sequence[str], series: Sequence[str], without: str = "") -> str:
    """Sentences on what a figure leaves out; empty where it has all.

    ``without`` is the sentence of :func:`without_setting`.
    """
    found = []
    for what, names in (("panels", panels), ("lines", series)):
        if names:
            some = "; ".join(names[:3])
            found.append(f"{len(names)} {what} ({some}{'; ...' if len(names) > 3 else ''})")
    said = f"Left out: {' and '.join(found)}; all are in the table, --where draws others." if found else ""
    return " ".join(filter(None, (said, without)))


def without_setting(rows: Sequence[Row], x: str) -> str:
    """A sentence on the methods that have no place on an axis; empty where all have."""
    drawn = {row["method"] for row in rows if row.get(x) is not None}
    names = sorted({row["method"] for row in rows} - drawn)
    if not names:
        return ""
    return f"Left out: {', '.join(names)}, which {'has' if len(names) == 1 else 'have'} no {x}."


def usable_x(results: Results, x: str) -> None:
    """Refuse what cannot be an axis."""
    axes = [
        name
        for name in dict.fromkeys((*results.parameters, *results.method_settings))
        if results.values(name) and all(is_number(v) for v in results.values(name))
    ]
    if x not in axes:
        raise InputError("x", x, f"one of {', '.join(axes)}")


def is_number(value: object) -> bool:
    """Whether a value can stand on an axis."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def ordered(results: Results, rows: Sequence[Row], factors: Sequence[str]) -> list[Row]:
    """Rows in the order of the panels' settings, then of n and the method's settings."""

    def key(row: Row) -> list[tuple[bool, Any]]:
        names = (*factors, "method", *results.method_settings, "n")
        return [(row.get(name) is not None, row.get(name)) for name in names]

    return sorted(rows, key=key)


def series_of(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(series, method) pairs: numbered ones by number, the oracle last."""
    pairs = dict.fromkeys((row["series"], row["method"]) for row in rows)
    return sorted(pairs, key=lambda pair: pair[1] == "oracle")


def place_rows(results: Results, x: str, rows: Sequence[Row], ranked: bool = False) -> alt.X:
    """Set ``place`` of every row, where it stands on the axis of x; the axis, labelled at its values.

    A row stands at its value. ``ranked``: while the values are few they stand at equal distances, and
    the series of each value side by side, so that their error bars do not hide each other.
    """
    axis = sorted({row[x] for row in rows})
    if ranked and len(axis) <= MAX_RANKED:
        names = [name for name, _ in series_of(rows)]
        for row in rows:
            aside = (names.index(row["series"]) + 0.5) / len(names) - 0.5
            row["place"] = axis.index(row[x]) + 0.6 * aside
        ticks: dict[str, Any] = {
            "values": list(range(len(axis))),
            "labelExpr": f"{json.dumps([short(value) for value in axis])}[datum.value]",
        }
        scale = alt.Scale(type="linear", domain=[-0.5, len(axis) - 0.5], nice=False)
    else:
        for row in rows:
            row["place"] = row[x]
        log = results.names.logarithmic(x) and axis[0] > 0
        pad = (axis[-1] / axis[0]) ** 0.06 * 1.05 if log else (axis[-1] - axis[0]) * 0.06 or 0.1
        domain = [axis[0] / pad, axis[-1] * pad] if log else [axis[0] - pad, axis[-1] + pad]
        marks = axis if len(axis) <= 5 else decades(axis) if log else []
        ticks = {"values": marks} if marks else {"tickCount": 5}
        ticks["labelExpr"] = LABEL
        scale = alt.Scale(type="log" if log else "linear", domain=domain, nice=False)
    axis_look = alt.Axis(grid=False, labelOverlap="parity", labelFlush=False, **ticks)
    return alt.X("place:Q", title=results.names.axis(x), scale=scale, axis=axis_look)


def decades(axis: Sequence[float]) -> list[float]:
    """Round numbers to label a logarithmic axis with."""
    first, last = math.floor(math.log10(axis[0])), math.ceil(math.log10(axis[-1]))
    steps = (1.0,) if last - first > 3 else (1.0, 3.0)
    marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [mark for mark in marks if axis[0] * 0.99 <= mark <= axis[-1] * 1.01]


def tooltip(results: Results, x: str, *values: str) -> list[alt.Tooltip]:
    """Tooltip of a point."""
    shown = [alt.Tooltip("series:N", title="series"), alt.Tooltip("panel:N", title="panel")]
    shown += [alt.Tooltip(f"{x}:Q", title=results.names.label(x), format=",")]
    shown += [alt.Tooltip(f"{name}:Q", title=title(name), format=".4g") for name in values]
    return [*shown, alt.Tooltip("replicates:Q", format=","), alt.Tooltip("failures:Q")]


def title(name: str) -> str:
    """A column's name in words."""
    return name.replace("_", " ").replace("mcse", "MCSE")


def scales(results: Results, rows: Sequence[Row], x: str) -> dict[str, Any]:
    """Colour, point and dash: by series, or by n where x is a method's setting."""
    pairs = series_of(rows)
    if x not in results.method_settings:
        return series_scales(pairs)
    names = [name for name, _ in pairs]
    names.sort(key=[row["series"] for row in sorted(rows, key=lambda r: r["n"])].index)
    scale = alt.Scale(domain=names, range=ramp(len(names)))
    return {"color": alt.Color("series:N", scale=scale, legend=alt.Legend(title=None))}


COMMON = ("panel", "series", "place", "replicates", "failures", "level")


def panels(rows: list[Row], columns: Sequence[str], layers: Callable[[Any], list[Any]]) -> Any:
    """The layers drawn over the rows, a panel per value of ``panel``."""
    names = list(dict.fromkeys((*COMMON, *columns)))
    # What a row does not have is left out: it would be most of the page.
    values = [{k: clean(row[k]) for k in names if row.get(k) is not None} for row in rows]
    several = len({row["panel"] for row in rows})
    size = dict(zip(("width", "height"), SIZES.get(several, (WIDTH, HEIGHT)), strict=True))
    base = alt.Chart()
    chart = alt.layer(*layers(base)).properties(**size)
    data = alt.Data(values=values)
    if several == 1:
        return chart.properties(data=data)
    order = list(dict.fromkeys(row["panel"] for row in rows))
    facet = alt.Facet("panel:N", sort=order, header=alt.Header(title=None))
    columns_of_panels = 2 if len(order) == 4 else COLUMNS  # as the page does
    return chart.facet(facet, data=data, columns=columns_of_panels).resolve_axis(x="independent")


def clean(value: Any) -> Any:
    """JSON has no NaN; six digits are more than a figure shows."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None


def lines(base: Any, x: alt.X, y: alt.Y, low: str, high: str, by: dict[str, Any], tips: Any) -> list[Any]:
    """A line, points and bars per series."""
    plain = {k: v for k, v in by.items() if k != "shape"}
    coloured = {"color": by["color"]}
    return [
        base.mark_line(strokeWidth=1.6).encode(x=x, y=y, **plain),
        base.mark_rule(strokeWidth=1.4).encode(x=x, y=alt.Y(f"{low}:Q"), y2=f"{high}:Q", **coloured),
        base.mark_point(filled=True, size=55, opacity=1).encode(
            x=x, y=y, tooltip=tips, color=by["color"], **{k: v for k, v in by.items() if k == "shape"}
        ),
    ]


def said(results: Results, rows: Sequence[Row], x: str) -> str:
    """The series and panels of a figure, for its text alternative."""
    series = ", ".join(name for name, _ in series_of(rows)[:8])
    count = len({row["panel"] for row in rows})
    return f"over {results.names.axis(x)}; series: {series}; {count} panel{'s' if count > 1 else ''}"
