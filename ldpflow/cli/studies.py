"""The argument that names a study, and its completion."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["StudyName"]


def bundled(incomplete: str) -> list[str]:
    """Bundled studies whose names begin so."""
    from ldpflow.study import bundled_studies

    return [name for name in bundled_studies() if name.startswith(incomplete)]


StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="A .toml file or the name of a bundled study.", autocompletion=bundled
    ),
]
