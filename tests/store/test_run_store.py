"""Parts are written, named, read and merged; ids of cells, ranges of replicates and sessions of a run."""

import errno
import json
import math
import os
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpflow.columns import Column
from ldpflow.documents import append_checksum
from ldpflow.errors import InputError
from ldpflow.store import dataset
from ldpflow.store.dataset import paths_to_compact
from ldpflow.store.files import PUT_PAUSES
from ldpflow.store.part import PartMeta, UnreadablePart, intersect, subtract, union
from ldpflow.store.provenance import Session, read_sessions
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES, cell_id
from tests.store.replicates import BB, BM, CELLS, KEY, META, OTHER_KEY, SN, complete_rows, same, unusable


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run")


def files(store: RunStore) -> set[str]:
    return {str(path.relative_to(store.base)) for path in Path(store.base).rglob("*.*")}


def test_bytes_follow_from_content(store, tmp_path):
    rows = complete_rows(0, 9)
    name = store.replicates.write(KEY, rows, META)
    before = Path(store.full(name)).read_bytes()
    other = RunStore(tmp_path / "other")
    shuffled = rows.take(np.random.default_rng(1).permutation(rows.num_rows))
    pieces = pa.concat_tables([shuffled.slice(0, 10), shuffled.slice(10)])
    assert other.replicates.write(KEY, pieces, META) == name
    assert Path(other.full(name)).read_bytes() == before
    store.replicates.write(KEY, rows, META)
    assert files(store) == {name}, "twice is once, and no temporary file is left"


OTHER = {**BM, "n": 1}
SPOILT = {
    "a row is missing": lambda rows: rows.slice(1),
    "a row comes twice": lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]),
    "replicates are missing": lambda rows: pa.concat_tables([rows, complete_rows(9, 10)]),
    "a cell is missing": lambda rows: pa.concat_tables([rows, complete_rows(4, 5, (BB, BM))]),
    "a coordinate is missing": lambda rows: rows.filter(pc.field("coordinate") == 1),
    "another number of coordinates": lambda rows: pa.concat_tables([rows, complete_rows(0, 4, (OTHER,), 1)]),
    "no row": lambda rows: rows.slice(0, 0),
    "no status": lambda rows: rows.drop_columns("status"),
    "an unknown column": lambda rows: rows.append_column("colour", rows["status"]),
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_incomplete_rows_are_refused(store, spoil):
    with pytest.raises(ValueError):
        store.replicates.write(KEY, SPOILT[spoil](complete_rows(0, 4)), META)
    assert not Path(store.base).exists()


def test_rows_come_back(store):
    assert store.replicates.read(damaged="refuse").column_names == ["path", *REPLICATES.names]
    assert store.replicates.finished(KEY) == {} and store.read_summary() is None
    store.replicates.write(KEY, complete_rows(0, 8), META)
    store.replicates.write(KEY, complete_rows(8, 12), META)
    store.replicates.write(OTHER_KEY, complete_rows(0, 2, (BM,)), META)
    rows = store.replicates.read(KEY, damaged="refuse")
    assert rows["path"].unique().to_pylist() == [f"p{KEY}"]
    assert same(rows.drop_columns("path"), complete_rows(0, 12))
    assert store.replicates.read(damaged="refuse").num_rows == rows.num_rows + 4
    assert store.replicates.read(columns=["length"], damaged="refuse").column_names == ["path", "length"]
    assert store.replicates.path_keys() == [KEY, OTHER_KEY]


def test_rows_stored_twice_count_once(store):
    store.replicates.write(KEY, complete_rows(0, 8, (BB, SN)), META)
    store.replicates.write(KEY, complete_rows(4, 10, (SN, BM)), META)
    store.replicates.write(KEY, complete_rows(5, 6), META)
    for first, last in ((20, 30), (22, 24), (26, 28)):  # one inside another does not hide a third
        store.replicates.write(KEY, complete_rows(first, last), META)
    cells = complete_rows(0, 8, (BB,)), complete_rows(4, 10, (BM,)), complete_rows(0, 10, (SN,))
    expected = pa.concat_tables([*cells, complete_rows(20, 30)])
    for columns in (REPLICATES.names, ["se"]):
        rows = store.replicates.read(KEY, columns, damaged="refuse").drop_columns("path")
        assert same(rows, expected.select(columns))


@pytest.mark.parametrize("column", ["estimate", "lower", "status"])
def test_rows_stored_twice_with_different_values_are_an_error(store, column):
    one = store.replicates.write(KEY, complete_rows(0, 8), META)
    rows = complete_rows(7, 9, (BM,))
    changed = rows[column].to_pylist()
    changed[1] = {"estimate": 1e-9, "lower": math.nan, "status": "diverged"}[column]
    at = rows.column_names.index(column)
    rows = rows.set_column(at, column, pa.array(changed, rows[column].type))
    other = store.replicates.write(KEY, rows, META)
    with pytest.raises(InputError) as caught:
        store.replicates.read(KEY, ["length"], damaged="refuse")
    assert one in str(caught.value) and other in str(caught.value)
    assert "replicate = 7" in str(caught.value) and "coordinate = 1" in str(caught.value)


def test_a_part_of_a_newer_version_is_no_damage(store, monkeypatch):
    monkeypatch.setattr(store.replicates.kind, "version", 3)
    store.replicates.write(KEY, complete_rows(0, 2), META)
    monkeypatch.undo()
    with pytest.raises(InputError, match="schema_version 3"):
        unusable(store)


def test_a_failed_write_leaves_the_old_file_and_no_other(store, monkeypatch):
    store.write_study("old")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        store.publish("study.toml", b"new")
    monkeypatch.undo()
    assert store.read_study() == append_checksum("old")
    assert files(store) == {"study.toml"}


def test_a_read_only_place_is_bad_input(store, monkeypatch):
    monkeypatch.setattr(os, "replace", Mock(side_effect=OSError(errno.EROFS, "Read-only file system")))
    with pytest.raises(InputError, match="^out: .*Read-only"):
        store.publish("study.toml", b"x")


@pytest.mark.parametrize("root", ["file", "ftp2://somewhere/run", "s3://", "gs://", "", " ", "a\0b"])
def test_unusable_roots_are_bad_input(tmp_path, monkeypatch, root):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with pytest.raises(InputError, match="^out: "):
        RunStore(root)


@pytest.mark.parametrize("root", ["mock:///bucket/run", "mock:///bucket/run/"])
def test_another_file_system(root):
    """The code path of object stores, on pyarrow's file system in memory."""
    store = RunStore(root)
    assert not store.local
    assert store.replicates.read(damaged="refuse").num_rows == 0
    name = store.replicates.write(KEY, complete_rows(0, 4), META)
    assert store.filesystem.get_file_info(store.full(name)).is_file
    assert same(store.replicates.read(KEY, damaged="refuse").drop_columns("path"), complete_rows(0, 4))
    assert store.replicates.finished(KEY) == {cell_id(cell): [(0, 4)] for cell in CELLS}
    store.set_aside(UnreadablePart(name, "test"))
    assert store.replicates.path_keys() == []


def test_a_failed_put_publishes_nothing(store, monkeypatch):
    """A stream that is closed after a failed write would publish what it has."""
    pauses, cut = [], Mock(type_name="s3")
    monkeypatch.setattr(time, "sleep", pauses.append)
    stream = cut.open_output_stream.return_value
    stream.write.side_effect = OSError("connection cut")
    store.filesystem, store.local = cut, False
    with pytest.raises(OSError, match="connection cut"):
        store.publish("study.toml", b"x")
    stream.close.assert_not_called()
    assert pauses == list(PUT_PAUSES)


def test_many_small_parts_are_merged_and_few_or_large_ones_are_not(store, monkeypatch):
    monkeypatch.setattr(dataset, "MANY", 3)
    for key, count in ((KEY, 5), (OTHER_KEY, 3)):
        for first in range(0, 2 * count, 2):
            store.replicates.write(key, complete_rows(first, first + 2, (BM,)), META)
    parts = store.replicates.scan(damaged="refuse")
    assert paths_to_compact(parts) == [KEY]
    monkeypatch.setattr(dataset, "SMALL", 4)
    assert paths_to_compact(parts) == []
    store.replicates.compact([KEY])
    (merged,) = store.replicates.scan(KEY, damaged="refuse")
    assert (merged.first, merged.last) == (0, 10) and len(store.replicates.path_keys()) == 2
    rows = store.replicates.read(KEY, damaged="refuse").drop_columns("path")
    assert same(rows, complete_rows(0, 10, (BM,)))


def test_parts_that_are_written_anew_say_the_same_of_their_origin(store):
    meta = PartMeta(7, 1, {"problem": "quantile"}, {"ldpflow": "0"}, {"columns": {"epsilon": 1.0}})
    for first in (0, 4):
        store.replicates.write(KEY, complete_rows(first, first + 4), meta)
    store.replicates.compact([KEY])
    extra = Column("extra", "double", "1", "something more")
    store.replicates.declare([extra], store.replicates.scan(damaged="refuse"))
    (found,) = store.replicates.scan(damaged="refuse")
    assert (found.first, found.last, found.origin()) == (0, 8, meta)
    assert found.schema.names == [*REPLICATES.names, "extra"]
    assert store.replicates.read(damaged="refuse")["extra"].null_count == found.num_rows


def test_cell_id_leaves_nulls_out_and_does_not_depend_on_order_or_number_type():
    assert cell_id({"level": 0.9, "beta": None, "n": 1000.0, "method": "BM"}) == cell_id(BM)
    assert cell_id({**BB, "beta": 1}) == cell_id({**BB, "beta": 1.0})
    with pytest.raises(ValueError, match="coordinate"):
        cell_id({**BM, "coordinate": 0})


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)).map(lambda pair: (pair[0], sum(pair))))


@given(spans, st.integers(0, 45), st.integers(0, 45))
def test_ranges_are_sets(pairs, one, other):
    def members(ranges):
        return {i for a, b in ranges for i in range(a, b)}

    merged = union(pairs)
    assert members(merged) == members(pairs)
    flat = [end for pair in merged for end in pair]
    assert flat == sorted(set(flat)), "sorted, disjoint and not touching"
    first, last = min(one, other), max(one, other)
    window = set(range(first, last))
    assert members(intersect(merged, first, last)) == members(merged) & window
    assert members(subtract(first, last, merged)) == window - members(merged)


def test_a_resumed_run_appends_a_session_and_a_killed_one_stays(tmp_path):
    store = RunStore(tmp_path)
    Session(store, seed=3, command="ldpflow sweep a").record()
    second = Session(store, seed=3, command="ldpflow sweep b")
    second.record()
    second.end({"0123": 3.25}, exit_code=0)
    killed, done = read_sessions(store)
    assert killed["command"] == "ldpflow sweep a" and killed["ended"] is None
    assert done["command"] == "ldpflow sweep b" and done["ns_per_step"] == {"0123": 3.25}
    assert done["started"] <= done["ended"] and done["started"].endswith("+00:00")
    assert done["versions"]["pyarrow"] == pa.__version__ and done["exit_code"] == 0


@pytest.mark.parametrize(
    "text", [b"[{", b"{}", b"[1]", b"\xff", b"[" * 50_000, json.dumps([[[[]] * 9] * 9] * 9).encode()]
)
def test_a_spoilt_file_is_named(tmp_path, text):
    Path(tmp_path, "provenance.json").write_bytes(text)
    with pytest.raises(InputError, match=r"provenance\.json"):
        Session(RunStore(tmp_path), seed=1).record()
