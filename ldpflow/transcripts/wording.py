"""An analysis in words and plain values: names of methods, the methods paragraph, JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ldpflow import __version__
from ldpflow.transcripts.rows import Row, columns_of

if TYPE_CHECKING:
    from ldpflow.transcripts.result import Analysis

__all__ = ["as_dict", "label", "methods_paragraph", "verdict_lines"]

REFERENCES = {
    "BB": "the multiplier block bootstrap (Dette and Graw)",
    "BM": "batch means with increasing batches (Chen, Lee, Tong and Zhang, 2020)",
    "SN": "self-normalisation (Liu, Hu, Ding and Kong, 2023)",
    "TR": "regression on the transcript, which is ldpflow's own and has no proof",
    "TR-BM": "the root of the regression on the transcript with the length of batch means, which is "
    "ldpflow's own and has no proof",
}

ARRIVAL = {
    "arrived": "the run arrived: the average agrees with the root of the regression",
    "doubtful": "doubtful: the run is short, or the average is somewhat off the root of the regression",
    "not_arrived": "not arrived: the average still carries the start",
    "steps_too_large": "steps too large: they bias the average",
    "unknown": "unknown: the regression has no root",
}


def label(row: Row) -> str:
    """Method and the settings that tell it from its like."""
    own = []
    if row["method"] == "BB":
        own.append(f"beta {row['beta']:g}")
    if row.get("degree") is not None:
        own.append(f"degree {row['degree']}")
    return f"{row['method']} ({', '.join(own)})" if own else str(row["method"])


def shown(value: float) -> str:
    """Six significant digits."""
    return f"{value:.6g}"


def verdict_lines(analysis: Analysis) -> list[str]:
    """What to report, the arrival, flags with what they mean, oddities and notes."""
    found = []
    for j, verdict in enumerate(analysis.verdicts):
        where = f"coordinate {j}: " if len(analysis.verdicts) > 1 else ""
        row = analysis.reported(j)
        if row is None:
            found.append(f"{where}no interval to report")
        else:
            found.append(
                f"{where}report {label(row)}: {shown(row['estimate'])}, {100 * row['level']:g}% interval "
                f"[{shown(row['lower'])}, {shown(row['upper'])}]"
            )
        numbers = ""
        if verdict.arrival != "unknown":
            numbers = f" (K = {verdict.relaxation_times:.1f} relaxation times"
            if math.isfinite(verdict.distance):
                numbers += (
                    f"; average less root {verdict.distance:+.1f} se, "
                    f"{verdict.start:+.1f} of it from the start"
                )
            numbers += ")"
        found.append(f"{where}{ARRIVAL[verdict.arrival]}{numbers}")
        found += [f"{where}flag {words}" for words in verdict.words]
    found += [f"odd: {text}" for text in analysis.oddities]
    found += [f"note: {text}" for text in analysis.notes]
    return found


def privacy_words(analysis: Analysis) -> str:
    """The mechanism and what it promises."""
    mechanism = analysis.collection.mechanism
    statement = mechanism.privacy()
    kind = mechanism.kind.replace("_", " ")
    if statement.notion == "none":
        return "no randomiser: the reports are not private"
    budget = f"epsilon = {statement.epsilon:g}" if statement.epsilon is not None else f"mu = {statement.mu:g}"
    return f"{kind} with {budget} ({statement.notion} per report; each user reported once)"


def methods_paragraph(analysis: Analysis) -> str:
    """A paragraph for a methods section."""
    collection, algorithm = analysis.collection, analysis.algorithm
    target = f"the {collection.tau:g}-quantile" if collection.tau is not None else "theta*"
    size = collection.batch_size
    steps = f"{analysis.steps:,} steps" + (f" of {size} reports each" if size > 1 else "")
    sentences = [
        f"We estimated {target} from {analysis.users:,} reports, privatised on the users' devices by "
        f"{privacy_words(analysis)}.",
        f"Users were asked one after the other by stochastic gradient descent in {steps}, the i-th of size "
        f"{algorithm.step_constant():g} i^-{algorithm.step_exponent():g}.",
    ]
    row = analysis.reported()
    if row is None:
        sentences.append("No interval was defined.")
    else:
        what = REFERENCES.get(row["method"], f"the method {row['method']}")
        fit = ""
        if row.get("degree") is not None:
            fit = f", degree {row['degree']}, first {row['burn_in']} steps left out"
            if row.get("variance") is not None:
                fit += f", variance {row['variance']}"
        sentences.append(f"The {100 * row['level']:g}% interval is by {what}{fit}.")
    verdict = analysis.verdicts[0]
    if verdict.arrival != "unknown":
        flags = f"flags: {', '.join(verdict.flags)}" if verdict.flags else "no flags"
        sentences.append(
            f"The run has {verdict.relaxation_times:.0f} relaxation times "
            f"({verdict.arrival.replace('_', ' ')}; {flags})."
        )
    digest = "" if analysis.sha256 is None else f"; SHA-256 of the transcript {analysis.sha256}"
    sentences.append(f"Computed with ldpflow {__version__}{digest}.")
    return " ".join(sentences)


def plain(row: Row) -> dict[str, Any]:
    """A row without what is kept twice."""
    return {name: row[name] for name in columns_of([row])}


def as_dict(analysis: Analysis) -> dict[str, Any]:
    """The analysis as plain values for JSON; None is none, no value is infinite or undefined."""
    mechanism, algorithm = analysis.collection.mechanism, analysis.algorithm
    statement = mechanism.privacy()

    def finite(value: float) -> float | None:
        return value if value == value and abs(value) != float("inf") else None

    return {
        "file": analysis.file,
        "sha256": analysis.sha256,
        "version": __version__,
        "users": analysis.users,
        "steps": analysis.steps,
        "problem": {"kind": analysis.collection.problem, "tau": analysis.collection.tau},
        "mechanism": mechanism.model_dump(),
        "privacy": {"notion": statement.notion, "unit": statement.unit},
        "algorithm": algorithm.model_dump(),
        "rows": [plain(row) for row in analysis.asked],
        "verdicts": [
            {
                "coordinate": j,
                "arrival": verdict.arrival,
                "flags": list(verdict.flags),
                "relaxation_times": finite(verdict.relaxation_times),
                "distance": finite(verdict.distance),
                "start": finite(verdict.start),
                "reported": None if (row := analysis.reported(j)) is None else plain(row),
            }
            for j, verdict in enumerate(analysis.verdicts)
        ],
        "oddities": analysis.oddities,
        "notes": analysis.notes,
        "methods": methods_paragraph(analysis),
    }
