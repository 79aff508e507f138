"""Figures of a run's measures: coverage, length, bias, standard errors, the heat map.

Every function takes :class:`~ldpflow.report.results.Results` and returns an Altair chart, or raises
:class:`~ldpflow.errors.InputError` where the run has nothing to show. Bars are Monte Carlo intervals
of 95%: Wilson's for shares, +-1.96 MCSE for means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import altair as alt

from ldpflow.errors import InputError
from ldpflow.report.figures import (
    COLUMNS,
    MAX_PANELS,
    Z95,
    clean,
    left_out,
    lines,
    ordered,
    panel_name,
    panels,
    panels_of,
    place_rows,
    said,
    scales,
    series_of,
    spread,
    tooltip,
    usable_x,
    without_setting,
)
from ldpflow.report.results import Results, Row, labels, with_misses
from ldpflow.report.style import GREY, styled

__all__ = ["bias", "coverage", "heat_map", "length", "relative_length", "standard_error"]

MAX_PER_METHOD = 4


def shown_rows(results: Results, x: str, value: str) -> list[Row]:
    """Rows with a value, with panel, colour key and what is left out."""
    usable_x(results, x)
    setting = x in results.method_settings
    rows = [with_misses(r) if value == "coverage" else r for r in results.rows]
    rows = [dict(r) for r in rows if r.get(x) is not None and r.get(value) is not None]
    if not rows:
        raise InputError("figure", f"{value} over {x}", "a measure that some cell of the run has")
    factors = panels_of(results, x, ("n",) if setting else ())
    label = series_over(results, x, rows) if setting else None
    for row in rows:
        row["panel"] = panel_name(results, row, factors)
        if label is not None:  # the methods without it have no place here, and n takes over the colour
            row["series"] = label(row)
    order = {
        name: i for i, name in enumerate(dict.fromkeys(r["panel"] for r in ordered(results, rows, factors)))
    }
    all_panels, all_series = list(order), series_of(rows)
    rows = [row for row in rows if order[row["panel"]] < MAX_PANELS]
    kept: set[str] = set()
    for _, group in groupby(sorted(all_series, key=lambda p: p[1]), key=lambda p: p[1]):
        kept.update(spread([name for name, _ in group], 10 if setting else MAX_PER_METHOD))
    hidden = [name for name, _ in all_series if name not in kept]
    missing = all_panels[MAX_PANELS:], hidden, without_setting(results.rows, x)
    rows = [row for row in ordered(results, rows, factors) if row["series"] in kept]
    for row in rows:
        row["missing"] = missing
    return rows


def series_over(results: Results, x: str, rows: Sequence[Row]) -> Callable[[Row], str]:
    """A function that names the line of a row over a method's setting: n, and all else that differs."""
    others = [name for name in results.method_settings if name != x]
    method = labels(rows, results.names, others)
    several = len({row["method"] for row in rows}) > 1

    def name(row: Row) -> str:
        kind, *settings = method(row).split(", ")
        return ", ".join([*([kind] if several else []), results.names.value("n", row["n"]), *settings])

    return name


def coverage(results: Results, x: str = "n") -> Any:
    """Coverage over a factor, with the nominal level.

    Parameters
    ----------
    results : Results
    x : str
        Any numeric setting of the study; over a method's setting (beta, B) lines are the n.
    """
    rows = shown_rows(results, x, "coverage")
    at = place_rows(results, x, rows, ranked=True)
    for row in rows:
        count = max(row["replicates"], 1)
        half = Z95 * math.sqrt(row["level"] * (1 - row["level"]) / count)
        row["band_low"], row["band_high"] = row["level"] - half, min(row["level"] + half, 1.0)
    low = min(min(r["coverage_low"] for r in rows), min(r["band_low"] for r in rows))
    scale = alt.Scale(domain=[max(low - 0.02, 0.0), 1.0], nice=False, zero=False)
    lost = any(row["failures"] for row in rows)
    heading = "coverage, failures as misses" if lost else "coverage"
    y = alt.Y("coverage:Q", title=heading, scale=scale, axis=alt.Axis(format=".2f", tickCount=6))

    def layers(base: Any) -> list[Any]:
        band = base.mark_rect(opacity=0.16, color=GREY).encode(
            y=alt.Y("min(band_low):Q", scale=scale), y2="max(band_high):Q"
        )
        nominal = base.mark_rule(color=GREY, strokeDash=[5, 4], strokeWidth=1.5).encode(
            y=alt.Y("mean(level):Q", scale=scale)
        )
        tips = tooltip(results, x, "coverage", "coverage_mcse")
        by = scales(results, rows, x)
        return [
            band,
            nominal,
            *lines(base, at, y, "coverage_low", "coverage_high", by, tips),
        ]

    columns = (x, "coverage", "coverage_mcse", "coverage_low", "coverage_high", "band_low", "band_high")
    text = (
        f"Coverage {said(results, rows, x)}. Coverage runs from {min(r['coverage'] for r in rows):.3f} to "
        f"{max(r['coverage'] for r in rows):.3f}; nominal level {shared_level(rows)}."
    )
    drawn = panels(rows, columns, layers)
    return styled(
        drawn, f"Coverage over {results.names.label(x)}", text, left_out=left_out(*rows[0]["missing"])
    )


def shared_level(rows: Sequence[Row]) -> str:
    """The nominal level, or levels."""
    return " and ".join(f"{level:g}" for level in sorted({row["level"] for row in rows}))


def with_bars(rows: list[Row], value: str, mcse: str, floor: float | None = None) -> None:
    """Ends of the 95% Monte Carlo interval of a mean."""
    for row in rows:
        half = Z95 * (row.get(mcse) or 0.0)
        low = row[value] - half
        row["low"] = max(low, floor * row[value]) if floor is not None else low
        row["high"] = row[value] + half


def length(results: Results, x: str = "n") -> Any:
    """Mean length over a factor (unit of theta, logarithmic), with the oracle's."""
    rows = shown_rows(results, x, "length_mean")
    with_bars(rows, "length_mean", "length_mcse", floor=0.1)
    at = place_rows(results, x, rows)
    y = alt.Y(
        "length_mean:Q",
        title="mean length (unit of θ)",
        scale=alt.Scale(type="log", nice=False, padding=8),
        axis=alt.Axis(format="~g", tickCount=5, labelOverlap=True),
    )

    def layers(base: Any) -> list[Any]:
        theory = base.mark_line(color=GREY, strokeDash=[5, 4], strokeWidth=1.5).encode(
            x=alt.X(f"{x}:Q"), y=alt.Y("oracle_length:Q"), detail="level:N"
        )
        tips = tooltip(results, x, "length_mean", "length_mcse", "oracle_length")
        drawn = lines(base, at, y, "low", "high", scales(results, rows, x), tips)
        known = x not in results.method_settings and any(row["oracle_length"] for row in rows)
        return [theory, *drawn] if known else drawn

    columns = (x, "length_mean", "length_mcse", "low", "high", "oracle_length")
    text = f"Mean interval length {said(results, rows, x)}, from {least_most(rows, 'length_mean')}."
    drawn = panels(rows, columns, layers)
    return styled(
        drawn, f"Length over {results.names.label(x)}", text, left_out=left_out(*rows[0]["missing"])
    )


def least_most(rows: Sequence[Row], name: str) -> str:
    """The range of a column."""
    return f"{min(r[name] for r in rows):.3g} to {max(r[name] for r in rows):.3g}"


def relative_length(results: Results, x: str = "n") -> Any:
    """Mean length divided by the oracle's."""
    rows = shown_rows(results, x, "length_mean")
    rows = [r for r in rows if r["oracle_length"]]
    for row in rows:
        row["relative_length"] = row["length_mean"] / row["oracle_length"]
        row["relative_length_mcse"] = (row["length_mcse"] or 0.0) / row["oracle_length"]
    rows = [row for row in rows if row["method"] != "oracle"]
    if not rows:
        raise InputError("figure", "length/oracle", "a run with a method besides the oracle")
    return around(
        results,
        rows,
        x,
        "relative_length",
        1.0,
        "mean length / oracle length",
        "Length relative to the oracle",
    )


def bias(results: Results, x: str = "n") -> Any:
    """Bias in units of the empirical standard error; methods with one estimate are drawn once."""
    rows = [r for r in shown_rows(results, x, "bias") if r["empirical_se"]]
    for row in rows:
        row["standardised_bias"] = row["bias"] / row["empirical_se"]
        row["standardised_bias_mcse"] = (row["bias_mcse"] or 0.0) / row["empirical_se"]
    if x not in results.method_settings:
        rows = one_per_estimate(results, rows, x)
    if not rows:
        raise InputError("figure", "bias", "a run whose estimates vary")
    return around(results, rows, x, "standardised_bias", 0.0, "bias / empirical SE", "Bias of the estimate")


def one_per_estimate(results: Results, rows: list[Row], x: str) -> list[Row]:
    """The methods that share their estimate (the average) in every cell, as one series."""
    profile: dict[str, dict[Any, Any]] = {}
    for row in rows:
        cells = profile.setdefault(row["series"], {})
        cells[row["panel"], row[x]] = (row["bias"], row["empirical_se"])
    kept: list[str] = []
    for series, cells in sorted(profile.items(), key=lambda item: -len(item[1])):
        known = (profile[other] for other in kept)
        if not any(all(other.get(at) == value for at, value in cells.items()) for other in known):
            kept.append(series)
    rows = [row for row in rows if row["series"] in kept]
    if len(kept) == 1 and len(profile) > 1:
        for row in rows:
            row["series"] = "average (all methods)"
            row["missing"] = row["missing"][0], [], row["missing"][2]
    return rows


def standard_error(results: Results, x: str = "n") -> Any:
    """Relative error of the methods' own standard errors: model SE / empirical SE - 1."""
    rows = shown_rows(results, x, "relative_error_model_se")
    return around(
        results,
        rows,
        x,
        "relative_error_model_se",
        0.0,
        "model SE / empirical SE - 1",
        "Are the standard errors right?",
    )


def around(
    results: Results, rows: list[Row], x: str, value: str, ideal: float, axis: str, heading: str
) -> Any:
    """A measure over x with its ideal value as a line."""
    mcse = f"{value}_mcse"
    at = place_rows(results, x, rows, ranked=True)
    with_bars(rows, value, mcse)
    y = alt.Y(f"{value}:Q", title=axis, scale=alt.Scale(zero=False, padding=6), axis=alt.Axis(tickCount=6))

    def layers(base: Any) -> list[Any]:
        line = base.mark_rule(color=GREY, strokeDash=[5, 4], strokeWidth=1.5).encode(y=alt.YDatum(ideal))
        tips = tooltip(results, x, value, mcse)
        return [
            line,
            *lines(base, at, y, "low", "high", scales(results, rows, x), tips),
        ]

    text = (
        f"{heading}: {axis} {said(results, rows, x)}, from {least_most(rows, value)}; ideal value {ideal:g}."
    )
    drawn = panels(rows, (x, value, mcse, "low", "high"), layers)
    return styled(drawn, heading, text, left_out=left_out(*rows[0]["missing"]))


def heat_map(results: Results, x: str = "n") -> Any:
    """Coverage minus nominal level, a cell per cell of the design, coverage written in percent."""
    usable_x(results, x)
    factors = panels_of(results, x)
    here = [dict(with_misses(row)) for row in results.rows if row.get(x) is not None]
    rows = ordered(results, here, factors)
    order = list(dict.fromkeys(panel_name(results, row, factors) for row in rows))
    # What is on the axis names no row of squares.
    label = labels(rows, results.names, [name for name in results.method_settings if name != x])
    for row in rows:
        row["series"] = label(row)
        row["panel"] = panel_name(results, row, factors)
        row["place"] = results.names.value(x, row[x]).rsplit("= ", 1)[-1]
        row["deviation"], row["percent"] = None, "\N{EN DASH}"
        if row["coverage"] is not None:
            row["deviation"] = row["coverage"] - row["level"]
            row["percent"] = f"{100 * row['coverage']:.0f}"
    rows = [row for row in rows if order.index(row["panel"]) < 2 * MAX_PANELS]
    known = [row for row in rows if row["deviation"] is not None]
    if not known:
        raise InputError("figure", "heat-map", "a run with coverages")
    most = min(max(max(abs(row["deviation"]) for row in known), 0.05), 0.2)
    columns = list(dict.fromkeys(r["place"] for r in sorted(rows, key=lambda r: r[x])))
    names = list(dict.fromkeys(row["series"] for row in rows))
    at = alt.X(
        "place:N",
        sort=columns,
        title=results.names.axis(x),
        axis=alt.Axis(labelAngle=-45 if len(columns) > 4 else 0),
    )
    up = alt.Y("series:N", sort=names, title=None, axis=alt.Axis(labelLimit=130))
    colour = alt.Color(
        "deviation:Q",
        title="coverage - nominal",
        scale=alt.Scale(domain=[-most, 0, most], range=["#e08a4f", "#f4f4f1", "#6aa6dc"], clamp=True),
        legend=alt.Legend(format="+.2f", gradientLength=160),
    )
    shown = ("place", "series", "panel", "deviation", "percent", "coverage", "coverage_mcse", "replicates")
    values = [{name: clean(row[name]) for name in shown} for row in rows]
    tips = [
        alt.Tooltip("series:N"),
        alt.Tooltip("panel:N"),
        alt.Tooltip("place:N", title=x),
        alt.Tooltip("coverage:Q", format=".3f"),
        alt.Tooltip("coverage_mcse:Q", format=".3f"),
    ]
    base = alt.Chart()
    fill = base.mark_rect(stroke="#ffffff", strokeWidth=0.5).encode(x=at, y=up, color=colour, tooltip=tips)
    text = base.mark_text(fontSize=10, color="#1b1d20").encode(x=at, y=up, text="percent:N")
    several = len({row["panel"] for row in rows}) > 1
    chart = alt.layer(fill, text).properties(
        width=max(30 * len(columns), 120), height=max(22 * len(names), 60)
    )
    data = alt.Data(values=values)
    if several:
        facet = alt.Facet("panel:N", sort=order, header=alt.Header(title=None))
        drawn = chart.facet(facet, data=data, columns=COLUMNS).resolve_axis(x="independent")
    else:
        drawn = chart.properties(data=data)
    worst = min(known, key=lambda row: row["deviation"])
    said_in_words = (
        f"Heat map of coverage in percent: {len(names)} series by {len(columns)} values of {x} in "
        f"{len(order)} panels. Lowest: {worst['coverage']:.3f} for {worst['series']}, {worst['panel']}."
    )
    missing = left_out(order[2 * MAX_PANELS :], [], without_setting(results.rows, x))
    return styled(drawn, "Every cell: coverage in percent", said_in_words, 120, missing)
