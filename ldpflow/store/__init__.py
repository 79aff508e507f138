"""Parquet parts, resume, provenance and the lock of a run directory."""

from __future__ import annotations

from ldpflow.store.aggregate import Aggregator, Published
from ldpflow.store.dataset import Dataset
from ldpflow.store.lock import RunLock
from ldpflow.store.part import Part, PartMeta, UnreadablePart
from ldpflow.store.provenance import Session
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import CELL_KEYS, REPLICATES, TRAJECTORIES, cell_id, cell_set_hash

__all__ = [
    "CELL_KEYS",
    "REPLICATES",
    "TRAJECTORIES",
    "Aggregator",
    "Dataset",
    "Part",
    "PartMeta",
    "Published",
    "RunLock",
    "RunStore",
    "Session",
    "UnreadablePart",
    "cell_id",
    "cell_set_hash",
]
