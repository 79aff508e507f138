"""A paragraph for the methods section of a paper: design, seed, streams, replicates, errors, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.results.references import cited

__all__ = ["study_paragraph"]

NAMED = ("law", "tau", "epsilon", "mu", "delta", "gamma", "c", "d", "beta", "degree")
"""Settings that the paragraph names also where they do not vary."""

STREAMS = (
    "Random numbers came from counter-based streams addressed by seed and replicate, so that mechanisms, "
    "budgets, step sizes and interval methods were compared on the same simulated users; differences "
    "between them are paired."
)


def study_paragraph(
    study: Mapping[str, Any], summary: pa.Table, sessions: Sequence[Mapping[str, Any]]
) -> str:
    """The paragraph.

    Parameters
    ----------
    study : mapping
        The resolved study file.
    summary : pyarrow.Table
        A row per cell and coordinate; no rows for a study of trajectories alone.
    sessions : sequence of mapping
        What provenance.json has.

    Returns
    -------
    str
        Five sentences or more, in the past tense.
    """
    grid = study["grid"]
    parts = [
        f"{title} {enumerated([entry_words(entry) for entry in entries(study, table)])}"
        for table, title in (
            ("problem", "problem"),
            ("mechanism", "mechanism"),
            ("algorithm", "algorithm"),
            ("protocol", "protocol"),
            ("method", "interval methods"),
        )
        if entries(study, table)
    ]
    parts.append(f"n = {values(grid['n'])} users")
    if entries(study, "method"):
        parts.append(f"nominal level {values(grid['level'])}")
    sentences = [f"We ran a Monte Carlo study with a full factorial design: {'; '.join(parts)}."]
    if follow := cited(study):
        papers = "; ".join(f"{kinds}: {', '.join(labels)}" for kinds, labels in follow.items())
        sentences.append(f"Mechanisms, algorithms and methods follow published work ({papers}).")
    sentences += replicates(study, summary)
    sentences.append(f"The seed was {study['seed']}. {STREAMS}")
    sentences.append(
        "The noise of the simulated mechanisms is seeded floating-point noise, for the study of statistics "
        "alone."
    )
    sentences.append(versions(sessions))
    return " ".join(sentence for sentence in sentences if sentence)


def entries(study: Mapping[str, Any], table: str) -> list[Mapping[str, Any]]:
    """The entries of a table of a study file."""
    found = study.get(table, [])
    return [found] if isinstance(found, Mapping) else list(found)


def entry_words(entry: Mapping[str, Any]) -> str:
    """Kind and settings of an entry: those that vary, and the ones that readers look for."""
    kinds = values(entry["kind"])
    settings = [
        f"{name} = {values(value)}"
        for name, value in entry.items()
        if name != "kind" and (name in NAMED or (isinstance(value, list) and len(value) > 1))
    ]
    return f"{kinds} ({', '.join(settings)})" if settings else kinds


def values(value: object) -> str:
    """One value or several, vectors by their number."""
    found = value if isinstance(value, list) else [value]
    if any(isinstance(one, list) for one in found):
        return f"{len(found)} vectors"
    words = [
        f"{one:g}" if isinstance(one, float) else f"{one:,}" if isinstance(one, int) else str(one)
        for one in found
    ]
    return enumerated(words)


def enumerated(words: Sequence[str]) -> str:
    """Words with commas and, before the last, an "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def replicates(study: Mapping[str, Any], summary: pa.Table) -> list[str]:
    """Sentences on the number of replicates and the remaining Monte Carlo error."""
    if summary.num_rows == 0:
        return [f"Every path had {study['replicates']:,} independent replicates."]
    counts = pc.min_max(summary["replicates"]).as_py()
    few, many = counts["min"], counts["max"]
    number = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    sentences = [f"Each of the {summary.num_rows:,} cells had {number} independent replicates."]
    error = pc.max(summary["coverage_mcse"]).as_py()
    if error is not None:
        sentences.append(
            f"The Monte Carlo standard error of an estimated coverage was at most {error:.2g} (measures and "
            "errors after Morris, White and Crowther, 2019)."
        )
    failures, rows = pc.sum(summary["failures"]).as_py(), pc.sum(summary["replicates"]).as_py()
    if failures:
        sentences.append(
            f"{failures:,} of {rows:,} intervals were undefined or diverged; they were neither redrawn nor "
            "dropped, and coverage is also reported with them counted as misses."
        )
    return sentences


def versions(sessions: Sequence[Mapping[str, Any]]) -> str:
    """Software and processor of the last session."""
    if not sessions:
        return ""
    found = dict(sessions[-1].get("versions") or {})
    own, python = found.pop("ldpflow", "?"), found.pop("python", "?")
    packages = ", ".join(f"{name} {found[name]}" for name in ("numpy", "numba", "scipy") if name in found)
    machine = sessions[-1].get("machine") or {}
    where = f" on {machine['processor']}" if machine.get("processor") else ""
    return f"Computed with ldpflow {own} (Python {python}; {packages}){where}."
