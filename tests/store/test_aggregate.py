"""Coalescing batches into parts."""

import errno
import itertools
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpflow.store.run_store import Aggregator, Published, RunStore
from ldpflow.store.schema import cell_set_hash
from tests.store.replicates import BB, BM, CELLS, KEY, META, OTHER_KEY, SN, complete_rows, same

ALL = cell_set_hash(CELLS)


@pytest.fixture
def aggregator(tmp_path: Path) -> Aggregator:
    return Aggregator(RunStore(tmp_path), max_rows=60, clock=Mock(return_value=0.0))


def add(aggregator: Aggregator, first: int, last: int, cells: Sequence = CELLS, key: str = KEY):
    return aggregator.add(key, first, last, complete_rows(first, last, cells), META)


def parts(aggregator: Aggregator) -> list[tuple[int, int]]:
    return [(part.first, part.last) for part in aggregator.store.replicates.scan(damaged="refuse")]


def test_adjacent_batches_become_one_part_at_the_row_threshold(aggregator):
    assert add(aggregator, 0, 4) == []
    assert add(aggregator, 8, 12) == [], "48 rows, but not adjacent"
    assert parts(aggregator) == []
    assert add(aggregator, 4, 8) == [Published(KEY, 0, 12, ALL)]
    assert parts(aggregator) == [(0, 12)]


def test_age_publishes_with_the_next_call_whatever_its_path(aggregator):
    add(aggregator, 0, 1)
    aggregator.clock.return_value = 4.9
    assert add(aggregator, 1, 2) == []
    aggregator.clock.return_value = 5.0
    assert add(aggregator, 0, 1, key=OTHER_KEY) == [Published(KEY, 0, 2, ALL)]
    assert aggregator.publish() == []
    aggregator.clock.return_value = 10.0
    assert aggregator.publish() == [Published(OTHER_KEY, 0, 1, ALL)]


def test_a_batch_that_comes_twice_is_stored_once(aggregator):
    for _ in range(2):
        assert add(aggregator, 0, 4) == [], "pending: not yet on disk"
    assert aggregator.publish(everything=True) == [Published(KEY, 0, 4, ALL)]
    # This one, or one that lost its memory and reads what is stored.
    for other in (aggregator, Aggregator(aggregator.store)):
        assert add(other, 2, 4) == [Published(KEY, 2, 4, ALL)]
    assert parts(aggregator) == [(0, 4)]


def test_a_failed_write_keeps_the_batches(aggregator, monkeypatch):
    full_disk = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(aggregator.store.replicates, "publish", full_disk)
    with pytest.raises(OSError):
        add(aggregator, 0, 12)
    monkeypatch.undo()
    assert add(aggregator, 0, 12) == [Published(KEY, 0, 12, ALL)]


def test_rows_of_other_replicates_are_refused(aggregator):
    with pytest.raises(ValueError, match="0 to 4"):
        aggregator.add(KEY, 0, 8, complete_rows(0, 4), META)


@settings(max_examples=4, deadline=None)
@given(st.permutations([(i, cells) for i in range(4) for cells in ((BB,), (BM, SN))] * 2))
def test_any_order_of_arrival_gives_the_same_rows_and_reports_each_batch(tmp_path_factory, order):
    clock = map(float, itertools.count()).__next__
    aggregator = Aggregator(RunStore(tmp_path_factory.mktemp("run")), max_rows=16, clock=clock)
    published = []
    for i, cells in order:
        published += add(aggregator, 2 * i, 2 * i + 2, cells)
    published += aggregator.publish(everything=True)
    assert len({(part.cell_set, r) for part in published for r in range(part.first, part.last)}) == 16
    rows = aggregator.store.replicates
    assert same(rows.read(KEY, damaged="refuse").drop_columns("path"), complete_rows(0, 8))
    stored = rows.scan(damaged="refuse")
    assert sum((part.last - part.first) * len(part.cells) for part in stored) == 8 * 3, "each row once"
