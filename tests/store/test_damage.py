"""Parts that were truncated, overwritten, swapped or flipped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpflow.errors import InputError
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES, cell_id
from tests.store.replicates import BM, KEY, META, OTHER_KEY, complete_rows, same, unusable


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run")


def damage_truncated(path: Path, other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def damage_zeroed(path: Path, other: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def damage_empty(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def damage_foreign(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def damage_footer(path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    data[-8 - length : -8] = b"\xff" * length
    path.write_bytes(bytes(data))


def damage_plain_parquet(path: Path, other: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def damage_renamed(path: Path, other: Path) -> None:
    path.rename(path.with_name(path.name.replace("part-64-", "part-60-")))


DAMAGES = [value for name, value in sorted(globals().items()) if name.startswith("damage_")]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_part_is_reported_counts_as_missing_and_can_be_set_aside(store, damage):
    store.replicates.write(KEY, complete_rows(0, 64, (BM,)), META)
    name = store.replicates.write(KEY, complete_rows(64, 70, (BM,)), META)
    other = store.replicates.write(OTHER_KEY, complete_rows(64, 70, (BM,)), META)
    damage(Path(store.full(name)), Path(store.full(other)))
    (bad,) = unusable(store)
    assert bad.name.startswith(f"replicates/path=p{KEY}/") and bad.reason
    with pytest.warns(UserWarning, match="counts as missing"):
        assert store.replicates.finished(KEY) == {cell_id(BM): [(0, 64)]}
    with pytest.raises(InputError, match="part-6"):
        store.replicates.read(damaged="refuse")
    assert store.replicates.read(KEY, damaged=[]).num_rows == 128
    moved = store.set_aside(bad)
    assert Path(store.full(moved)).is_file()
    assert unusable(store) == []
    store.replicates.write(KEY, complete_rows(64, 70, (BM,)), META)
    assert same(
        store.replicates.read(KEY, damaged="refuse").drop_columns("path"), complete_rows(0, 70, (BM,))
    )


def test_a_flipped_bit_in_a_page_is_found_by_its_checksum(store):
    name = store.replicates.write(KEY, complete_rows(0, 64), META)
    path = Path(store.full(name))
    chunk = pq.read_metadata(path).row_group(0).column(REPLICATES.get_field_index("estimate"))
    data = bytearray(path.read_bytes())
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 9] ^= 1
    path.write_bytes(bytes(data))
    bad = []
    assert store.replicates.scan(damaged=bad) and bad == [], "the footer is intact"
    (bad,) = unusable(store)
    assert bad.name == name
    with pytest.raises(InputError, match="Run the sweep again"):
        store.replicates.read(KEY, damaged="refuse")
