"""Commands about components: ``list``, ``new`` and ``check-plugin``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ldpflow.cli.flags import flag, print_wrapped
from ldpflow.errors import InputError


def catalogue(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT", help="studies, problems, laws, mechanisms, algorithms, protocols or methods."
        ),
    ] = None,
) -> None:
    """List components and bundled studies, or only WHAT.

    A component of a plug-in is listed with its file or package.
    """
    from ldpflow.settings import nearest
    from ldpflow.study import allowed, bundled_studies
    from ldpflow.study.plugins import REGISTRIES, load_plugins, origin

    load_plugins()
    known = ["studies", *(f"{group}s" for group in REGISTRIES)]
    if what not in (None, *known):
        raise InputError("what", what, "a group of components, or studies", nearest(what, known))
    for group, registry in REGISTRIES.items():
        if what != f"{group}s" and (what is not None or not registry):
            continue
        title = f"{group.capitalize()}s" + " of plug-ins" * (group == "law")
        typer.secho(f"{title}  [{group}]" if registry else f"{title}: none", bold=True)
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
    if what not in (None, "studies"):
        return
    typer.secho("Bundled studies", bold=True)
    for name, file in bundled_studies().items():
        comment = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        print_wrapped(f"  {name}: {comment}", sys.stdout)


def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="problem, law, mechanism, algorithm or method.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the component in study files.")],
    folder: Annotated[str, flag("Folder for the files.", name="--folder")] = ".",
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
    """Check the components of a plug-in: shapes, true value, bias, sensitivity, equal bits in any lane."""
    from ldpflow.testing import check_plugin as findings_of

    findings = findings_of(source)
    for finding in findings:
        typer.echo(str(finding))
    failed = sum(not finding.passed for finding in findings)
    typer.echo(f"{len(findings)} checks, {failed} failed" if failed else f"{len(findings)} checks passed")
    if failed:
        raise typer.Exit(1)
