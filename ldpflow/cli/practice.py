"""``ldpflow analyse``: intervals from private reports that were really collected.

``ldpflow audit``: lower bounds of privacy parameters from simulated outputs.

``ldpflow privacy``: what a mechanism and a design promise, on one page.

``ldpflow transcript``: what the users of a simulated replicate were asked and answered, as a file.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.results import Format, Run
from ldpflow.errors import InputError, need

if TYPE_CHECKING:
    from ldpflow.components.mechanisms import Mechanism
    from ldpflow.practice.audit.distinguishing import Audit
    from ldpflow.practice.transcripts.result import Analysis


def analyse(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Transcript: Parquet, or CSV with a header.")],
    settings: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.toml",
            help="How the reports were collected.",
            show_default="the transcript's name with .toml, if it is there",
        ),
    ] = None,
    tau: Annotated[float | None, typer.Option(help="Level of the quantile.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="Mechanism on the users' devices.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget per report.")] = None,
    mu: Annotated[float | None, typer.Option(help="Budget per report under Gaussian noise.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Exponent of the steps c i^-gamma.")] = None,
    c: Annotated[float | None, typer.Option(help="Constant of the steps.")] = None,
    theta0: Annotated[
        list[float] | None, typer.Option(help="Start of the iterates; of a vector one for each coordinate.")
    ] = None,
    final_theta: Annotated[
        list[float] | None, typer.Option(help="theta after the last report; of a vector one for each.")
    ] = None,
    n: Annotated[
        str | None, typer.Option("--n", metavar="X", help="Users: the reports that the file must have.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Interval method; repeatable.", show_default="all"),
    ] = None,
    level: Annotated[
        list[float] | None, typer.Option(help="Nominal coverage; repeatable.", show_default="0.9")
    ] = None,
    origin: Annotated[
        float | None, typer.Option(help="Point around which sums are computed.", show_default="theta0")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of BB's multipliers.", show_default="0")] = None,
    form: Annotated[
        Format, typer.Option("--format", help="csv and json have full precision.")
    ] = Format.table,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write a page with figures too.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on any flag.")] = False,
) -> None:
    """Compute confidence intervals from collected private reports (a transcript).

    This is post-processing: it needs no raw data and adds no noise. Settings that the file's metadata has may
    be left out; a contradiction is an error.
    """
    from ldpflow.practice.transcripts.analysis import analyse as compute
    from ldpflow.practice.transcripts.collection import merged, read_settings

    given = {
        "problem": {"tau": tau},
        "mechanism": {"kind": mechanism, "epsilon": epsilon, "mu": mu},
        "algorithm": {
            "gamma": gamma,
            "c": c,
            "theta0": one_or_all(theta0),
            "final_theta": one_or_all(final_theta),
        },
        "n": whole(n, "n"),
        "method": [{"kind": kind} for kind in method] if method else None,
        "level": level or None,
        "origin": origin,
        "seed": seed,
    }
    if settings is None and os.path.lexists(f"{file}.toml"):
        settings = f"{file}.toml"
        typer.echo(f"settings: {settings}", err=True)
    tables = merged(without_nothing(given), read_settings(settings) if settings else {}, str(settings))
    found = compute(file, tables)
    {Format.table: print_table, Format.csv: print_csv, Format.json: print_json}[form](found)
    if html is not None:
        write_page(found, html)
    code = found.exit_code(strict)
    if code:
        raise typer.Exit(code)


def one_or_all(values: list[float] | None) -> float | list[float] | None:
    """A single number for a flag that was given once."""
    return values[0] if values and len(values) == 1 else values or None


def without_nothing(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, dict):
            inner = {k: v for k, v in value.items() if v is not None}
            if inner:
                found[name] = inner
        elif value is not None:
            found[name] = value
    return found


def print_table(analysis: Analysis) -> None:
    """A table of the intervals, the verdict, and the methods paragraph."""
    import textwrap

    from ldpflow.cli.tables import print_rows
    from ldpflow.practice.transcripts.result import method_label

    def shown(name: str, digits: int = 7) -> Any:
        return lambda row: "-" if row.get(name) is None else f"{row[name]:.{digits}g}"

    rows = analysis.asked
    columns: list[Any] = [("method", lambda row: method_label(row, rows))]
    if len({row["level"] for row in rows}) > 1:
        columns.append(("level", lambda row: f"{row['level']:g}"))
    if len(analysis.verdicts) > 1:
        columns.append(("estimated", lambda row: analysis.coordinate_name(row["coordinate"])))
    columns += [(name, shown(name)) for name in ("estimate", "lower", "upper")]
    columns += [
        ("SE", shown("se", 4)),
        ("K", shown("relaxation_times", 4)),
        ("lack of fit", shown("lack_of_fit", 3)),
        ("status", lambda row: row["status"]),
    ]
    print_rows(columns, rows)
    typer.echo(f"{analysis}\n")
    typer.echo(textwrap.fill(analysis.methods_paragraph(), 96))


def print_csv(analysis: Analysis) -> None:
    """The rows at full precision."""
    from ldpflow.cli.tables import write_csv
    from ldpflow.practice.transcripts.methods import columns_of

    write_csv(columns_of(analysis.asked), analysis.asked)


def print_json(analysis: Analysis) -> None:
    """Everything at full precision."""
    import json

    typer.echo(json.dumps(analysis.to_dict(), indent=2, allow_nan=False))


def write_page(analysis: Analysis, file: str) -> None:
    """The page."""

    need("report", "altair", "vl_convert")
    from ldpflow.report.analysis_page import analysis_html

    try:
        Path(file).write_text(analysis_html(analysis), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("html", file, "a file that can be written", f"{reason}.") from None


def audit(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Mechanism, algorithm, protocol, or all for the bundled ones."),
    ],
    epsilon: Epsilon = None,
    mu: Mu = None,
    settings: Settings = None,
    problem: Annotated[
        str, typer.Option(metavar="KIND", help="Problem whose gradients the mechanism randomises.")
    ] = "quantile",
    samples: Annotated[
        str | None,
        typer.Option(
            metavar="X",
            help="Simulated outputs per input, in each of two halves.",
            show_default="5e5, 1e5 of an algorithm",
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.")] = 0.999,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated outputs.")] = 1,
    form: Annotated[
        Format, typer.Option("--format", help="csv and json have full precision.")
    ] = Format.table,
) -> None:
    """Bound the privacy parameter of a mechanism, algorithm or protocol from below, by a simulated attack.

    The exit code is 1 if the bound exceeds the claim. Passing is no proof: a better attack may exist.
    """
    from ldpflow.practice.audit.bundled import audit as run
    from ldpflow.practice.audit.bundled import audit_bundled

    count = whole(samples, "samples")
    if name == "all":
        found = list(audit_bundled(count, confidence, seed))
    else:
        given = given_settings({"epsilon": epsilon, "mu": mu}, settings)
        found = [run(name, given, problem, count, confidence, seed)]
    {Format.table: print_audit_table, Format.csv: print_audit_csv, Format.json: print_audit_json}[form](found)
    if not all(each.passed for each in found):
        raise typer.Exit(1)


def print_audit_table(found: list[Audit]) -> None:
    """One row per audit."""
    from ldpflow.cli.tables import print_rows

    columns: list[Any] = [
        ("name", lambda row: row["name"]),
        ("claim", claimed),
        ("lower bound", lambda row: f"{row['bound']:.4f}"),
        ("frequencies", lambda row: f"{row['first']:.4g}, {row['second']:.4g}"),
        ("", lambda row: "" if row["passed"] else "EXCEEDED"),
    ]
    print_rows(columns, [each.to_dict() for each in found])
    for each in found:
        typer.echo(f"{each.name}: {each.test}; inputs {each.inputs}")
    first = found[0]
    typer.echo(f"bounds at confidence {first.confidence:g}; a bound below the claim proves nothing")


def claimed(row: dict[str, Any]) -> str:
    """The claim in words."""
    delta = f", delta = {row['delta']:g}" if row["delta"] else ""
    return f"{row['parameter']} = {row['claim']:g}{delta}"


def print_audit_csv(found: list[Audit]) -> None:
    """One line per audit."""
    import json

    from ldpflow.cli.tables import write_csv

    rows = [each.to_dict() | {"settings": json.dumps(each.settings)} for each in found]
    write_csv(list(rows[0]), rows)


def print_audit_json(found: list[Audit]) -> None:
    """Everything at full precision."""
    import json

    typer.echo(json.dumps([each.to_dict() for each in found], indent=2, allow_nan=False))


Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another setting of the mechanism; repeatable."),
]
MechanismName = Annotated[
    str, typer.Argument(metavar="MECHANISM", help="Kind of the mechanism; see ldpflow list.")
]
Epsilon = Annotated[float | None, typer.Option(help="Budget of one report, of eps-LDP mechanisms.")]
Mu = Annotated[float | None, typer.Option(help="Budget of one report, of Gaussian mechanisms.")]


class PageFormat(StrEnum):
    """Output formats of a page."""

    text = "text"
    json = "json"


def privacy(
    mechanism: MechanismName,
    epsilon: Epsilon = None,
    mu: Mu = None,
    settings: Settings = None,
    reports: Annotated[int, typer.Option(help="Number of linkable reports per user.")] = 1,
    response_rate: Annotated[
        float, typer.Option(help="Share of invited users who respond; hides nobody by itself.")
    ] = 1.0,
    secret_sample: Annotated[
        bool,
        typer.Option(
            "--secret-sample",
            help="Responders are a random set of fixed size; who they are and the order are secret.",
        ),
    ] = False,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="Reports arrive in a secret random order.")
    ] = False,
    users: Annotated[str | None, typer.Option(metavar="X", help="Number of shuffled reports.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of (epsilon, delta) guarantees.")] = 1e-6,
    form: Annotated[PageFormat, typer.Option("--format", help="text or json.")] = PageFormat.text,
) -> None:
    """Print a mechanism's privacy guarantee per report, per user and in a design, with sources.

    These are guarantees on paper: they protect people only where a vetted implementation runs.
    """
    import json

    from ldpflow.practice.privacy.page import Design, privacy_page

    chosen = chosen_mechanism(mechanism, {"epsilon": epsilon, "mu": mu}, settings)
    design = Design(reports, response_rate, secret_sample, shuffled, whole(users), delta)
    shown = {k: v for k, v in chosen.model_dump().items() if k != "kind" and v is not None}
    page = privacy_page(mechanism, shown, chosen.privacy(), design)
    if form is PageFormat.json:
        typer.echo(json.dumps(page.to_dict(), indent=2, allow_nan=False))
    else:
        typer.echo(page.text(), nl=False)


def whole(text: str | None, field: str = "users") -> int | None:
    """A count of users, which may be written 1e6."""
    from ldpflow.study.entry import parse_number

    if text is None:
        return None
    value = parse_number(text)
    if isinstance(value, str) or value != int(value) or value < 1:
        raise InputError(field, text, "a whole number >= 1")
    return int(value)


def given_settings(given: dict[str, float | None], settings: list[str] | None) -> dict[str, object]:
    """The settings of the command line, by name."""
    from ldpflow.study.entry import parse_number

    found: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError("set", text, "NAME=VALUE, for example clip=2")
        parts = [parse_number(part) for part in value.split(",")]
        found[name.strip()] = parts if len(parts) > 1 else parts[0]
    return found


def chosen_mechanism(kind: str, given: dict[str, float | None], settings: list[str] | None) -> Mechanism:
    """The mechanism with the settings of the command line."""
    from ldpflow.components.protocols import PROTOCOLS
    from ldpflow.study.entry import read_group
    from ldpflow.study.plugins import load_plugins

    load_plugins()
    table = {"kind": kind, **given_settings(given, settings)}
    if kind in PROTOCOLS:
        hint = (
            "All answers of a user to a protocol are eps-LDP together: see `ldpflow privacy "
            "randomized_response --epsilon E`, or deployed_response for users who do not always answer."
        )
        raise InputError("mechanism", kind, "the kind of a mechanism", hint)
    (entry,) = read_group("mechanism", table)
    found = entry.combinations()
    if len(found) != 1:
        raise InputError("mechanism", table, "one value for every setting")
    mechanism: Mechanism = found[0]
    return mechanism


def transcript(
    run: Run,
    path: Annotated[
        str, typer.Option("--path", help="Key of the path; ldpflow replay RUN --replicate 0 lists them.")
    ],
    replicate: Annotated[int, typer.Option(min=0, help="Index of the replicate.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="A .parquet file, or CSV.")],
    n: Annotated[
        str | None, typer.Option("--n", metavar="X", help="Users.", show_default="the path's largest n")
    ] = None,
) -> None:
    """Write the transcript of a simulated replicate, to try ldpflow analyse on.

    ldpflow analyse makes the rows of the run from it, bit for bit. The users are simulated.
    """
    from ldpflow.practice.transcripts.writing import stored_transcript

    users = stored_transcript(run, path, replicate, output, whole(n, "n"))
    typer.echo(f"{output}: {users:,} reports of replicate {replicate}")
