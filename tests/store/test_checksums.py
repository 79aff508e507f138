"""No byte of a stored Parquet file can change without a reader of ours noticing."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpflow.errors import InputError
from ldpflow.results.measures import summarise_cells
from ldpflow.results.summary import stored_cells
from ldpflow.store.part import UnreadablePart, encode
from ldpflow.store.run_store import RunStore
from tests.store.replicates import KEY, META, complete_rows

FLIPS = 150


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run")


def summary_of(store: RunStore) -> pa.Table:
    ((keys, cells),) = stored_cells(store, damaged="refuse")
    return summarise_cells(keys, cells)


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def bits(data: bytes) -> list[int]:
    """Bits anywhere, as many again in the footer, and every bit of the last eight bytes."""
    rng = random.Random(1)
    footer = 8 * (len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    anywhere = [rng.randrange(8 * len(data)) for _ in range(FLIPS)]
    return [*anywhere, *(rng.randrange(footer, 8 * len(data)) for _ in range(FLIPS)), *range(-64, 0)]


def test_no_flipped_bit_is_read(store):
    name = store.replicates.write(KEY, complete_rows(0, 20), META)
    store.write_summary(summary_of(store))

    def read_part():
        (part,) = store.replicates.scan(damaged="refuse")
        if isinstance(rows := store.replicates.load(part), UnreadablePart):
            raise store.replicates.unusable(rows)

    for changed, read in (("summary.parquet", store.read_summary), (name, read_part)):
        file = Path(store.full(changed))
        data = file.read_bytes()
        for bit in bits(data):
            file.write_bytes(flipped(data, bit % (8 * len(data))))
            with pytest.raises(InputError, match=changed):
                read()
        file.write_bytes(data)


def test_no_file_of_ours_has_statistics_by_which_plain_readers_skip_rows(store):
    name = store.replicates.write(KEY, complete_rows(0, 20), META)
    file = Path(store.full(name))
    table = pq.ParquetFile(file).read()
    footer = pq.read_metadata(file)
    assert not any(footer.row_group(0).column(at).is_stats_set for at in range(footer.num_columns))
    with patch("ldpflow.store.part.pq.write_table", partial(write_with_statistics, pq.write_table)):
        file.write_bytes(encode(table))
    bad = []
    assert store.replicates.scan(damaged=bad) == [] and "statistics" in bad[0].reason


def write_with_statistics(write, table, sink, **options):
    write(table, sink, **options | {"write_statistics": True})
