"""Trajectories: a statistic of the path against the users seen, or the steps made.

Lines are means over replicates with 95% Monte Carlo bands; of a few replicates every one is a line.
Theory is drawn beside them: proved bounds dashed, leading terms dotted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from ldpflow.errors import InputError
from ldpflow.report.figures import LABEL, MAX_PANELS, Z95, decades, left_out, panel_name, panels, spread
from ldpflow.report.numbers import short
from ldpflow.report.results import Results, Row
from ldpflow.report.style import colours, ramp, styled
from ldpflow.results.trajectories import read_trajectories
from ldpflow.store.schema import MEANS, STATISTICS

__all__ = ["CURVES", "Curves", "curves_of", "shown_curves", "trajectory"]

MAX_SINGLE = 8
"""So few replicates are drawn one by one."""
MAX_SERIES = 8
MAX_POINTS = 60
COLOURED = ("algorithm", "mechanism", "mu", "epsilon")
"""Factors for colours: the first that varies is used; the others make panels."""
SIMULATED = "simulated"
THEORY = {"bound": "proved bound", "limit": "leading term"}
DASHES = ([1, 0], [7, 4], [1.5, 3])
SHAPES = ("circle", "triangle-up", "square")
WIDTHS = (2.2, 1.1, 0.8)


@dataclass(frozen=True)
class Curves:
    """Statistics that share an axis, and what the legend calls each."""

    statistics: dict[str, str]
    axis: str
    heading: str
    logarithmic: bool = True


CURVES = {
    "distance": Curves(
        {"last_sq": "last iterate", "avg_sq": "average"}, "squared distance to θ*", "Distance to the optimum"
    ),
    "excess-loss": Curves(
        {"last_exc": "last iterate", "avg_exc": "average", "tail_exc": "average of the second half"},
        "excess loss F(θ) - F(θ*)",
        "Excess loss",
    ),
    "loss": Curves({"loss": "iterate", "output_loss": "output"}, "empirical risk", "Empirical risk"),
    "gradient-norm": Curves(
        {"gradient_norm": "iterate", "output_gradient_norm": "output"},
        "norm of the gradient",
        "Gradient norm",
    ),
    "gradient-error": Curves(
        {"error_norm": "all of the error", "noise_norm": "its noise"},
        "norm of the error",
        "Error of the private gradient",
    ),
    "clipped": Curves(
        {"clipped": "since the checkpoint before"}, "share of clipped gradients", "Clipping", False
    ),
    "threshold": Curves({"threshold": "in use"}, "clipping threshold", "Clipping threshold"),
}


def curves_of(results: Results) -> dict[str, Curves]:
    """CURVES, and one for every further statistic that the trajectories of a run have."""
    further = {name: text for name, text in results.meanings.items() if name not in (*STATISTICS, *MEANS)}
    own = {n: Curves({n: n}, text, n.replace("_", " ").capitalize(), False) for n, text in further.items()}
    return CURVES | own


def trajectory(results: Results, x: str, name: str) -> Any:
    """Curves against ``x``.

    Parameters
    ----------
    results : Results
    x : {"n", "step"}
        Users or steps; where n does not move (many passes over one data set), ``n`` means the step.
    name : str
        A key of :func:`curves_of`.

    Raises
    ------
    InputError
        If the run has no such trajectory, or ``x`` is neither.
    """
    curves = curves_of(results)[name]
    rows = shown_curves(results, name, x)
    across = rows[0]["across"]
    single = "replicate" in rows[0]
    series = list(dict.fromkeys(r["series"] for r in sorted(rows, key=lambda r: r["rank"])))
    known = [stat for stat in curves.statistics.values() if any(r["statistic"] == stat for r in rows)]
    theory = [kind for kind in THEORY if any(kind in r for r in rows)]
    at, look = horizontal(across, rows), looks(series, known)
    scale, axis = vertical(curves, rows)
    by = alt.Detail(["series:N", "statistic:N", "replicate:N"])
    dashes = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=[SIMULATED, *THEORY.values()], range=list(DASHES)),
        legend=alt.Legend(
            title=None,
            values=[SIMULATED, *(THEORY[kind] for kind in theory)],
            symbolType="stroke",
            symbolSize=300,
        )
        if theory
        else None,
    )

    def layers(base: Any) -> list[Any]:
        def up(field: str) -> alt.Y:
            return alt.Y(f"{field}:Q", title=curves.axis, scale=scale, axis=axis)

        def line(field: str, kind: str) -> Any:
            channels = {k: v for k, v in look.items() if k != "shape"}
            width = {} if "strokeWidth" in look else {"strokeWidth": 1.2}
            return (
                base.mark_line(clip=True, aria=False, **width)
                .encode(x=at, y=up(field), detail=by, strokeDash=dashes, **channels)
                .transform_filter(f"isValid(datum.{field})")
                .transform_calculate(kind=f"'{kind}'")
            )

        band = (
            base.mark_area(opacity=0.2, clip=True, aria=False)
            .encode(x=at, y=up("low"), y2="high:Q", color=look["color"], detail=by)
            .transform_filter("isValid(datum.low)")
        )
        tips = [alt.Tooltip(f"{n}:N") for n in ("series", "panel", "statistic")]
        tips += [alt.Tooltip("x:Q", title=across, format=",")]
        wanted = [n for n in ("mean", "low", "high", *theory) if any(n in r for r in rows)]
        tips += [alt.Tooltip(f"{n}:Q", format=".4g") for n in wanted]
        colour = {k: v for k, v in look.items() if k != "strokeWidth"}
        points = (
            base.mark_point(filled=True, opacity=1, clip=True, size=24, aria=False)
            .encode(x=at, y=up("mean"), tooltip=tips, **colour)
            .transform_filter("isValid(datum.marked)")
        )
        drawn = [line(kind, THEORY[kind]) for kind in theory]
        return [*([] if single else [band]), *drawn, line("mean", SIMULATED), points]

    columns = ("statistic", "replicate", "x", "mean", "low", "high", "bound", "limit", "marked")
    left = len(panel_factors(results)[2]) - len({r["panel"] for r in rows})
    text = in_words(curves, rows, across, series, known, left)
    drawn = panels(rows, columns, layers)
    return styled(drawn, f"{curves.heading} over {across}", text, left_out=rows[0]["missing"])


def shown_curves(results: Results, name: str, x: str) -> list[Row]:
    """Points of the figure: panel, series, statistic, x, mean; low and high, bound, limit, replicate.

    ``rank`` orders the series and ``across`` says what x is.
    """
    curves = curves_of(results)[name]
    if x not in ("n", "step"):
        raise InputError("x", x, "n or step")
    rows = [r for r in results.followed if r["stat"] in curves.statistics and r["mean"] is not None]
    if not rows:
        raise InputError("figure", name, "a run with [trajectory] that has this statistic")
    moving = {r["path"] for r in rows if r["n"] != next(o["n"] for o in rows if o["path"] == r["path"])}
    across = x if moving else "step"
    if curves.logarithmic:
        rows = [r for r in rows if r["mean"] > 0]
    panel, series, order = panel_factors(results)
    place = {p: (panel(r), series(r)) for r in rows for p in [r["path"]]}
    kept = [*order][:MAX_PANELS]
    names = list(dict.fromkeys(series(r) for r in ordered(results)))
    few = spread(names, MAX_SERIES)
    missing = left_out([*order][MAX_PANELS:], [name for name in names if name not in few])
    rows = [r for r in rows if place[r["path"]][0] in kept and place[r["path"]][1] in few]
    rows.sort(key=lambda r: kept.index(place[r["path"]][0]))
    thinned = thinned_axes(rows, across)
    marks = {path: set(spread(sorted(kept), 7)) for path, kept in thinned.items()}
    single = single_values(results, rows) if max(r["replicates"] for r in rows) <= MAX_SINGLE else None
    found = []
    for r in rows:
        if r[across] not in thinned[r["path"]]:
            continue
        at, colour = place[r["path"]]
        point: Row = {
            "panel": at,
            "series": colour,
            "rank": names.index(colour),
            "across": across,
            "statistic": curves.statistics[r["stat"]],
            "x": r[across],
            "missing": missing,
        }
        for kind in ("bound", "limit"):
            if r[f"theory_{kind}"] is not None:
                point[kind] = digits(r[f"theory_{kind}"])
        if r[across] in marks[r["path"]]:
            point["marked"] = 1
        if single is not None:
            values = single[r["path"], r["n"], r["step"], r["stat"]]
            theory = [k for k in THEORY if k in point]
            for i, v in values:
                found.append(point | {"replicate": i, "mean": digits(v)})
                point = {k: v for k, v in point.items() if k not in theory}  # once is enough
            continue
        point |= {"mean": digits(r["mean"]), "replicates": r["replicates"]}
        if r["mcse"] is not None:
            half = Z95 * r["mcse"]
            low = r["mean"] - half
            low = max(low, 0.1 * r["mean"]) if curves.logarithmic else low
            point |= {"low": digits(low), "high": digits(r["mean"] + half)}
        found.append(point)
    return found


def thinned_axes(rows: Sequence[Row], across: str) -> dict[str, set[int]]:
    """The places of every path that are drawn: the same for all, or each path's own where they differ."""
    own: dict[str, set[int]] = {}
    for r in rows:
        own.setdefault(r["path"], set()).add(r[across])
    axis = sorted(set().union(*own.values()))
    if len(axis) <= 1.5 * MAX_POINTS:
        return own
    if len(axis) < 2 * max(map(len, own.values())):
        shared = set(spread(axis, MAX_POINTS))
        return {path: shared for path in own}
    most = max(12, MAX_POINTS * MAX_SERIES // (2 * len(own)))
    return {path: set(spread(sorted(places), most)) for path, places in own.items()}


def digits(value: float) -> float:
    """Four digits: more than a figure shows."""
    return float(f"{value:.4g}")


def single_values(results: Results, rows: Sequence[Row]) -> dict[Any, list[tuple[int, float]]]:
    """(replicate, value) by path, n, step and statistic."""
    table = read_trajectories(results.store, damaged=results.damaged)
    stats = sorted({r["stat"] for r in rows})
    found: dict[Any, list[tuple[int, float]]] = {}
    for row in table.select(["path", "n", "step", "replicate", *stats]).to_pylist():
        for stat in stats:
            if row[stat] is not None and np.isfinite(row[stat]) and row[stat] > 0:
                at = (row["path"], row["n"], row["step"], stat)
                found.setdefault(at, []).append((row["replicate"], row[stat]))
    return found


def ordered(results: Results) -> list[Row]:
    """A row per path, by the settings that vary."""
    by_path = {r["path"]: r for r in results.followed}
    names = results.path_varying
    return sorted(by_path.values(), key=lambda r: [(r[k] is not None, r[k]) for k in names])


def panel_factors(results: Results) -> tuple[Any, Any, list[str]]:
    """Functions that give a row's panel and colour, and the panels in order.

    Settings that only some paths have (an algorithm's own) go with the colour.
    """
    paths = ordered(results)
    varying = results.path_varying
    chosen = next((name for name in COLOURED if name in varying), None)
    own = [k for k in varying if k != chosen and any(r[k] is None for r in paths)]
    across = [k for k in varying if k != chosen and k not in own]

    def panel(row: Row) -> str:
        return panel_name(results, row, across)

    def series(row: Row) -> str:
        keys = ([chosen] if chosen else []) + own
        return results.names.settings(row, keys) or "all"

    paths.sort(key=lambda r: [(r[k] is not None, r[k]) for k in across])
    return panel, series, list(dict.fromkeys(map(panel, paths)))


def looks(series: Sequence[str], statistics: Sequence[str]) -> dict[str, Any]:
    """Colours tell the series apart, points and widths the statistics; of one series colours do that."""

    def scale(names: Sequence[str], values: Sequence[Any]) -> alt.Scale:
        return alt.Scale(domain=list(names), range=list(values[: len(names)]))

    def legend(names: Sequence[str], **look: Any) -> alt.Legend | None:
        return alt.Legend(title=None, symbolOpacity=1, **look) if len(names) > 1 else None

    field, names = ("series:N", series) if len(series) > 1 else ("statistic:N", statistics)
    ramped = all(" = " in name for name in names) or field == "statistic:N"
    each = colours(names)
    shades = ramp(len(names)) if ramped else [each[name] for name in names]
    # Many long names would make the figure wider than its panels.
    wrapped = {"columns": 3, "labelLimit": 320} if len(names) > 5 else {}
    key = legend(names, symbolType="square", **wrapped)
    look: dict[str, Any] = {"color": alt.Color(field, scale=scale(names, shades), legend=key)}
    if len(series) > 1 and len(statistics) > 1:
        grey = {"symbolFillColor": "#777777", "symbolStrokeColor": "#777777"}
        look["shape"] = alt.Shape(
            "statistic:N", scale=scale(statistics, SHAPES), legend=legend(statistics, **grey)
        )
        look["strokeWidth"] = alt.StrokeWidth(
            "statistic:O", sort=None, scale=scale(statistics, WIDTHS), legend=legend(statistics, **grey)
        )
    return look


def vertical(curves: Curves, rows: Sequence[Row]) -> tuple[alt.Scale, alt.Axis]:
    """Scale and axis of the statistic. Theory may be far away: a decade or two of it are enough."""
    measured = [r[k] for r in rows for k in ("mean", "low", "high") if k in r]
    low, high = min(measured), max(measured)
    if not (curves.logarithmic and low > 0):
        return alt.Scale(zero=True, nice=True), alt.Axis(tickCount=5)
    if high < 5 * low:  # no decade to see
        return alt.Scale(zero=False, padding=6), alt.Axis(tickCount=5)
    bounds = [r["bound"] for r in rows if "bound" in r]
    if bounds:
        high = max(high, min(max(bounds), 100 * high))
    low, high = low / 1.4, high * 1.4
    scale = alt.Scale(type="log", domain=[digits(low), digits(high)], nice=False)
    return scale, alt.Axis(labelExpr=LABEL, values=decades([low, high]), labelOverlap=True)


def horizontal(across: str, rows: Sequence[Row]) -> alt.X:
    """The axis of users or steps."""
    axis = sorted({r["x"] for r in rows})
    log = axis[0] > 0
    marks: dict[str, Any] = {"values": decades([float(axis[0]), float(axis[-1])])} if log else {}
    return alt.X(
        "x:Q",
        title="n (users)" if across == "n" else "step",
        scale=alt.Scale(type="log" if log else "linear", domain=[axis[0], axis[-1]], nice=False),
        axis=alt.Axis(grid=False, labelExpr=LABEL, labelOverlap="parity", labelFlush=False, **marks),
    )


def in_words(
    curves: Curves, rows: Sequence[Row], across: str, series: Sequence[str], known: Sequence[str], left: int
) -> str:
    """The figure for those who cannot see it, with what can be read off it."""
    shown = list(dict.fromkeys(r["panel"] for r in rows))
    first, last = min(r["x"] for r in rows), max(r["x"] for r in rows)
    text = (
        f"{curves.axis} ({', '.join(known)}) against {across} from {short(first)} to {short(last)}, "
        f"{len(shown)} panels ({'; '.join(shown)}), curves for {'; '.join(series)}. "
    )
    ends = [r for r in rows if r["x"] == last]
    text += f"At the end from {min(r['mean'] for r in ends):.3g} to {max(r['mean'] for r in ends):.3g}. "
    bounded = [r for r in rows if "bound" in r]
    if bounded:
        above = sum(r["mean"] > r["bound"] for r in bounded)
        text += f"{above or 'None'} of {len(bounded)} points lie above the proved bound. "
    return text + (f"{left} panels more are not drawn." if left > 0 else "")
