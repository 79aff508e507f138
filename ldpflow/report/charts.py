"""One chart: a quantity over a factor, with a line per series and a panel per combination of other factors.

A point is a mapping. It has ``x``, ``y`` and ``series``. ``row`` is the rank and the label of its panel.
In a grid of panels ``column`` is the rank and label of the panel's column. A point may have

- ``low`` and ``high``: a 95% Monte Carlo interval,
- ``ideal``: the value that is right,
- ``shared``: a value of theory that belongs to the panel,
- fields of :attr:`Layout.theory`: values of theory that belong to the series,
- fields that begin with ``@``: factors of the cell, by which a page filters,
- ``below``: level less coverage, failures counted as misses. A page keeps the panels with the largest values.

Colours of series have a contrast of at least 3 : 1 with a white and with a dark page: one chart serves both.
Series also differ by symbols, and series of one method by dashes.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import vl_convert
from altair.typing import ChartType as ChartType

from ldpflow.columns import short
from ldpflow.errors import InputError
from ldpflow.report.results import Row

# Colours of Okabe and Ito, some of them darker: they must be visible on white.
METHODS = {"BB": "#0072b2", "BM": "#d55e00", "SN": "#008f68", "oracle": "#7f7f7f", "TR": "#b5609a"}
OTHERS = ("#9a7420", "#6a6fd0", "#3d8a9e", "#c0504d", "#6d8b2f")
GREY = "#858585"
RULE: dict[str, Any] = {"color": GREY, "strokeDash": [5, 4]}
MISSES = {"covers": "#8a939e", "lies too high": "#d55e00", "lies too low": "#9a5bb5"}
RAMP = ("#8a5bb8", "#3f74c0", "#1f8a8a", "#4f8f3a", "#a87b18", "#c0504d")


def in_points(drawn: str) -> str:
    """SVG with its size in points (72 to an inch) instead of pixels (96 to an inch), for a PDF."""
    head, end, rest = drawn.partition(">")
    size = re.compile(r' (width|height)="([\d.]+)"')
    return size.sub(lambda match: f' {match[1]}="{0.75 * float(match[2]):g}"', head) + end + rest


FORMATS: dict[str, Callable[[str], Any]] = {
    ".svg": vl_convert.vegalite_to_svg,
    ".png": lambda spec: vl_convert.vegalite_to_png(spec, scale=72 / 96, ppi=300),
    ".pdf": lambda spec: vl_convert.svg_to_pdf(in_points(vl_convert.vegalite_to_svg(spec))),
    ".json": lambda spec: spec,
}
"""Functions that convert Vega-Lite, by suffix of the file. A PNG has 300 pixels to an inch."""


def colours(methods: Sequence[str]) -> dict[str, str]:
    """Choose a different colour for every method. Methods that :data:`METHODS` lacks get colours by name."""
    unknown = sorted(set(methods) - METHODS.keys())
    shades = OTHERS if len(unknown) <= len(OTHERS) else ramp(len(unknown))
    given = dict(zip(unknown, shades, strict=False))
    return {method: METHODS.get(method) or given[method] for method in sorted(set(methods))}


def ramp(count: int) -> list[str]:
    channels = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in RAMP])
    places = np.linspace(0.0, len(RAMP) - 1.0, count)
    mixed = [np.interp(places, np.arange(len(RAMP)), channel) for channel in channels.T]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.rint(mixed).astype(int).T.tolist()]


def named_scale(values: Mapping[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(values), range=list(values.values()))


MOST_LETTERS = 75
"""Most letters of a line below a title. A longer line would make a narrow figure wider."""


def style_chart(
    chart: Any, title: str, description: str, margin: int = 70, left_out: str = "", wrapped: bool = False
) -> Any:
    """Give a chart its title, a description for screen readers, and the common look.

    ``margin`` is the width in pixels that a page reserves beside the plotting area of a panel. ``left_out``
    says which results the figure does not show. A ``wrapped`` legend has three columns.
    """
    plain: Any = "normal"
    return chart.properties(
        title=alt.TitleParams(
            title, anchor="start", fontSize=14, fontWeight=600, offset=8, subtitleFontSize=11
        ),
        description=" ".join(filter(None, (description, left_out))),
        usermeta={"margin": margin} | ({"left_out": left_out} if left_out else {}),
    ).configure(
        font="system-ui, 'DejaVu Sans', sans-serif",
        background="#ffffff",
        numberFormat=".4g",  # of numbers under the pointer
        view=alt.ViewConfig(stroke="#b4b9c0"),
        axis=alt.AxisConfig(gridColor="#e4e6e9", labelFontSize=11, titleFontSize=12, titleFontWeight=plain),
        header=alt.HeaderConfig(labelFontSize=11, titleFontSize=12, titleFontWeight=plain, labelLimit=420),
        legend=alt.LegendConfig(
            orient="top",
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight=plain,
            symbolStrokeWidth=2,
            symbolSize=70,
            symbolOpacity=1,
            labelLimit=320,
            symbolLimit=0,  # no limit
            columns=3 if wrapped else alt.Undefined,
        ),
    )


def entitle(chart: Any, title: str | None, where: str | None, width: float | str | None = None) -> Any:
    """Write below a title what is left out, what the marks mean, and the condition of the rows."""
    if title is not None:
        chart.title.text = title
    condition = f"Rows with {where}" if where is not None else ""
    letters = MOST_LETTERS
    if (pixels := parse_length("width", width)) is not None:
        letters = min(letters, max(int(pixels / LETTER), 12))
    notes = (chart.usermeta.get("left_out", ""), chart.usermeta.get("marks", ""), condition)
    chart.title.subtitle = [line for note in notes for line in wrap(note, letters)]
    return chart


def draw_offline(chart: ChartType) -> ChartType:
    """Let a notebook draw the chart as SVG, without a network, unless the user has chosen a renderer."""
    # Set on this chart alone. Unlike a closure, a partial can be pickled with its chart.
    object.__setattr__(chart, "_repr_mimebundle_", partial(offline_bundle, chart))
    return chart


def offline_bundle(chart: Any, *given: Any, **options: Any) -> Any:
    chosen = alt.renderers.active != "default"
    with nullcontext() if chosen else alt.renderers.enable("svg"):
        return type(chart)._repr_mimebundle_(chart, *given, **options)


def suffix_of(file: str) -> str:
    """Suffix of a file name. Refuse a suffix that :data:`FORMATS` lacks."""
    suffix = Path(file).suffix.lower()
    if suffix not in FORMATS:
        raise InputError("output", file, f"a file name that ends in {', '.join(FORMATS)}")
    return suffix


def save(chart: Any, file: str | os.PathLike[str]) -> None:
    content = FORMATS[suffix_of(str(file))](chart.to_json(indent=None))
    write_file(file, content.encode() if isinstance(content, str) else content)


def write_file(file: str | os.PathLike[str], content: bytes, field: str = "output") -> None:
    """Write a file in one step (a reader finds the old or the new file), and a device or pipe directly."""
    target = Path(os.path.realpath(file))
    unfinished = target.with_name(f"{target.name}.unfinished")
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        unfinished.write_bytes(content)
        unfinished.replace(target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise InputError(field, str(file), "a file that can be written", f"{reason}.") from None


COLUMNS = 3
"""Most columns of panels that form no grid."""
SIZES = {1: (520, 280), 2: (380, 250), 3: (240, 190), 4: (190, 150)}
"""Width and height of a panel in pixels, by the number of columns. The last also serves more columns."""
FLAT = 110
"""Height of a panel in a grid of more than three rows, in pixels."""
SPACING = 20
"""Space between the columns of a grid, in pixels."""
LETTER = 6.5
"""Width of a letter of an axis title, in pixels."""
LEAST = 50
"""Least width of a panel in a file, in pixels."""
UNITS = {"": 1.0, "px": 1.0, "mm": 96 / 25.4, "cm": 96 / 2.54, "in": 96.0, "pt": 96 / 72}
"""Pixels of a unit of length."""
MAX_RANKED = 8
"""Most values of x that are drawn at equal distances."""
MAX_LABELLED = 7
"""Most values of x that are all labelled."""
LABEL = (
    "abs(datum.value) >= 0.01 && abs(datum.value) < 10000 || datum.value == 0 ? format(datum.value, '~g') : "
    "replace(replace(format(datum.value, '~e'), 'e+0', ''), 'e+', 'e')"
)
"""Vega expression of the text of a tick: the value as :func:`ldpflow.columns.short` writes it."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
OF_THEORY: dict[str, Any] = {"bound": [7, 4], "limit": [1.5, 3]}
SIMULATED = "simulated"


@dataclass(frozen=True)
class Layout:
    """Titles, series and scales of a chart."""

    heading: str
    x: str
    y: str
    """Titles of the axes."""
    series: Sequence[tuple[str, str]]
    """Name and family of each series, in the order of the legend. Series of one family share a colour. If
    there is only one family, its series have a ramp of colours."""
    known: Sequence[tuple[str, str]] = ()
    """Series of the whole run: a series then has one look in all figures. Empty: looks by ``series``."""
    log_x: bool = False
    log_y: bool = False
    ranked: bool = False
    """Whether up to :data:`MAX_RANKED` values of x are drawn at equal distances, with the series of each
    value side by side. Error bars then do not hide each other."""
    theory: Mapping[str, str] = field(default_factory=dict)
    """Words of the legend for the fields ``bound`` (dashed) and ``limit`` (dotted) of points."""
    ribbons: bool = False
    """Whether Monte Carlo intervals are bands along a line instead of bars."""
    left_out: str = ""
    """Sentence on results that the chart does not show."""


def draw(points: Sequence[Row], layout: Layout) -> Any:
    """Draw points. Values that a logarithmic axis cannot show are left out and counted."""
    count = len(points)
    points = [p for p in points if math.isfinite(p["y"]) and (p["y"] > 0 or not layout.log_y)]
    absent = [layout.left_out] if layout.left_out else []
    if count > len(points):
        absent.append(f"Left out: {count - len(points):,} values that a logarithmic axis cannot show.")
    if not points:
        raise InputError("figure", layout.heading, "values above 0, which a logarithmic axis can show")
    x = horizontal(points, layout)
    scale, axis = vertical(points, layout)
    look = looks(points, layout)
    known = {name for point in points for name in point}
    named = isinstance(points[0]["x"], str)  # no line joins values that are names
    base = alt.Chart()
    title = y_title(points, layout.y)

    def up(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", title=title, scale=scale, axis=axis)

    def layer(mark: Any, name: str, **channels: Any) -> Any:
        return mark.encode(x=x, y=up(name), **channels).transform_filter(f"isValid(datum.{name})")

    def line(name: str, kind: str) -> Any:
        channels = {key: look[key] for key in ("color", "strokeDash")}
        width = 1.6 if kind == SIMULATED else 1.2
        drawn = layer(base.mark_line(clip=True, aria=False, strokeWidth=width), name, **channels)
        return drawn.transform_calculate(kind=f"'{kind}'") if layout.theory else drawn

    layers = []
    if "band_low" in known:
        band = base.mark_rect(opacity=0.16, color=GREY)
        layers.append(band.encode(y=up("min(band_low)"), y2="max(band_high):Q"))
    if "ideal" in known:
        layers.append(base.mark_rule(strokeWidth=1.5, **RULE).encode(y=up("mean(ideal)")))
    ends = {"y2": "high:Q", "color": look["color"]}
    if layout.ribbons and "low" in known:
        layers.append(layer(base.mark_area(opacity=0.2, clip=True, aria=False), "low", **ends))
    layers += [line(name, words) for name, words in layout.theory.items()]
    layers += [] if named else [line("y", SIMULATED)]
    if "shared" in known:
        tick = base.mark_tick(orient="horizontal", size=20, thickness=1.5, color=GREY, clip=True)
        layers.append(layer(tick, "shared"))
    if not layout.ribbons and "low" in known:
        layers.append(layer(base.mark_rule(strokeWidth=1.4, clip=True), "low", **ends))
    size = 24 if layout.ribbons else 50
    dots = base.mark_point(filled=True, size=size, opacity=1, clip=layout.ribbons, aria=False).encode(
        x=x, y=up("y"), tooltip=tooltip(known, layout), color=look["color"], shape=look["shape"]
    )
    layers.append(dots.transform_filter("isValid(datum.marked)") if layout.ribbons else dots)
    heading = f"{layout.heading} over {layout.x.partition(' (')[0]}"
    drawn, words = panels(points, layers, y=layout.y), in_words(points, layout)
    # Many long names would make the figure wider than its panels.
    return style_chart(drawn, heading, words, left_out=" ".join(absent), wrapped=len(layout.series) > 5)


def y_title(points: Sequence[Row], title: str) -> str | None:
    """Title of each vertical axis. None for a grid of several rows, which has one title beside its rows."""
    return None if "column" in points[0] and len({point["row"] for point in points}) > 1 else title


def panels(
    points: Sequence[Row],
    layers: Sequence[Any],
    size: Mapping[str, int] | None = None,
    y: str | None = None,
    **scales: Any,
) -> Any:
    """Draw layers over the points, in a grid of panels or in rows of at most :data:`COLUMNS` panels.

    ``y`` is the title beside the rows of a grid with several rows. ``scales`` names channels whose scale
    differs between panels.
    """
    values = [
        {k: clean(v) for k, v in p.items() if v is not None and not isinstance(v, tuple)}
        | {k: p[k][1] for k in ("row", "column") if k in p}
        for p in points
    ]
    down, across = (sorted({p[k] for p in points if k in p}) for k in ("row", "column"))
    # Four panels make two rows, as on the page.
    count = len(across) if across else 2 if len(down) == 4 else min(len(down), COLUMNS)
    width, height = SIZES[min(count, max(SIZES))]
    chart: Any = alt.layer(*layers).properties(
        **size or {"width": width, "height": FLAT if across and len(down) > 3 else height}
    )
    # Altair would check every value against its schema: the data are put in at the end.
    data = alt.Data(values=[])
    lines: dict[str, Any] = {"labelExpr": "split(datum.label, ', ')", "labelPadding": 4}
    facets: dict[str, Any] = {
        name: kind(f"{name}:N", sort=[label for _, label in labels], header=alt.Header(title=title, **lines))
        for name, kind, labels, title in (("row", alt.Row, down, y), ("column", alt.Column, across, None))
        if len(labels) > 1
    }
    if not facets and not scales:
        chart = chart.properties(data=data)
    elif across:
        chart = chart.facet(data=data, **facets)
    else:
        header = alt.Header(title=None, labelExpr="split(datum.label, '\\n')", labelAnchor="start")
        facet = alt.Facet("row:N", sort=[label for _, label in down], header=header)
        chart = chart.facet(facet, data=data, columns=count).resolve_axis(x="independent")
        chart = chart.resolve_scale(**scales) if scales else chart
    chart.data.values = values
    return chart


def parse_length(field: str, value: float | str | None) -> float | None:
    """Convert a length, a number of pixels or a text such as ``85mm``, to pixels (1/96 inch)."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value))
    if value is None:
        return None
    pixels = math.nan if found is None else float(found[1]) * UNITS.get(found[2], math.nan)
    if not 20 <= pixels < 20_000:
        allowed = "6mm to 5000mm, as in 85mm, 8.5cm, 3.3in, 240pt or 320 (pixels, 96 to an inch)"
        raise InputError(field, value, allowed)
    return pixels


def resize(chart: Any, width: float | str | None = None) -> Any:
    """Resize panels until the whole chart has this width (pixels, or ``85mm``). None changes nothing.

    Panels keep their height, but at most the larger of their width and the least height.
    """
    wanted = parse_length("width", width)
    if wanted is None:
        return chart
    panel = getattr(chart, "spec", chart)
    if not fit(chart, panel, wanted):
        unit = UNITS["mm"]
        hint = f"It is {wanted / unit:.1f} mm."
        raise InputError("width", width, f"enough for panels of {LEAST / unit:.0f} mm", hint)
    if fit_texts(chart, panel):
        fit(chart, panel, wanted)
    panel.height = min(panel.height, max(panel.width, chart.usermeta.get("height", 60)))
    return chart


def fit_texts(chart: Any, panel: Any) -> bool:
    """Break titles of horizontal axes that are wider than a panel, and make symbols of narrow panels smaller.

    Also break headings of columns after " = " if a heading is wider than its column. Return whether headings
    were broken.
    """
    for layer in getattr(panel, "layer", ()):
        x = layer.encoding.x
        title = None if x is alt.Undefined else x._kwds.get("title")
        if isinstance(title, str) and len(title) * LETTER > panel.width:
            x._kwds["title"] = wrap(title, max(8, int(panel.width / LETTER)))
        if layer.mark.type == "point" and layer.mark.size is not alt.Undefined:
            layer.mark.size = min(layer.mark.size, max(12.0, panel.width / 3))
    lines = [line for row in chart.data.values for line in row.get("column", "").split(", ")]
    if LETTER * max(map(len, lines)) <= panel.width + SPACING:
        return False
    header = chart.facet.column._kwds["header"]
    header["labelExpr"] = "split(replace(datum.label, regexp(' = ', 'g'), ' =, '), ', ')"
    return True


def fit(chart: Any, panel: Any, wanted: float) -> bool:
    """Resize a chart to the ``wanted`` width. Return whether its panels are wide enough."""
    legend: Any = chart.config.legend
    most: Any = getattr(chart, "columns", alt.Undefined)
    wrapped = most is not alt.Undefined
    columns = max(1, min(int(most), int(wanted // 150))) if wrapped else 1
    legend.columns = max(1, int(wanted // 115))
    while True:
        if wrapped:
            chart.columns = columns
        size = stretch(chart, panel, wanted)
        if columns > 1 and size > wanted + 2:
            columns -= 1  # the titles of panels make it too wide
        elif panel.width >= LEAST:
            return True
        elif legend.columns == 1:
            return False
        else:
            legend.columns -= 1  # the legend makes it too wide


def stretch(chart: Any, panel: Any, wanted: float) -> float:
    """Change the width of panels until the chart has the ``wanted`` width. Return its width."""
    size, step = drawn_width(chart), 20.0
    for _ in range(12):
        panel.width += step
        before, size = size, drawn_width(chart)
        # The width of the chart changes by the number of columns times the step.
        step = max((wanted - size) / max((size - before) / step, 1.0), 1.0 - panel.width)
        if abs(step) <= 0.5:  # panels are drawn in whole pixels
            break
    return size


def drawn_width(chart: Any) -> float:
    drawn = vl_convert.vegalite_to_svg(chart.to_json(indent=None))
    found = re.search(r' width="([\d.]+)', drawn)
    assert found is not None
    return float(found[1])


def horizontal(points: Sequence[Row], layout: Layout) -> alt.X:
    """Axis of x. If values are drawn at equal distances, the function sets the field ``place`` of points."""
    axis = sorted({point["x"] for point in points})
    if isinstance(axis[0], str) or (layout.ranked and len(axis) <= MAX_RANKED):
        names = [name for name, _ in layout.series]
        for point in points:
            aside = (names.index(point["series"]) + 0.5) / len(names) - 0.5
            point["place"] = axis.index(point["x"]) + 0.6 * aside
        # Labels are at whole numbers. Lines at halves separate the categories.
        separates: Any = alt.condition("datum.value % 1 != 0", alt.value(1), alt.value(0))
        marks: dict[str, Any] = {
            "values": [half / 2 for half in range(2 * len(axis) - 1)],
            "labelExpr": f"{json.dumps([short(value) for value in axis])}[datum.value] || ''",
            "gridOpacity": separates,
            "tickOpacity": separates,
            "tickSize": 8,
            "gridColor": "#b4b9c0",
        }
        if max(len(short(value)) for value in axis) > 6:  # long names overlap unless they are turned
            marks |= {"labelAngle": -25, "labelAlign": "right"}
        scale = alt.Scale(type="linear", domain=[-0.5, len(axis) - 0.5], nice=False)
        name = "place"
    else:
        log = layout.log_x and axis[0] > 0
        values = axis if len(axis) <= MAX_LABELLED else log_marks(axis[0], axis[-1]) if log else []
        marks = {"labelExpr": LABEL} | ({"values": values} if values else {"tickCount": 5})
        kind: dict[str, Any] = {"type": "log"} if log else {"zero": False}
        scale = alt.Scale(**kind, padding=14, nice=False)
        name = "x"
    look = alt.Axis(
        grid=name == "place", labelOverlap=name != "place" and "parity", labelFlush=False, **marks
    )
    return alt.X(f"{name}:Q", title=layout.x, scale=scale, axis=look)


def vertical(points: Sequence[Row], layout: Layout) -> tuple[alt.Scale, alt.Axis]:
    """Scale and axis of y. A logarithmic scale shows theory up to 100 times the largest simulated value."""
    few = alt.Axis(tickCount=6, labelExpr=LABEL, labelOverlap=True)
    if not layout.log_y:
        return alt.Scale(zero=False, nice=False, padding=8), few
    measured = [p[k] for p in points for k in ("y", "low", "high", "shared", "ideal") if p.get(k) is not None]
    theory = [p[k] for p in points for k in layout.theory if p.get(k) is not None]
    low, high = min(measured), max(measured)
    ends = [low / 1.25, max(high, min(max(theory, default=high), 100 * high)) * 1.25]
    axis = alt.Axis(labelExpr=LABEL, labelOverlap=True, values=log_marks(*ends))
    return alt.Scale(type="log", domain=[clean(end) for end in ends], nice=False), axis


def log_marks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: at least four, or one if all values are nearly equal."""
    if high < 1.001 * low:
        return [float(f"{low:.3g}")]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0)):
        marks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        if len(marks := [mark for mark in marks if low * 0.99 <= mark <= high * 1.01]) >= 4:
            return marks
    for unit in (step * 10.0**power for power in range(last, last - 9, -1) for step in (5, 2, 1)):
        if (count := math.floor(high / unit) - math.ceil(low / unit) + 1) >= 4:
            return [float(f"{unit * (math.ceil(low / unit) + at):.6g}") for at in range(count)]
    return [low]


class Look(NamedTuple):
    color: str
    shape: str
    dash: list[int]


def series_looks(series: Sequence[tuple[str, str]]) -> dict[str, Look]:
    """Look of each series. A series is a name and a family: see :attr:`Layout.series`."""
    families = [family for _, family in series]
    each, alike = colours(families), len(set(families)) == 1 and len(families) > 1
    shades = ramp(len(families)) if alike else [each[family] for family in families]
    return {
        name: Look(shades[i], SHAPES[i % len(SHAPES)], DASHES[families[:i].count(family) % len(DASHES)])
        for i, (name, family) in enumerate(series)
    }


def looks(points: Sequence[Row], layout: Layout) -> dict[str, Any]:
    """Channels of colour, shape and dash by series. If there is theory, dashes mark its lines."""
    names = [name for name, _ in layout.series]
    drawn = series_looks(layout.known or layout.series)
    key = alt.Legend(title=None) if len(names) > 1 else None

    def channel(of: Any, values: Sequence[str]) -> Any:
        return of("series:N", scale=alt.Scale(domain=names, range=values), legend=key)

    look = {"color": channel(alt.Color, [drawn[name].color for name in names])}
    look["shape"] = channel(alt.Shape, [drawn[name].shape for name in names])
    if layout.theory:
        kinds: list[Any] = [SIMULATED, *layout.theory.values()]
        kind = alt.Legend(title=None, values=kinds, symbolType="stroke", symbolSize=300)
        scale = alt.Scale(domain=kinds, range=[[1, 0], *(OF_THEORY[name] for name in layout.theory)])
        look["strokeDash"] = alt.StrokeDash("kind:N", scale=scale, legend=kind)
    else:
        # The order is reversed: Vega would merge legends of equal order, and dash the symbols.
        scale = alt.Scale(domain=names[::-1], range=[drawn[name].dash for name in names[::-1]])
        look["strokeDash"] = alt.StrokeDash("series:N", scale=scale, legend=None)
    return look


def tooltip(known: set[str], layout: Layout) -> list[alt.Tooltip]:
    kinds = dict.fromkeys(("series", "panel", "x", "replicates", "failures"), "N")
    kinds |= dict.fromkeys(("y", "low", "high", "shared", *layout.theory), "Q")
    titles = {"x": layout.x, "y": layout.y}
    found = {name: kind for name, kind in kinds.items() if name in known}
    return [alt.Tooltip(f"{name}:{kind}", title=titles.get(name, name)) for name, kind in found.items()]


def in_words(points: Sequence[Row], layout: Layout) -> str:
    """Description of the chart for screen readers."""
    at, up = ([point[name] for point in points] for name in ("x", "y"))
    shown = [*dict.fromkeys(point["panel"] for point in points)]
    names = [name for name, _ in layout.series]
    count = f"{len(shown)} panel{'s' * (len(shown) > 1)}: {'; '.join(shown[:12])}"
    text = f"{layout.y} over {layout.x} from {short(min(at))} to {short(max(at))}; {count}; "
    return text + f"series: {'; '.join(names[:8])}. Values from {min(up):.3g} to {max(up):.3g}."


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Choose at most ``most`` evenly spaced items, including the first and the last."""
    last = len(items) - 1
    return [items[at] for at in np.unique(np.linspace(0, last, min(len(items), most)).round().astype(int))]


def clean(value: Any) -> Any:
    """Round a float to six digits, and replace NaN and infinity by None, as JSON needs."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if math.isfinite(value) else None
