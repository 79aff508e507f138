"""The end of every path: the excess risk of an algorithm's output against a setting.

A trajectory follows one path; here every path is a point, the mean excess loss of its output at its last
checkpoint, and theory's value is a dotted line beside it.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from ldpflow.errors import InputError
from ldpflow.report.figures import LABEL, MAX_PANELS, Z95, decades, is_number, left_out, panel_name, panels
from ldpflow.report.results import Results, Row
from ldpflow.report.style import colours, ramp, styled

__all__ = ["last_risks", "risk", "risk_axis"]

MAX_SERIES = 6
OUTPUTS = ("tail_exc", "avg_exc", "last_exc")
"""Statistics of an algorithm's output: the first that a path has is drawn."""


def last_risks(results: Results) -> list[Row]:
    """One row per path: its output's excess loss at its last checkpoint.

    A path that serves every n stands at every n at which another one ends.
    """
    rows = [r for r in results.followed if r["stat"] in OUTPUTS and r["mean"] is not None]
    last: dict[str, int] = {}
    for row in rows:
        last[row["path"]] = max(row["n"], last.get(row["path"], 0))
    ends = set(last.values())
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        everywhere = row.get("horizon") is None and row["n"] in ends
        if row["n"] != last[row["path"]] and not everywhere:
            continue
        at = (row["path"], row["n"])
        kept = found.get(at)
        if kept is None or rank(row) > rank(kept):
            found[at] = row
    return list(found.values())


def rank(row: Row) -> tuple[int, int]:
    """Which of two rows of a path tells of its output."""
    return -OUTPUTS.index(row["stat"]), row["step"]


def varying(rows: list[Row], names: list[str]) -> list[str]:
    """The settings that tell the paths apart, n among them."""
    # The horizon is n itself, and what follows from n has nothing to add.
    known = ["n", *(name for name in names if name != "horizon")]
    return [name for name in known if len({repr(row.get(name)) for row in rows}) > 1]


def axes_of(rows: list[Row], names: list[str]) -> list[str]:
    """Those of the varying settings that can stand on an axis."""
    return [n for n in names if all(is_number(r[n]) for r in rows if r[n] is not None)]


def risk_axis(results: Results) -> str | None:
    """The setting to draw the risk against: n, or the first that varies; None without tail averages."""
    rows = last_risks(results)
    if not any(row["stat"] == "tail_exc" for row in rows):
        return None
    return next(iter(axes_of(rows, varying(rows, results.path_varying))), None)


def risk(results: Results, x: str = "n") -> Any:
    """Mean excess loss of the output against a setting of problem or algorithm, or n.

    A path without the setting (a baseline without a budget) is drawn level.

    Raises
    ------
    InputError
        If the run has no excess loss, or ``x`` does not vary.
    """
    rows = last_risks(results)
    if not rows:
        raise InputError("figure", "risk", "a run with [trajectory] that has an excess loss")
    names = varying(rows, results.path_varying)
    axes = axes_of(rows, names)
    if x not in axes:
        raise InputError("x", x, f"one of {', '.join(axes)}")
    others = [name for name in names if name not in (x, "algorithm")]
    own = [name for name in others if any(row[name] is None for row in rows)]
    across = [name for name in others if name not in own]
    if own and len({(row["algorithm"], *(row[k] for k in own)) for row in rows}) > MAX_SERIES:
        # Too many for colours: panels of their own, and who does not have the settings in all of them.
        known = sorted({tuple(row[k] for k in own) for row in rows if all(row[k] is not None for k in own)})
        rows = [
            row | dict(zip(own, values, strict=True))
            for row in rows
            for values in (known if any(row[k] is None for k in own) else [tuple(row[k] for k in own)])
        ]
        across, own = across + own, []
    places = sorted({row[x] for row in rows if row[x] is not None})
    drawn: list[Row] = []
    for row in rows:
        series = ", ".join(filter(None, (row["algorithm"], results.names.settings(row, own))))
        half = Z95 * (row["mcse"] or 0.0)
        point = {
            "panel": panel_name(results, row, across),
            "series": series,
            "mean": row["mean"],
            "low": max(row["mean"] - half, 0.1 * row["mean"]),
            "high": row["mean"] + half,
            "replicates": row["replicates"],
            "theory": row["theory_limit"],
            "order": tuple(row[k] for k in across),
        }
        drawn += [point | {"at": at} for at in (places if row[x] is None else [row[x]])]
    drawn.sort(key=lambda r: (r["order"], r["series"], r["at"]))
    every = list(dict.fromkeys(r["panel"] for r in drawn))
    kept, missing = every[:MAX_PANELS], every[MAX_PANELS:]
    drawn = [row for row in drawn if row["panel"] in kept]
    return chart(results, drawn, x, places, left_out(missing, []))


def chart(results: Results, rows: list[Row], x: str, places: list[float], missing: str) -> Any:
    """Lines, points with bars, and theory dotted."""
    log = places[0] > 0 and places[-1] >= 4 * places[0]
    few: dict[str, Any] = {}
    marks = places if len(places) <= 7 else decades(places) if log else None
    if marks:
        few["values"] = marks
    at = alt.X(
        "at:Q",
        title=results.names.axis(x),
        scale=alt.Scale(type="log" if log else "linear", nice=False, padding=12),
        axis=alt.Axis(grid=False, labelOverlap="parity", labelExpr=LABEL, **few),
    )
    values = [row[k] for row in rows for k in ("low", "high")]
    scale = alt.Scale(type="log", nice=False, domain=[min(values) / 1.3, max(values) * 1.3])
    axis = alt.Axis(format="~e", values=decades([min(values) / 1.3, max(values) * 1.3]))
    series = list(dict.fromkeys(row["series"] for row in rows))
    each = colours(series)
    shades = ramp(len(series)) if len({s.split(",")[0] for s in series}) == 1 else [each[s] for s in series]
    colour = alt.Color(
        "series:N", scale=alt.Scale(domain=series, range=shades), legend=alt.Legend(title=None, columns=4)
    )

    def layers(base: Any) -> list[Any]:
        def up(field: str) -> alt.Y:
            return alt.Y(f"{field}:Q", title="excess risk", scale=scale, axis=axis)

        tips = [alt.Tooltip(f"{name}:N") for name in ("series", "panel")]
        tips += [alt.Tooltip("at:Q", title=x), alt.Tooltip("mean:Q", format=".4g")]
        theory = (
            base.mark_line(strokeDash=[1.5, 3], strokeWidth=1.4, clip=True)
            .encode(x=at, y=up("theory"), color=colour)
            .transform_filter("isValid(datum.theory)")
        )
        line = base.mark_line(strokeWidth=1.6).encode(x=at, y=up("mean"), color=colour)
        bar = base.mark_rule(strokeWidth=1.4).encode(x=at, y=up("low"), y2="high:Q", color=colour)
        point = base.mark_point(filled=True, size=40, opacity=1).encode(
            x=at, y=up("mean"), color=colour, tooltip=tips
        )
        return [theory, line, bar, point]

    text = (
        f"Excess risk of the output over {x} from {places[0]:g} to {places[-1]:g}; {', '.join(series[:8])}; "
        f"from {min(row['mean'] for row in rows):.3g} to {max(row['mean'] for row in rows):.3g}."
    )
    columns = ("at", "mean", "low", "high", "theory")
    drawn = panels(rows, columns, layers)
    return styled(drawn, f"Excess risk of the output over {x}", text, left_out=missing)
