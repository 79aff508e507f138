"""``ldpflow tune``: the step sizes and block lengths of the best interval."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ldpflow.cli.studies import StudyName
from ldpflow.cli.sweep import Axis, Engine
from ldpflow.errors import InputError

__all__ = ["tune"]

GAMMA = (0.51, 0.55, 0.6, 0.7, 0.8)
C = (0.25, 0.5, 1.0, 2.0, 4.0)
BETA = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)


NOption = Annotated[str | None, typer.Option("--n", metavar="X", help="Users.")]
Epsilon = Annotated[str | None, typer.Option("--epsilon", metavar="X", help="Privacy budget.")]
Tau = Annotated[str | None, typer.Option("--tau", metavar="X", help="Level of the quantile.")]
Level = Annotated[str | None, typer.Option("--level", metavar="X", help="Nominal coverage.")]
Gamma = Annotated[
    Axis, typer.Option("--gamma", metavar="X", show_default=str(GAMMA), help="Values to try. *")
]
COption = Annotated[Axis, typer.Option("--c", metavar="X", show_default=str(C), help="Values to try. *")]
Beta = Annotated[Axis, typer.Option("--beta", metavar="X", show_default=str(BETA), help="Values to try. *")]
Tolerance = Annotated[float, typer.Option(help="Coverage within this of nominal.")]
Confirm = Annotated[int, typer.Option(help="Replicates on a fresh seed.")]
Seed = Annotated[str | None, typer.Option(metavar="X", help="Seed of the search.")]
Out = Annotated[str, typer.Option(help="Run directories of search and confirmation.")]
EngineOption = Annotated[
    Engine, typer.Option(help="auto: threads of this process, or Ray for work of minutes.")
]
Address = Annotated[str | None, typer.Option(help="Ray cluster to join.")]
NumCpus = Annotated[int | None, typer.Option(min=1, help="Cores for a local Ray.", show_default="all")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def tune(
    study: StudyName = "quickstart",
    n: NOption = None,
    epsilon: Epsilon = None,
    tau: Tau = None,
    level: Level = None,
    gamma: Gamma = None,
    c: COption = None,
    beta: Beta = None,
    tolerance: Tolerance = 0.01,
    confirm: Confirm = 4096,
    seed: Seed = None,
    out: Out = ("runs/tune"),
    engine: EngineOption = Engine.auto,
    address: Address = None,
    num_cpus: NumCpus = None,
    quiet: Quiet = False,
) -> None:
    """Search gamma, c and beta for the shortest interval whose coverage is near nominal.

    Successive halving on simulations of one problem, mechanism and n; the winner is confirmed on a
    fresh seed, next to the default of Dette and Graw. Flags marked * may be repeated.
    """
    from ldpflow.cli.progress import reporter
    from ldpflow.cli.tables import rounded, with_error
    from ldpflow.planning import tune as search
    from ldpflow.results.arena import HOLDS, UNDECIDED
    from ldpflow.study import load_study

    flags: dict[str, Any] = {"n": n, "epsilon": epsilon, "tau": tau, "level": level, "seed": seed}
    chosen = load_study(study).replace(flags)
    axes = {
        "gamma": candidates("--gamma", gamma, GAMMA),
        "c": candidates("--c", c, C),
        "beta": candidates("--beta", beta, BETA),
    }
    # Checked as a sweep would check them.
    chosen.replace({**{name: list(axes[name]) for name in ("gamma", "c")}, "method": ["BB"]}).replace(
        {"beta": list(axes["beta"])}
    )

    def rung(replicates: int, count: int, best: tuple[float, float, float]) -> None:
        if not quiet:
            typer.echo(
                f"{replicates:,} replicates, {count} candidates: best gamma {best[0]:g}, "
                f"c {best[1]:g}, beta {best[2]:g}"
            )

    with reporter(quiet) as report:
        found = search(
            chosen,
            out,
            **axes,
            tolerance=tolerance,
            confirm=confirm,
            engine=engine.value,
            address=address,
            num_cpus=num_cpus,
            on_event=report,
            on_rung=rung,
        )
    for name, row in (("winner", found.confirmed), ("default", found.default)):
        typer.echo(
            f"{name}: gamma {row['gamma']:g}, c {row['c']:g}, beta {row['beta']:g}: coverage "
            f"{covered(row)} at level {row['level']:g}, length "
            f"{with_error(row['length_mean'], row['length_mcse'])} "
            f"({row['length_relative']:.3f} of the oracle's), bias {rounded(row['bias'], 2)}, "
            f"{row['replicates']:,} replicates, seed {chosen.seed + 1}"
        )
    paired = found.comparison
    typer.echo(
        "winner against default on the same users: coverage "
        f"{with_error(paired.coverage_difference, paired.coverage_difference_mcse)}, length ratio "
        f"{with_error(paired.length_ratio, paired.length_ratio_mcse)}"
    )
    if found.state != HOLDS or not found.within:
        few = f"{UNDECIDED} whether the winner covers at least the level less {tolerance:g}: raise --confirm"
        none = f"no candidate is confirmed within {tolerance:g} of the level"
        typer.echo(few if found.state == UNDECIDED else none, err=True)
        raise typer.Exit(1)


def covered(row: dict[str, Any]) -> str:
    """Coverage, failures as misses, and how many intervals are undefined."""
    from ldpflow.cli.tables import with_error

    value, error = (row[f"coverage_failures_as_misses{end}"] for end in ("", "_mcse"))
    lost = f" ({row['failures']:,} undefined, as misses)" if row["failures"] else ""
    return with_error(value, error) + lost


def candidates(flag: str, given: list[str] | None, default: tuple[float, ...]) -> tuple[float, ...]:
    """The values that were typed, or the default ones."""
    if not given:
        return default
    try:
        return tuple(dict.fromkeys(float(value) for value in given))
    except ValueError:
        raise InputError(flag, given, "numbers") from None
