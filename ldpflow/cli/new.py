"""``ldpflow new`` and ``ldpflow check-plugin``: own components."""

from __future__ import annotations

from typing import Annotated

import typer


def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="problem, law, mechanism, algorithm or method.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its kind in study files, as in my_method.")],
    folder: Annotated[str, typer.Option("--folder", help="Where the files go.")] = ".",
) -> None:
    """Write a small working component and its test, to start from."""
    from ldpflow.testing.templates import write_component

    code, test = write_component(kind, name, folder)
    typer.echo(f"{code}\n{test}")
    typer.echo(
        f"test it:  python -m pytest {test}\n"
        f"check it: ldpflow check-plugin {code}\n"
        f"use it:   ldpflow sweep STUDY --plugin {code}, with {named(kind, name)} in the study file",
        err=True,
    )


def named(kind: str, name: str) -> str:
    """The lines of a study file that ask for a component."""
    table = {"method": "[[method]]", "law": "[problem]"}.get(kind, f"[{kind}]")
    setting = f'law = "{name}"' if kind == "law" else f'kind = "{name}"'
    return f"{table} {setting}"


def check_plugin(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A .py file, or the name of a module.")],
) -> None:
    """Check a plug-in: shapes, true value, unbiasedness, sensitivity, the same bits everywhere."""
    from ldpflow.testing import check_plugin as findings_of

    findings = findings_of(source)
    for finding in findings:
        typer.echo(str(finding))
    wrong = sum(not finding.passed for finding in findings)
    typer.echo(f"{len(findings)} checks, {wrong} wrong" if wrong else f"{len(findings)} checks, all is well")
    if wrong:
        raise typer.Exit(1)
