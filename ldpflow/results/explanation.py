"""Explanations of coverage, cell by cell, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ldpflow.results import stored_cells
from ldpflow.results.arrival import compared
from ldpflow.results.decomposition import BY_CHANCE, Decomposition, decompose
from ldpflow.results.diagnosis import cautions
from ldpflow.results.extremes import exploded
from ldpflow.results.measures import one_dominates
from ldpflow.results.summary import stored_paths
from ldpflow.simulators.simulator import Simulator
from ldpflow.store import RunStore
from ldpflow.store.schema import declared_columns

__all__ = ["Explanation", "explain", "explained"]


@dataclass(frozen=True)
class Explanation:
    """The explanation of one cell and coordinate.

    Parameters
    ----------
    row : dict
        The cell's row of the summary.
    sentences : list of str
        What makes coverage differ from nominal, the cautions of the method's own fit, and what looking
        before the end does.
    named, looked : int
        Effects that are named, and those that were compared with two of their MCSE.
    """

    row: dict[str, Any]
    sentences: list[str]
    named: int = 0
    looked: int = 0


def explain(store: RunStore, summary: pa.Table) -> list[Explanation]:
    """Explain every row of a summary.

    The coverage as the level and the effects of bias, mean length, variability of length, the shape of the
    estimates' distribution and the dependence of error and length (see
    :mod:`ldpflow.results.decomposition`). For averages the predicted bias stands beside the measured one,
    where a path does not arrive.
    """
    rows = summary.to_pylist()
    columns = declared_columns(summary.schema).values()
    paths = stored_paths(store.replicates, damaged="refuse")
    beside = compared(rows, paths)
    why: dict[tuple[Any, ...], Decomposition] = {}
    dominant: dict[tuple[Any, ...], bool] = {}
    names: tuple[str, ...] = ()
    for keys, cells in stored_cells(store, damaged="refuse"):
        names = tuple(keys.column_names)
        wanted = {tuple(row.get(name) for name in names) for row in rows}
        for key, cell in zip(keys.to_pylist(), cells, strict=True):
            if tuple(key.values()) in wanted:
                why[place(key)] = decompose(cell, key["level"])
                dominant[place(key)] = one_dominates(cell)
    vectors = {row["path"] for row in rows if row["coordinate"] > 0}
    found = []
    for row, arrival in zip(rows, beside, strict=True):
        coverage = why[place({name: row.get(name) for name in names})]
        sentences = [coverage.sentence(None if arrival is None else arrival.source())]
        if arrival is not None and arrival.sentence():
            sentences.append(arrival.sentence())
        warned = cautions(row, columns, row["path"] in vectors)
        oracle = without_oracle(paths[row["path"]]) if row.get("oracle_length") is None else []
        sure = dominance(row, dominant[place({name: row.get(name) for name in names})])
        more = (*warned, *failures(row), *oracle, *sure, *extremes(row), *looks(row))
        found.append(Explanation(row, [*sentences, *more], len(coverage.terms), coverage.looked))
    return found


def chance_note(found: Sequence[Explanation]) -> str:
    """Sentence on the effects that chance alone would name in so many cells; empty without any."""
    looked = sum(one.looked for one in found)
    if not looked:
        return ""
    named = sum(one.named for one in found)
    return (
        f"Each effect is judged by itself: {named:,} of {looked:,} are named, because they exceed two MCSE. "
        f"If all were 0, chance alone would name about {round(BY_CHANCE * looked):,}."
    )


def explained(store: RunStore, summary: pa.Table) -> pa.Table:
    """The settings of a summary's rows and their explanation as a text; metadata: :func:`chance_note`."""
    found = explain(store, summary)
    text = [" ".join(one.sentences) for one in found]
    settings = summary.column_names[: summary.column_names.index("truth")]
    table = summary.select(settings).append_column("explanation", pa.array(text, pa.string()))
    return table.replace_schema_metadata({"note": chance_note(found)})


def place(key: dict[str, Any]) -> tuple[Any, ...]:
    """The settings that identify a cell, without nulls."""
    return tuple(sorted((name, value) for name, value in key.items() if value is not None))


def failures(row: Mapping[str, Any]) -> list[str]:
    """Sentences about replicates without an interval: the coverage above is of the others."""
    if not row["failures"]:
        return []
    misses = row["coverage_failures_as_misses"]
    return [
        f"{row['failures']:,} of {row['replicates']:,} replicates have no interval; with those as misses it "
        f"covers {misses:.3f}."
    ]


def without_oracle(path: Simulator[Any, Any]) -> list[str]:
    """A sentence on why there is no oracle to compare lengths with."""
    law = path.limit_law()
    if law is None:
        return ["There is no oracle: no limit law of the estimate is known here."]
    if any(math.isinf(value) for value in law.variances):
        return ["There is no oracle: the variance of a step is infinite."]
    if all(map(math.isfinite, law.variances)):
        return []  # a summary of an earlier version
    problem: Any = path.parts().get("problem")
    unknown = problem is not None and any(math.isnan(v) for row in problem.curvature() for v in row)
    what = f"curvature of {problem.kind} at the true value" if unknown else "variance of a step"
    return [f"There is no oracle: the {what} has no closed form here."]


def dominance(row: Mapping[str, Any], one: bool) -> list[str]:
    """A sentence where a single replicate decides how right the standard errors look."""
    value, error = row.get("relative_error_model_se"), row.get("relative_error_model_se_mcse")
    if not one or value is None or error is None:
        return []
    return [
        "One replicate has more than half of the estimates' variance or of the squared standard errors: the "
        f"relative error of the standard errors, {value:+.3g} ± {error:.2g} MCSE, rests on it."
    ]


def extremes(row: Mapping[str, Any]) -> list[str]:
    """A sentence about paths that have grown beyond all use though they are finite."""
    if not exploded(row):
        return []
    return [
        f"Some intervals are of another order of magnitude: the mean length {row['length_mean']:.3g} is "
        f"{row['length_mean'] / row['length_median']:.3g} times their median. Paths that grow and stay "
        "finite count as finished: means, standard errors and relative lengths of this cell say nothing."
    ]


def looks(row: Mapping[str, Any]) -> list[str]:
    """Sentences about looking before the end, of a run that is monitored."""
    if (row.get("looks") or 0) < 2 or row.get("coverage_all_n") is None:
        return []
    every, error = row["coverage_all_n"], row["coverage_all_n_mcse"]
    found = [
        f"Looked at {row['looks']:.0f} times on the way, it covers every time in {every:.3f} ± {error:.3f} "
        "of the replicates."
    ]
    if row.get("coverage_at_stop") is not None:
        at, error = row["coverage_at_stop"], row["coverage_at_stop_mcse"] or 0.0
        found.append(
            f"{row['stopped_share']:.0%} reach the target length, half of them by n = "
            f"{row['stop_n_median']:,.0f}; it covers there in {at:.3f} ± {error:.3f} of them."
        )
    return found
