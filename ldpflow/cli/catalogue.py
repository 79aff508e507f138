"""``ldpflow list``: what there is to put into a study."""

from __future__ import annotations

import typer

__all__ = ["catalogue"]

TITLES = {
    "problem": "Problems",
    "law": "Data laws of plug-ins",
    "mechanism": "Mechanisms",
    "algorithm": "Algorithms",
    "protocol": "Protocols",
    "method": "Interval methods",
}


def catalogue() -> None:
    """List problems, mechanisms, algorithms, interval methods and bundled studies.

    Behind each component that does not come with ldpflow stands the file or package that it comes from.
    """
    from ldpflow.study import allowed, bundled_studies
    from ldpflow.study.plugins import REGISTRIES, load_plugins, origin

    load_plugins()
    for group, title in TITLES.items():
        registry = REGISTRIES[group]
        if not registry:
            continue
        typer.secho(f"{title}  [{group}]", bold=True)
        for kind, cls in registry.items():
            source = origin(cls)
            suffix = "" if source == "ldpflow" else f"   (from {source})"
            typer.echo(f"  {kind}: {first_line(cls.__doc__)}{suffix}")
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
