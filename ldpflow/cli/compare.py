"""``ldpflow compare``: cells of a run against each other, paired by replicate."""

from __future__ import annotations

from typing import Annotated

import typer

from ldpflow.cli.summary import Run, read_summary

__all__ = ["compare"]


def compare(
    run: Run,
    by: Annotated[
        str,
        typer.Option(help="What differs: method, mechanism, algorithm, or one setting of theirs."),
    ] = "method",
    baseline: Annotated[
        str | None, typer.Option(help="Value to compare with.", show_default="the first")
    ] = None,
) -> None:
    """Compare methods on the same paths, or mechanisms, budgets and step sizes on the same users.

    Replicates are paired: the coverage difference has McNemar's standard error, the ratio of mean
    lengths one by the delta method.
    """
    from ldpflow.cli.tables import plain, print_rows, telling, with_error
    from ldpflow.results import stored_cells
    from ldpflow.results.comparison import comparisons
    from ldpflow.results.summary import stored_paths
    from ldpflow.store import RunStore

    read_summary(run)  # says what is wrong where nothing can be read
    store = RunStore(run)
    found = comparisons(stored_cells(store), stored_paths(store.replicates), by, baseline)
    rows = [{**c.shared, **c.differs, "vs": c.baseline, **vars(c.result)} for c in found]
    shared = telling([n for n in dict.fromkeys(n for c in found for n in c.shared)], rows)
    differing = telling(list(found[0].differs), rows)
    print_rows(
        [
            *map(plain, shared),
            *map(plain, differing),
            plain("vs"),
            (
                "coverage difference",
                lambda r: with_error(r["coverage_difference"], r["coverage_difference_mcse"]),
            ),
            ("length ratio", lambda r: with_error(r["length_ratio"], r["length_ratio_mcse"])),
            ("only this", lambda r: str(r["only_this"])),
            ("only vs", lambda r: str(r["only_baseline"])),
            plain("pairs"),
        ],
        rows,
    )
