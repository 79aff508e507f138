"""The argument that names a study, and its completion.

``ldpflow list``: what there is to put into a study.

``ldpflow new`` and ``ldpflow check-plugin``: own components.

``ldpflow replay``: one replicate again, next to what is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ldpflow.cli.results import Run
from ldpflow.errors import LdpflowError

if TYPE_CHECKING:
    import pyarrow as pa


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


def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="problem, law, mechanism, algorithm or method.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its kind in study files, as in my_method.")],
    folder: Annotated[str, typer.Option("--folder", help="Where the files go.")] = ".",
) -> None:
    """Write a small working component and its test, to start from."""
    from ldpflow.testing.running import write_component

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


VALUES = ("estimate", "se", "lower", "upper", "covered", "status")


def keys_of_paths(ctx: typer.Context, incomplete: str) -> list[str]:
    """Keys of the run's paths with rows that begin so."""
    from ldpflow.store.run_store import RunStore

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
    from ldpflow.engine.replay import replay as compute

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
