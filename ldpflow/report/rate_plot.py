"""Rates: the mean gradient norm of whole runs against N, the budget or the dimension, with slopes.

Both axes are logarithmic, so that a rate is a straight line. Theory's rates have no constants that mean
anything at these sizes: their dotted lines start at each series' first point and show the slope.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from ldpflow.errors import InputError
from ldpflow.problems import PROBLEMS
from ldpflow.report.figures import LABEL, Z95, decades, is_number, panel_name, panels
from ldpflow.report.numbers import short
from ldpflow.report.results import Results, Row, axes, telling
from ldpflow.report.style import colours, styled
from ldpflow.report.trajectory_plot import DASHES

__all__ = ["AXES", "STATISTIC", "rates", "shown_rates", "slope"]

STATISTIC = "mean_gradient_norm"
AXES = ("n", "epsilon", "dimension", "epochs")
OWN = ("algorithm", "noise", "order", "batch_size", "parameters", "calibration", "difference_scale")
"""Factors that make series; the others make panels."""
MEASURED, THEORY = "measured", "slope of the theorem"


def rates(results: Results, x: str) -> Any:
    """The mean gradient norm over ``x``, or over the first of AXES that varies if ``x`` does not."""
    rows = shown_rates(results, x)
    across = rows[0]["across"]
    names = list(dict.fromkeys(r["series"] for r in rows))
    values = [r[k] for r in rows for k in ("mean", "low", "high", "limit") if k in r]
    axis = sorted({r["x"] for r in rows})
    ends = [min(values) / 1.2, max(values) * 1.2]
    theory = any("limit" in r for r in rows)
    each = colours(names)
    shades = [each[name] for name in names]

    def layers(base: Any) -> list[Any]:
        at = alt.X(
            "x:Q",
            title="N (records)" if across == "n" else results.names.axis(across),
            scale=alt.Scale(type="log", domain=[axis[0] / 1.1, axis[-1] * 1.1], nice=False),
            axis=alt.Axis(grid=False, labelExpr=LABEL, values=axis if len(axis) < 8 else decades(axis)),
        )
        scale = alt.Scale(type="log", domain=ends, nice=False)
        look = alt.Color(
            "series:N",
            legend=alt.Legend(title=None, symbolType="square", symbolOpacity=1, columns=3),
            scale=alt.Scale(domain=names, range=shades),
        )
        dashes = alt.StrokeDash(
            "kind:N",
            scale=alt.Scale(domain=[MEASURED, THEORY], range=[DASHES[0], DASHES[2]]),
            legend=alt.Legend(title=None, symbolType="stroke", symbolSize=300) if theory else None,
        )

        def up(field: str) -> alt.Y:
            labels = alt.Axis(labelExpr=LABEL, values=decades(ends))
            return alt.Y(f"{field}:Q", title="mean gradient norm", scale=scale, axis=labels)

        def line(field: str, kind: str) -> Any:
            return (
                base.mark_line(clip=True)
                .encode(x=at, y=up(field), color=look, strokeDash=dashes)
                .transform_filter(f"isValid(datum.{field})")
                .transform_calculate(kind=f"'{kind}'")
            )

        tips = [alt.Tooltip("series:N"), alt.Tooltip("panel:N"), alt.Tooltip("x:Q", title=across)]
        tips += [alt.Tooltip(f"{n}:Q", format=".4g") for n in ("mean", "low", "high")]
        tips += [alt.Tooltip("epochs:Q", format=",")]
        bars = base.mark_rule(clip=True).encode(x=at, y=up("low"), y2="high:Q", color=look)
        points = base.mark_point(filled=True, opacity=1, size=40).encode(
            x=at, y=up("mean"), color=look, tooltip=tips
        )
        return [*([line("limit", THEORY)] if theory else []), line("mean", MEASURED), bars, points]

    columns = ("x", "mean", "low", "high", "limit", "epochs")
    return styled(panels(rows, columns, layers), "Gradient norm over " + across, in_words(results, rows))


def shown_rates(results: Results, x: str) -> list[Row]:
    """Points of the figure: panel, series, x, mean, low, high, and theory's slope through the first."""
    rows = [r for r in results.followed if r["stat"] == STATISTIC and r["mean"]]
    if not rows:
        raise InputError("figure", "rates", "a run of an algorithm with many epochs")
    across = chosen_axis(rows, x)
    found = []
    factors = [k for k in panel_settings(results) if k != across and varies(rows, k)]
    keys = telling([k for k in OWN if k in rows[0]], rows)
    series = {r["path"]: name_of(results, r, keys) for r in rows}
    rows.sort(key=lambda r: ([str(r.get(k)) for k in keys], [r[k] for k in factors], r[across]))
    first: dict[tuple[str, str], Row] = {}
    for r in rows:
        if r[across] is None:
            continue
        panel = panel_name(results, r, factors)
        point: Row = {
            "panel": panel,
            "series": series[r["path"]],
            "across": across,
            "x": r[across],
            "mean": r["mean"],
            "epochs": r["epochs"],
        }
        if r["mcse"]:
            half = Z95 * r["mcse"]
            point |= {"low": max(r["mean"] - half, 0.1 * r["mean"]), "high": r["mean"] + half}
        start = first.setdefault((panel, point["series"]), r)
        if r["theory_limit"] and across != "epochs":
            point["limit"] = start["mean"] * r["theory_limit"] / start["theory_limit"]
        found.append(point)
    return found


def panel_settings(results: Results) -> list[str]:
    """Settings by which panels may differ: the axes, and the settings of the problem."""
    # Only what the study sets: with balanced lengths the epochs follow from the rest.
    names = [k for k in AXES if k != "epochs" or k in axes(results.study)]
    kinds = {r["problem"] for r in results.followed}
    names += ["problem", *(k for kind in sorted(kinds) for k in PROBLEMS[kind].model_fields)]
    return [k for k in dict.fromkeys(names) if k not in ("kind", "d", "sha256")]


def chosen_axis(rows: Sequence[Row], x: str) -> str:
    """``x`` where it varies, else the first that does."""
    able = [k for k in AXES if varies(rows, k) and all(is_number(r[k]) for r in rows if r[k] is not None)]
    if not able:
        raise InputError("figure", "rates", "a run in which one of " + ", ".join(AXES) + " varies")
    if x not in AXES:
        raise InputError("x", x, f"one of {', '.join(AXES)}")
    return x if x in able else able[0]


def varies(rows: Sequence[Row], name: str) -> bool:
    """Whether a setting has several values."""
    return len({r.get(name) for r in rows if r.get(name) is not None}) > 1


def name_of(results: Results, row: Row, keys: Sequence[str]) -> str:
    """A series in words."""
    plain = [k for k in ("noise", "order") if k in keys and row.get(k) is not None]
    parts = [results.names.settings(row, [k for k in keys if k not in plain]), *(str(row[k]) for k in plain)]
    return ", ".join(filter(None, parts)) or str(row["algorithm"])


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope of log y in log x."""
    x = [math.log(a) for a, _ in points]
    y = [math.log(b) for _, b in points]
    centre = math.fsum(x) / len(x)
    spread = math.fsum((a - centre) ** 2 for a in x)
    return math.fsum((a - centre) * b for a, b in zip(x, y, strict=True)) / spread


def in_words(results: Results, rows: Sequence[Row]) -> str:
    """The figure for those who cannot see it: the slopes."""
    across = rows[0]["across"]
    groups: dict[tuple[str, str], list[Row]] = {}
    for r in rows:
        groups.setdefault((r["panel"], r["series"]), []).append(r)
    slopes = []
    for (panel, series), points in groups.items():
        if len({r["x"] for r in points}) < 2:
            continue
        text = f"{series}" + (f" ({panel})" if panel != "all" else "")
        text += f": {slope([(r['x'], r['mean']) for r in points]):.3f}"
        if all("limit" in r for r in points):
            text += f" (theory {slope([(r['x'], r['limit']) for r in points]):.3f})"
        slopes.append(text)
    first, last = min(r["x"] for r in rows), max(r["x"] for r in rows)
    return (
        f"Mean gradient norm against {results.names.label(across)} from {short(first)} to {short(last)}. "
        f"Log-log slopes: {'; '.join(slopes)}."
    )
