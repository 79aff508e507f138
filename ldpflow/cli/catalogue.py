"""Commands about components: ``list``, ``new`` and ``check-plugin``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ldpflow.cli.flags import flag, print_wrapped
from ldpflow.errors import InputError

TITLES = {
    "problem": "Problems",
    "law": "Data laws of plug-ins",
    "mechanism": "Mechanisms",
    "algorithm": "Algorithms",
    "protocol": "Protocols",
    "method": "Interval methods",
}


def catalogue(
    what: Annotated[
        str | None,
        typer.Argument(metavar="WHAT", help="studies, methods, another group, a kind (BB) or a study."),
    ] = None,
) -> None:
    """List components and bundled studies, or only WHAT.

    A component of a plug-in is listed with its file or package.
    """
    from ldpflow.settings import closest
    from ldpflow.study import allowed, bundled_studies
    from ldpflow.study.plugins import REGISTRIES, load_plugins, origin

    load_plugins()
    kinds = [kind for group in TITLES for kind in REGISTRIES[group]]
    studies = bundled_studies()
    known = ["studies", *studies, *TITLES, *(f"{group}s" for group in TITLES), *kinds]
    if what is not None and what not in known:
        hint = closest(what, known) or "ldpflow list prints all of them."
        raise InputError("what", what, "studies, a group, a kind or a bundled study", hint)
    for group, title in TITLES.items():
        whole = what in (None, group, f"{group}s")
        registry = {kind: cls for kind, cls in REGISTRIES[group].items() if whole or kind == what}
        if not registry:
            if what in (group, f"{group}s"):
                typer.echo(f"{title}: none")
            continue
        typer.secho(f"{title}  [{group}]", bold=True)
        for kind, cls in registry.items():
            source = origin(cls)
            suffix = "" if source == "ldpflow" else f"   (from {source})"
            summary = (cls.__doc__ or "").strip().partition("\n")[0].replace("``", "")
            print_wrapped(f"  {kind}: {summary}{suffix}", sys.stdout)
            for name, field in cls.model_fields.items():
                if name != "kind":
                    default = "optional" if field.default is None else f"{field.default!r}"
                    default = "required" if field.is_required() else default
                    print_wrapped(f"      {name} = {default}   ({allowed(cls, name)})", sys.stdout)
        typer.echo("")
    shown = {name: file for name, file in studies.items() if what in (None, "studies", name)}
    if shown:
        typer.secho("Bundled studies", bold=True)
    for name, file in shown.items():
        comment = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        print_wrapped(f"  {name}: {comment}", sys.stdout)


def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="problem, law, mechanism, algorithm or method.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in study files, as in my_method.")],
    folder: Annotated[str, flag("Where the files go.", name="--folder")] = ".",
) -> None:
    """Write a small working component and its test, to start from."""
    from ldpflow.testing.writing import write_component

    code, test = write_component(kind, name, folder)
    table = {"method": "[[method]]", "law": "[problem]"}.get(kind, f"[{kind}]")
    setting = f'{"law" if kind == "law" else "kind"} = "{name}"'
    typer.echo(f"{code}\n{test}")
    typer.echo(
        f"test it:  python -m pytest {test}\n"
        f"check it: ldpflow check-plugin {code}\n"
        f"use it:   ldpflow sweep STUDY --plugin {code}, with {table} {setting} in the study file",
        err=True,
    )


def check_plugin(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A .py file, or the name of a module.")],
) -> None:
    """Check a plug-in: shapes, true value, unbiasedness, sensitivity, equal bits in any lane and process."""
    from ldpflow.testing import check_plugin as findings_of

    findings = findings_of(source)
    for finding in findings:
        typer.echo(str(finding))
    failed = sum(not finding.passed for finding in findings)
    typer.echo(f"{len(findings)} checks, {failed} failed" if failed else f"{len(findings)} checks passed")
    if failed:
        raise typer.Exit(1)
