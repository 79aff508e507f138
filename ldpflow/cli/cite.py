"""``ldpflow cite``: references of a run, and a paragraph about it, for a paper."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run
from ldpflow.errors import InputError

__all__ = ["cite"]


def cite(
    run: Run,
    text: Annotated[
        bool, typer.Option("--text", help="A paragraph for a methods section, in the place of BibTeX.")
    ] = False,
) -> None:
    """Print BibTeX of the methods that a run uses and of ldpflow."""
    from ldpflow.results.methods_text import study_paragraph
    from ldpflow.results.references import bibtex, unreferenced
    from ldpflow.run import open_run
    from ldpflow.study.toml import parsed

    opened = open_run(run)
    written = opened.store.read_study()
    if written is None:
        raise InputError("run", run, "a run with a study.toml")
    study = parsed(written, "run", opened.store.full("study.toml"))
    if text:
        typer.echo(study_paragraph(study, opened.summary(), opened.provenance))
        return
    typer.echo(bibtex(study), nl=False)
    for kind in unreferenced(study):
        typer.echo(f"no reference is known of {kind}, a component of a plug-in", err=True)
