"""Command ``plan``: predict lengths, budgets and numbers of users, and whether paths arrive."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.flags import Axis, Format, complete_study, flag_parameter, set_parameters
from ldpflow.cli.tables import Sheet, Shown, estimate, most_rows, number, plain, setting
from ldpflow.columns import distinguishing_columns, round_text, short, with_error
from ldpflow.errors import InputError
from ldpflow.options import PLAN_OPTIONS, Engine

if TYPE_CHECKING:
    from ldpflow.practice.planning import Plan


Row = dict[str, Any]

HIDDEN = (
    "path", "quantile", "sparsity", "pilot", "pilot_values", "pilot_quantile", "users", "answers_each",
    "epsilon_per_user",
)  # fmt: skip
DESIGN = ("c", "gamma", "theta0")

ORACLE = (
    "Lengths and SE are those of the oracle, which knows the true variance. Intervals that estimate it "
    "differ: BB and BM are mostly shorter and cover less, SN and TR are longer (--check simulates them)."
)


LEGEND = "All numbers are simulated, for the interval of each design. *: the recommended design."


def source_lines(found: Plan) -> Iterator[str]:
    first = {row["tau"]: row for row in reversed(found.rows)}  # first row of each quantile
    for row in reversed(first.values()):
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
    """Sheet of a plan. With ``brief`` it has no cautions about single rows."""
    rows = found.rows
    chosen = "half_width_low" in rows[0]  # the plan has chosen steps and start
    hidden = (*HIDDEN, *DESIGN) if chosen else HIDDEN
    first = list(rows[0])
    names = [name for name in first[: first.index("standard_error")] if name not in hidden]
    names = distinguishing_columns(names, rows, implied=True)
    columns: list[Shown] = [
        *([number("c", "c", 3), number("theta0", "theta0", 3)] if chosen else []),
        ("half width", half_width_text),
        number("length", "length", 4),
        number("SE", "standard_error", 4),
        number("K", "relaxation_times_planned", 3),
        ("bias", bias_text),
        ("covers", lambda row: text_of(row["coverage_predicted"], ".2f")),
        ("verdict", lambda row: (row["arrival"] or "-").replace("_", " ")),
        ("method", lambda row: row["recommended"] or ("-" if row["arrival"] is None else "none")),
    ]
    methods = wanted is not None and any(row["n_with_method"] is not None for row in rows)
    asked = response_rate is not None
    counts = [
        (methods, f"n for {wanted}", "n_with_method", "method_needed"),
        (wanted is not None, "oracle's n", "n_needed", "arrival_needed"),
        (difference is not None, f"n per group for {short(difference)}", "n_per_group", "arrival_per_group"),
        (asked, "invitations", "invitations", ""),
        (asked and methods, f"invitations for {wanted}", "invitations_needed", ""),
    ]
    columns += [count_column(*each) for shown, *each in counts if shown]
    if wanted is not None:
        columns.append(
            ("oracle's epsilon", lambda row: text_of(row["epsilon_needed"], "g").replace("inf", "none"))
        )
    several = len({row.get("tau") for row in rows} - {None}) > 1
    if several or asked:
        columns += [
            number("answers each", "answers_each", 3),
            number("epsilon a user", "epsilon_per_user", 4),
        ]
    notes = [ORACLE] if any(row["length"] is not None for row in rows) else []
    of_rows = [text for text in found.cautions if OF_A_ROW.search(text)] if brief else []
    notes += [text for text in found.cautions if text not in of_rows]
    if several:
        notes.append(asked_in_all(rows))
    if asked:
        notes.append("The invitations are enough if answering has nothing to do with the value.")
    if of_rows:
        notes.append(f"--verbose prints what to change in single rows: {len(of_rows)} cautions.")
    use = count_text(row["recommended"] or "none" for row in rows)
    verdicts = count_text((row["arrival"] or "unknown").replace("_", " ") for row in rows)
    return Sheet(
        rows,
        list(map(setting, names or ["n"])),
        columns,
        FIRST_TO_GO if brief else (),
        heading=[f"Method to use in {len(rows)} rows: {use}. Arrival: {verdicts}."] if brief else [],
        notes=notes,
        rank=lambda row: math.inf if (share := row["coverage_predicted"]) is None else share - row["level"],
        command="the same with --verbose",
    )


OF_A_ROW = re.compile(r", n [\d,]+: ")
"""End of the settings of the row with which a caution about a single row begins."""
FIRST_TO_GO = (
    "answers each", "epsilon a user", "SE", "length", "theta0", "c", "bias", "K", "oracle's epsilon",
    "oracle's n",
)  # fmt: skip
"""Columns that a narrow window leaves out of a long table."""


def asked_in_all(rows: list[Row]) -> str:
    text = "Every quantile has users of its own"
    if len({row.get("tau") for row in rows}) == len(rows):
        text += f", {sum(row['users'] for row in rows):,} in all"
        if rows[0]["invitations"] is not None:
            text += f" ({sum(row['invitations'] for row in rows):,} invitations)"
    return f"{text}. For a pilot or a study, --compare has designs with one report for several quantiles."


def count_text(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def text_of(value: float | None, form: str, missing: str = "-") -> str:
    return missing if value is None else f"{value:{form}}"


def half_width_text(row: Row) -> str:
    text = round_text(row["half_width"], 4)
    if row.get("half_width_low") is None:
        return text
    source = "laws" if row["pilot_values"] is None else "pilot"
    low, high = (round_text(row[f"half_width_{end}"], 3) for end in ("low", "high"))
    return f"{text} ({source}: {low} .. {high})"


def bias_text(row: Row) -> str:
    if row["bias_start"] is None:
        return "-"
    bias = round(row["bias_start"] + (row["bias_steps"] or 0.0), 2)
    return f"{bias:+.2f} SE" if bias else "0.00 SE"


def count_column(title: str, name: str, remark: str) -> Shown:
    """Column of numbers of users. In brackets: the method, or a verdict other than ``arrived``."""

    def text(row: Row) -> str:
        words = "" if row.get(remark) in (None, "arrived") else f" ({row[remark].replace('_', ' ')})"
        return "-" if row[name] is None else f"{row[name]:,}{words}"

    return title, text


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
            estimate("emp. SE", "empirical_se", "empirical_se_mcse"),
        ],
    )


def coverage_text(row: Row) -> str:
    name = "coverage_failures_as_misses"
    return f"{row[name]:.3f} [{row[name + '_low']:.3f}, {row[name + '_high']:.3f}]"


def comparison_sheet(found: Plan, response: float | None, brief: bool) -> Sheet:
    """Sheet of a comparison. With ``brief`` it has the best designs alone."""
    from ldpflow.practice.planning.plans import text_of_cautions

    rows = (brief and found.best_rows()) or found.rows
    settings = list(map(plain, distinguishing_columns(("tau", "epsilon", "n", "level"), rows, implied=True)))
    wanted = any(row["wanted"] is not None for row in rows)
    liars = any(row["liars_shift"] is not None for row in rows)
    columns: list[Shown] = [
        ("rounds", lambda row: f"{row['rounds']:,}"),
        number("bits", "bits", 3),
        number("half width", "half_width", 3),
        (
            "coverage",
            lambda row: "-" if row["coverage"] is None else with_error(row["coverage"], row["coverage_mcse"]),
        ),
        ("level", lambda row: {"holds": "holds", "fails": "fails", None: "-"}.get(row["state"], "?")),
    ]
    if wanted:
        columns.append(("n for it", users_needed))
        columns.append(("ε for it", lambda row: text_of(row["epsilon_needed"], "g", "none")))
    if liars:
        columns.append(number("liars shift", "liars_shift", 3))
    notes = found.cautions
    if brief:
        others = {text_of_cautions(row) for row in found.rows if not row["best"]}
        notes = [text for text in notes if text not in others]
    left = {"rows": len(found.rows) - len(rows), "cautions": len(found.cautions) - len(notes)}
    hidden = [f"{name} {count} (--verbose)" for name, count in left.items() if count]
    hidden.append("further columns (--format csv)")
    legend = [f"{LEGEND} Not shown: {', '.join(hidden)}."]
    if response is not None and response < 1.0:
        legend.append("The response rate is correct if answering does not depend on the value.")
    order = ("level", "liars shift", "bits", "rounds")
    return Sheet(rows, [*settings, ("protocol", protocol_text)], columns, order, notes=[*legend, *notes])


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
    "half_width": (GOAL, Axis, "X"),
    "response_rate": (GOAL, float | None, None),
    "difference": (GOAL, float | None, None),
    "power": (GOAL, float, None),
    "compare": (COMPARISON, bool, None),
    "range": (COMPARISON, Pair, "L U"),
    **dict.fromkeys(("liars", "answer_below", "answer_above"), (COMPARISON, float | None, None)),
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
"""For every flag: its panel in the help, its type and its placeholder."""

HELPS = {
    "verbose": "Print all rows and cautions, as other formats do.",
    "output": "Write the design as a study file, or one file for each quantile that has users of its own.",
    "protocol": "Design of a comparison to write. Default: the best one.",
    "public": "Leave the law of the values out of the file. sweep cannot run such a file.",
    "unit": "Unit of the values, for the file.",
    "force": "Write over existing files.",
    "check": "Simulate 512 replicates, the recommended methods included.",
    "engine": "Where --check runs.",
    "format": "csv and json have one table: with --check, that of the check. latex needs booktabs.",
}
"""Help of flags, printed after the help of the option in :class:`PlanOptions`."""

DEFAULTS: dict[str, Any] = dict.fromkeys(("check", "verbose", "public", "force"), False)
DEFAULTS |= {"engine": Engine.auto, "format": Format.table}


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

    Lengths are those of the oracle, which knows the variance. Lengths of BB and BM approach them as n grows.
    If the path still depends on its start after n users, the row has no length, a line below the table says
    what to change, and the exit code is 1.

    With --check the exit code is 0 if a recommended method covers in every row, else 1. --compare simulates
    every row, with and without --check.

    Flags marked * replace values of the study and may be repeated.
    """
    from ldpflow.practice.planning import plan as make_plan
    from ldpflow.practice.planning.designs import check_new
    from ldpflow.study.entry import parse_number

    for name in ("protocol", "public", "unit", "force"):
        if given[name] and given["output"] is None:
            raise InputError(name, given[name], "needs `output`")
    several = len(given["tau"] or ()) > 1  # files of several quantiles have names of their own
    if given["output"] is not None:
        check_new(given["output"], given["force"] or several)  # before minutes of simulation
    options = {name: given[name] for name in PLAN_OPTIONS if given.get(name) not in (None, [])}
    axes = [name for name in ("tau", "epsilon", "n", "level", "half_width", "edges") if given[name]]
    options |= {name: [parse_number(text) for text in given[name]] for name in axes}
    own = given["pilot"] is not None or given["bounds"] is not None
    response_rate = given["response_rate"]
    found = make_plan(study if own else study or "quickstart", **options)
    form = given["format"]
    numbers_alone = form in (Format.csv, Format.json)
    for text in found.cautions if numbers_alone else ():
        typer.echo(text, err=True)
    sources = list(source_lines(found)) if own else []
    if given["compare"]:
        sheet = comparison_sheet(found, response_rate, form is Format.table and not given["verbose"])
        replace(sheet, heading=[*sources, *found.advice]).show(form)
        write_design(found, given)
        return
    wanted = f"half width {options['half_width'][0]:g}" if given["half_width"] else None
    brief = form is Format.table and not given["verbose"] and len(found.rows) > most_rows()
    sheet = plan_sheet(found, wanted, given["difference"], response_rate, brief)
    sheet = replace(sheet, heading=[*sources, *sheet.heading])
    if brief:
        sheet.show_worst()
    elif not (given["check"] and numbers_alone):
        sheet.show(form)
    write_design(found, given)
    if not given["check"]:
        raise typer.Exit(int(found.refused))
    largest = max(row["n"] for row in found.rows)
    if largest > 10**8:
        raise InputError("n", largest, "at most 1e8 with `check`")
    good = found.check(given["engine"].value)
    check_sheet(found).show(form)
    if not good:
        typer.echo("no recommended method covers in every row", err=True)
        raise typer.Exit(1)


first, *_ = signature(plan, eval_str=True).parameters.values()
set_parameters(plan, [first, *flag_parameters()])


def write_design(found: Plan, given: dict[str, Any]) -> None:
    if given["output"] is not None:
        chosen = {name: given[name] for name in ("protocol", "public", "unit", "force")}
        for file in found.write_design(given["output"], **chosen):
            typer.echo(f"wrote {file}", err=True)
