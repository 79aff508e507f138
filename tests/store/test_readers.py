"""The readers that people use take a run with one plain call."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest

from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES
from tests.oracles.rows_in_cells import summarise
from tests.store.replicates import BM, KEY, META, OTHER_KEY, complete_rows

COLUMNS = {*REPLICATES.names, "path"}
ROWS = 6 * 3 * 2 + 4 * 2


@pytest.fixture
def run(tmp_path: Path) -> Path:
    store = RunStore(tmp_path)
    store.replicates.write(KEY, complete_rows(0, 5), META)
    store.replicates.write(KEY, complete_rows(5, 6), META)
    # A key of digits alone must not be taken for a number.
    store.replicates.write(OTHER_KEY, complete_rows(0, 4, (BM,)), META)
    store.write_summary(summarise(store.replicates.read(damaged="refuse")))
    return tmp_path


def check(columns: list[str], rows: list[tuple[str, float]]) -> None:
    """Columns, and (path, beta or None) of each row."""
    assert set(columns) == COLUMNS and len(columns) == len(COLUMNS)
    assert len(rows) == ROWS
    paths = [path for path, _ in rows]
    assert all(type(path) is str for path in paths)
    assert paths.count(f"p{OTHER_KEY}") == 8 and paths.count(f"p{KEY}") == 36
    assert sum(beta == 0.75 for _, beta in rows) == 12


def test_duckdb(run):
    with duckdb.connect() as connection:
        found = connection.sql(
            f"select * from read_parquet('{run}/replicates/**/*.parquet', hive_partitioning=true)"
        )
        assert dict(zip(found.columns, map(str, found.types), strict=True))["path"] == "VARCHAR"
        check(found.columns, found.select("path, beta").fetchall())
        summary = connection.sql(f"select * from '{run}/summary.parquet'")
        assert len(summary.fetchall()) == 8 and "coverage_mcse" in summary.columns


def test_polars(run):
    found = pl.scan_parquet(run / "replicates", hive_partitioning=True).collect()
    assert found.schema["path"] == pl.String
    check(found.columns, found.select("path", "beta").rows())
    assert pl.read_parquet(run / "summary.parquet").height == 8


def test_pandas(run):
    found = pd.read_parquet(run / "replicates")
    # pyarrow hands partitions to pandas as categories; these are strings.
    paths = found["path"].tolist()
    check(list(found.columns), list(zip(paths, found["beta"], strict=True)))
    assert len(pd.read_parquet(run / "summary.parquet")) == 8


def test_pyarrow_dataset(run):
    found = ds.dataset(run / "replicates", partitioning="hive").to_table()
    assert str(found.schema.field("path").type) == "string"
    rows = found.select(["path", "beta"]).to_pylist()
    check(found.column_names, [(row["path"], row["beta"]) for row in rows])
