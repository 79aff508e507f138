"""Intervals along one path as n grows (Dette and Graw, Figure 1).

One pass over one path serves all n. The path's record has every time that a method needs at any n. Each row
equals bit for bit the row of a sweep at this n.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from ldpflow.columns import counted
from ldpflow.errors import InputError
from ldpflow.report.charts import LABEL, RULE, clean, colours, log_marks, named_scale, style_chart
from ldpflow.report.results import Names, labels, method_settings
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.store.schema import FINISHED, declared_columns
from ldpflow.study import Study

MOST_BYTES = 2**30
FIRST, SPLIT, LAST = 10, 200_000, 10**6
"""Smallest n, first n of the second panel, and largest n."""
POINTS = 400


def log_grid(first: int, last: int, count: int) -> list[int]:
    """At most ``count`` distinct integers from ``first`` to ``last``, evenly spaced in log n."""
    return list(np.unique(np.geomspace(first, last, count).round().astype(int)).tolist())


def trace(study: Study, replicate: int = 0) -> pa.Table:
    """Compute estimates and limits of all methods along one path, as rows in the store's schema.

    The n are those of :func:`log_grid`, from 10 (or the records of one step, if more) to 10^6. The study's
    own n are not used.
    """
    plans = study.plans()
    if len(plans) != 1 or plans[0].simulator.horizon is not None:
        found = f"{study.name} with {counted(len(plans), 'path')}"
        raise InputError("study", found, "one path that serves every n, with one value of every setting")
    simulator = plans[0].simulator
    least = simulator.parts()["algorithm"].records_per_step()
    if least >= LAST:
        allowed = f"steps of fewer than {LAST:,} records"
        raise InputError("study", study.name, allowed, f"Its steps have {least:,}.")
    grid = log_grid(max(FIRST, least), LAST, POINTS)
    cells = tuple(Cell(n, m, level) for n in grid for m in study.method_settings for level in study.level)
    size = simulator.cost(simulator.needs(cells), 1).bytes
    if size > MOST_BYTES:
        allowed = f"a record of at most {MOST_BYTES / 2**20:,.0f} MiB"
        raise InputError("study", study.name, allowed, f"{len(grid)} n need {size / 2**20:,.0f} MiB.")
    rows = simulate(Batch(simulator, study.seed, replicate, replicate + 1, cells)).rows
    return rows.sort_by([(name, "ascending") for name in ("n", "method", "level", "coordinate")])


def trace_plot(rows: pa.Table) -> Any:
    """Plot estimates and limits of the first coordinate against n, from rows of :func:`trace` at one level.

    The first panel has a logarithmic axis up to n = 200,000, the second a linear axis for larger n.
    """
    table = [row for row in rows.to_pylist() if row["coordinate"] == 0]
    truth, level = table[0]["truth"], table[0]["level"]
    label = labels(table, Names(declared_columns(rows.schema)), method_settings(rows.schema))
    methods = {label(row): row["method"] for row in table}
    values = [
        {"series": label(row), "side": side, "n": row["n"], "limit": clean(row[side])}
        for row in table
        for side in ("lower", "upper")
        if row["status"] in FINISHED
    ]
    estimates = {row["n"]: {"n": row["n"], "estimate": clean(row["estimate"])} for row in table}
    grid = sorted(estimates)
    shades = colours(list(methods.values()))
    scale = named_scale({series: shades[method] for series, method in methods.items()})
    colour = alt.Color("series:N", scale=scale, legend=alt.Legend(title="limits"))
    # Limits at small n can be huge: limits from n = 100 on set the scale.
    sizes = sorted(abs(v["limit"] - truth) for v in values if 100 <= v["n"] <= SPLIT)
    reach = 1.1 * sizes[int(0.985 * (len(sizes) - 1))] if sizes else 1.0
    drawn = []
    for low, high, log in ((grid[0], SPLIT, True), (SPLIT, grid[-1], False)):
        here = [v for v in values if low <= v["n"] <= high]
        if low >= high or not here:
            continue
        marks: dict[str, Any] = {"values": log_marks(low, high)} if log else {"tickCount": 5}
        axis = alt.Axis(grid=False, labelExpr=LABEL, labelOverlap=True, **marks)
        scale = alt.Scale(type="log" if log else "linear", domain=[low, high], nice=False)
        x = alt.X("n:Q", title="n (users)", scale=scale, axis=axis)
        ends = {"domain": [clean(truth - reach), clean(truth + reach)]} if log else {"zero": False}
        up, name = alt.Scale(**ends), "estimate and limits (unit of θ)"
        limits = alt.Chart(alt.Data(values=here)).mark_line(strokeWidth=1.3, clip=True)
        middle = alt.Chart(alt.Data(values=[estimates[n] for n in grid if low <= n <= high]))
        middle = middle.mark_line(strokeWidth=2, color="#555b63", clip=True)
        theta = alt.Chart(alt.Data(values=[{"theta": truth}])).mark_rule(**RULE)
        layers = (
            theta.encode(y=alt.Y("theta:Q", scale=up)),
            limits.encode(x=x, y=alt.Y("limit:Q", title=name, scale=up), detail="side:N", color=colour),
            middle.encode(x=x, y=alt.Y("estimate:Q", scale=up)),
        )
        title = alt.TitleParams(f"n from {low:,} to {high:,}", fontSize=11, fontWeight="normal")
        drawn.append(alt.layer(*layers).properties(width=400, height=280, title=title))
    text = (
        f"One path: estimate (grey line) and {100 * level:g}% limits of {', '.join(methods)} from n = "
        f"{grid[0]:,} to {grid[-1]:,}. The dashed line is the truth, {truth:.4g}."
    )
    return style_chart(alt.concat(*drawn, columns=2), f"One path as n grows, {100 * level:g}% limits", text)
