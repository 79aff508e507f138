"""Explanations of the coverage of each cell, in numbers and in sentences.

For a path that does not arrive, an explanation compares the predicted with the measured bias of the average.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ldpflow.columns import Column, round_text, with_error
from ldpflow.columns import cautions as declared_cautions
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.problems.transform import slope
from ldpflow.results.arrival import Arrival, predict_simulators
from ldpflow.results.columns import CellRows, group_keys
from ldpflow.results.decomposition import BY_CHANCE, EFFECTS, TINY, Decomposition, decompose
from ldpflow.results.measures import has_exploded
from ldpflow.results.summary import stored_cells, stored_paths
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.dataset import Damaged
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import declared_columns

FACTOR = 2.0  # largest ratio of predicted and measured bias that agree
SMALL = 0.5  # largest bias (SE) at which the verdict `steps_too_large` is about the spread
NO_ORACLE = "There is no oracle: no finite closed form of its variance is known."
AGAINST_STEPS = (
    "another centre, such as TR if it holds its level here, or smaller steps if ldpflow plan predicts that "
    "the path still arrives"
)


def explain(
    store: RunStore,
    summary: pa.Table,
    damaged: Damaged = "refuse",
    pieces: Iterable[tuple[pa.Table, list[CellRows]]] | None = None,
) -> pa.Table:
    """Explain the coverage of every row of a summary as a sum of effects, in numbers and in sentences.

    Coverage is the level plus all effects but ``rest_effect``. The rest is the sum of ``joint``, ``limits``
    and the single effects that are not clear. The metadata ``note`` counts main causes and clear effects, and
    says how many effects chance would name. ``pieces`` are the stored cells, by default read from ``store``.
    """
    rows = summary.to_pylist()
    columns = declared_columns(summary.schema).values()
    paths = stored_paths(store.replicates, damaged=damaged)
    wanted = {
        cell_identity(row, group_keys(summary.schema)): (at, row, arrival)
        for at, (row, arrival) in enumerate(zip(rows, predicted_biases(rows, paths), strict=True))
    }
    found: list[dict[str, Any]] = [{} for _ in rows]
    for keys, cells in pieces or stored_cells(store, damaged=damaged):
        for key, cell in zip(keys.to_pylist(), cells, strict=True):
            if cell_identity(key, keys.column_names) not in wanted:
                continue
            at, row, arrival = wanted[cell_identity(key, keys.column_names)]
            coverage = decompose(cell, row["level"])
            source = None if arrival is None else arrival.source()
            lost = lost_words(coverage, row)
            sentences = [
                coverage.sentence(source, row["failures"], lost),
                "" if arrival is None else arrival.sentence(coverage.leading()[0] != "none"),
                *cautions(row, columns),
                failures(row),
                "" if row.get("oracle_length") else NO_ORACLE,
                extremes(row),
                looks(row),
            ]
            found[at] = {
                **coverage.effect_columns(),
                "clear_effects": ", ".join(term.name for term in coverage.terms),
                **{name: row[name] for name in (*COVERAGE, *COUNTS)},
                "cause": lost or (coverage.main_words(source) if coverage.parts else None),
                "cause_class": "failed" if lost else coverage.cause_class() if coverage.parts else None,
                "explanation": " ".join(filter(None, sentences)),
            }
    table = summary.select(summary.column_names[: summary.column_names.index("truth")])
    for name, kind in COLUMNS.items():
        table = table.append_column(name, pa.array([row.get(name) for row in found], kind))
    return with_note(table)


def with_note(table: pa.Table) -> pa.Table:
    """Add the ``note`` of :func:`explain`, counted over the rows of this table."""
    rows = table.to_pylist()
    # The effect of variability is negative wherever lengths vary, so chance alone does not name it.
    tested = {*EFFECTS[:-1]} - {"variability"}
    named = sum(len(tested.intersection((row["clear_effects"] or "").split(", "))) for row in rows)
    looked = sum((row[f"{name}_effect_mcse"] or 0.0) > TINY for row in rows for name in tested)
    notes = [f"Main causes of {len(rows):,} cells: {count_causes(rows)}."] if len(rows) > 1 else []
    if looked:
        notes.append(
            f"Each effect is judged by itself: {named:,} of {looked:,} are named. If all were 0, chance "
            f"alone would name up to about {round(BY_CHANCE * looked):,}. Variability is not counted: it is "
            "negative wherever lengths vary."
        )
    return table.replace_schema_metadata({"note": " ".join(notes)})


def count_causes(rows: Iterable[Mapping[str, Any]]) -> str:
    """Count the cells of each method by the class of their main cause, the most frequent class first."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row["method"], Counter())[row.get("cause_class") or "unknown"] += 1
    found = []
    for method, own in counts.items():
        classes = ", ".join(f"{count:,} {name}" for name, count in own.most_common())
        found.append(f"{method}: {classes}")
    return "; ".join(found)


COVERAGE = ("coverage", "coverage_mcse", "coverage_failures_as_misses", "coverage_failures_as_misses_mcse")
COUNTS = ("failures", "replicates")
COLUMNS = {
    **{f"{name}_effect{end}": pa.float64() for name in EFFECTS for end in ("", "_mcse")},
    **dict.fromkeys(COVERAGE, pa.float64()),
    **dict.fromkeys(COUNTS, pa.int64()),
    **dict.fromkeys(("clear_effects", "cause", "cause_class", "explanation"), pa.string()),
}
SHORT = (
    "level",
    *(f"{name}_effect{end}" for name in EFFECTS[:-1] for end in ("", "_mcse")),
    *(*COVERAGE, "level_state", "cause"),
)


def lost_words(coverage: Decomposition, row: Mapping[str, Any]) -> str:
    """Share of failed replicates in words if failures are the main cause of a low coverage, else "".

    Two conditions must hold. The coverage with failures as misses is more than two MCSE below the level. And
    failures lower the coverage by more than one of two amounts: the gap between the level and the coverage of
    the finished replicates, or the largest clear effect with the sign of this gap. Without such an effect the
    second amount is two MCSE if the gap is clear, else 0.
    """
    misses, noise = row[COVERAGE[2]], 2 * (row[COVERAGE[3]] or 0.0)
    finished = row["level"] if row["coverage"] is None else row["coverage"]
    kind, term = coverage.leading()
    effect = -term.effect if term else noise if kind == "left" else 0.0
    low = row["level"] - misses > noise
    if row["failures"] and low and finished - misses > min(effect, row["level"] - finished):
        return f"{round_text(100 * row['failures'] / row['replicates'], 2)}% failed"
    return ""


def cell_identity(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(sorted((name, row[name]) for name in names if row.get(name) is not None))


def cautions(row: Mapping[str, Any], declared: Iterable[Column]) -> list[str]:
    """Warnings from the diagnostics of a method's intervals, with advice.

    For a method that is not loaded, the diagnostics are among ``declared``, the columns of the summary.
    """
    method = INTERVAL_METHODS.get(row["method"])
    return declared_cautions(declared if method is None else method.diagnostics, row)


def failures(row: Mapping[str, Any]) -> str:
    if not row["failures"]:
        return ""
    covers = with_error(*(row[name] for name in COVERAGE[2:]))
    return (
        f"{row['failures']:,} of {row['replicates']:,} replicates have no interval. If they count as "
        f"misses, the coverage is {covers} MCSE."
    )


def extremes(row: Mapping[str, Any]) -> str:
    if not has_exploded(row):
        return ""
    return (
        f"Lengths differ by orders of magnitude: their mean {row['length_mean']:.3g} is "
        f"{row['length_mean'] / row['length_median']:.3g} times their median. Some paths explode and stay "
        "finite, so that their replicates count as finished. Ignore the means, standard errors and relative "
        "lengths of this cell."
    )


def looks(row: Mapping[str, Any]) -> str:
    if (row.get("looks") or 0) < 2 or row.get("coverage_all_n") is None:
        return ""
    every, error = row["coverage_all_n"], row["coverage_all_n_mcse"]
    found = (
        f"In {every:.3f} ± {error:.3f} of the replicates the intervals cover at all {row['looks']:.0f} n "
        "up to this one."
    )
    if row.get("coverage_at_stop") is None:
        return found
    at, error = row["coverage_at_stop"], row["coverage_at_stop_mcse"] or 0.0
    return (
        f"{found} {row['stopped_share']:.0%} of the replicates reach the target length, half of these by "
        f"n = {row['stop_n_median']:,.0f}. When they reach it, {at:.3f} ± {error:.3f} of them cover."
    )


@dataclass(frozen=True)
class PredictedBias:
    arrival: Arrival
    row: Mapping[str, Any]

    @property
    def measured(self) -> float:
        return float(self.row["bias"]) / self.arrival.standard_error

    def source(self) -> str | None:
        """The larger part of the predicted bias: ``start`` or ``steps``.

        None if predicted and measured bias differ in sign or by more than a factor of 2.
        """
        predicted = self.arrival.bias
        if predicted * self.measured <= 0 or not 1 / FACTOR <= predicted / self.measured <= FACTOR:
            return None
        return "start" if abs(self.arrival.bias_start) >= abs(self.arrival.bias_steps) else "steps"

    def sentence(self, gap: bool = True) -> str:
        """A sentence with advice on a path that does not arrive, or "".

        Its biases are in empirical standard errors, as in the sum of effects. If the spread alone is too
        large, there is a sentence only if coverage and level differ (``gap``).
        """
        found = self.arrival
        spread = found.verdict == "steps_too_large" and abs(found.bias) <= SMALL
        if not found.refused or (spread and not gap):
            return ""
        words = found.verdict.replace("_", " ")
        if spread:
            return (
                "Steps too large for the average: its predicted standard error is "
                f"{found.sd_ratio:.2f} times that of the oracle. Take smaller steps, or a larger n."
            )
        remedy = "a larger n"
        if abs(found.bias_start) > abs(found.bias_steps) and found.bias_start * self.measured > 0:
            remedy += ", or a start nearer to the true value"
        if found.verdict == "steps_too_large":
            words += " for the average"
            remedy = AGAINST_STEPS
        k = f"{found.relaxation_times:,.{1 if found.relaxation_times < 100 else 0}f}"
        scale = found.standard_error / self.row["empirical_se"]
        start, steps, measured = (
            scale * bias for bias in (found.bias_start, found.bias_steps, self.measured)
        )
        return (
            f"{words.capitalize()}: {k} relaxation times. The predicted bias of the average is {start:+z.2f} "
            f"(start) and {steps:+z.2f} (steps) empirical SE, measured {measured:+z.2f}. Take {remedy}."
        )


def predicted_biases(
    rows: Sequence[Mapping[str, Any]], paths: Mapping[str, Simulator[Any, Any]]
) -> list[PredictedBias | None]:
    """Predicted bias of each row of a summary. None for a row without a prediction."""
    known = dict.fromkeys(
        (row["path"], row["n"]) for row in rows if row["path"] in paths and is_around_average(row["method"])
    )
    found = dict(zip(known, predict_simulators([(paths[path], n) for path, n in known]), strict=True))
    result: list[PredictedBias | None] = []
    for row in rows:
        arrivals = found.get((row["path"], row["n"])) if is_around_average(row["method"]) else None
        if arrivals is None or row["bias"] is None or not row["empirical_se"]:
            result.append(None)
            continue
        arrival, path = arrivals[row["coordinate"]], paths[row["path"]]
        scale = path.parts()["problem"].own_scale()
        if scale is not None:
            error = arrival.standard_error * float(slope(scale, path.truth()[row["coordinate"]]))
            arrival = replace(arrival, standard_error=error)  # in the unit of rows
        result.append(PredictedBias(arrival, row))
    return result


def is_around_average(method: str) -> bool:
    """Whether the class of a method says that its intervals are around the average. False if not loaded."""
    kind = INTERVAL_METHODS.get(method)
    return kind is not None and kind.around_average
