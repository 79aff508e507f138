"""Zip plots (Morris, White and Crowther, 2019): every interval of a cell, the worst on top.

Intervals are ranked by |estimate - theta| / (length / 2): those above 1 miss (for symmetric methods;
a bootstrap interval may be a little off that order). The colours of misses above the nominal level's
line, and only there, is what a good method looks like.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np

from ldpflow.errors import InputError
from ldpflow.report.figures import COLUMNS, clean, spread
from ldpflow.report.results import Results, Row, with_misses
from ldpflow.report.style import GREY, MISSES, styled
from ldpflow.results import stored_cells
from ldpflow.store import cell_id
from ldpflow.store.schema import cell_keys

__all__ = ["interesting", "zip_plot"]

MAX_CELLS = 12
MAX_INTERVALS = 150
HEADING = "Zip plots: the intervals themselves"


def interesting(results: Results, most: int = MAX_CELLS) -> list[tuple[str, Row]]:
    """Cells worth a look and why: at most so many (reason, row) pairs, each cell once.

    For every series (of many: some, evenly spaced) the cell furthest below its level, then
    the one with the largest n
    (settings elsewhere as first in the study), then the one nearest to its level, then the longest
    intervals relative to the oracle.
    """
    rows = [row for row in results.rows if row["coverage"] is not None]
    by_series: dict[str, list[Row]] = {}
    for row in rows:
        by_series.setdefault(row["series"], []).append(row)

    groups = spread(list(by_series.values()), max(most // 3, 1))

    def candidates() -> Iterator[tuple[str, Row]]:
        for group in groups:
            yield "furthest below nominal", min(group, key=gap)
        for group in groups:
            yield "largest n", max(group, key=lambda r: (r["n"], -group.index(r)))
        for group in groups:
            yield "nearest to nominal", min(group, key=lambda r: abs(gap(r)))
        if known := [row for row in rows if row["oracle_length"]]:
            yield "longest", max(known, key=lambda r: r["length_mean"] / r["oracle_length"])

    found: dict[int, tuple[str, Row]] = {}
    for reason, row in candidates():
        if len(found) < most:
            found.setdefault(id(row), (reason, row))
    return list(found.values())


def gap(row: Row) -> float:
    """Coverage, failures as misses, minus level."""
    return float(with_misses(row)["coverage"] - row["level"])


def zip_plot(results: Results) -> Any:
    """Zip plots of the cells chosen by :func:`interesting`."""
    values: list[Row] = []
    names = []
    counts = []
    for reason, row in interesting(results):
        if drawn := intervals(results, row):
            settings = results.names.settings(row, results.varying())
            name = [
                f"{row['series']}: {reason}",
                settings or "the only cell",
                f"coverage {row['coverage']:.3f}"
                + (
                    f" ({with_misses(row)['coverage']:.3f} with failures as misses)"
                    if row["failures"]
                    else ""
                ),
            ]
            names.append(name)
            counts.append(len(drawn))
            values += [{"cell": len(names) - 1, "level": 100 * row["level"], **v} for v in drawn]
    if not values:
        raise InputError("figure", "zip", "a run with replicates whose rows can be read")
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(MISSES), range=list(MISSES.values())),
        legend=alt.Legend(title="the interval", symbolType="stroke", symbolSize=200, symbolStrokeWidth=3),
    )
    y = alt.Y(
        "rank:Q",
        title="rank of |error| / half length (%)",
        scale=alt.Scale(domain=[0, 100]),
        axis=alt.Axis(values=[0, 50, 80, 90, 100], grid=False),
    )
    base = alt.Chart()
    panels = []
    for index, lines in enumerate(names):
        here = alt.Data(values=[v for v in values if v["cell"] == index])
        drawn = base.mark_rule(strokeWidth=1.1).encode(
            x=alt.X("lower:Q", title="limits - θ", axis=alt.Axis(tickCount=4, format="~g")),
            x2="upper:Q",
            y=y,
            color=colour,
        )
        truth = base.mark_rule(color=GREY, strokeWidth=1).encode(x=alt.XDatum(0))
        level = base.mark_rule(color=GREY, strokeDash=[4, 3]).encode(y="mean(level):Q")
        panels.append(
            alt.layer(drawn, truth, level, data=here).properties(
                width=210,
                height=170,
                title=alt.TitleParams(
                    lines[0],
                    subtitle=lines[1:],
                    fontSize=11,
                    fontWeight=600,
                    subtitleFontSize=11,
                    anchor="start",
                ),
            )
        )
    text = (
        f"Zip plots of {len(names)} cells, up to {max(counts)} intervals each, ranked by error over "
        "half length: " + "; ".join(", ".join(lines) for lines in names) + "."
    )
    return styled(alt.concat(*panels, columns=COLUMNS), HEADING, text)


def intervals(results: Results, row: Row) -> list[Row]:
    """Evenly spaced ranks of the intervals of one cell, at most MAX_INTERVALS."""
    wanted = {cell_id({name: row.get(name) for name in cell_keys(results.table.schema)})}
    stored = stored_cells(results.store, row["path"].removeprefix("p"), wanted, damaged=results.damaged)
    cell = next(
        (
            cell.finished()
            for keys, cells in stored
            for coordinate, cell in zip(keys["coordinate"].to_pylist(), cells, strict=True)
            if coordinate == row["coordinate"]
        ),
        None,
    )
    if cell is None or len(cell.ok) == 0:
        return []
    count = len(cell.ok)
    lower, upper, truth, estimate = cell.lower, cell.upper, cell.truth, cell.estimate
    half = np.maximum((upper - lower) / 2, np.finfo(float).tiny)
    order = np.argsort(np.abs(estimate - truth) / half, kind="stable")
    ranks = np.unique(np.linspace(0, count - 1, min(count, MAX_INTERVALS)).round().astype(int))
    found = []
    for rank in ranks.tolist():
        at = order[rank]
        low, high = float(lower[at] - truth[at]), float(upper[at] - truth[at])
        kind = "lies too high" if low > 0 else "lies too low" if high < 0 else "covers"
        centile = 100 * (rank + 0.5) / count
        found.append({"lower": clean(low), "upper": clean(high), "kind": kind, "rank": clean(centile)})
    return found
