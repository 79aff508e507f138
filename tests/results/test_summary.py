"""The summary does not depend on how many rows are in memory at once."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest

from benchmarks import summary as benchmark
from ldpflow.results.summary import stored_cells, stored_paths, stored_summary, summary_of
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.faults.study import serial, study
from tests.oracles.rows_in_cells import cells_of
from tests.studies import changed


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summary")
    serial(folder, study(replicates=32))
    return RunStore(folder)


@pytest.fixture
def paths(store):
    return stored_paths(store.replicates, damaged="refuse")


def test_a_few_cells_at_a_time_in_any_order_are_all_at_once(store, paths, monkeypatch):
    whole = summary_of([cells_of(store.replicates.read(damaged="refuse"))], paths)
    monkeypatch.setattr("ldpflow.results.summary.HELD_ROWS", 100)
    assert len(list(stored_cells(store, damaged="refuse"))) == 4
    assert stored_summary(store, damaged="refuse").equals(whole)
    keys = store.replicates.path_keys()[::-1]
    backwards = [piece for key in keys for piece in stored_cells(store, key, damaged="refuse")]
    assert summary_of(backwards, paths).equals(whole)
    assert store.read_summary().equals(whole)


def test_no_rows(store, paths):
    nothing = summary_of([], paths)
    assert nothing.num_rows == 0
    assert nothing.column_names == store.read_summary().column_names


@pytest.mark.parametrize(
    ("changes", "notion", "unit"),
    [
        ({"problem": {"kind": "quantile"}}, "eps-LDP", "record"),
        ({"mechanism": {"kind": "none"}}, "none", None),
        (
            {
                "algorithm": {"kind": "minibatch_sgd", "batch_size": 10, "noise": "batch"},
                "mechanism": {"kind": "laplace", "epsilon": 1.0},
            },
            "eps-DP (central)",
            "record (replacement)",
        ),
    ],
)
def test_every_private_row_names_the_neighbouring_relation(changes, notion, unit):
    found = Study.from_mapping(changed(**changes)).plans()[0].simulator.columns()
    assert (found["privacy_notion"], found["privacy_unit"]) == (notion, unit)
    assert found["neighbouring"] == (None if unit is None else "replacement of one record")


def peak(run, count):
    """The most bytes that the summary of a run with so many rows in one path asks NumPy and Arrow for."""
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
    monkeypatch.setattr("ldpflow.results.summary.HELD_ROWS", 4000)
    monkeypatch.setattr(benchmark, "PART_ROWS", 4000)
    monkeypatch.setattr("ldpflow.results.decomposition.CHUNK", 2**12)
    small, large = peak(tmp_path / "small", 8000), peak(tmp_path / "large", 40_000)
    assert large < 1.6 * small
    # 32,000 rows more; a path in memory took some 690 bytes for each of them.
    assert large - small < 32_000 * 40
