"""Parts that were truncated, overwritten, swapped or flipped."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpflow.errors import InputError
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_id
from tests.store.replicates import BM, KEY, META, OTHER_KEY, complete_rows, same, unusable


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run")


def overwrite_footer(data: bytes, other: bytes) -> bytes:
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length] + b"\xff" * length + data[-8:]


DAMAGES = {
    "truncated": lambda data, other: data[:-20],
    "zeroed": lambda data, other: bytes(len(data)),
    "empty": lambda data, other: b"",
    "of another path": lambda data, other: other,
    "footer": overwrite_footer,
    "saved by another program": lambda data, other: saved_again(data),
    "renamed": None,
}


def saved_again(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(pa.BufferReader(data)), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_reported_counts_as_missing_and_can_be_set_aside(store, damage):
    store.replicates.write(KEY, complete_rows(0, 64, (BM,)), META)
    name = store.replicates.write(KEY, complete_rows(64, 70, (BM,)), META)
    other = store.replicates.write(OTHER_KEY, complete_rows(64, 70, (BM,)), META)
    file = Path(store.full(name))
    if damage == "renamed":
        file.rename(file.with_name(file.name.replace("part-64-", "part-60-")))
    else:
        file.write_bytes(DAMAGES[damage](file.read_bytes(), Path(store.full(other)).read_bytes()))
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
