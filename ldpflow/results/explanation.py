"""Explanations of coverage, cell by cell, in sentences.

For paths that do not arrive they compare predicted and measured bias of the average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ldpflow.columns import Column
from ldpflow.columns import cautions as declared_cautions
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.results.arrival import Arrival, predict_simulators
from ldpflow.results.decomposition import BY_CHANCE, decompose
from ldpflow.results.measures import has_exploded, one_dominates
from ldpflow.results.summary import stored_cells, stored_paths
from ldpflow.simulators.approach import limit_law
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_keys, declared_columns

FACTOR = 2.0  # predicted and measured bias agree if one is at most this times the other
SAME = 1e-6  # of the empirical standard error: sums taken in another order differ by less
BIAS, TIMES = 0.1, 25.0  # standard errors and relaxation times of a run that arrives
MOST_USERS = 100.0  # times the users that a study may be asked to have


@dataclass(frozen=True)
class Explanation:
    """Sentences on one cell and coordinate, with its row of the summary.

    ``named`` of ``looked`` effects exceed two of their MCSE.
    """

    row: dict[str, Any]
    sentences: list[str]
    named: int = 0
    looked: int = 0


def explain(store: RunStore, summary: pa.Table) -> list[Explanation]:
    """Explain every row of a summary.

    The coverage as the level and the effects of bias, mean length, variability of length, the shape of the
    estimates' distribution and the dependence of error and length (see
    :mod:`ldpflow.results.decomposition`). For averages of paths that do not arrive,
    predicted and measured bias are compared.
    """
    rows = summary.to_pylist()
    columns = declared_columns(summary.schema).values()
    paths = stored_paths(store.replicates, damaged="refuse")
    vectors = {row["path"] for row in rows if row["coordinate"] > 0}
    wanted = {
        cell_identity(row, ("path", *cell_keys(summary.schema), "coordinate")): (at, row, arrival)
        for at, (row, arrival) in enumerate(zip(rows, predicted_biases(rows, paths), strict=True))
    }
    found: dict[int, Explanation] = {}
    for keys, cells in stored_cells(store, damaged="refuse"):
        for key, cell in zip(keys.to_pylist(), cells, strict=True):
            if cell_identity(key, keys.column_names) not in wanted:
                continue
            at, row, arrival = wanted[cell_identity(key, keys.column_names)]
            coverage = decompose(cell, row["level"])
            oracle = without_oracle(paths[row["path"]]) if row.get("oracle_length") is None else []
            sentences = [
                coverage.sentence(None if arrival is None else arrival.source()),
                "" if arrival is None else arrival.sentence(),
                *cautions(row, columns, row["path"] in vectors),
                *failure_sentences(row),
                *oracle,
                *dominance(row, one_dominates(cell)),
                *extremes(row),
                *looks(row),
            ]
            found[at] = Explanation(row, [*filter(None, sentences)], len(coverage.terms), coverage.looked)
    return [found[at] for at in range(len(rows))]


def cell_identity(row: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    """The settings that identify a cell, without nulls."""
    return tuple(sorted((name, row[name]) for name in names if row.get(name) is not None))


def chance_note(found: Sequence[Explanation]) -> str:
    """Sentence on the effects that chance alone would name in so many cells."""
    looked = sum(one.looked for one in found)
    if not looked:
        return ""
    named = sum(one.named for one in found)
    return (
        f"Each effect is judged by itself: {named:,} of {looked:,} are named, because they exceed two MCSE. "
        f"If all were 0, chance alone would name about {round(BY_CHANCE * looked):,}."
    )


def explanation_table(store: RunStore, summary: pa.Table) -> pa.Table:
    """The settings of a summary's rows and their explanation as a text."""
    found = explain(store, summary)
    text = [" ".join(one.sentences) for one in found]
    settings = summary.column_names[: summary.column_names.index("truth")]
    table = summary.select(settings).append_column("explanation", pa.array(text, pa.string()))
    return table.replace_schema_metadata({"note": chance_note(found)})


def cautions(row: Mapping[str, Any], columns: Iterable[Column], vector: bool = False) -> list[str]:
    """Sentences on diagnostics of a method's intervals that warn of something, with advice.

    ``columns`` are those declared in the summary, for a method that is not installed; ``vector``: theta has
    several coordinates.
    """
    method = INTERVAL_METHODS.get(row["method"])
    return declared_cautions(columns, row) if method is None else method.cautions(row, vector)


def failure_sentences(row: Mapping[str, Any]) -> list[str]:
    if not row["failures"]:
        return []
    misses = row["coverage_failures_as_misses"]
    return [
        f"{row['failures']:,} of {row['replicates']:,} replicates have no interval; with those as misses it "
        f"covers {misses:.3f}."
    ]


def without_oracle(path: Simulator[Any, Any]) -> list[str]:
    """A sentence on why there is no oracle to compare lengths with."""
    law = limit_law(path)
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
    if not has_exploded(row):
        return []
    return [
        f"Some intervals are of another order of magnitude: the mean length {row['length_mean']:.3g} is "
        f"{row['length_mean'] / row['length_median']:.3g} times their median. Paths that grow and stay "
        "finite count as finished: means, standard errors and relative lengths of this cell say nothing."
    ]


def looks(row: Mapping[str, Any]) -> list[str]:
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


@dataclass(frozen=True)
class PredictedBias:
    """Predicted and measured bias of the average in one row of a summary."""

    arrival: Arrival
    measured: float
    """Bias over the standard error of the oracle."""
    start: float
    """theta0, unit of theta."""
    truth: float
    """theta*, unit of theta."""
    scale: float = 1.0
    """The oracle's standard error over the empirical one."""
    gamma: float = math.nan
    """Exponent of the steps; NaN if not known."""
    n: int = 0

    def source(self) -> str | None:
        """``start`` or ``steps``, whichever part of the predicted bias is larger.

        None if predicted and measured bias differ in sign or by more than a factor of 2.
        """
        predicted = self.arrival.bias
        if predicted * self.measured <= 0 or not 1 / FACTOR <= predicted / self.measured <= FACTOR:
            return None
        return "start" if abs(self.arrival.bias_start) >= abs(self.arrival.bias_steps) else "steps"

    def sentence(self) -> str:
        """Where the path came to, for one that does not arrive, and what helps; empty otherwise.

        Biases are in empirical standard errors, as in the sum of effects.
        """
        found = self.arrival
        if not found.refused:
            return ""
        words = found.verdict.replace("_", " ")
        remedy = "a larger n, or a start nearer to the true value"
        if found.verdict == "steps_too_large":
            words += " for the average"
            remedy = self.against_steps()
        k = f"{found.relaxation_times:,.{1 if found.relaxation_times < 100 else 0}f}"
        moved = ""
        if not math.isnan(found.last_mean):
            moved = f", theta went from {self.start:g} to {found.last_mean:.3g} of {self.truth:.3g}"
        biases = found.bias_start, found.bias_steps, self.measured
        start, steps, measured = (self.scale * bias for bias in biases)
        return (
            f"{words.capitalize()}: {k} relaxation times{moved}; predicted bias of the average {start:+.2f} "
            f"(start) and {steps:+.2f} (steps) empirical SE, measured {measured:+.2f}: take {remedy}."
        )

    def smaller_steps(self) -> tuple[float, float]:
        """Users from which on smaller steps leave little bias in a run that is long enough, and their c.

        With c times r and m times the users the bias in standard errors is r m^(1/2 - gamma) times what it
        was, and the relaxation times are r m^(1 - gamma) times what they were: the r that leaves a bias of
        .1 leaves 25 relaxation times from m = (250 |bias| / K)^2 on, whatever gamma is.
        """
        bias = abs(self.arrival.bias_steps)
        more = max((TIMES * bias / (BIAS * self.arrival.relaxation_times)) ** 2, 1.0)
        return self.n * more, BIAS / bias * more ** (self.gamma - 0.5)

    def users_alone(self) -> float:
        """Users from which on these steps leave little bias: it falls as n^(1/2 - gamma) standard errors."""
        exponent = self.gamma - 0.5
        if exponent <= 0:
            return math.inf
        powers = math.log(abs(self.arrival.bias_steps) / BIAS) / exponent
        return self.n * math.exp(powers) if powers < 100 else math.inf

    def against_steps(self) -> str:
        if math.isnan(self.gamma) or abs(self.arrival.bias_steps) <= BIAS:
            return "smaller steps, TR or another centre"
        users, times = self.smaller_steps()
        steps = f"c times {times:.2g}, or a larger gamma"
        # A run that is too short for them alone is not advised to take smaller steps: it would not arrive.
        found = [] if users > self.n else [f"smaller steps ({steps})"]
        found.append("TR or another centre")
        if self.n < users <= MOST_USERS * self.n:
            found.append(f"or about n = {in_thousands(users)} and {steps}")
        rate = f"in SE this bias falls as n^-{self.gamma - 0.5:.2g}"
        if self.users_alone() <= MOST_USERS * self.n:
            return ", ".join([*found, f"or about n = {in_thousands(self.users_alone())}: {rate}"])
        return f"{', '.join(found)}; a larger n alone does not help: {rate}"


def in_thousands(users: float) -> str:
    return f"{float(f'{users:.1e}'):,.0f}"


def predicted_biases(
    rows: Sequence[Mapping[str, Any]], paths: Mapping[str, Simulator[Any, Any]]
) -> list[PredictedBias | None]:
    """Predicted and measured bias of the rows of a summary.

    None for methods that are not around the average, and where nothing is predicted.
    """
    said = {method: says_average(method) for method in {row["method"] for row in rows}}
    may_be = {method for method, says in said.items() if says or (says is None and not is_bundled(method))}
    asked = [row for row in rows if row["method"] in may_be]
    known = dict.fromkeys((row["path"], row["n"]) for row in asked if row["path"] in paths)
    found = dict(zip(known, predict_simulators([(paths[path], n) for path, n in known]), strict=True))
    sure = [row for row in rows if said[row["method"]] and not row["failures"]]
    # Where there are several, a bundled one.
    averages = {paths_of(row): row for row in sorted(sure, key=lambda row: is_bundled(row["method"]))}
    result: list[PredictedBias | None] = []
    for row in rows:
        at, bias, spread = found.get((row["path"], row["n"])), row["bias"], row["empirical_se"]
        if at is None or bias is None or not spread:
            result.append(None)
            continue
        arrival = at[row["coordinate"]]
        settings = {name: math.nan if row.get(name) is None else row[name] for name in ("theta0", "gamma")}
        one = PredictedBias(
            arrival,
            bias / arrival.standard_error,
            settings["theta0"],
            row["truth"],
            arrival.standard_error / spread,
            settings["gamma"],
            row["n"],
        )
        result.append(one if around_average(row, averages.get(paths_of(row)), one) else None)
    return result


def paths_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What estimates of two methods share that are of the same paths at the same time."""
    return row["path"], row["n"], row["coordinate"], row["replicates"]


def around_average(row: Mapping[str, Any], average: Mapping[str, Any] | None, found: PredictedBias) -> bool:
    """Whether a method's estimates are the average of the iterates: as it says, else by the estimates.

    ``average`` is the row of a method on these paths that says so, if the run has one. Without it a method
    that is not bundled counts as one around the average if its bias is the predicted one.
    """
    said = says_average(row["method"])
    if said is not None:
        return said
    if average is not None and not row["failures"]:
        slack = SAME * average["empirical_se"]
        return all(abs(row[name] - average[name]) <= slack for name in ("bias", "empirical_se"))
    return not is_bundled(row["method"]) and found.source() is not None


def says_average(method: str) -> bool | None:
    """Whether a method is around the average, as its class says.

    None if it does not say so: for a plug-in that is not loaded, and for one that inherits from a bundled
    class and may have another centre.
    """
    kind = INTERVAL_METHODS.get(method)
    if kind is None:
        return None
    owner = next(base for base in kind.__mro__ if "around_average" in vars(base))
    return kind.around_average if is_own(owner) == is_own(kind) else None


def is_bundled(method: str) -> bool:
    found = INTERVAL_METHODS.get(method)
    return found is not None and is_own(found)


def is_own(kind: type) -> bool:
    return kind.__module__.startswith("ldpflow.")
