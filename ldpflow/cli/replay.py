"""``ldpflow replay``: one replicate again, next to what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.summary import Run
from ldpflow.errors import LdpflowError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["replay"]

VALUES = ("estimate", "se", "lower", "upper", "covered", "status")


def keys_of_paths(ctx: typer.Context, incomplete: str) -> list[str]:
    """Keys of the run's paths with rows that begin so."""
    from ldpflow.store import RunStore

    try:
        keys = sorted(
            {f"p{key}" for dataset in RunStore(ctx.params["run"]).datasets() for key in dataset.path_keys()}
        )
    except (LdpflowError, KeyError, TypeError, OSError):
        return []
    return [key for key in keys if key.startswith(incomplete)]


def replay(
    run: Run,
    replicate: Annotated[int, typer.Option(min=0, help="Index of the replicate.")],
    path: Annotated[
        str | None,
        typer.Option(
            "--path",
            help="Key of the path, or its first digits. Without it a run of several paths lists them.",
            show_default=False,
            autocompletion=keys_of_paths,
        ),
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=0, help="Last replicate of several.", show_default="--replicate")
    ] = None,
) -> None:
    """Compute replicates again and compare them with the stored rows, bit by bit."""
    from ldpflow.engine import replay as compute

    computed, stored = compute(run, path and path.removeprefix("p"), replicate, last)
    if stored.num_rows == 0:
        typer.echo(f"{computed.num_rows:,} rows computed; nothing is stored to compare them with")
        return
    equal = print_comparison(computed, stored)
    typer.echo("equal, bit for bit" if equal else "DIFFERENT")
    if not equal:
        raise typer.Exit(1)


def print_comparison(computed: pa.Table, stored: pa.Table) -> bool:
    """Both tables side by side, a line per value; whether all bits are equal."""
    from ldpflow.cli.tables import plain, print_rows
    from ldpflow.store.schema import STATISTICS, cell_keys

    ours, theirs = computed.to_pylist(), stored.to_pylist()
    names = dict.fromkeys(("replicate", *cell_keys(computed.schema), "step", "coordinate"))
    varying = [
        name
        for name in names
        if name in computed.column_names and len({row[name] for row in ours + theirs}) > 1
    ]
    others = [name for name in computed.column_names if name not in {*names, *VALUES, *STATISTICS}]
    lines = []
    for mine, other in zip(ours, theirs, strict=False):
        for name in (*VALUES, *STATISTICS):
            if name in mine and (name not in STATISTICS or mine[name] is not None):
                same = bits(mine[name]) == bits(other[name])
                values = {"value": name, "computed": bits(mine[name]), "stored": bits(other[name])}
                lines.append({key: mine[key] for key in varying} | values | {"": "" if same else "DIFFERENT"})
        for name in others:
            if bits(mine[name]) != bits(other[name]):
                values = {"value": name, "computed": bits(mine[name]), "stored": bits(other[name])}
                lines.append({key: mine[key] for key in varying} | values | {"": "DIFFERENT"})
    print_rows([plain(name) for name in (*varying, "value", "computed", "stored", "")], lines)
    every = [[{k: bits(v) for k, v in row.items()} for row in rows] for rows in (ours, theirs)]
    return every[0] == every[1]


def bits(value: Any) -> str:
    """A value with nothing rounded; repr tells any two floats apart, and NaN equals itself."""
    return repr(value) if isinstance(value, float) else "-" if value is None else str(value)
