"""The summary of a run computed from its rows alone, and what the stored one and the parts say otherwise."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from ldpflow.engine.check import agrees, part_reason
from ldpflow.errors import InputError
from ldpflow.published.compare import Comparison, compare
from ldpflow.results.summary import stored_summary
from ldpflow.store import RunStore, UnreadablePart
from ldpflow.study.stored import stored_study

__all__ = ["derived_summary", "verified"]


def verified(store: RunStore, against: str) -> Comparison:
    """The run's numbers, computed from its rows, beside published ones."""
    with store.named_errors():
        summary, findings = derived_summary(store)
    return replace(compare(summary, against), findings=findings)


def derived_summary(store: RunStore) -> tuple[pa.Table, list[str]]:
    """The summary as it follows from the rows, and sentences on what does not follow from them.

    Parts are read as :func:`ldpflow.engine.check_run` reads them: rows against themselves and their footer,
    settings against the path's key. A run without rows gives the stored summary, and a sentence.

    Raises
    ------
    InputError
        If the run has neither rows nor a summary, or a file cannot be read.
    """
    stored = store.read_summary()
    study = stored_study(store)
    unreadable: list[UnreadablePart] = []
    parts = store.replicates.scan(damaged=unreadable)
    found = [f"{bad.name}: {bad.reason}" for bad in unreadable]
    reasons = ((part, part_reason(store.replicates, part, study)) for part in parts)
    found += [f"{part.name}: {reason}" for part, reason in reasons if reason is not None]
    if found:
        raise InputError("run", store.root, "a run whose rows are whole", "; ".join(found[:3]) + ".")
    if not parts:
        if stored is None:
            raise InputError("run", store.root, "a run directory with a summary", "Nothing finished there.")
        return stored, ["the run has no rows: its summary is taken as it is, and follows from nothing"]
    again = stored_summary(store, damaged="refuse")
    if stored is not None and not agrees(stored, again):
        return again, ["summary.parquet is not that of the rows: the numbers here are computed from them"]
    return again, []
