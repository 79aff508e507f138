"""Damaged parts and summaries are noticed, count as missing and can be set aside."""

import random
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from ldpflow.errors import InputError
from ldpflow.results.measures import summarise_cells
from ldpflow.results.summary import stored_cells
from ldpflow.store.part import UnreadablePart, encode
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_id
from tests.store.replicates import BM, KEY, META, OTHER_KEY, complete_rows, same, unusable

FLIPS = 80


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run")


def bits(data: bytes) -> list[int]:
    """Bits anywhere, as many again in the footer, and every bit of the last eight bytes."""
    rng, size = random.Random(1), 8 * len(data)
    footer = 8 * (len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    anywhere = [rng.randrange(size) for _ in range(FLIPS)]
    return [*anywhere, *(rng.randrange(footer, size) for _ in range(FLIPS)), *range(size - 64, size)]


def test_no_flipped_bit_is_read(store):
    name = store.replicates.write(KEY, complete_rows(0, 20), META)
    ((keys, cells),) = stored_cells(store, damaged="refuse")
    store.write_summary(summarise_cells(keys, cells))

    def read_part():
        (part,) = store.replicates.scan(damaged="refuse")
        if isinstance(rows := store.replicates.load(part), UnreadablePart):
            raise store.replicates.unusable(rows)

    for changed, read in (("summary.parquet", store.read_summary), (name, read_part)):
        file = Path(store.full(changed))
        data = file.read_bytes()
        for bit in bits(data):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            file.write_bytes(flipped)
            with pytest.raises(InputError, match=changed):
                read()
        file.write_bytes(data)


def test_no_file_of_ours_has_statistics_by_which_plain_readers_skip_rows(store):
    def with_statistics(write, table, sink, **options):
        write(table, sink, **options | {"write_statistics": True})

    file = Path(store.full(store.replicates.write(KEY, complete_rows(0, 20), META)))
    footer = pq.read_metadata(file)
    assert not any(footer.row_group(0).column(at).is_stats_set for at in range(footer.num_columns))
    table = pq.ParquetFile(file).read()
    with patch("ldpflow.store.part.pq.write_table", partial(with_statistics, pq.write_table)):
        file.write_bytes(encode(table))
    bad = []
    assert store.replicates.scan(damaged=bad) == [] and "statistics" in bad[0].reason


DAMAGE = {
    "of another program": lambda file, _: pq.write_table(pq.ParquetFile(file).read(), file),
    "of another path": lambda file, other: file.write_bytes(other.read_bytes()),
    "renamed": lambda file, _: file.rename(file.with_name(file.name.replace("part-64-", "part-60-"))),
    "empty": lambda file, _: file.write_bytes(b""),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_part_is_reported_counts_as_missing_and_can_be_set_aside(store, damage):
    store.replicates.write(KEY, complete_rows(0, 64, (BM,)), META)
    name, other = (
        store.full(store.replicates.write(key, complete_rows(64, 70, (BM,)), META))
        for key in (KEY, OTHER_KEY)
    )
    DAMAGE[damage](Path(name), Path(other))
    (bad,) = unusable(store)
    assert bad.name.startswith(f"replicates/path=p{KEY}/") and bad.reason
    assert damage != "of another path" or "belongs to path" in bad.reason
    with pytest.warns(UserWarning, match="counts as missing"):
        assert store.replicates.finished(KEY) == {cell_id(BM): [(0, 64)]}
    with pytest.raises(InputError, match="part-6"):
        store.replicates.read(damaged="refuse")
    assert store.replicates.read(KEY, damaged=[]).num_rows == 128
    moved = store.set_aside(bad)
    assert Path(store.full(moved)).is_file()
    assert unusable(store) == []
    store.replicates.write(KEY, complete_rows(64, 70, (BM,)), META)
    rows = store.replicates.read(KEY, damaged="refuse").drop_columns("path")
    assert same(rows, complete_rows(0, 70, (BM,)))
