"""Cells read a few at a time are those that the whole table gives, and so is their summary."""

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import summary as benchmark
from ldpflow.errors import InputError
from ldpflow.results import summary as stored
from ldpflow.results.summary import relative_length, stored_cells, stored_paths, stored_summary, summary_of
from ldpflow.simulators.approach import LimitLaw
from ldpflow.store.part import encode
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES, cell_id
from ldpflow.study import Study
from tests.faults.study import serial, study
from tests.oracles.rows_in_cells import cells_of
from tests.store.replicates import BM, CELLS, KEY, META, OTHER_KEY, complete_rows
from tests.studies import changed

TR = {"n": 500, "method": "TR", "level": 0.9, "degree": 2, "burn_in": "n^0.4", "variance": "known"}


def with_checks(rows):
    """Give rows of TR diagnostics of the fit, with a null among them."""
    values = [None if k % 7 == 0 else float(k) for k in range(rows.num_rows)]
    chosen = pc.equal(rows["method"], "TR")
    for name in ("relaxation_times", "condition", "lack_of_fit"):
        column = pc.if_else(chosen, pa.array(values, pa.float64()), None)
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def by_key(pieces):
    return {
        tuple(key.values()): cell
        for keys, cells in pieces
        for key, cell in zip(keys.to_pylist(), cells, strict=True)
    }


def arrays(cell):
    """The arrays of a cell by name, diagnostics included."""
    found = {name: values for name, values in vars(cell).items() if isinstance(values, np.ndarray)}
    return found | {column.name: values for column, values in cell.diagnostics.items()}


def same_cells(store, damaged="refuse"):
    """Check that the cells are those of the whole table, to the bit. Return the number of pieces."""
    pieces = list(stored_cells(store, damaged=damaged))
    ours = by_key(pieces)
    keys, cells = cells_of(store.replicates.read(damaged="refuse" if damaged == "refuse" else []))
    theirs = by_key([(keys, cells)])
    assert ours.keys() == theirs.keys()
    for key, cell in theirs.items():
        for name, values in arrays(cell).items():
            mine = arrays(ours[key]).get(name, np.full(len(cell.ok), np.nan))
            assert np.array_equal(mine, values, equal_nan=name not in ("ok", "replicate"))
            assert mine.dtype == values.dtype
    return len(pieces)


CELLS_OF_PARTS = st.lists(st.sampled_from((*CELLS, TR)), min_size=1, max_size=4, unique_by=cell_id)
PARTS = st.tuples(st.integers(0, 20), st.integers(1, 9), CELLS_OF_PARTS, st.sampled_from((KEY, OTHER_KEY)))


@settings(max_examples=7, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=5), st.sampled_from([1, 13, 10**6]))
def test_whatever_the_parts_and_however_they_overlap(tmp_path_factory, parts, held):
    store = RunStore(tmp_path_factory.mktemp("run"))
    for first, count, cells, key in parts:
        store.replicates.write(key, complete_rows(first, first + count, cells), META)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "HELD_ROWS", held)
        same_cells(store)


def test_pieces_hold_no_more_rows_than_they_may(tmp_path, monkeypatch):
    store = RunStore(tmp_path)
    for first in range(0, 60, 20):
        store.replicates.write(KEY, with_checks(complete_rows(first, first + 20, (*CELLS, TR))), META)
    for held, pieces in ((1, 8), (119, 8), (120, 4), (480, 1)):
        monkeypatch.setattr(stored, "HELD_ROWS", held)
        assert same_cells(store) == pieces
        sizes = [sum(len(cell.ok) for cell in cells) for _, cells in stored_cells(store, damaged="refuse")]
        assert max(sizes) <= max(held, 60)


@pytest.mark.parametrize("variance", [0.0, math.inf, math.nan])
def test_nothing_is_said_beside_an_oracle_without_a_length(variance):
    row = {"coordinate": 0, "n": 100, "level": 0.9, "length_mean": 1.0, "length_mcse": 0.1}
    assert set(relative_length(LimitLaw((variance,)), row).values()) == {None}


def test_parts_that_cannot_be_read_are_left_out_or_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "HELD_ROWS", 1)
    store = RunStore(tmp_path)
    names = [store.replicates.write(KEY, complete_rows(first, first + 4), META) for first in (0, 4, 8)]
    names.append(store.replicates.write(KEY, complete_rows(0, 12, (TR,)), META))
    for name in names[1::2]:  # a part of the replicates of three cells, and all of a fourth
        path = Path(store.full(name))
        chunk = pq.read_metadata(path).row_group(0).column(REPLICATES.get_field_index("beta"))
        data = bytearray(path.read_bytes())
        data[chunk.dictionary_page_offset + chunk.total_compressed_size - 9] ^= 1
        path.write_bytes(bytes(data))
    left_out: list = []
    same_cells(store, left_out)
    assert [part.name for part in left_out] == names[1::2], "each once"
    with pytest.raises(InputError, match="a readable part"):
        list(stored_cells(store, damaged="refuse"))


def test_a_part_whose_rows_are_not_in_order_cannot_be_used(tmp_path):
    store = RunStore(tmp_path)
    name = store.replicates.write(KEY, complete_rows(0, 4), META)
    table = pq.read_table(store.full(name), partitioning=None)
    for rows in (table.take(list(range(23, -1, -1))), table.sort_by([("method", "descending")])):
        Path(store.full(name)).write_bytes(encode(rows.replace_schema_metadata(table.schema.metadata)))
        with pytest.raises(InputError, match="its rows|rows of replicates"):
            list(stored_cells(store, damaged="refuse"))


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def test_rows_that_contradict_each_other_or_their_status_are_an_error(tmp_path):
    store = RunStore(tmp_path)
    store.replicates.write(KEY, complete_rows(0, 8), META)
    store.replicates.write(KEY, complete_rows(7, 9, (BM,), shift=1e-9), META)
    with pytest.raises(InputError, match="replicate = 7"):
        list(stored_cells(store, KEY, damaged="refuse"))
    rows = complete_rows(0, 4)
    covered = [None if at == 5 else value for at, value in enumerate(rows["covered"].to_pylist())]
    store.replicates.write(OTHER_KEY, with_column(rows, "covered", covered), META)
    with pytest.raises(InputError, match="covered contradicts the status"):
        list(stored_cells(store, OTHER_KEY, damaged="refuse"))


@pytest.mark.parametrize("rows", [slice(0, 1), slice(0, 12)])
def test_a_truth_that_differs_between_replicates_is_an_error(tmp_path, rows):
    store = RunStore(tmp_path)
    changed = complete_rows(4, 6)
    truth = changed["truth"].to_numpy().copy()
    truth[rows] = 1.0
    store.replicates.write(KEY, complete_rows(0, 4), META)
    store.replicates.write(KEY, with_column(changed, "truth", truth), META)
    with pytest.raises(InputError, match="truth of a cell differs|truth is not that of other parts"):
        list(stored_cells(store, damaged="refuse"))
    left_out = []
    ((_, cells),) = stored_cells(store, damaged=left_out)
    assert len(left_out) == 1 and all(len(cell.ok) in (2, 4) for cell in cells)


def test_a_few_cells_at_a_time_in_any_order_are_all_at_once(tmp_path, monkeypatch):
    serial(tmp_path, study(replicates=32))
    store = RunStore(tmp_path)
    paths = stored_paths(store.replicates, damaged="refuse")
    whole = summary_of([cells_of(store.replicates.read(damaged="refuse"))], paths)
    monkeypatch.setattr(stored, "HELD_ROWS", 100)
    assert len(list(stored_cells(store, damaged="refuse"))) == 4
    assert stored_summary(store, damaged="refuse").equals(whole) and store.read_summary().equals(whole)
    keys = store.replicates.path_keys()[::-1]
    backwards = [piece for key in keys for piece in stored_cells(store, key, damaged="refuse")]
    assert summary_of(backwards, paths).equals(whole)
    nothing = summary_of([], paths)
    assert nothing.num_rows == 0 and nothing.column_names == whole.column_names


BATCHES = {"kind": "minibatch_sgd", "batch_size": 10, "noise": "batch"}
LAPLACE = {"kind": "laplace", "epsilon": 1.0}


@pytest.mark.parametrize(
    ("changes", "notion", "unit"),
    [
        ({}, "eps-LDP", "record"), ({"mechanism": {"kind": "none"}}, "none", None),
        ({"algorithm": BATCHES, "mechanism": LAPLACE}, "eps-DP (central)", "record (replacement)"),
    ],
)  # fmt: skip
def test_every_private_row_names_the_neighbouring_relation(changes, notion, unit):
    found = Study.from_mapping(changed(**changes)).plans()[0].simulator.columns()
    assert (found["privacy_notion"], found["privacy_unit"]) == (notion, unit)
    assert found["neighbouring"] == (None if unit is None else "replacement of one record")


def peak(run, count):
    """Peak memory in bytes, in NumPy and Arrow, of the summary of a run with this many rows in one path."""
    store = RunStore(run)
    benchmark.make(store, count, 40)
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        stored_summary(store, damaged="refuse")
        return tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def test_memory_does_not_grow_with_the_rows_of_a_path(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpflow.results.summary.HELD_ROWS", 2000)
    monkeypatch.setattr(benchmark, "PART_ROWS", 2000)
    monkeypatch.setattr("ldpflow.results.decomposition.CHUNK", 2**11)
    # A path in memory takes some 690 bytes for each row: 2.7 and 8.2 MB.
    assert peak(tmp_path / "large", 12_000) < 1.6 * peak(tmp_path / "small", 4000) < 4e6
