"""A paragraph for the methods section of a paper: design, seed, streams, replicates, errors, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.results.references import cited, kinds_of, own_variants
from ldpflow.settings import Settings, is_vector
from ldpflow.study import GROUPS

__all__ = ["study_paragraph"]

NAMED = ("law", "tau", "epsilon", "mu", "delta", "gamma", "c", "d", "beta", "degree")
"""Settings that the paragraph names also at their default."""

UNNAMED = ("kind", "file", "sha256", "units", "law_table")
"""Settings that say where data lie and how they are written, and no more of the design."""

MOST_VECTORS = 4

STREAMS = (
    "Random numbers came from counter-based streams addressed by seed and replicate, so that mechanisms, "
    "budgets, step sizes and interval methods were compared on the same simulated users; differences "
    "between them are paired."
)


def study_paragraph(
    study: Mapping[str, Any],
    summary: pa.Table,
    sessions: Sequence[Mapping[str, Any]],
    factorial: bool = True,
    missing: tuple[int, int] | None = None,
) -> str:
    """The paragraph.

    Parameters
    ----------
    study : mapping
        The tables of a study file, with the settings of the rows (see ldpflow.results.design).
    summary : pyarrow.Table
        A row per cell and coordinate; no rows for a study of trajectories alone.
    sessions : sequence of mapping
        What provenance.json has.
    factorial : bool
        Whether the rows are all combinations of the settings.
    missing : (int, int), optional
        Cells that have rows and cells of the study, of a run that is not finished.

    Returns
    -------
    str
        Five sentences or more, in the past tense.
    """
    grid = study["grid"]
    parts = [
        f"{title} {enumerated([entry_words(table, entry) for entry in entries(study, table)])}"
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
    kind = (
        "with a full factorial design:"
        if factorial
        else "of some combinations, not a full factorial design, of these settings:"
    )
    sentences = [f"We ran a Monte Carlo study {kind} {'; '.join(parts)}."]
    if missing is not None:
        sentences.append(f"It is not finished: {missing[0]:,} of {missing[1]:,} cells have rows.")
    sentences += sources(study)
    sentences += paths(summary)
    sentences += replicates(study, summary)
    sentences += stopping(sessions)
    sentences.append(f"The seed was {study['seed']}. {STREAMS}")
    if several := [kind for kind in kinds_of(study).get("method", ()) if takes_several(kind)]:
        sentences.append(
            f"A row of {enumerated(several)} is made of several replicates, and paired with no row of others."
        )
    sentences.append(
        "The noise of the simulated mechanisms is seeded floating-point noise, for the study of statistics "
        "alone."
    )
    sentences.append(versions(sessions))
    return " ".join(sentence for sentence in sentences if sentence)


def sources(study: Mapping[str, Any]) -> list[str]:
    """Sentences on the papers that kinds follow, and on those that are ldpflow's own."""
    found = []
    if follow := cited(study):
        papers = "; ".join(f"{kinds}: {', '.join(labels)}" for kinds, labels in follow.items())
        found.append(f"Mechanisms, algorithms and methods follow published work ({papers}).")
    for kinds, labels in cited(study, own=True).items():
        verbs = ("are", "they build") if " and " in kinds else ("is", "it builds")
        found.append(
            f"{kinds} {verbs[0]} ldpflow's own, published nowhere else and without a proof; {verbs[1]} on "
            f"{enumerated(labels)}."
        )
    if variants := own_variants(study):
        found.append(f"Published nowhere else are also {enumerated(variants)}.")
    return found


def paths(summary: pa.Table) -> list[str]:
    """Sentence on whether the n of a replicate share a path; nothing for one n."""
    if "n" not in summary.column_names or pc.count_distinct(summary["n"]).as_py() < 2:
        return []
    own = summary["horizon"].null_count if "horizon" in summary.column_names else summary.num_rows
    if own == 0:
        return ["Every n had users and paths of its own."]
    which = "All n" if own == summary.num_rows else "Where an algorithm does not depend on n, all n"
    return [f"{which} of a replicate lay on one path, so that results at different n are dependent."]


def stopping(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on the targets that decided the number of replicates."""
    found = []
    for entry in sessions:
        targets = entry.get("precision") or {}
        wanted = []
        if targets.get("target_mcse") is not None:
            wanted.append(
                f"the Monte Carlo standard error of every coverage was at most {targets['target_mcse']:g}"
            )
        if targets.get("target_length") is not None:
            wanted.append(f"that of every mean length was at most {targets['target_length']:g} of it")
        if wanted:
            found.append(
                f"Replicates were added until {' and '.join(wanted)}, path by path and judged at numbers "
                f"fixed in advance, from {targets['min_replicates']:,} to at most "
                f"{targets['max_replicates']:,}."
            )
    return list(dict.fromkeys(found))


def takes_several(kind: str) -> bool:
    """Whether a row of an interval method is made of several replicates, as far as the method is known."""
    method = INTERVAL_METHODS.get(kind)
    return method is not None and method.runs is not IntervalMethod.runs


def entries(study: Mapping[str, Any], table: str) -> list[Mapping[str, Any]]:
    """The entries of a table of a study file."""
    found = study.get(table, [])
    return [found] if isinstance(found, Mapping) else list(found)


def entry_words(table: str, entry: Mapping[str, Any]) -> str:
    """Kind and settings of an entry: those that vary or are not at their default, and some that are."""
    kinds = [entry["kind"]] if isinstance(entry["kind"], str) else entry["kind"]
    classes = [GROUPS[table].get(kind) for kind in kinds]
    settings = [
        f"{name} = {values(value, is_vector_setting(name, classes))}"
        for name, value in entry.items()
        if name not in UNNAMED and (name in NAMED or not at_default(name, value, classes))
    ]
    return f"{enumerated(kinds)} ({', '.join(settings)})" if settings else enumerated(kinds)


def is_vector_setting(name: str, classes: Sequence[type[Settings] | None]) -> bool:
    """Whether one value of a setting is a list, as its class says."""
    fields = [kind.model_fields[name] for kind in classes if kind is not None and name in kind.model_fields]
    return any(is_vector(field.annotation) for field in fields)


def at_default(name: str, value: object, classes: Sequence[type[Settings] | None]) -> bool:
    """Whether a setting has one value, the default of all its classes; unknown ones have none."""
    if None in classes:
        return False
    given = plain(value)
    fields = [kind.model_fields.get(name) for kind in classes if kind is not None]
    defaults = [plain(field.get_default()) for field in fields if field is not None]
    return all(default in (given, [given]) or [default] == given for default in defaults)


def plain(value: object) -> Any:
    """A value with lists in the place of tuples."""
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def values(value: object, vector: bool = False) -> str:
    """One value or several; vectors in brackets, a few of them."""
    found = value if isinstance(value, list) else [value]
    if vector and not all(isinstance(one, list) for one in found):
        found = [found]
    if len(found) > MOST_VECTORS and any(isinstance(one, list) for one in found):
        return f"{len(found)} vectors"
    return enumerated([word(one) for one in found])


def word(value: object) -> str:
    """A value as a text has it."""
    if isinstance(value, list):
        return f"({', '.join(map(word, value))})"
    if isinstance(value, Mapping):
        return f"({', '.join(f'{name} {word(own)}' for name, own in value.items())})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )


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
