"""Findings of a study: sentences on top of a report, and its tables of methods, settings and failures.

The findings count a replicate without an interval as a miss and use :func:`ldpflow.results.arena.judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ldpflow.columns import Summary, round_text, short, with_error
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.report.results import Names, Results, Row, measured, present_last
from ldpflow.results import arena
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED, ArenaSetting, judge, not_judged, why_barred
from ldpflow.results.columns import summaries_of
from ldpflow.results.trajectories import last_rows

MAX_TABLE_ROWS = 2000
MOST_FAILED = 50
COVERAGE = "coverage_failures_as_misses"
MOST_NAMED = 4
"""Most groups of methods whose cells a sentence describes. Failing methods that hold elsewhere are added."""

CAUSES = {
    "failed": "missing intervals",
    "too short": "intervals too short",
    "biased": "biased estimates",
    "not normal": "estimates not normal",
}
"""Words of a sentence for classes of main causes. Other classes are used as they are."""


class Findings(NamedTuple):
    """At most five sentences on a study, and cells for zip plots, each with the reason why it is drawn."""

    sentences: list[str]
    cells: list[tuple[str, Row]]


def findings(results: Results) -> Findings:
    """Say which methods hold their level and where, which fail, where and why, and whether the oracle fails.

    Methods that need the truth or lack their plug-in are described only if the run has no other methods.
    """
    rows = [row for row in results.rows if not why_barred(row)] or results.rows
    if not rows:
        return Findings([*filter(None, [bounds_in_words(results)])], [])
    groups: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["series_rank"]):
        groups.setdefault(row["series"], []).append(row)
    cells: list[tuple[str, Row]] = []
    levels = results.values("level")
    level = f"its level of {100 * levels[0]:g}%" if len(levels) == 1 else "its level"

    praised: set[str] = set()

    def clauses(state: str) -> list[str]:
        """Describe the methods that are in a state, those with the largest share of cells first.

        Methods with equal words share a clause. Every method that fails is named. If another clause says
        that it holds somewhere, its failing cells are described.
        """
        found: dict[str, dict[str, list[Row]]] = {}
        members = {name: [row for row in own if judge(row) == state] for name, own in groups.items()}
        for name in sorted(members, key=lambda name: -len(members[name]) / len(groups[name])):
            if members[name]:
                failing = [row for row in groups[name] if judge(row) == FAILS] if state == HOLDS else []
                words = where(results.names, results.varying(), groups[name], members[name], failing)
                found.setdefault(words, {})[name] = members[name]
        texts: list[str] = []
        others: list[str] = []
        for at, (words, alike) in enumerate(found.items()):
            if at >= MOST_NAMED and (state == HOLDS or praised.isdisjoint(alike)):
                others += alike
                continue
            praised.update(alike if state == HOLDS else ())
            chosen = [row for own in alike.values() for row in own]
            lowest = (min(own, key=lambda row: row[COVERAGE]) for own in alike.values())
            cells.extend((f"{state}, lowest coverage", row) for row in lowest)
            clause = f"{join(name_series([*alike]))} {words}"
            texts.append(clause if state == HOLDS else f"{clause} ({main_cause(results, chosen)})")
        names = join(name_series(others))
        if state == HOLDS:
            names = f"{len(others)} other method{'s' * (len(others) > 1)}"
        return texts + [f"{names} in some settings"] * bool(others)

    held, failed = clauses(HOLDS), clauses(FAILS)
    first = f"Shown to hold {level}: {'; '.join(held)}."
    if not held:
        first = f"No method is shown to hold {level} in any setting."
    sentences = [first, f"Shown to fail: {'; '.join(failed)}." if failed else "No method is shown to fail."]
    # Only oracles with intervals count: without a variance the oracle says nothing about the estimates.
    oracle = [r for r in results.rows if r["method"] == "oracle" and r["failures"] < r["replicates"]]
    if rows is not results.rows and (failing := [row for row in oracle if judge(row) == FAILS]):
        place = where(results.names, results.varying(), oracle, failing)
        text = "Even the oracle, which has the true asymptotic variance, fails"
        sentences.append(f"{text} {place}. There the estimates do not yet follow the theory.")
    if open_cells := sum(judge(row) == UNDECIDED for row in rows):
        judged = "cells" if len(rows) == len(results.rows) else "judged cells"
        third = f"Too few replicates to say: {open_cells:,} of {len(rows):,} {judged}"
        if max(map(arena.least_replicates, levels)) > max(row["replicates"] for row in rows):
            third += f" ({arena.enough_in_words(levels)})"
        sentences.append(f"{third}.")
    if rows is not results.rows and (unknown := not_judged(results.rows)):
        sentences.append(unknown)
    if not cells:
        cells.append(("lowest coverage", min(rows, key=lambda row: row[COVERAGE] - row["level"])))
    return Findings(sentences, cells)


def bounds_in_words(results: Results) -> str:
    """Sentence that counts means above their proved bound. Empty if no mean has a bound."""
    bounded = [r for r in results.followed if r["theory_bound"] is not None and r["mean"] is not None]
    above = sum(r["mean"] > r["theory_bound"] for r in bounded)
    return f"{above or 'None'} of {len(bounded):,} means lie above their proved bound." if bounded else ""


def name_series(names: Sequence[str]) -> list[str]:
    """Join series of one method: the method with the settings of its series in brackets."""
    found: dict[str, list[str]] = {}
    for name in names:
        method, _, settings = name.partition(", ")
        found.setdefault(method, []).extend([settings] if settings else [])
    return [method + (f" ({'; '.join(own)})" if own else "") for method, own in found.items()]


def join(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def main_cause(results: Results, rows: Sequence[Row]) -> str:
    """Words for the main cause of more than half of the cells, or ``different causes``."""
    causes = Counter(results.explained[results.identity(row)]["cause_class"] for row in rows)
    cause, count = causes.most_common(1)[0]
    if 2 * count <= len(rows):
        return "different causes"
    return f"{'' if count == len(rows) else 'mostly '}{CAUSES.get(cause, cause or 'not explained')}"


# Words for the cells in which a method holds or fails

MOST_VALUES = 3
"""Most values of a factor that are named one by one."""

Cells = set[int]


class Region(NamedTuple):
    """Cells that have some values of one factor and perhaps one value of a second, and words for them."""

    words: str
    cells: Cells


def where(
    names: Names,
    factors: Sequence[str],
    rows: Sequence[Row],
    chosen: Sequence[Row],
    failing: Sequence[Row] = (),
) -> str:
    """Describe the ``chosen`` rows of a method: how many they are, and one region.

    First choice: the largest region that has only chosen rows, if it has at least half of the chosen rows.
    Second choice: the smallest region that has all chosen rows, if at least half of its rows are chosen. Its
    number of ``failing`` rows is added. Without such a region all rows are the region.
    """
    if len(chosen) == len(rows):
        return "in every setting" if len(rows) > 1 else "in the one setting"
    ids = {id(row) for row in chosen}
    inside = {at for at, row in enumerate(rows) if id(row) in ids}
    if len(chosen) == 1 and (settings := names.settings(chosen[0], factors)):
        return f"at {settings}"
    whole = regions(names, factors, rows, inside.issuperset)
    best = max(whole, key=lambda region: len(region.cells), default=Region("", set()))
    if best.cells == inside:
        return f"where {best.words}"
    if 2 * len(best.cells) >= len(inside):
        return f"in {len(inside):,} of {len(rows):,} settings: all with {best.words}, and others"
    found = [
        region for region in regions(names, factors, rows, inside.intersection) if region.cells >= inside
    ]
    everywhere = Region("", set(range(len(rows))))
    least = min(found, key=lambda region: len(region.cells), default=everywhere)
    least = least if 2 * len(inside) >= len(least.cells) else everywhere
    text = f"in {len(inside):,} of {len(least.cells):,} settings" + f" with {least.words}" * bool(least.words)
    lost = sum(any(rows[at] is row for row in failing) for at in least.cells)
    return text + f" (shown to fail in {lost:,} of the {len(least.cells):,})" * bool(lost)


def regions(
    names: Names, factors: Sequence[str], rows: Sequence[Row], wanted: Callable[[Cells], Any]
) -> Iterator[Region]:
    """Regions of one factor, then of two. They join the values whose cells pass the test ``wanted``."""
    slices: dict[str, dict[Any, Cells]] = {name: {} for name in factors}
    for at, row in enumerate(rows):
        for name in factors:
            if row.get(name) is not None:
                slices[name].setdefault(row[name], set()).add(at)
    contexts = [("", "", set(range(len(rows))))]
    contexts += [(n, f"{names.value(n, v)} and ", own[v]) for n, own in slices.items() for v in sorted(own)]
    for first, words, context in contexts:
        for name in (name for name in slices if name != first):
            own = {value: cells & context for value, cells in slices[name].items() if cells & context}
            values = [value for value in sorted(own) if wanted(own[value])]
            if len(values) < len(own) and (text := name_values(names, name, values, sorted(own))):
                yield Region(words + text, set().union(*(own[value] for value in values)))


def name_values(names: Names, name: str, values: Sequence[Any], known: Sequence[Any]) -> str:
    """Values of a factor in words: a range, or up to MOST_VALUES values. Empty if there are more."""
    number = not isinstance(known[0], (str, bool)) and name != "coordinate"
    if number and len(values) > 1:
        for sign, end, run in (("≤", -1, known[: len(values)]), ("≥", 0, known[-len(values) :])):
            if values == run:
                return names.value(name, values[end]).replace("=", sign)
    texts = [names.value(name, value) for value in values]
    further = [text.partition(" = ")[2] or text for text in texts[1:]]
    return " or ".join([*texts[:1], *further]) if len(texts) <= MOST_VALUES else ""


GLANCE = (
    "method", "cells", "coverage, failures as misses", "holds its level*", UNDECIDED, FAILS, "recommended",
    "mean length / oracle", "failed",
)  # fmt: skip


def glance(results: Results, settings: Sequence[ArenaSetting]) -> list[list[str]]:
    """Rows of the table at a glance, one per series. Ranges are over the cells of the series."""
    best = [setting.best.row["series"] for setting in settings if setting.best is not None]
    found = []
    for series in results.series:
        rows = [row for row in results.rows if row["series"] == series]
        states = [judge(row) for row in rows]
        lengths = [ratio(row["length_mean"], row["oracle_length"]) for row in rows]
        failed, total = (sum(row[name] for row in rows) for name in ("failures", "replicates"))
        texts = [series, str(len(rows)), span([row[COVERAGE] for row in rows], 3)]
        texts += [str(states.count(state)) for state in (HOLDS, UNDECIDED, FAILS)]
        texts += [str(best.count(series)), span([length for length in lengths if length is not None], 2)]
        found.append([*texts, f"{failed:,} ({failed / total:.1%})" if failed else "0"])
    return found


def span(values: Sequence[float], decimals: int) -> str:
    ends = [f"{end(values):.{decimals}f}" for end in (min, max)] if values else ["-"]
    return " to ".join(dict.fromkeys(ends))


def ratio(value: float | None, of: float | None) -> float | None:
    return value / of if value is not None and of else None


def choices(results: Results, settings: Sequence[ArenaSetting]) -> dict[str, Any] | None:
    """Table of recommended methods, with settings as rows and n as columns. None for a run of one series."""
    if len(results.series) < 2:
        return None
    names = results.varying(without=("n",))
    across = sorted({setting.keys["n"] for setting in settings})
    down: dict[tuple[str, ...], dict[int, ArenaSetting]] = {}
    for setting in settings:
        if setting.reference is not None:
            label = tuple(short(setting.reference.row[name]) for name in names)
            down.setdefault(label, {})[setting.keys["n"]] = setting
    rows = [(label, [found.get(n) for n in across]) for label, found in down.items()]
    return {
        "head": [results.names.label(name) for name in names],
        "n": [short(n) for n in across],
        "rows": rows[:MAX_TABLE_ROWS],
        "left": max(len(rows) - MAX_TABLE_ROWS, 0),
    }


Text = Callable[[Row], str]
COUNT = "{:,}".format
ROUND = partial(round_text, digits=3)


def text_of(name: str, form: Callable[[Any], str] = short) -> Text:
    return lambda row: form(row[name])


def with_mcse(name: str, unit: float = 1.0) -> Text:
    return lambda row: measured(row, name, unit)


def tabulate(
    results: Results, settings: Sequence[str], columns: Mapping[str, Text], rows: Sequence[Row], most: int
) -> dict[str, Any]:
    """Table of settings and ``columns`` (heading, and text of a row), with at most ``most`` rows."""
    value = results.names.value
    levels: dict[str, Text] = {"coordinate": lambda row: value("coordinate", row["coordinate"])}
    texts = [*(levels.get(name) or text_of(name) for name in settings), *columns.values()]
    return {
        "head": [*map(results.names.label, settings), *columns],
        "rows": [[text(row) for text in texts] for row in rows[:most]],
        "left": max(len(rows) - most, 0),
    }


LOOKED = ("coverage_all_n", "coverage_at_stop", "joint_coverage", "joint_size_mean")
"""Measures of studies with [monitor] and of joint regions, shown if a run has them."""


def diagnostics(results: Results) -> list[Summary]:
    """Diagnostics that the table of cells shows."""
    declared = summaries_of(results.table.schema)
    return [summary for summary in declared if summary.shown and results.values(summary.name)]


def cell_table(results: Results, settings: Sequence[ArenaSetting]) -> dict[str, Any]:
    """Table of all cells, which a page filters and counts by method."""
    best = {id(setting.best.row) for setting in settings if setting.best is not None}
    names = [n for n in dict.fromkeys(("problem", *results.varying())) if len(results.values(n)) > 1]
    checks = dict.fromkeys(summary.name for summary in diagnostics(results))
    checks |= dict.fromkeys(name for name in LOOKED if results.values(name))
    columns: dict[str, Text] = {
        "method": text_of("series"),
        "coverage ± MCSE": with_mcse("coverage"),
        "state*": lambda row: judge(row) + (", recommended" if id(row) in best else ""),
    }
    if any(row["failures"] for row in results.rows):
        columns["failures as misses ± MCSE"] = with_mcse(COVERAGE)
    columns |= {
        "length ± MCSE": with_mcse("length_mean"),
        "length / oracle ± MCSE": with_mcse("length_relative"),
        "bias ± MCSE": with_mcse("bias"),
        "emp. SE ± MCSE": with_mcse("empirical_se"),
        "SE error ± MCSE, %": with_mcse("relative_error_model_se", 100),
        "main cause": lambda row: results.explained[results.identity(row)]["cause"] or "-",
        "replicates": text_of("replicates", COUNT),
        "failed": text_of("failures", COUNT),
        **{name: text_of(name, ROUND) for name in checks},
    }
    return tabulate(results, names, columns, results.rows, MAX_TABLE_ROWS)


def followed_table(results: Results) -> dict[str, Any]:
    names, meanings = results.path_varying, results.meanings
    place = {stat: i for i, stat in enumerate(meanings)}
    ends = last_rows(results.followed)
    ends.sort(key=lambda r: (present_last(r, names), place[r["stat"]]))
    stats = [stat for stat in meanings if any(r["stat"] == stat for r in ends)]
    columns: dict[str, Text] = {
        "n": text_of("n"),
        "step": text_of("step"),
        "statistic": text_of("stat"),
        "mean ± MCSE": lambda row: with_error(row["mean"], row["mcse"]),
        "5%": text_of("q05", ROUND),
        "median": text_of("q50", ROUND),
        "95%": text_of("q95", ROUND),
        "mean / bound": lambda row: ROUND(ratio(row["mean"], row["theory_bound"])),
        "mean / leading term": lambda row: ROUND(ratio(row["mean"], row["theory_limit"])),
        "replicates": text_of("replicates", COUNT),
        "diverged": text_of("failures", COUNT),
    }
    return tabulate(results, names, columns, ends, MAX_TABLE_ROWS) | {
        "bounds": bounds_in_words(results),
        "diverged": f"{sum(r['failures'] for r in ends if r['stat'] == stats[0]):,}",
        "meaning": [(stat, meanings[stat]) for stat in stats],
    }


def pairs(results: Results) -> dict[str, Any] | None:
    """Table of paired differences of cells to the baseline. None for a run without pairs."""
    found = [(row, results.contrasts.get(results.identity(row))) for row in results.rows]
    rows = [row | contrast for row, contrast in found if contrast is not None]
    columns = {
        "method": text_of("series"),
        "coverage difference ± MCSE": with_mcse("paired_coverage_difference"),
        "length ratio ± MCSE": with_mcse("paired_length_ratio"),
        "pairs": text_of("paired_pairs", COUNT),
    }
    table = tabulate(results, results.varying(), columns, rows, MAX_TABLE_ROWS)
    return table | {"baseline": results.baseline} if rows else None


def failures(results: Results) -> dict[str, Any]:
    rows = [row for row in results.rows if row["failures"]]
    rows.sort(key=lambda row: -row["failures"] / row["replicates"])
    undefined = {kind: method.undefined_where for kind, method in INTERVAL_METHODS.items()}
    columns: dict[str, Text] = {
        "method": text_of("series"),
        "failed": lambda row: f"{row['failures']:,} of {row['replicates']:,}",
        "coverage, failures as misses": with_mcse(COVERAGE),
        "coverage of the others": with_mcse("coverage"),
        "undefined if": lambda row: undefined.get(row["method"]) or "-",
    }
    return tabulate(results, results.varying(), columns, rows, MOST_FAILED) | {
        "total": f"{sum(row['replicates'] for row in results.rows):,}",
        "failed": f"{sum(row['failures'] for row in rows):,}",
    }
