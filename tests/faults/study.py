"""A small study to break, its rows as an undisturbed serial run gives them, and the comparison."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpflow.engine.check import check_run
from ldpflow.engine.run import run_study
from ldpflow.store.part import encode
from ldpflow.store.run_store import Aggregator, RunStore
from ldpflow.store.schema import REPLICATE_ROWS, REPLICATES
from ldpflow.study import Study
from tests.studies import changed

MAPPING: dict[str, Any] = changed(
    name="faults", seed=4, replicates=96, mechanism__epsilon=[1.0], algorithm__gamma=...,
    grid={"n": [200, 1000], "level": [0.9]}, method=[{"kind": "BB", "B": 20}, {"kind": "BM"}],
)  # fmt: skip

ORDER = [("path", "ascending"), *((name, "ascending") for name in REPLICATE_ROWS.row_keys(REPLICATES))]

# Many small parts, so that there are many moments between two writes.
SmallParts = partial(Aggregator, max_rows=1)


def trials(**counts: tuple[int, int]) -> list[Any]:
    """Parameters (fault, trial): names of faults with their trials in the fast suite and in all."""
    return [
        pytest.param(name, trial, marks=pytest.mark.slow if trial >= short else ())
        for name, (short, all_of_them) in counts.items()
        for trial in range(all_of_them)
    ]


def study(**changes: Any) -> Study:
    return Study.from_mapping(MAPPING | changes)


def row_bytes(run: str | Path) -> bytes:
    rows = RunStore(run).replicates.read(damaged="refuse").sort_by(ORDER).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=rows.num_rows or 1)
    return sink.getvalue().to_pybytes()


def serial(run: str | Path, what: Study | None = None, **options: Any) -> bytes:
    result = run_study(what or study(), run, engine="serial", **options)
    assert not result.failed_batches, result.failed_batches
    return row_bytes(run)


def rewrite(file: Path, change: Callable[[pa.Table, dict[str, Any]], pa.Table | None]) -> None:
    """Change rows or metadata of a Parquet file of a run, and save it with checksums that hold."""
    table = pq.ParquetFile(file).read()
    meta = json.loads(table.schema.metadata[b"ldpflow"])
    changed = change(table, meta)
    table = (table if changed is None else changed).replace_schema_metadata({b"ldpflow": json.dumps(meta)})
    file.write_bytes(bytes(encode(table)))


@cache
def undisturbed() -> bytes:
    with TemporaryDirectory() as folder:
        return serial(folder)


def whole(run: str | Path, expected: bytes | None = None) -> None:
    """The run has the expected rows, or the study's, each once on disk too, and passes its check."""
    assert row_bytes(run) == (expected or undisturbed())
    findings, _ = check_run(str(run))
    assert findings == [], [finding.what for finding in findings]
