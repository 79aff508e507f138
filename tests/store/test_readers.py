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
from tests.store.replicates import BM, KEY, META, OTHER_KEY, complete_rows

COLUMNS = {*REPLICATES.names, "path"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    store = RunStore(tmp_path)
    store.replicates.write(KEY, complete_rows(0, 5), META)
    store.replicates.write(KEY, complete_rows(5, 6), META)
    # A key of digits alone must not be taken for a number.
    store.replicates.write(OTHER_KEY, complete_rows(0, 4, (BM,)), META)
    return tmp_path


def by_duckdb(run: Path) -> pd.DataFrame:
    with duckdb.connect() as connection:
        found = connection.sql(
            f"select * from read_parquet('{run}/replicates/**/*.parquet', hive_partitioning=true)"
        )
        return found.df()


READERS = {
    "duckdb": by_duckdb,
    "polars": lambda run: pl.scan_parquet(run / "replicates", hive_partitioning=True).collect(),
    "pandas": lambda run: pd.read_parquet(run / "replicates"),
    "pyarrow": lambda run: ds.dataset(run / "replicates", partitioning="hive").to_table(),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_run_is_read_with_one_plain_call(run, reader):
    found = READERS[reader](run)
    columns = list(found.schema.names if reader == "pyarrow" else found.columns)
    assert sorted(columns) == sorted(COLUMNS)
    rows = found.to_pydict() if reader == "pyarrow" else found
    paths, betas = list(rows["path"]), list(rows["beta"])
    assert all(type(path) is str for path in paths)
    assert paths.count(f"p{OTHER_KEY}") == 8 and paths.count(f"p{KEY}") == 36 and len(paths) == 44
    assert sum(beta == 0.75 for beta in betas) == 12
