"""``ldpflow cite``: references of a run, and a paragraph about it, for a paper."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run
from ldpflow.errors import InputError


def cite(
    run: Run,
    text: Annotated[
        bool, typer.Option("--text", help="A paragraph for a methods section, in the place of BibTeX.")
    ] = False,
) -> None:
    """Print BibTeX of the methods that a run uses and of ldpflow."""
    from ldpflow.results.design import run_design
    from ldpflow.results.references import bibtex, study_paragraph, unreferenced
    from ldpflow.run import open_run

    opened = open_run(run)
    if opened.store.read_study() is None:
        raise InputError("run", run, "a run with a study.toml")
    with opened.store.named_errors():
        design = run_design(opened.store, opened.summary(), opened.trajectories(), opened.provenance)
    if text:
        typer.echo(study_paragraph(design, opened.summary(), opened.provenance))
        return
    typer.echo(bibtex(design.study), nl=False)
    for kind in unreferenced(design.study):
        typer.echo(f"no reference is known of {kind}, a component of a plug-in: it has no `cites`", err=True)
