"""Cell ids, cell set hashes and the ranges of replicates."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldpflow.store.part import intersect, subtract, union
from ldpflow.store.schema import REPLICATES, cell_id, cell_set_hash, conform, key_codes
from tests.store.replicates import BB, BM, CELLS


def test_cell_id_leaves_nulls_out_and_does_not_depend_on_order_or_number_type():
    expected = '{"level":0.9,"method":"BM","n":1000}'
    assert cell_id(BM) == expected
    assert cell_id({"level": 0.9, "beta": None, "n": 1000.0, "method": "BM"}) == expected
    assert cell_id({**BB, "beta": 1}) == cell_id({**BB, "beta": 1.0})
    assert cell_id(BB) != cell_id({**BB, "B": 501})


def test_cell_id_refuses_what_is_no_key():
    with pytest.raises(ValueError, match="coordinate"):
        cell_id({**BM, "coordinate": 0})


def test_cell_set_hash_is_of_a_set():
    assert cell_set_hash(CELLS) == cell_set_hash([*reversed(CELLS), BM])
    assert cell_set_hash(CELLS) != cell_set_hash(CELLS[1:])
    assert len(cell_set_hash(CELLS)) == 12


def test_conform_adds_absent_columns_as_null_and_refuses_unknown_ones():
    table = pa.table({"replicate": [1], "n": [10], "method": ["BM"], "level": [0.9]})
    full = conform(table)
    assert full.schema.equals(REPLICATES)
    assert full["beta"].null_count == 1
    with pytest.raises(ValueError, match="colour"):
        conform(table.append_column("colour", pa.array(["red"])))


def test_key_codes_equate_null_with_null_and_nan_with_nan():
    codes = key_codes(pa.chunked_array([[1.0, None, float("nan")], [None, float("nan"), 1.0]]))
    assert codes[0] == codes[5] and codes[1] == codes[3] and codes[2] == codes[4]
    assert len(set(codes.tolist())) == 3


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair))))


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
