"""The summary does not depend on how many rows are in memory at once."""

from __future__ import annotations

from ldpflow.store import RunStore
from ldpflow.summary import stored_paths, stored_summary, summary_of
from tests.faults.study import serial, study


def test_path_by_path_is_all_at_once(tmp_path):
    serial(tmp_path, study(replicates=32))
    store = RunStore(tmp_path)
    keys = store.path_keys()
    assert len(keys) == 2
    whole = summary_of(store.read_rows(), stored_paths(store))
    for order in (keys, keys[::-1]):
        pieces = (store.read_rows(key) for key in order)
        assert summary_of(pieces, stored_paths(store)).equals(whole)
    assert stored_summary(store).equals(whole)
    assert store.read_summary().equals(whole)


def test_no_rows(tmp_path):
    serial(tmp_path, study(replicates=32))
    store = RunStore(tmp_path)
    nothing = summary_of([], stored_paths(store))
    assert nothing.num_rows == 0
    assert nothing.column_names == store.read_summary().column_names
