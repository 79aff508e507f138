"""``ldpflow plan``: what n, epsilon and number of replicates a study takes."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.studies import StudyName
from ldpflow.cli.sweep import Axis, Engine
from ldpflow.errors import InputError

__all__ = ["plan"]


def plan(
    study: StudyName = "quickstart",
    n: Annotated[Axis, typer.Option("--n", metavar="X", help="Users. *")] = None,
    epsilon: Annotated[Axis, typer.Option("--epsilon", metavar="X", help="Privacy budget. *")] = None,
    tau: Annotated[Axis, typer.Option("--tau", metavar="X", help="Level of the quantile. *")] = None,
    level: Annotated[Axis, typer.Option("--level", metavar="X", help="Nominal coverage. *")] = None,
    length: Annotated[
        float | None, typer.Option(help="Length wanted: which n at epsilon, which epsilon at n.")
    ] = None,
    target_mcse: Annotated[
        float | None, typer.Option(help="MCSE of coverage wanted: how many replicates.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run a small sweep and compare it with the predictions.")
    ] = False,
    engine: Annotated[Engine, typer.Option(help="Where --check runs.")] = Engine.ray,
) -> None:
    """Predict lengths from the asymptotic variance, and what reaching a target takes.

    Predictions are those of the oracle: other methods approach them as n grows. Flags marked *
    replace the study's values and may be repeated.
    """
    from ldpflow.cli.tables import plain, print_rows, rounded, short, telling, with_error
    from ldpflow.engine import Precision
    from ldpflow.engine.precision import stopped_coverage
    from ldpflow.planning import check_predictions, predict
    from ldpflow.study import load_study

    flags = {"n": n, "epsilon": epsilon, "tau": tau, "level": level}
    chosen = load_study(study).replace(flags)
    precision = None if target_mcse is None else Precision(target_mcse)
    rows = [
        {**p.columns, **{k: v for k, v in vars(p).items() if k not in ("simulator", "columns")}}
        for p in predict(chosen, length)
    ]
    names = [name for name in rows[0] if name in (*rows[0], "n", "level", "coordinate")]
    measures = ("standard_error", "length", "n_needed", "epsilon_needed")
    settings = telling([name for name in names if name not in measures], rows)
    columns = [
        *map(plain, settings or ["n"]),
        ("SE", lambda row: rounded(row["standard_error"], 4)),
        ("length", lambda row: rounded(row["length"], 4)),
    ]
    if length is not None:
        columns += [
            (f"n for {short(length)}", lambda row: f"{row['n_needed']:,}"),
            (f"epsilon for {short(length)}", lambda row: reachable(row["epsilon_needed"])),
        ]
    print_rows(columns, rows)
    if precision is not None and target_mcse is not None:
        for nominal in chosen.level:
            fixed = -(-nominal * (1 - nominal) // target_mcse**2)
            mean, _, taken = stopped_coverage(nominal, precision)
            typer.echo(
                f"MCSE {target_mcse:g} of a coverage of {nominal:g}: {fixed:,.0f} replicates; "
                f"sweep --target-mcse takes {taken:,.0f} on average, bias {mean - nominal:+.5f}"
            )
    if not check:
        return
    if max(chosen.n) > 10**8:
        raise InputError("--n", max(chosen.n), "at most 1e8 with --check")
    found = check_predictions(chosen, engine.value)
    first = found[0]
    parameters = [name for name in first if name != "path"]
    parameters = parameters[: parameters.index("truth")]
    print_rows(
        [
            *map(plain, telling(parameters, found)),
            ("predicted SE", lambda row: rounded(row["predicted_se"], 4)),
            ("emp. SE", lambda row: with_error(row["empirical_se"], row["empirical_se_mcse"])),
            ("predicted length", lambda row: rounded(row["predicted_length"], 4)),
            ("length", lambda row: with_error(row["length_mean"], row["length_mcse"])),
            ("coverage", lambda row: with_error(row["coverage"], row["coverage_mcse"])),
        ],
        found,
    )


def reachable(epsilon: float | None) -> str:
    """A budget; none where no budget is enough."""
    if epsilon is None:
        return "-"
    return "none" if epsilon == float("inf") else f"{epsilon:g}"
