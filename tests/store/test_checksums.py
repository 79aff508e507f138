"""No byte of a stored Parquet file can change without a reader of ours noticing."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ldpflow.errors import InputError
from ldpflow.results import stored_cells, summarise_cells
from ldpflow.store import RunStore, UnreadablePart
from tests.store.replicates import KEY, META, complete_rows, same

FLIPS = 400


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run")


def summary_of(store: RunStore) -> pa.Table:
    ((keys, cells),) = stored_cells(store)
    return summarise_cells(keys, cells)


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def bits(data: bytes) -> list[int]:
    """Bits anywhere, as many again in the footer, and every bit of the last eight bytes."""
    rng = random.Random(1)
    footer = 8 * (len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    anywhere = [rng.randrange(8 * len(data)) for _ in range(FLIPS)]
    return [*anywhere, *(rng.randrange(footer, 8 * len(data)) for _ in range(FLIPS)), *range(-64, 0)]


def test_no_flipped_bit_of_a_summary_is_read(store):
    store.replicates.write(KEY, complete_rows(0, 20), META)
    store.write_summary(summary_of(store))
    file = Path(store.full("summary.parquet"))
    data = file.read_bytes()
    for bit in bits(data):
        file.write_bytes(flipped(data, bit % (8 * len(data))))
        with pytest.raises(InputError, match=r"summary\.parquet"):
            store.read_summary()


def test_no_flipped_bit_of_a_part_is_read(store):
    name = store.replicates.write(KEY, complete_rows(0, 20), META)
    file = Path(store.full(name))
    data = file.read_bytes()
    for bit in bits(data):
        file.write_bytes(flipped(data, bit % (8 * len(data))))
        found, bad = store.replicates.scan()
        if found:
            assert isinstance(store.replicates.load(found[0]), UnreadablePart), bit
        else:
            assert len(bad) == 1


def both_maxima(data: bytes, old: int, new: int) -> bytes:
    """The footer with every stored copy of an integer statistic replaced."""
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    before, after = (b"\x08" + value.to_bytes(8, "little") for value in (old, new))
    assert data[at:].count(before) >= 2
    return data[:at] + data[at:].replace(before, after)


def test_a_changed_statistic_that_hides_rows_from_plain_readers_is_found_by_the_footer_alone(store):
    name = store.replicates.write(KEY, complete_rows(0, 20), META)
    file = Path(store.full(name))
    file.write_bytes(both_maxima(file.read_bytes(), 1000, 900))
    hidden = ds.dataset(file.parent).to_table(filter=ds.field("n") == 1000).num_rows
    assert hidden == 0 and pl.scan_parquet(file).filter(pl.col("n") == 1000).collect().height == 0
    found, (bad,) = store.replicates.scan()
    assert found == [] and "checksum" in bad.reason


def test_a_file_saved_again_by_another_program_is_not_taken_for_ours(store):
    name = store.replicates.write(KEY, complete_rows(0, 20), META)
    file = Path(store.full(name))
    pq.write_table(pq.ParquetFile(file).read(), file)
    assert store.replicates.scan()[0] == []


def test_a_file_without_checksums_as_old_versions_wrote_it_is_read_with_a_warning(store):
    store.replicates.write(KEY, complete_rows(0, 20), META)
    table = summary_of(store)
    pq.write_table(table, store.full("summary.parquet"))
    with pytest.warns(UserWarning, match="no checksums"):
        assert store.read_summary().equals(table)


def test_plain_readers_see_neither_other_rows_nor_other_columns(store):
    rows = complete_rows(0, 20)
    file = store.full(store.replicates.write(KEY, rows, META))
    assert same(pq.ParquetFile(file).read(), rows)
    found = pl.read_parquet(file)
    assert (found.height, found.columns) == (rows.num_rows, rows.column_names)


@pytest.mark.parametrize("table", [pa.table({"a": [1]}), pa.table({"coverage": ["high"]})])
def test_a_summary_of_other_columns_is_refused(store, table):
    store.publish("summary.parquet", b"")
    pq.write_table(table, store.full("summary.parquet"))
    with pytest.raises(InputError, match="summary"):
        store.read_summary()
