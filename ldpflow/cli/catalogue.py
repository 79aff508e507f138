"""``ldpflow list``: what there is to put into a study."""

from __future__ import annotations

import typer

__all__ = ["catalogue"]

TITLES = {
    "problem": "Problems",
    "mechanism": "Mechanisms",
    "algorithm": "Algorithms",
    "protocol": "Protocols",
    "method": "Interval methods",
}


def catalogue() -> None:
    """List problems, mechanisms, algorithms, interval methods and bundled studies."""
    from ldpflow.study import GROUPS, allowed, bundled_studies

    for group, registry in GROUPS.items():
        if not registry:
            continue
        typer.secho(f"{TITLES[group]}  [{group}]", bold=True)
        for kind, cls in registry.items():
            typer.echo(f"  {kind}: {first_line(cls.__doc__)}")
            for name, field in cls.model_fields.items():
                if name != "kind":
                    default = "optional" if field.default is None else f"{field.default!r}"
                    typer.echo(f"      {name} = {default}   ({allowed(cls, name)})")
        typer.echo("")
    typer.secho("Bundled studies", bold=True)
    for name, file in bundled_studies().items():
        comment = file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        typer.echo(f"  {name}: {comment}")


def first_line(documentation: str | None) -> str:
    """First line of a docstring."""
    return (documentation or "").strip().partition("\n")[0].replace("``", "")
