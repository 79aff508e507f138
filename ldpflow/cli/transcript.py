"""``ldpflow transcript``: what the users of a simulated replicate were asked and answered, as a file."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run


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
    from ldpflow.cli.privacy import whole
    from ldpflow.transcripts.stored import stored_transcript

    users = stored_transcript(run, path, replicate, output, whole(n, "n"))
    typer.echo(f"{output}: {users:,} reports of replicate {replicate}")
