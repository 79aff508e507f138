"""Colours of the series, how a chart looks, and charts as files.

Every colour has a contrast of at least 3 : 1 with a white and with a dark page, so that one chart
serves both; hue is never alone: points differ by series, dashes by setting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from ldpflow.errors import InputError

# Okabe and Ito's colours, darkened where white paper needs it.
METHODS = {"BB": "#0072b2", "BM": "#d55e00", "SN": "#008f68", "oracle": "#7f7f7f", "TR": "#b5609a"}
OTHERS = ("#9a7420", "#6a6fd0", "#3d8a9e", "#c0504d", "#6d8b2f")
GREY = "#858585"
MISSES = {"covers": "#8a939e", "lies too high": "#d55e00", "lies too low": "#9a5bb5"}
RAMP = ("#8a5bb8", "#3f74c0", "#1f8a8a", "#4f8f3a", "#a87b18", "#c0504d")

FORMATS: dict[str, Callable[[str], Any]] = {
    ".svg": vl_convert.vegalite_to_svg,
    ".png": lambda spec: vl_convert.vegalite_to_png(spec, scale=2),
    ".pdf": vl_convert.vegalite_to_pdf,
    ".json": lambda spec: spec,
}
"""Formats of files by suffix; PNG has two pixels per point, JSON is Vega-Lite."""


def colours(methods: Sequence[str]) -> dict[str, str]:
    """A colour per method, no two alike; those without one of their own get others by name.

    More of them than there are other colours: hues in order.
    """
    unknown = sorted(set(methods) - METHODS.keys())
    shades = OTHERS if len(unknown) <= len(OTHERS) else ramp(len(unknown))
    given = dict(zip(unknown, shades, strict=False))
    return {method: METHODS.get(method) or given[method] for method in sorted(set(methods))}


def ramp(count: int) -> list[str]:
    """So many colours in the order of hue, equally light, for an ordered factor."""
    if count == 1:
        return [RAMP[1]]
    found = []
    for i in range(count):
        position = i * (len(RAMP) - 1) / (count - 1)
        low = min(int(position), len(RAMP) - 2)
        pairs = zip(channels(RAMP[low]), channels(RAMP[low + 1]), strict=True)
        found.append("#" + "".join(f"{round(a + (b - a) * (position - low)):02x}" for a, b in pairs))
    return found


def channels(colour: str) -> list[int]:
    """Red, green and blue, 0 to 255."""
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def styled(
    chart: Any, title: str, description: str, margin: int = 70, left_out: str = "", wrapped: bool = False
) -> Any:
    """The chart with its title, its text for those who cannot see it, and the common look.

    ``margin`` is what a panel needs beside its plotting area, pixels; a page lays panels out by it.
    ``left_out`` is a sentence on what the run has and the figure does not show; a
    ``wrapped`` legend has three columns.
    """
    plain: Any = "normal"
    below: dict[str, Any] = {"subtitle": left_out, "subtitleFontSize": 11} if left_out else {}
    return chart.properties(
        title=alt.TitleParams(title, anchor="start", fontSize=14, fontWeight=600, offset=8, **below),
        description=" ".join(filter(None, (description, left_out))),
        usermeta={"margin": margin} | ({"left_out": left_out} if left_out else {}),
    ).configure(
        font="system-ui, 'DejaVu Sans', sans-serif",
        background="#ffffff",
        view=alt.ViewConfig(stroke="#b4b9c0"),
        axis=alt.AxisConfig(gridColor="#e4e6e9", labelFontSize=11, titleFontSize=12, titleFontWeight=plain),
        header=alt.HeaderConfig(labelFontSize=11, title=None, labelLimit=420),
        legend=alt.LegendConfig(
            orient="top",
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight=plain,
            symbolStrokeWidth=2,
            symbolSize=70,
            labelLimit=320,
            columns=3 if wrapped else alt.Undefined,
        ),
    )


def suffix_of(file: str) -> str:
    """The format that a file name asks for.

    Raises
    ------
    InputError
        If it is none that can be written.
    """
    suffix = Path(file).suffix.lower()
    if suffix not in FORMATS:
        raise InputError("output", file, f"a file name that ends in {', '.join(FORMATS)}")
    return suffix


def save(chart: Any, file: str | os.PathLike[str]) -> None:
    """Write an Altair chart in the format that the name of the file asks for."""
    content = FORMATS[suffix_of(str(file))](chart.to_json(indent=None))
    try:
        Path(file).write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("output", str(file), "a file that can be written", f"{reason}.") from None
