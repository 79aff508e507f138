"""``ldpflow plan``: what n, epsilon and number of replicates a study takes, and whether its paths arrive."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ldpflow.cli.flags import Axis, Format, complete_study, flag_parameter, set_parameters
from ldpflow.cli.tables import Sheet, Shown, estimate, lines_text, most_rows, number, plain, setting, span
from ldpflow.columns import distinguishing_columns, round_text, short, with_error
from ldpflow.errors import InputError
from ldpflow.options import PLAN_OPTIONS, Engine, SweepOptions

if TYPE_CHECKING:
    from ldpflow.practice.planning import Plan


Row = dict[str, Any]

HIDDEN = (
    "path", "quantile", "sparsity", "pilot", "pilot_values", "pilot_quantile", "users", "answers_each",
    "epsilon_per_user",
)  # fmt: skip
DESIGN = ("c", "gamma", "theta0")
FIRST_MEASURE = "standard_error"

ORACLE = (
    "Lengths and SE are those of the oracle, which knows the true variance. Intervals that estimate it "
    "differ: BB and BM are mostly shorter and cover less, SN and TR are longer (--check simulates them)."
)


LEGEND = (
    "Every number is that of the interval in its row, simulated: of LDP-SGD the one that plan recommends, of "
    "histograms the outer, of rounds Fieller's. half width: the median. coverage: undefined ones are misses. "
    "reports: of each user. bytes kept: by a collector of all quantiles. sgd and rounds split the "
    "users between the quantiles, sgd_epsilon the budget. *: the design to take."
)


def source_lines(found: Plan) -> Iterator[str]:
    for row in first_rows(found.rows, "tau"):
        head, law = "guessed from the bounds", "laws tried"
        if row["pilot"] is not None:
            head, law = f"pilot: {row['pilot']}, {row['pilot_values']:,} values", "90%"
        quantile, sample = (text_of(row[name], ",.4g") for name in ("quantile", "pilot_quantile"))
        line = f"{head}, {row['tau']:g}-quantile {quantile}"
        if sample not in ("-", quantile):
            line += f" under the plan's smooth law ({sample} in the sample)"
        if "sparsity" in row:
            ends = f"({law}: {row['sparsity_low']:,.4g} .. {row['sparsity_high']:,.4g})"
            line += f", scale 1/f = {row['sparsity']:,.4g} {ends}"
        yield line


def plan_sheet(
    found: Plan, wanted: str | None, difference: float | None, response_rate: float | None, brief: bool
) -> Sheet:
    """Sheet of a plan; ``brief``: without the lines on single rows."""
    rows = found.rows
    chosen = "half_width_low" in rows[0]  # steps and start were chosen for the reader
    hidden = (*HIDDEN, *DESIGN) if chosen else HIDDEN
    first = list(rows[0])
    names = [name for name in first[: first.index(FIRST_MEASURE)] if name not in hidden]
    names = distinguishing_columns(names, rows, implied=True)
    in_units = any("length_in_units" in row for row in rows)
    methods = wanted is not None and any(row["n_with_method"] is not None for row in rows)
    columns: list[Shown] = [
        *([number("c", "c", 3), number("theta0", "theta0", 3)] if chosen else []),
        ("half width", half_width_text),
        number("length", "length", 4),
        *([number("length/unit", "length_in_units", 4)] if in_units else []),
        number("SE", "standard_error", 4),
        number("K", "relaxation_times_planned", 3),
        ("bias", bias_text),
        ("covers", lambda row: text_of(row["coverage_predicted"], ".2f")),
        ("verdict", lambda row: (row["arrival"] or "-").replace("_", " ")),
        ("method", lambda row: row["recommended"] or ("-" if row["arrival"] is None else "none")),
    ]
    if methods:
        columns.append(count_column(f"n for {wanted}", "n_with_method", "method_needed"))
    if wanted is not None:
        columns += [
            count_column("oracle's n", "n_needed", "arrival_needed"),
            ("oracle's epsilon", lambda row: text_of(row["epsilon_needed"], "g").replace("inf", "none")),
        ]
    ranges = {f"n for {wanted}": "n_with_method"} if methods else {}
    if difference is not None:
        name = f"n per group for {short(difference)}"
        columns.append(count_column(name, "n_per_group", "arrival_per_group"))
        ranges[name] = "n_per_group"
    ranges = ranges or {"half width": "half_width"}
    if response_rate is not None:
        ranges["invitations"] = "invitations"
    notes = [ORACLE] if any(row["length"] is not None for row in rows) else []
    told = [name for name in names if name not in ("n", "level")]
    of_rows = [text for text in found.cautions if OF_A_ROW.search(text)] if brief else []
    notes += [text for text in found.cautions if text not in of_rows]
    notes += user_lines(rows, told, response_rate, brief)
    if of_rows:
        notes.append(f"--verbose prints what to change in single rows: {len(of_rows)} cautions.")
    if wanted is not None and methods and not brief:
        notes += dict.fromkeys(answer(row, wanted, told, response_rate) for row in rows)
    use = count_text(row["recommended"] or "none" for row in rows)
    return Sheet(
        rows,
        list(map(setting, names or ["n"])),
        columns,
        FIRST_TO_GO if brief else (),
        heading=[f"Method to use in {len(rows)} rows: {use}. By arrival of the average:"] if brief else [],
        notes=notes,
        methods=list(verdict_lines(rows, ranges)) if brief else [],
        rank=lambda row: math.inf if (share := row["coverage_predicted"]) is None else share - row["level"],
        command="the same with --verbose",
    )


def is_long(sheet: Sheet) -> bool:
    """Whether to show only a line for each verdict and the worst rows: the whole takes over two windows."""
    console, rows = Console(), len(sheet.rows)
    lines = rows + lines_text(sheet.notes).count("\n") if console.is_terminal else 0
    return rows > most_rows() or (rows > 10 and lines > 2 * console.height)


OF_A_ROW = re.compile(r", n [\d,]+: ")
"""What a caution about a single row begins with, after the settings of the row."""
FIRST_TO_GO = ("SE", "length/unit", "length", "theta0", "c", "bias", "K", "oracle's epsilon", "oracle's n")
"""Columns that a narrow window leaves out where the worst rows are shown."""


def verdict_lines(rows: Sequence[Row], ranges: Mapping[str, str]) -> Iterator[Row]:
    """A line for each verdict on arrival: rows, methods, and ranges of columns by their headings."""
    for verdict in sorted({row["arrival"] for row in rows}, key=str):
        own = [row for row in rows if row["arrival"] == verdict]
        line = {"verdict": "-" if verdict is None else verdict.replace("_", " "), "rows": len(own)}
        line |= {"method": count_text(row["recommended"] or "none" for row in own)}
        for title, name in {"covers": "coverage_predicted", **ranges}.items():
            line[title] = span(row[name] for row in own)
        yield line


def count_text(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def user_lines(
    rows: list[Row], names: Sequence[str], response_rate: float | None, brief: bool
) -> Iterator[str]:
    alone = first_rows(rows, "tau")
    if response_rate is None and len(alone) == 1:
        return
    if not brief:
        lines = [", ".join([*settings_of(row, names), users_text(row, response_rate)]) for row in rows]
        yield from dict.fromkeys(lines)
    if len(alone) > 1:
        text = "Every quantile has users of its own"
        if len(alone) == len(rows):
            text += f", {sum(row['users'] for row in rows):,} in all"
            if response_rate is not None:
                text += f" ({sum(row['invitations'] for row in rows):,} invitations)"
            together = sum(row["epsilon_per_user"] or 0.0 for row in alone)
            answers = sum(row["answers_each"] for row in rows)
            text += f"; users who answer about every one would give {answers} answers each"
            text += f" and spend epsilon {together:g}" if together else ""
        yield f"{text}. --compare has protocols with one report for several quantiles."
    if response_rate is not None:
        yield "The invitations are enough if answering has nothing to do with the value."


def settings_of(row: Row, names: Sequence[str]) -> list[str]:
    return [f"{name} {short(row[name])}" for name in names if row.get(name) is not None]


def users_text(row: Row, response_rate: float | None) -> str:
    count = row["answers_each"]
    parts = [f"{row['users']:,} users", "1 answer each" if count == 1 else f"{count} answers each"]
    if row["epsilon_per_user"] is not None:
        parts.append(f"epsilon {row['epsilon_per_user']:g} a user")
    if row["invitations"] is not None:
        parts.append(f"{row['invitations']:,} invitations at a response rate of {response_rate:g}")
    return ", ".join(parts)


def answer(row: Row, wanted: str, names: Sequence[str], response_rate: float | None) -> str:
    settings = settings_of(row, [*dict.fromkeys(["epsilon", *names])])
    head = ", ".join([f"{wanted} at level {row['level']:g}", *settings])
    if row["n_with_method"] is None:
        text = f"{head}: no n at which a recommended method is as short is known."
        if row["n_needed"] is not None:
            text += f" The oracle's interval takes {row['n_needed']:,} answers."
        return text
    text = f"{head}: plan with {row['n_with_method']:,} answers and {row['method_needed']}"
    if row.get("n_with_method_low") is not None:
        low, high = row["n_with_method_low"], row["n_with_method_high"]
        over = "90% of resampled pilots" if row["pilot_values"] is not None else "the laws tried"
        text += f" ({low:,} to {high:,} over {over})"
    if response_rate is not None:
        text += f", {row['invitations_needed']:,} invitations"
    return f"{text}."


def first_rows(rows: list[Row], name: str) -> list[Row]:
    return list({row.get(name): row for row in reversed(rows)}.values())[::-1]


def text_of(value: float | None, form: str, missing: str = "-") -> str:
    return missing if value is None else f"{value:{form}}"


def half_width_text(row: Row) -> str:
    text = round_text(row["half_width"], 4)
    if row.get("half_width_low") is None:
        return text
    source = "laws" if row["pilot_values"] is None else "pilot"
    low, high = (round_text(row[f"half_width_{end}"], 3) for end in ("low", "high"))
    return f"{text} ({source}: {low} .. {high})"


def worst_text(row: Row) -> str:
    text = round_text(row["half_width"], 3)
    return text if row["half_width_low"] is None else f"{text} (from {round_text(row['half_width_low'], 3)})"


def bias_text(row: Row) -> str:
    if row["bias_start"] is None:
        return "-"
    bias = round(row["bias_start"] + (row["bias_steps"] or 0.0), 2)
    return f"{bias:+.2f} SE" if bias else "0.00 SE"


def count_column(title: str, name: str, remark: str) -> Shown:
    """Numbers of users, with the method or the verdict at them, but for ``arrived``."""

    def text(row: Row) -> str:
        words = "" if row[remark] in (None, "arrived") else f" ({row[remark].replace('_', ' ')})"
        return "-" if row[name] is None else f"{row[name]:,}{words}"

    return title, text


def replicate_lines(rows: Iterable[Row], target_mcse: float) -> Iterator[str]:
    for nominal in sorted({row["level"] for row in rows}):
        replicates = -(-nominal * (1 - nominal) // target_mcse**2)
        yield f"MCSE {target_mcse:g} of a coverage of {nominal:g}: {replicates:,.0f} replicates"


def check_sheet(found: Plan) -> Sheet:
    from ldpflow.practice.planning.plans import name_of

    rows = [{**row, "method": name_of(row)} for row in found.checked]
    settings = [name for name in rows[0] if name not in ("path", "replicates", "failures")]
    settings = settings[: settings.index("truth")]
    apart = {"method", *distinguishing_columns(settings, rows)}
    return Sheet(
        rows,
        [plain(name) for name in settings if name in apart],
        [
            ("coverage", coverage_text),
            ("", lambda row: row["judgement"]),
            number("length", "length_mean", 4),
            number("predicted SE", "predicted_se", 4),
            estimate("emp. SE", "empirical_se", "empirical_se_mcse"),
        ],
    )


def coverage_text(row: Row) -> str:
    name = "coverage_failures_as_misses"
    return f"{row[name]:.3f} [{row[name + '_low']:.3f}, {row[name + '_high']:.3f}]"


def comparison_sheet(found: Plan) -> Sheet:
    """The best designs with their main columns, for a terminal; the advice is printed before."""
    from ldpflow.practice.planning.plans import text_of_cautions

    rows = found.best_rows()
    shown, every = ({row["protocol"] for row in each} for each in (rows or found.rows, found.rows))
    whole = protocol_sheet(found, None)
    short = ("rounds", "bits", "half width", "coverage", "n for it", "ε for it", "liars shift")
    columns = [
        column for column in whole.results if column[0] in short or (not rows and column[0] == "level")
    ]
    others = {text_of_cautions(row) for row in found.rows if not row["best"]}
    notes = [text for text in found.cautions if text not in others]
    left = {"designs": len(every) - len(shown), "cautions": len(found.cautions) - len(notes)}
    counts = ", ".join(f"{name} {count}" for name, count in left.items() if count)
    legend = "Every number is that of the interval in its design, simulated. *: the design to take. Not shown"
    notes = [f"{legend}{f': {counts}' if counts else ''}, further columns (--verbose, --format csv).", *notes]
    order = ("liars shift", "bits", "rounds")
    return Sheet(rows or found.rows, whole.settings, columns, first_to_go=order, notes=notes)


def protocol_sheet(found: Plan, response: float | None) -> Sheet:
    rows = found.rows
    settings = list(map(plain, distinguishing_columns(("tau", "epsilon", "n", "level"), rows, implied=True)))
    columns: list[Shown] = [
        ("rounds", lambda row: f"{row['rounds']:,}"),
        number("bits", "bits", 3),
        ("reports", lambda row: str(row["messages"])),
        plain("needs"),
        ("users", lambda row: f"{row['users']:,}"),
        ("ε a user", lambda row: f"{row['epsilon']:g}"),
        ("interval", lambda row: row["interval"] or "-"),
        ("half width", worst_text) if "worst_law" in rows[0] else number("half width", "half_width", 3),
        (
            "coverage",
            lambda row: "-" if row["coverage"] is None else with_error(row["coverage"], row["coverage_mcse"]),
        ),
        ("level", lambda row: {"holds": "holds", "fails": "fails", None: "-"}.get(row["state"], "?")),
    ]
    if any(row["wanted"] is not None for row in rows):
        columns += [
            number("wanted", "wanted", 4),
            ("n for it", users_needed),
            ("ε for it", lambda row: text_of(row["epsilon_needed"], "g", "none")),
        ]
    if any(row["liars_shift"] is not None for row in rows):
        columns.append(number("liars shift", "liars_shift", 3))
    columns.append(("bytes kept", lambda row: text_of(row["state_bytes"], ",")))
    if "worst_law" in rows[0]:
        columns.append(plain("worst_law"))
    asked = "n counts the users who are asked, users those who answer about a quantile"
    if response is not None and response < 1.0:
        asked += f" (a share of {response:g}, if answering has nothing to do with the value)"
    notes = [LEGEND, asked, *found.cautions]
    return Sheet(rows, [*settings, ("protocol", protocol_text)], columns, notes=notes)


def protocol_text(row: Row) -> str:
    numbers = {"k": row["bins"], "T": row["rounds"] if row["protocol"] == "rounds" else None}
    shown = "".join(f" ({name} = {value})" for name, value in numbers.items() if value is not None)
    return f"{row['protocol']}{shown}{' *' if row['best'] else ''}"


def users_needed(row: Row) -> str:
    other = row["n_needed"] is None or row["interval_needed"] == row["interval"]
    return text_of(row["n_needed"], ",", "none") + ("" if other else f" ({row['interval_needed']})")


PILOT, GOAL = "A pilot's data, or public bounds", "What the plan is for"
COMPARISON, FILE = "Protocols side by side", "The study file of the design"
Pair = tuple[float, float] | None

FLAGS = {
    **dict.fromkeys(("n", "epsilon", "tau", "level"), (None, Axis, "X")),
    "pilot": (PILOT, str | None, "FILE"),
    "column": (PILOT, str | None, "NAME"),
    "count_column": (PILOT, str | None, "NAME"),
    "missing": (PILOT, str | None, "drop"),
    "missing_value": (PILOT, list[float] | None, "X"),
    "jitter": (PILOT, float | None, None),
    "transform": (PILOT, str | None, "SCALE"),
    "edges": (PILOT, Axis, "X"),
    "bounds": (PILOT, Pair, "LOW HIGH"),
    "length": (GOAL, float | None, None),
    "half_width": (GOAL, Axis, "X"),
    "response_rate": (GOAL, float | None, None),
    "difference": (GOAL, float | None, None),
    "power": (GOAL, float, None),
    "target_mcse": (GOAL, float | None, None),
    "compare": (COMPARISON, bool, None),
    "range": (COMPARISON, Pair, "L U"),
    "rounds_max": (COMPARISON, int | None, None),
    **dict.fromkeys(("scale_guess", "bits_max", "liars"), (COMPARISON, float | None, None)),
    **dict.fromkeys(("answer_below", "answer_above"), (COMPARISON, float | None, None)),
    **dict.fromkeys(("answers", "replicates"), (COMPARISON, int | None, None)),
    "output": (FILE, str | None, "FILE.toml"),
    "protocol": (FILE, str | None, "KIND"),
    "public": (FILE, bool, None),
    "unit": (FILE, str | None, "TEXT"),
    "force": (FILE, bool, None),
    "verbose": (None, bool, None),
    "check": (None, bool, None),
    "engine": (None, Engine, None),
    "format": (None, Format, None),
}
"""Panel of the help, type and placeholder of every flag."""

HELPS = {
    "half_width": "A unit may follow: 2s.",
    "verbose": "Table: all rows, columns and cautions, as the other formats have.",
    "target_mcse": "Monte Carlo SE of coverage wanted: replicates.",
    "output": "Write the design as a study file; one for each quantile if each has users of its own.",
    "protocol": "Design of a comparison to write; the best one by default.",
    "public": "Leave the law of the values out of the file: sweep cannot run it.",
    "unit": "Unit of the values, for the file.",
    "force": "Write over existing files.",
    "check": "Simulate 512 replicates, the recommended methods included.",
    "engine": "Where --check runs.",
    "format": "csv and json: one table, that of --check; latex needs booktabs.",
}
"""What the help of a flag says that no option of :class:`PlanOptions` does."""

DEFAULTS: dict[str, Any] = dict.fromkeys(("check", "verbose", "public", "force"), False)
DEFAULTS |= {"engine": Engine.auto, "format": Format.table}
WITH_UNIT = re.compile(r"([-+.\d_e]*\d)\s*(?!e[-+]?\d+$)([^\d\s._].*)", re.IGNORECASE)


def flag_parameters() -> Iterator[Parameter]:
    for name, (panel, kind, metavar) in FLAGS.items():
        option = PLAN_OPTIONS.get(name)
        text = f"{'' if option is None else option.metadata['help']} {HELPS.get(name, '')}".strip()
        default = DEFAULTS.get(name) if option is None else option.default
        yield flag_parameter(name, kind, default, text, metavar, panel=panel)


def plan(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY",
            help="A .toml file or the name of a bundled study; quickstart unless given.",
            autocompletion=complete_study,
        ),
    ] = None,
    **given: Any,
) -> None:
    """Predict interval lengths, or the number of users or the budget that a length takes (utility analysis).

    Lengths are those of the oracle, which knows the variance: other methods approach them as n grows. Where
    the path would still depend on its start after n users there is no length, the exit code is 1, and a line
    below the table says what to change. With --check the exit code is 0 only if the recommended method
    covers. With --compare every row is simulated, with or without it.

    Flags marked * replace the study's values and may be repeated.
    """
    from ldpflow.practice.planning import plan as make_plan
    from ldpflow.practice.planning.designs import check_new
    from ldpflow.study.entry import parse_number

    widths = given["half_width"] or []
    matches = [WITH_UNIT.fullmatch(text) for text in widths]
    units = list(dict.fromkeys(filter(None, [given["unit"], *(match[2] for match in matches if match)])))
    if len(units) > 1:
        raise InputError("unit", units, "one unit")
    given["half_width"] = [match[1] if match else text for match, text in zip(matches, widths, strict=True)]
    for name in ("protocol", "public", "unit", "force"):
        if given[name] and given["output"] is None:
            raise InputError(name, given[name], "nothing without `output`")
    several = len(given["tau"] or ()) > 1  # their files may have other names
    if given["output"] is not None:
        check_new(given["output"], given["force"] or several)  # before minutes of simulation
    options = {name: given[name] for name in PLAN_OPTIONS if given.get(name) not in (None, [])}
    axes = [name for name in ("tau", "epsilon", "n", "level", "half_width", "edges") if given[name]]
    options |= {name: [parse_number(text) for text in given[name]] for name in axes}
    own = given["pilot"] is not None or given["bounds"] is not None
    target_mcse, response_rate = given["target_mcse"], given["response_rate"]
    SweepOptions(target_mcse=target_mcse)  # refuses a target that is none
    found = make_plan(study if own else study or "quickstart", **options)
    form = given["format"]
    numbers_alone = form in (Format.csv, Format.json)
    for text in found.cautions if numbers_alone else ():
        typer.echo(text, err=True)
    sources = list(source_lines(found)) if own else []
    if given["compare"]:
        whole = form is not Format.table or given["verbose"]
        sheet = protocol_sheet(found, response_rate) if whole else comparison_sheet(found)
        replace(sheet, heading=[*sources, *found.advice]).show(form)
        write_design(found, given, units)
        return
    goal = {"length": given["length"], "half width": options.get("half_width", [None])[0]}
    wanted = next((f"{name} {value:g}" for name, value in goal.items() if value is not None), None)
    sheets = [plan_sheet(found, wanted, given["difference"], response_rate, brief) for brief in (False, True)]
    brief = form is Format.table and not given["verbose"] and is_long(sheets[0])
    sheet, more = sheets[brief], [] if target_mcse is None else replicate_lines(found.rows, target_mcse)
    sheet = replace(sheet, heading=[*sources, *sheet.heading], notes=[*sheet.notes, *more])
    if brief:
        sheet.show_worst()
    elif not (given["check"] and numbers_alone):
        sheet.show(form)
    write_design(found, given, units)
    if not given["check"]:
        raise typer.Exit(int(found.refused))
    largest = max(row["n"] for row in found.rows)
    if largest > 10**8:
        raise InputError("n", largest, "at most 1e8 with `check`")
    good = found.check(given["engine"].value)
    check_sheet(found).show(form)
    if not good:
        typer.echo("no recommended method is good at every row", err=True)
        raise typer.Exit(1)


first, *_ = signature(plan, eval_str=True).parameters.values()
set_parameters(plan, [first, *flag_parameters()])


def write_design(found: Plan, given: dict[str, Any], units: Sequence[str]) -> None:
    if given["output"] is not None:
        chosen = {name: given[name] for name in ("protocol", "public", "force")}
        files = found.write_design(given["output"], unit="".join(units) or None, **chosen)
        for file in files:
            typer.echo(f"wrote {file}", err=True)
        if len(files) > 1:
            typer.echo("every quantile asks users of its own: sweep and analyse take a file each", err=True)
