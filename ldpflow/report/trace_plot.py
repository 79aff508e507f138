"""The picture of a trace: estimate and limits of every method as n grows, two panels."""

from __future__ import annotations

from typing import Any

import altair as alt
import pyarrow as pa

from ldpflow.errors import InputError
from ldpflow.report.figures import LABEL, clean, decades
from ldpflow.report.results import Names, method_settings
from ldpflow.report.style import GREY, series_scales, styled
from ldpflow.store.schema import FINISHED, declared_columns

__all__ = ["trace_plot"]


def trace_plot(rows: pa.Table, split: int, coordinate: int = 0) -> Any:
    """Estimate and limits against n, up to ``split`` and beyond.

    Parameters
    ----------
    rows : pyarrow.Table
        Of :func:`ldpflow.results.trace.trace`, with one level.
    split : int
        Where the second panel begins; n is logarithmic before it and linear beyond.
    coordinate : int

    Raises
    ------
    InputError
        If the rows have no such coordinate.
    """
    table = [row for row in rows.to_pylist() if row["coordinate"] == coordinate]
    if not table:
        count = max(rows["coordinate"].to_pylist()) + 1
        raise InputError("coordinate", coordinate, f"an integer in [0, {count})")
    truth = table[0]["truth"]
    names, settings = Names(declared_columns(rows.schema)), method_settings(rows.schema)
    pairs: dict[tuple[str, str], None] = {}
    values = []
    for row in table:
        settings_text = names.settings(row, [k for k in settings if k in ("beta", "M")])
        series = ", ".join(filter(None, (row["method"], settings_text)))
        pairs.setdefault((series, row["method"]))
        for side in ("lower", "upper"):
            if row["status"] in FINISHED:
                values.append({"series": series, "side": side, "n": row["n"], "limit": clean(row[side])})
    estimates = {row["n"]: {"n": row["n"], "estimate": clean(row["estimate"])} for row in table}
    grid = sorted(estimates)
    by = series_scales(list(pairs), "limits")
    del by["shape"]
    # The first few n have limits of any size, which would flatten all that is to be seen.
    sizes = sorted(abs(v["limit"] - truth) for v in values if 100 <= v["n"] <= split)
    reach = 1.1 * sizes[int(0.985 * (len(sizes) - 1))] if sizes else 1.0
    panels = []
    for low, high, log in ((grid[0], split, True), (split, grid[-1], False)):
        here = [v for v in values if low <= v["n"] <= high]
        if low >= high or not here:
            continue
        scale = alt.Scale(type="log" if log else "linear", domain=[low, high], nice=False)
        marks = {"labelExpr": LABEL, "values": decades([low, high])}
        axis = marks if log else {"format": "~s", "tickCount": 5}
        x = alt.X("n:Q", title="n (users)", scale=scale, axis=alt.Axis(grid=False, **axis))
        if log:
            y_scale = alt.Scale(domain=[clean(truth - reach), clean(truth + reach)])
        else:
            y_scale = alt.Scale(zero=False)
        name = "estimate and limits (unit of θ)"
        y = alt.Y("limit:Q", title=name, scale=y_scale)
        limits = (
            alt.Chart(alt.Data(values=here))
            .mark_line(strokeWidth=1.3, clip=True)
            .encode(x=x, y=y, detail="side:N", **by)
        )
        line = alt.Chart(alt.Data(values=[estimates[n] for n in grid if low <= n <= high]))
        middle = line.mark_line(strokeWidth=2, color="#555b63", clip=True).encode(
            x=x, y=alt.Y("estimate:Q", scale=y_scale)
        )
        theta = (
            alt.Chart(alt.Data(values=[{"theta": truth}]))
            .mark_rule(strokeDash=[5, 4], color=GREY)
            .encode(y=alt.Y("theta:Q", scale=y_scale))
        )
        title = alt.TitleParams(f"n from {low:,} to {high:,}", fontSize=11, fontWeight="normal")
        panels.append(alt.layer(theta, limits, middle).properties(width=400, height=280, title=title))
    level = table[0]["level"]
    final = estimates[grid[-1]]["estimate"]
    text = (
        f"One path: estimate (grey line) and {100 * level:g}% limits of "
        f"{', '.join(name for name, _ in pairs)} from n = {grid[0]:,} to {grid[-1]:,}; the truth "
        f"{truth:.4g} is the dashed line; at the end the estimate is {final:.4g}."
    )
    return styled(alt.concat(*panels, columns=2), f"One path as n grows, {100 * level:g}% limits", text)
