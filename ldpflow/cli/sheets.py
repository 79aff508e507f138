"""Sheets of results: summaries, trajectories, explanations and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median

import pyarrow as pa

from ldpflow.cli.tables import Row, Sheet, Shown, estimate, number, plain
from ldpflow.columns import CAUTIOUS, Summary, distinguishing_columns, round_text, short, with_error
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED, judge
from ldpflow.results.columns import summaries_of
from ldpflow.results.decomposition import SINGLE, round_terms
from ldpflow.results.measures import has_exploded
from ldpflow.results.trajectories import last_rows
from ldpflow.study import GROUPS

KINDS = ("problem", "law", "errors", "mechanism", "algorithm", "protocol", "method")
"""Columns that may determine the settings of a row."""
COUNTS = ("replicates", "failures")


ALWAYS = ("law", "tau", "gamma", "c")
"""Settings that a long table names also if they are at their default."""
EXPECTED = {"failures": 0, "dimension": 1, "coordinate": 0, "neighbouring": "replacement of one record"}


def is_default(name: str, row: Row) -> bool:
    kinds = (registry.get(str(row.get(group))) for group, registry in GROUPS.items())
    fields = [kind.model_fields[name] for kind in kinds if kind is not None and name in kind.model_fields]
    known = [field.default for field in fields] or [EXPECTED.get(name)]
    return name not in ALWAYS and row[name] is not None and row[name] in known


def split_settings(names: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], tuple[str, str]]:
    """Settings that distinguish the rows, and two texts with those that all rows, or all of a kind, share.

    The second text leaves out what is at its default.
    """
    settings = distinguishing_columns([name for name in names if name not in COUNTS], rows, implied=True)
    whole: dict[str, list[str]] = {"": []}
    brief: dict[str, list[str]] = {"": []}
    for name in names:
        having = [row for row in rows if row[name] is not None]
        if name in settings or len({repr(row[name]) for row in having}) != 1:
            continue
        owners = "" if len(having) == len(rows) else owners_of(name, rows)
        if owners is None:
            settings.append(name)
        elif name not in COUNTS or not owners:
            text = f"{name}={short(having[0][name])}"
            whole.setdefault(owners, []).append(text)
            if not is_default(name, having[0]):
                brief.setdefault(owners, []).append(text)
    texts = [
        "; ".join(f"{owners}{'  '.join(own)}" for owners, own in lines.items() if own)
        for lines in (whole, brief)
    ]
    return settings, (texts[0], f"{texts[1]} (others: defaults)" if whole != brief else texts[1])


def owners_of(name: str, rows: Sequence[Row]) -> str | None:
    """Kinds whose rows have a setting, as text, or None if it does not depend on the kind."""
    for kind in KINDS:
        having = {row.get(kind) for row in rows if row[name] is not None}
        if None not in having and not having & {row.get(kind) for row in rows if row[name] is None}:
            return ", ".join(sorted(map(str, having))) + ": "
    return None


def coverage(row: Row) -> str:
    if row["coverage"] is None:
        return "-"
    error = row["coverage_mcse"]
    return f"{row['coverage']:.3f} ± {'-' if error is None else f'{error:.3f}'}"


MISSES: Shown = (
    "failures\nas misses",
    lambda row: f"{row['coverage_failures_as_misses']:.3f}" if row["failures"] else "-",
)
LOOKED = ("coverage_all_n", "coverage_at_stop")


def summary_sheet(table: pa.Table, command: str = "", ordered: bool = False) -> Sheet:
    """Sheet of a summary: settings that vary as columns, the others in lines below.

    ``command`` prints all rows, and ``ordered`` says that the order of the rows was chosen.
    """
    rows: list[Row] = table.to_pylist()
    names = table.column_names
    if not rows:
        return Sheet(rows, [], names=names)
    # The path's key follows from the parameters.
    parameters = [name for name in names[: names.index("coverage")] if name not in ("path", "truth")]
    settings, constants = split_settings(parameters, rows)
    lost = any(map(changes_coverage, rows))
    replicates = [plain("replicates")] if differs("replicates", rows) else []
    failures = [plain("failures")] if lost and differs("failures", rows) else []
    misses = [MISSES] if lost else []
    declared = summaries_of(table.schema)
    checks = [name for summary in declared if summary.shown and has_value(name := summary.name, rows)]
    checks += [name for name in LOOKED if has_value(name, rows)]
    chosen = [plain("level_state"), plain("candidates")] if "level_state" in names else []
    results = [
        ("coverage", coverage),
        *chosen,
        *misses,
        estimate("length", "length_mean", "length_mcse"),
        number("bias", "bias", 2),
        number("emp. SE", "empirical_se", 3),
        *([estimate("power", "power", "power_mcse")] if has_value("power", rows) else []),
        *(number(name, name, 3) for name in checks),
        *replicates,
        *failures,
    ]
    first_to_go = [*reversed(checks), "emp. SE", "bias", *COUNTS[::-1], "power", "length", MISSES[0]]
    failed = [failures_line(rows)] if any(row["failures"] for row in rows) else []
    return Sheet(
        rows,
        list(map(plain, settings)),
        results,
        names,
        first_to_go,
        constants,
        [*failed, *cautions(rows, declared)],
        label=("method", labels(settings, names)),
        totals=summary_totals(rows),
        legend=RULE + (" Failures are misses." if failed else ""),
        order=() if ordered else settings,
        rank=None if ordered else shortfall,
        command=command,
    )


RULE = "holds (fails): the 95% interval of its coverage is above (below) the level less 2 points."


def labels(settings: Sequence[str], names: Sequence[str]) -> Callable[[Row], str]:
    """Function that names the method of a row and those of its settings that vary."""
    own = {*names[names.index("method") + 1 :]} - {"level", "coordinate", "vs"}
    varying = [name for name in settings if name in own]

    def label(row: Row) -> str:
        values = [f"{name}={short(row[name])}" for name in varying if row[name] is not None]
        return " ".join([str(row["method"]), *values])

    return label


def shortfall(row: Row) -> float:
    """Coverage less level, failures counted as misses."""
    return float(row["coverage_failures_as_misses"] - row["level"])


def summary_totals(rows: Sequence[Row]) -> list[Shown]:
    """Columns of a line for each method: in how many cells it holds its level, coverage, median length."""

    def count(state: str) -> Callable[[list[Row]], str]:
        return lambda own: str(sum(judge(row) == state for row in own))

    def median_of(own: list[Row]) -> str:
        values = [row[name] for row in own if row[name] is not None]
        return round_text(median(values), 3) if values else "-"

    relative = all(row.get("length_relative") is not None for row in rows)
    name = "length_relative" if relative else "length_mean"
    return [
        (HOLDS, count(HOLDS)),
        (FAILS, count(FAILS)),
        ("unclear", count(UNDECIDED)),
        ("coverage", range_of("coverage_failures_as_misses")),
        ("length/oracle" if relative else "length", median_of),
    ]


def range_of(name: str) -> Callable[[list[Row]], str]:
    return lambda own: " .. ".join(f"{end(row[name] for row in own):.3f}" for end in (min, max))


def changes_coverage(row: Row) -> bool:
    """Whether failures lower a coverage by its Monte Carlo standard error or more."""
    error = row["coverage_mcse"]
    lowered = bool(error) and row["coverage"] - row["coverage_failures_as_misses"] < error
    return bool(row["failures"]) and not lowered


def failures_line(rows: Sequence[Row]) -> str:
    failed, total = sum(row["failures"] for row in rows), sum(row["replicates"] for row in rows)
    worst = max(rows, key=lambda row: row["failures"] / row["replicates"])
    both = [(row["coverage"], row["coverage_failures_as_misses"]) for row in rows if row["failures"]]
    changes = [share - counted for share, counted in both if share is not None]
    changed = f"; as misses they lower a coverage by up to {max(changes):.4f}" if changes else ""
    return (
        f"{failed:,} of {total:,} intervals failed, at most {worst['failures']:,} of "
        f"{worst['replicates']:,} in a cell{changed}"
    )


def count_replicates(table: pa.Table, wanted: int | None) -> str:
    """Say how many cells or followed paths a summary has, and how many replicates.

    ``wanted``: what the study asks for. A summary uses all replicates, so more are pointed out.
    """
    if table.num_rows == 0:
        return "no replicates"
    cells = "coverage" in table.column_names
    count = table.num_rows if cells else len(table["path"].unique())
    each = table["replicates"].to_pylist()
    least, most = (f"{value:,}" for value in (min(each), max(each)))
    words = f"{count:,} {'cell' if cells else 'path'}{'' if count == 1 else 's'} with {least}"
    words += f" to {most} replicates" if most != least else " replicates"
    beyond = wanted is not None and max(each) > wanted
    return f"{words}, all that are stored (asked for: {wanted:,})" if beyond else words


def has_value(name: str, rows: Sequence[Row]) -> bool:
    return any(row.get(name) is not None for row in rows)


TRAJECTORY_MEASURES = (
    "last_sq", "avg_sq", "last_exc", "avg_exc", "tail_exc", "mean_gradient_norm",
    "output_gradient_norm", "mean_noise_norm", "loss", "clipped", "threshold",
)  # fmt: skip


def trajectory_sheet(table: pa.Table) -> Sheet:
    """Sheet of trajectories at the last step of every path: varying settings, means with their MCSE.

    CSV and JSON have all steps.
    """
    wide: dict[str, Row] = {}
    for row in last_rows(table.to_pylist()):
        wide.setdefault(row["path"], row)[row["stat"]] = with_error(row["mean"], row["mcse"])
    paths = list(wide.values())
    names = table.column_names[1 : table.column_names.index("step")]
    # N, and what follows from others, comes last.
    order = ("problem", "algorithm", "noise", "order", "epsilon", "dimension", "n", *names)
    settings = distinguishing_columns([n for n in dict.fromkeys(order) if n in names], paths)
    stats = [stat for stat in TRAJECTORY_MEASURES if any(stat in row for row in paths)]
    results: list[Shown] = [(stat, lambda row, stat=stat: row.get(stat, "-")) for stat in stats]  # type: ignore[misc]
    return Sheet(paths, list(map(plain, settings)), results, table.column_names, stats[:0:-1], order=settings)


def cautions(rows: Sequence[Row], declared: Sequence[Summary]) -> list[str]:
    """Cautions about methods, one line per method and reason."""
    lines = []
    for method in sorted({row["method"] for row in rows}):
        for summary in declared:
            shares = [row.get(summary.name) for row in rows if row["method"] == method]
            high = [share for share in shares if share is not None and share > CAUTIOUS]
            if summary.caution and high:
                lines.append(
                    f"{method}: {summary.caution} in up to {max(high):.0%} of the replicates of {len(high)} "
                    f"of {len(shares)} rows: see ldpflow explain"
                )
        wild = sum(has_exploded(row) for row in rows if row["method"] == method)
        if wild:
            lines.append(
                f"{method}: mean length is over 1000 times the median in {wild} rows: paths explode there"
            )
    return lines


def differs(name: str, rows: Sequence[Row]) -> bool:
    """Whether a column varies; compared by repr, since a setting may be a list."""
    return len({repr(row[name]) for row in rows}) > 1


def comparison_sheet(table: pa.Table, by: str, command: str = "", ordered: bool = False) -> Sheet:
    """Sheet of paired comparisons of the values of ``by``."""
    rows: list[Row] = table.to_pylist()
    names = table.column_names
    settings, constants = split_settings(["vs", *names[: names.index("vs")]], rows)
    settings.sort(key="vs".__eq__)
    undefined: Shown = ("undefined, vs", lambda r: f"{r['undefined']:.1%}, {r['undefined_baseline']:.1%}")
    some_undefined = any(row["undefined"] or row["undefined_baseline"] for row in rows)

    def count(sign: int) -> Callable[[list[Row]], str]:
        clear = lambda r: sign * r["coverage_difference"] > 2 * r["coverage_difference_mcse"]  # noqa: E731
        return lambda own: str(sum(map(clear, own)))

    return Sheet(
        rows,
        list(map(plain, settings)),
        [
            estimate("coverage difference", "coverage_difference", "coverage_difference_mcse"),
            estimate("length ratio", "length_ratio", "length_ratio_mcse"),
            *([undefined] if some_undefined else []),
            ("only this", lambda row: str(row["only_this"])),
            ("only vs", lambda row: str(row["only_baseline"])),
            ("pairs", lambda row: str(row["pairs"]) if row["paired"] else "unpaired"),
        ],
        names,
        ["only vs", "only this", "pairs", "undefined, vs", "length ratio"],
        constants,
        label=(by, labels(settings, names) if by == "method" else lambda row: short(row[by])),
        totals=[
            ("vs", lambda own: ", ".join(dict.fromkeys(row["vs"] for row in own))),
            ("higher", count(1)),
            ("lower", count(-1)),
            ("coverage difference", range_of("coverage_difference")),
            ("length ratio", lambda own: round_text(median(row["length_ratio"] for row in own), 3)),
        ],
        legend="higher, lower: by more than two MCSE. Of the length ratios the median.",
        rank=None if ordered else (lambda row: float(row["coverage_difference"])),
        command=command,
    )


TITLES = {"variability": "varia-\nbility", "dependence": "depen-\ndence"}
DIGITS, TERM = 3, " term"
DASH = "A dash: within two MCSE, and part of the rest."


def explanation_settings(table: pa.Table) -> tuple[list[str], tuple[str, str]]:
    """Settings of a table of explanations, as of :func:`split_settings`."""
    names = table.column_names[: table.column_names.index("length_effect")]
    return split_settings([name for name in names if name != "path"], table.to_pylist())


def explanation_sheet(table: pa.Table, command: str = "", ordered: bool = False) -> Sheet:
    """Sheet of explanations: the sum, rounded so that it adds up, and the main cause."""
    settings, constants = explanation_settings(table)
    rows = [row | printed_terms(row) for row in table.to_pylist()]
    parts = [part for part in (*SINGLE, "rest") if any(part + TERM in row for row in rows)]
    terms = [(TITLES.get(part, part), part + TERM) for part in parts]
    shares = [("level", "level"), *terms, ("coverage", "coverage")]
    lost = any(map(changes_coverage, rows))

    def amount(name: str) -> Callable[[Row], str]:
        sign = "+" if name.endswith(TERM) else ""
        return lambda row: "-" if row.get(name) is None else f"{row[name]:{sign}.{DIGITS}f}"

    def average(name: str) -> Callable[[list[Row]], str]:
        def text(own: list[Row]) -> str:
            known = [row for row in own if row["coverage"] is not None]
            some = any(name in row for row in known)
            return amount(name)({name: mean(row.get(name, 0.0) for row in known)} if some else {})

        return text

    return Sheet(
        rows,
        list(map(plain, settings)),
        [
            *((title, amount(name)) for title, name in shares if name not in settings),
            *([MISSES] if lost else []),
            ("main cause", lambda row: row["cause"] or "-"),
        ],
        table.column_names,
        ["level", TITLES["dependence"], "shape", TITLES["variability"], "rest", "bias", "length", MISSES[0]],
        (f"{DASH} {constants[0]}", f"{DASH} {constants[1]}"),
        label=("method", labels(settings, table.column_names)),
        totals=[(title, average(name)) for title, name in shares],
        legend="Of each method the means.",
        order=() if ordered else settings,
        rank=None if ordered else shortfall,
        command=command,
    )


def printed_terms(row: Row) -> dict[str, float]:
    """Effects beyond noise and the rest, rounded so that they add up to the printed coverage."""
    if row["rest_effect"] is None:
        return {}
    clear = [part for part in SINGLE if part in row["clear_effects"].split(", ")]
    terms = [*clear, "rest"]
    effects = [row[f"{part}_effect"] for part in terms]
    rounded = round_terms(effects, row["coverage"], row["level"], DIGITS)
    return {part + TERM: amount for part, amount in zip(terms, rounded, strict=True)}
