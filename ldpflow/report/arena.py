"""The arena's page: which interval method to use in which setting, from a run of many methods.

One HTML file without scripts from elsewhere, its figures drawn beforehand, and the rows as CSV.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import altair as alt
import jinja2
import pyarrow as pa
import pyarrow.csv
import vl_convert
from markupsafe import Markup

from ldpflow.errors import InputError
from ldpflow.report.numbers import no_formula, rounded, short, with_error
from ldpflow.report.page import asset, in_a_line
from ldpflow.report.results import Names, telling
from ldpflow.report.style import GREY, styled
from ldpflow.results.arena import (
    MOST,
    TOLERANCE,
    UNDECIDED,
    Entry,
    Setting,
    Standing,
    least_replicates,
    safest,
    settings_of,
    standings,
)
from ldpflow.results.arena_details import Needs, differences, needs_of, place
from ldpflow.results.cells import group_keys
from ldpflow.results.columns import known_columns
from ldpflow.results.paired import Contrast
from ldpflow.results.summary import stored_paths
from ldpflow.store import RunStore

__all__ = ["arena_html", "write_site"]

Text = tuple[str, str]
"""A table's entry: its text, and the value it is sorted by."""

Say = Callable[[Mapping[str, Any]], str]
"""From a row of the summary to its setting in words, n left out."""

Details = Callable[[Mapping[str, Any]], tuple[Contrast | None, Needs | None]]
"""From a row of the summary to what is said of it beside its numbers."""

HEAD = (
    "method",
    "coverage",
    "where defined",
    "undefined",
    "length / oracle",
    "bias / SE",
    "gap that is bias",
    "covers so far",
    "coverage - best",
    "length / best",
    "kept per run",
    "running sums",
)

TOGETHER = (
    ("coverage_all_coordinates_failures_as_misses", "coverage_all_coordinates_failures_as_misses_mcse"),
    ("joint_coverage", "joint_coverage_mcse"),
    ("joint_size_mean", "joint_size_mcse"),
)
"""Measures of all coordinates at once and their errors."""


def write_site(store: RunStore, table: pa.Table, folder: str, command: str) -> list[str]:
    """Write the page and the rows that it shows into a folder; the files.

    Raises
    ------
    InputError
        If the run has no intervals, or the folder cannot be written.
    """
    if table.num_rows == 0:
        raise InputError("run", store.root, "a run with interval methods", "It has trajectories alone.")
    text = arena_html(store, table, command)
    files = {"index.html": text.encode(), "arena.csv": csv_of(table)}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("output", folder, "a folder that can be written", f"{reason}.") from None
    return [str(Path(folder) / name) for name in files]


def csv_of(table: pa.Table) -> bytes:
    """A table as CSV, without cells that a spreadsheet would take for formulas."""
    columns = {
        name: pa.array(map(no_formula, table[name].to_pylist()), pa.string())
        if pa.types.is_string(table.schema.field(name).type)
        else table[name]
        for name in table.column_names
    }
    rows = io.BytesIO()
    pa.csv.write_csv(pa.table(columns).rename_columns(list(map(str, map(no_formula, columns)))), rows)
    return rows.getvalue()


def arena_html(store: RunStore, table: pa.Table, command: str, tolerance: float = TOLERANCE) -> str:
    """The whole page.

    Parameters
    ----------
    store : RunStore
        The run, whose rows are compared with those of the recommended methods.
    table : pyarrow.Table
        Its summary.
    command : str
        What makes the page again.
    tolerance : float
        See :mod:`ldpflow.results.arena`.
    """
    rows: list[dict[str, Any]] = table.to_pylist()
    keys = group_keys(table.schema)
    parameters = table.column_names[1 : table.column_names.index("n")]
    names = telling([*parameters, "level", "coordinate"], rows)
    settings = settings_of(rows, tolerance)
    pairs = differences(store, table, settings)
    simulators = stored_paths(store.replicates, damaged="refuse")

    called = Names(known_columns(table.schema))

    def say(row: Mapping[str, Any]) -> str:
        return called.settings(dict(row), [name for name in names if name != "n"]) or "all"

    def details(row: Mapping[str, Any]) -> tuple[Contrast | None, Needs | None]:
        return pairs.get(place(row, keys)), needs_of(simulators[row["path"]], row)

    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).from_string(asset("arena.html.jinja"))
    found = standings(settings)
    replicates = sorted({row["replicates"] for row in rows})
    return template.render(
        name=store.root.rstrip("/").rsplit("/", 1)[-1],
        replicates=" to ".join(dict.fromkeys(short(r) for r in (replicates[0], replicates[-1]))),
        tolerance=f"{100 * tolerance:g}",
        least=f"{max(least_replicates(level, tolerance) for level in {row['level'] for row in rows}):,}",
        matrix=matrix(settings, say),
        standings=[standing_row(standing) for standing in found],
        safest=safest(found),
        most=f"{100 * MOST:g}",
        together=[line for setting in settings for line in together(setting, say)],
        head=HEAD,
        sections=[section(setting, say, details) for setting in settings],
        methods=[in_a_line(kind) for kind in dict.fromkeys(row["method"] for row in rows)],
        command=command,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        css=Markup(asset("page.css")),
        script=Markup(asset("tables.js") + "prepareTables();"),
    )


def anchor(setting: Setting) -> str:
    """Identifier of a setting's section."""
    return "-".join(str(setting.keys[name]) for name in ("path", "n", "level", "coordinate"))


def matrix(settings: Sequence[Setting], say: Say) -> dict[str, Any]:
    """Table of the methods that the rule recommends: settings down, n across."""
    across = sorted({setting.keys["n"] for setting in settings})
    down: dict[str, dict[int, Setting]] = {}
    for setting in settings:
        row = setting.entries[0].row
        down.setdefault(say(row), {})[setting.keys["n"]] = setting
    rows = []
    for label, found in down.items():
        cells = [choice(found[n]) if n in found else None for n in across]
        rows.append((label, cells))
    return {"n": [short(n) for n in across], "rows": rows}


def choice(setting: Setting) -> dict[str, str]:
    """The recommended method of a setting, or the nearest to its level."""
    entry = setting.reference
    if entry is None:
        return {"method": "-", "numbers": "", "kind": "bad", "anchor": anchor(setting)}
    none = UNDECIDED if setting.undecided else "none holds its level"
    return {
        "method": entry.label if setting.best else f"{none}; nearest {entry.label}",
        "numbers": f"{entry.coverage:.3f} at {entry.length:.2f}",
        "kind": "good" if setting.best else "open" if setting.undecided else "bad",
        "anchor": anchor(setting),
    }


def standing_row(standing: Standing) -> list[Text]:
    """A row of the table of methods over all settings."""
    return [
        (named(standing.label, standing.barred), standing.label),
        (f"{standing.held} of {standing.settings}", repr(standing.held / standing.settings)),
        (str(standing.undecided), str(standing.undecided)),
        (str(standing.best), str(standing.best)),
        (f"{standing.lowest:.3f}", repr(standing.lowest)),
        (f"{standing.failed:.1%}" if standing.failed else "0", repr(standing.failed)),
        number(standing.length, 2),
    ]


def named(label: str, barred: str) -> str:
    """A method's label, and why it is not recommended whatever it covers."""
    return f"{label} ({barred})" if barred else label


def number(value: float | None, decimals: int) -> Text:
    """A number that may be absent."""
    if value is None or not math.isfinite(value):
        return "-", ""
    return f"{value:.{decimals}f}", repr(value)


def together(setting: Setting, say: Say) -> list[list[Text]]:
    """Rows on joint coverage of all coordinates; empty where a run does not have it."""
    found = []
    for entry in setting.entries:
        row = entry.row
        if row.get("coverage_all_coordinates_failures_as_misses") is None:
            continue
        values = [text_of(row.get(name), row.get(error)) for name, error in TOGETHER]
        setting_name = f"{say({**row, 'coordinate': None})}, n = {short(row['n'])}"
        found.append([(setting_name, setting_name), (entry.label, entry.label), *values])
    return found


def text_of(value: float | None, error: float | None) -> Text:
    """A measure with its Monte Carlo standard error, which may be absent."""
    return ("-", "") if value is None else (with_error(value, error), repr(value))


def section(setting: Setting, say: Say, details: Details) -> dict[str, Any]:
    """Table and figure of one setting."""
    row = setting.entries[0].row
    return {
        "id": anchor(setting),
        "heading": f"{say(row)}, n = {short(row['n'])}",
        "choice": choice(setting),
        "level": f"{row['level']:g}",
        "figure": Markup(figure(setting)),
        "rows": [
            {"cells": cells(entry, *details(entry.row)), "kind": KINDS[standing_of(entry, setting)]}
            for entry in setting.entries
        ],
    }


def cells(entry: Entry, against: Contrast | None, needs: Needs | None) -> list[Text]:
    """A row of a setting's table."""
    row = entry.row
    share, every = entry.bias_share, row.get("coverage_all_n_failures_as_misses")
    found = [
        (named(entry.label, entry.barred), entry.label),
        (with_error(entry.coverage, row["coverage_failures_as_misses_mcse"]), repr(entry.coverage)),
        (rounded(row["coverage"], 3), sortable(row["coverage"])),
        (f"{row['failure_share']:.1%}" if row["failures"] else "0", repr(row["failure_share"])),
        text_of(row.get("length_relative"), row.get("length_relative_mcse")),
        number(row.get("standardised_bias"), 2),
        (f"{share:.0%}" if share is not None else "-", sortable(share)),
        number(every, 3),
    ]
    if against is None or not against.pairs:
        found += [("-", ""), ("-", "")]
    else:
        mark = "" if against.paired else " (unpaired)"
        difference = with_error(against.coverage_difference, against.coverage_difference_mcse)
        ratio = with_error(against.length_ratio, against.length_ratio_mcse)
        found += [(difference + mark, repr(against.coverage_difference)), (ratio, repr(against.length_ratio))]
    if needs is None:
        return [*found, ("-", ""), ("-", "")]
    return [*found, (readable(needs.bytes), str(needs.bytes)), (needs.sums or "none", needs.sums)]


def readable(size: int) -> str:
    """Bytes in units that a person reads."""
    return f"{size} bytes" if size < 10_000 else f"{size / 1000:,.0f} kB"


def sortable(value: float | None) -> str:
    """Value that a table is sorted by; empty for an absent one."""
    return "" if value is None else repr(value)


def frontier(setting: Setting) -> list[Entry]:
    """The recommended method, then those that no other beats in coverage and length at once."""
    known = [entry for entry in setting.entries if math.isfinite(entry.length)]
    best = [entry for entry in known if entry is setting.best]
    return best + [
        e
        for e in known
        if e is not setting.best
        and not any(o.coverage >= e.coverage and o.length < e.length for o in known if o is not e)
    ]


def apart(entries: Sequence[Entry]) -> list[Entry]:
    """Those whose names do not lie on that of one before, in a figure of coverage against length."""
    found: list[Entry] = []
    for entry in entries:
        if all(
            abs(math.log(entry.length / other.length)) > NAME[0]
            or abs(entry.coverage - other.coverage) > NAME[1]
            for other in found
        ):
            found.append(entry)
    return found


NAME = (0.5, 0.02)
"""Extent of a name in a figure: logarithm of length, and coverage."""

KINDS = {"recommended": "best", "holds its level": "holds", UNDECIDED: "open", "fails": "below"}
"""Verdicts of the rule, and the classes of their rows."""


def standing_of(entry: Entry, setting: Setting) -> str:
    """Verdict of the rule on a method."""
    if entry is setting.best:
        return "recommended"
    return "holds its level" if entry.holds else entry.state


def figure(setting: Setting) -> str:
    """Coverage against length with 95% Monte Carlo bars, as SVG; names where no other method is better."""
    named_ones = apart(frontier(setting))
    values = []
    for entry in setting.entries:
        if not math.isfinite(entry.length):
            continue
        row = entry.row
        half = 1.96 * (row.get("length_relative_mcse") or row.get("length_mcse") or 0.0)
        values.append(
            {
                "length": entry.length,
                "coverage": entry.coverage,
                "low": row["coverage_failures_as_misses_low"],
                "high": row["coverage_failures_as_misses_high"],
                "short": max(entry.length - half, 0.0),
                "long": entry.length + half,
                "label": entry.label if entry in named_ones else "",
                "kind": standing_of(entry, setting),
            }
        )
    if not values:
        return ""
    level = setting.keys["level"]
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=list(KINDS), range=["#d55e00", "#0072b2", "#cc79a7", GREY]),
        legend=alt.Legend(title=None, orient="top"),
    )
    lowest = min(v["low"] for v in values)
    scale = alt.Scale(domain=[max(lowest - 0.02, 0.0), 1.0], zero=False, nice=False)
    y = alt.Y("coverage:Q", scale=scale, title="coverage")
    across, title = alt.Scale(type="log", nice=False, padding=16), "mean length over the oracle's"
    x = alt.X("length:Q", scale=across, title=title, axis=alt.Axis(format="~g", tickCount=6))
    base = alt.Chart(alt.Data(values=values))
    low, left = alt.Y("low:Q", scale=scale, title="coverage"), alt.X("short:Q", scale=across, title=title)
    bars = base.mark_rule(strokeWidth=1.2)
    chart = alt.layer(
        base.mark_rule(color=GREY, strokeDash=[5, 4]).encode(y=alt.YDatum(level, scale=scale)),
        bars.encode(x=x, y=low, y2="high:Q", color=colour),
        bars.encode(x=left, x2="long:Q", y=y, color=colour),
        base.mark_point(filled=True, size=45, opacity=1).encode(x=x, y=y, color=colour),
        base.mark_text(align="left", dx=6, dy=-5, fontSize=10).encode(x=x, y=y, text="label:N"),
    ).properties(width=560, height=300)
    words = f"Coverage against mean length of {len(values)} methods; nominal level {level:g}."
    spec = styled(chart, "", words).to_dict()
    spec.pop("title", None)
    spec["config"]["background"] = "transparent"
    return str(vl_convert.vegalite_to_svg(spec))
