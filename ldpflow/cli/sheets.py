"""Sheets of results: summaries, trajectories, explanations and comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from statistics import mean, median

import pyarrow as pa

from ldpflow.cli.tables import Row, Sheet, Shown, estimate, number, plain, setting, span
from ldpflow.columns import CAUTIOUS, Summary, counted, distinguishing_columns, round_text, short, with_error
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED, judge, settings_in
from ldpflow.results.columns import COUNTS, summaries_of
from ldpflow.results.comparison import TABLES
from ldpflow.results.measures import has_exploded
from ldpflow.results.trajectories import last_rows

KINDS = ("problem", "law", "errors", "mechanism", "algorithm", "protocol", "method")
"""Columns that name a kind. A setting that only some kinds have is printed after the names of the kinds."""
UNREAD = ("sha256",)
"""Settings that no table shows. ldpflow export and --format csv have them."""
TRIVIAL = {"dimension": 1, "coordinate": 0, "neighbouring": "replacement of one record"}
"""Values that are not printed if all rows have them."""


def split_settings(names: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], str]:
    """Find settings that distinguish the rows. Write settings that all rows, or all of a kind, share."""
    settings = distinguishing_columns([name for name in names if name not in COUNTS], rows, implied=True)
    lines: dict[str, list[str]] = {"": []}
    for name in names:
        values = [row[name] for row in rows if row[name] is not None]
        if name in (*settings, *UNREAD) or len(set(map(repr, values))) != 1 or values[0] == TRIVIAL.get(name):
            continue
        owners = "" if len(values) == len(rows) else owners_of(name, rows)
        if owners is None:
            settings.append(name)
        elif name not in COUNTS or not owners:
            lines.setdefault(owners, []).append(f"{name}={short(values[0])}")
    return settings, "; ".join(f"{owners}{'  '.join(texts)}" for owners, texts in lines.items() if texts)


def sort_rows(rows: list[Row], settings: Sequence[str]) -> None:
    rows.sort(key=lambda row: [(row[name] is not None, row[name]) for name in settings])


def owners_of(name: str, rows: Sequence[Row]) -> str | None:
    """Name the kinds whose rows have a setting. None if no column of KINDS tells which rows have it."""
    for kind in KINDS:
        having = {row.get(kind) for row in rows if row[name] is not None}
        if None not in having and not having & {row.get(kind) for row in rows if row[name] is None}:
            return ", ".join(sorted(map(str, having))) + ": "
    return None


COVERAGE = "coverage_failures_as_misses"
MISSES = estimate("failures\nas misses", COVERAGE, f"{COVERAGE}_mcse")
ALL = "coverage, failures\nas misses"
"""Title of the coverage with failures as misses in the line of a method."""
LOOKED = ("coverage_all_n", "coverage_at_stop")


def summary_sheet(table: pa.Table, command: str = "", ordered: bool = False) -> Sheet:
    """Sheet of a summary. Settings that vary are columns. The others are a text below the table.

    ``command`` is the command that prints all rows. ``ordered``: the user chose the order of the rows.
    """
    rows: list[Row] = table.to_pylist()
    names = table.column_names
    if not rows:
        return Sheet(rows, [])
    # The key of the path follows from the other settings.
    parameters = [name for name in names[: names.index("coverage")] if name not in ("path", "truth")]
    chosen = "candidates" in names
    settings, constants = split_settings(
        [name for name in parameters if not chosen or name != "method"], rows
    )
    if not ordered:
        sort_rows(rows, settings)
    if chosen:  # shown even if all rows have the same method
        settings.append("method")
    lost = any(map(changes_coverage, rows))
    declared = summaries_of(table.schema)
    checks = [summary.name for summary in declared if summary.shown and has_value(summary.name, rows)]
    checks += [name for name in LOOKED if has_value(name, rows)]
    counts = [name for name in (COUNTS if lost else COUNTS[:1]) if len({row[name] for row in rows}) > 1]
    results = [
        estimate("coverage", "coverage", "coverage_mcse"),
        ("state", lambda row: row.get("level_state") or judge(row)),
        *([plain("candidates")] if chosen else []),
        *([MISSES] if lost else []),
        estimate("length", "length_mean", "length_mcse"),
        estimate("bias", "bias", "bias_mcse"),
        estimate("emp. SE", "empirical_se", "empirical_se_mcse"),
        *([estimate("power", "power", "power_mcse")] if has_value("power", rows) else []),
        *(number(name, name, 3) for name in checks),
        *map(plain, counts),
    ]
    failed = [failures_line(rows)] if any(row["failures"] for row in rows) else []
    return Sheet(
        rows,
        list(map(setting, settings)),
        results,
        [*reversed(checks), "candidates", "emp. SE", "bias", *reversed(counts), "power"],
        constants,
        [*failed, *cautions(rows, declared)],
        first_to_round=["length", MISSES[0]],
        methods=summary_methods(rows, settings),
        legend="length/oracle: the median.",
        reading=HOLDS_RULE,
        rank=None if ordered else shortfall,
        command=command,
    )


HOLDS_RULE = (
    "State: coverage, failures as misses, is shown to be above (holds) or below (fails) the level less 2 "
    "points, or neither (unclear)."
)


def shortfall(row: Row) -> float:
    """Coverage, failures as misses, less level."""
    return float(row[COVERAGE] - row["level"])


def summary_methods(rows: Sequence[Row], settings: Sequence[str]) -> list[Row]:
    title = ALL if any(row["failures"] for row in rows) else "coverage"
    lines = []
    for line, own in by_method(rows, settings):
        states = [judge(row) for row in own]
        line |= {state: states.count(state) for state in (HOLDS, FAILS, UNDECIDED)}
        line |= {title: span((row[COVERAGE] for row in own), 3)}
        lines.append(line | {"length/oracle": middle(row.get("length_relative") for row in own)})
    return lines


def by_method(rows: Sequence[Row], settings: Sequence[str]) -> Iterator[tuple[Row, list[Row]]]:
    """Group rows by method and its settings that vary. Yield the start of each group's line, and its rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        known = INTERVAL_METHODS.get(row["method"])
        own = () if known is None else known.model_fields
        names = [name for name in settings if name in own and row[name] is not None]
        text = " ".join([row["method"], *(f"{name}={short(row[name])}" for name in names)])
        groups.setdefault(text, []).append(row)
    for text, found in groups.items():
        yield {"method": text, "cells": len(found)}, found


def middle(values: Iterable[float | None]) -> str:
    found = [value for value in values if value is not None and math.isfinite(value)]
    return round_text(median(found), 3) if found else "-"


def changes_coverage(row: Row) -> bool:
    """Whether failures lower the coverage by one MCSE or more."""
    error = row["coverage_mcse"]
    lowered = bool(error) and row["coverage"] - row[COVERAGE] < error
    return bool(row["failures"]) and not lowered


def failures_line(rows: Sequence[Row]) -> str:
    failed, total = (sum(row[name] for row in rows) for name in ("failures", "replicates"))
    worst = max(rows, key=lambda row: row["failures"] / row["replicates"])
    lost = [row["coverage"] - row[COVERAGE] for row in rows if row["coverage"] is not None]
    changed = f"; failures as misses lower it by up to {max(lost):.4f}" if any(lost) else ""
    cell = f"{worst['failures']:,} of {worst['replicates']:,} in a cell"
    return f"{failed:,} of {total:,} intervals failed, at most {cell}. Coverage is over the others{changed}"


def has_value(name: str, rows: Sequence[Row]) -> bool:
    return any(row.get(name) is not None for row in rows)


TRAJECTORY_MEASURES = (
    "last_sq", "avg_sq", "last_exc", "avg_exc", "tail_exc", "mean_gradient_norm",
    "output_gradient_norm", "mean_noise_norm", "loss", "clipped", "threshold",
)  # fmt: skip


def trajectory_sheet(table: pa.Table) -> Sheet:
    wide: dict[str, Row] = {}
    for row in last_rows(table.to_pylist()):
        wide.setdefault(row["path"], row)[row["stat"]] = with_error(row["mean"], row["mcse"])
    paths = list(wide.values())
    names = table.column_names[1 : table.column_names.index("step")]
    # n and settings that follow from others come last.
    order = ("problem", "algorithm", "noise", "order", "epsilon", "dimension", "n", *names)
    settings = distinguishing_columns([n for n in dict.fromkeys(order) if n in names], paths)
    stats = [stat for stat in TRAJECTORY_MEASURES if any(stat in row for row in paths)]
    results: list[Shown] = [(stat, lambda row, stat=stat: row.get(stat, "-")) for stat in stats]  # type: ignore[misc]
    sort_rows(paths, settings)
    return Sheet(paths, list(map(setting, settings)), results, stats[:0:-1])


def cautions(rows: Sequence[Row], declared: Sequence[Summary]) -> list[str]:
    lines = []
    for method in sorted({row["method"] for row in rows}):
        found = []
        for summary in declared:
            shares = [row.get(summary.name) for row in rows if row["method"] == method]
            high = [share for share in shares if share is not None and share > CAUTIOUS]
            if summary.caution and high:
                found.append(
                    f"{summary.caution} in up to {max(high):.0%} ({len(high)} of {len(shares)} rows)"
                )
        if found:
            lines.append(f"{method}: {'; '.join(found)}, of the finished replicates: see explain --verbose")
        wild = sum(has_exploded(row) for row in rows if row["method"] == method)
        if wild:
            lines.append(
                f"{method}: mean length is over 1000 times the median in {wild} rows: paths explode there"
            )
    return lines


def comparison_sheet(table: pa.Table, by: str, command: str = "", ordered: bool = False) -> Sheet:
    rows: list[Row] = table.to_pylist()
    names = table.column_names
    before = names[: names.index("vs")]
    known = settings_in(rows)
    named = [name for name in before if name in known and has_value(name, rows)]
    settings, constants = split_settings([name for name in before if name not in named], rows)
    baselines = list(dict.fromkeys(row["vs"] for row in rows))
    settings += [*named, *(["vs"] if len(baselines) > 1 else [])]
    name = "" if by in TABLES else f"{by}="
    heading = [f"Differences from {name}{baselines[0]}, and ratios to it:"] if len(baselines) == 1 else []
    shares = ("undefined", "undefined_baseline")
    some_undefined = any(row[name] for row in rows for name in shares)

    def undefined(row: Row) -> str:
        return ", ".join(f"{row[name]:.1%}" for name in shares) if any(map(row.get, shares)) else "none"

    plain_pairs: Shown = ("length\npairs", lambda row: str(row["length_pairs"]))
    difference, error = "coverage_difference", "coverage_difference_mcse"
    notes = []
    if rows:
        fewest = min(row["pairs"] for row in rows)
        notes.append(f"The smallest comparison has {counted(fewest, 'pair')} of replicates.")
    if some_undefined:
        most = max(row[name] or 0.0 for row in rows for name in shares)
        notes.append(
            f"Up to {most:.1%} of the replicates of a cell have no interval. They are misses in the "
            "difference of coverages, and left out of the length ratio."
        )
    lines = []
    for line, own in by_method(rows, settings):
        pairs = [(row[difference], row[error]) for row in own if row[error] is not None]
        clear = [math.copysign(1, value) for value, mcse in pairs if abs(value) > 2 * mcse]
        line |= {"higher": clear.count(1), "lower": clear.count(-1)}
        line |= {"coverage difference": span((row[difference] for row in own), 3)}
        lines.append(line | {"length ratio": middle(row["length_ratio"] for row in own)})
    return Sheet(
        rows,
        list(map(setting, settings)),
        [
            estimate("coverage\ndifference", difference, error),
            estimate("length ratio", "length_ratio", "length_ratio_mcse"),
            *([("undefined, vs", undefined), plain_pairs] if some_undefined else []),
            ("only this", lambda row: str(row["only_this"])),
            ("only vs", lambda row: str(row["only_baseline"])),
            ("pairs", lambda row: str(row["pairs"])),
        ],
        ["only vs", "only this", "length\npairs", "pairs", "undefined, vs", "length ratio"],
        constants,
        notes,
        heading=heading,
        methods=lines,
        legend="higher, lower: by more than two MCSE. length ratio: the median.",
        rank=None if ordered else (lambda row: row[difference] or 0.0),
        command=command,
    )


TITLES = {"variability": "varia-\nbility", "dependence": "depen-\ndence"}
TERM = " term"


def explanation_sheet(
    table: pa.Table, command: str = "", ordered: bool = False, errors: bool = False
) -> Sheet:
    """Sheet of explanations as sums. With ``errors`` each term has its MCSE."""
    from ldpflow.results.decomposition import SINGLE, SMALL, error_text  # loads SciPy

    rows = [row | printed_terms(row, row["clear_effects"].split(", ")) for row in table.to_pylist()]
    names = table.column_names[1 : table.column_names.index("length_effect")]
    settings, constants = split_settings(names, rows)
    if not ordered:
        sort_rows(rows, settings)
    parts = [part for part in (*SINGLE, "rest") if any(part + TERM in row for row in rows)]
    terms = [(TITLES.get(part, part), part + TERM) for part in parts]
    misses = [(MISSES[0], COVERAGE)] if any(map(changes_coverage, rows)) else []
    level = [("level", "level")] if "level" in settings else []
    shares = [*level, *terms, ("coverage", "coverage")]

    def amount(row: Row, name: str) -> str:
        if row.get(name) is None:
            return "-"
        text, error = f"{row[name]:{'+' if TERM in name else ''}.3f}", row.get(mcse_of(name))
        if error is None or not (errors or "coverage" in name):
            return text
        return f"{text} ± {error_text(error, 3)}"

    def mcse_of(name: str) -> str:
        return f"{name.replace(TERM, '_effect')}_mcse"

    def largest(names: Iterable[str]) -> str:
        return round_text(max(row.get(mcse_of(name)) or 0.0 for name in names for row in rows), 2)

    def means(own: list[Row]) -> Row:
        known = mean_effects(own, parts[:-1])
        count = sum(row["rest_effect"] is not None for row in own)
        cells = {} if count == len(own) else {"cells": f"{count} of {len(own)}"}
        return cells | {
            title: amount(known, name) for title, name in (*shares, *((ALL, name) for _, name in misses))
        }

    levels = {row["level"] for row in rows}
    reading = []
    if parts:
        start = "level" if level or len(levels) > 1 else f"level {max(levels):g}"
        of = "coverage of the finished replicates" if misses else "coverage"
        reading.append(f"{start[0].upper()}{start[1:]} + effects + rest = {of}.")
    if any(part + TERM not in row for row in rows for part in parts):
        reading.append(f"A dash: an effect within two MCSE or {SMALL}, part of the rest.")
    whole = [
        row["method"] for row in rows if row["rest_effect"] is not None and row["variability_effect"] is None
    ]
    over_all = ", failures as misses over all cells" if misses else ""
    if whole and "variability" in parts:
        reading.append(f"For {' and '.join(dict.fromkeys(whole))}, length contains variability.")
    if parts and not errors:
        most = largest(name for _, name in terms)
        reading.append(f"MCSEs of effects: up to {most} (--format md has each).")

    return Sheet(
        rows,
        list(map(setting, settings)),
        [
            *(
                (title, partial(amount, name=name))
                for title, name in (*shares, *misses)
                if name not in settings
            ),
            ("main cause", lambda row: row["cause"] or "-"),
        ],
        constants=constants,
        together=[title for title, _ in shares],
        reading=" ".join(reading),
        methods=[line | means(own) for line, own in by_method(rows, settings)],
        legend=f"Lines of methods: means over cells{over_all}.",
        rank=None if ordered else shortfall,
        command=command,
    )


def printed_terms(row: Row, clear: Sequence[str]) -> Row:
    """Round the effects in ``clear`` and the rest. With the level they add up to the printed coverage."""
    from ldpflow.results.decomposition import SINGLE, round_terms

    if row["rest_effect"] is None:
        return {}
    terms = [*(part for part in SINGLE if part in clear), "rest"]
    effects = [row[f"{part}_effect"] for part in terms]
    rounded = round_terms(effects, row["coverage"], row["level"], 3)
    return {part + TERM: amount for part, amount in zip(terms, rounded, strict=True)}


def mean_effects(rows: Sequence[Row], parts: Sequence[str]) -> Row:
    """Means over cells of level, coverage and the effects in ``parts``, and the rest of the sum."""
    found: Row = {COVERAGE: mean(row[COVERAGE] for row in rows)}
    known = [row for row in rows if row["rest_effect"] is not None]
    if not known:
        return found
    alone = [part for part in parts if any(row.get(f"{part}_effect") is not None for row in known)]
    for name in ("level", "coverage", *(f"{part}_effect" for part in alone)):
        found[name] = mean(row[name] or 0.0 for row in known)
    left = found["coverage"] - found["level"] - sum(found[f"{part}_effect"] for part in alone)
    return found | printed_terms(found | {"rest_effect": left}, alone)
