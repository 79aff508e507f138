"""``ldpflow audit``: lower bounds of privacy parameters from simulated outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.privacy import Epsilon, Mu, Settings, given_settings, whole
from ldpflow.cli.summary import Format

if TYPE_CHECKING:
    from ldpflow.audit.distinguishing import Audit


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
    from ldpflow.audit.bundled import audit as run
    from ldpflow.audit.bundled import audit_bundled

    count = whole(samples, "samples")
    if name == "all":
        found = list(audit_bundled(count, confidence, seed))
    else:
        given = given_settings({"epsilon": epsilon, "mu": mu}, settings)
        found = [run(name, given, problem, count, confidence, seed)]
    {Format.table: print_table, Format.csv: print_csv, Format.json: print_json}[form](found)
    if not all(each.passed for each in found):
        raise typer.Exit(1)


def print_table(found: list[Audit]) -> None:
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


def print_csv(found: list[Audit]) -> None:
    """One line per audit."""
    import json

    from ldpflow.cli.tables import write_csv

    rows = [each.to_dict() | {"settings": json.dumps(each.settings)} for each in found]
    write_csv(list(rows[0]), rows)


def print_json(found: list[Audit]) -> None:
    """Everything at full precision."""
    import json

    typer.echo(json.dumps([each.to_dict() for each in found], indent=2, allow_nan=False))
