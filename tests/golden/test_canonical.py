"""The canonical form notices every change of a value, and no change of form."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from tests.golden.canonical import column_hashes, table_hash

ROWS = [
    {"replicate": 0, "method": "BB", "estimate": 0.1, "se": None, "covered": True},
    {"replicate": 1, "method": "BB", "estimate": math.nan, "se": -0.0, "covered": None},
]
NAMES = list(ROWS[0])
TABLE = pa.Table.from_pylist(ROWS)


def test_order_types_and_new_columns_do_not_matter():
    same = TABLE.take([1, 0]).append_column("added", pa.array([1, None]))
    at = same.schema.get_field_index("replicate")
    same = same.set_column(at, "replicate", same["replicate"].cast(pa.int8()))
    assert table_hash(same, NAMES) == table_hash(TABLE, NAMES)
    without = TABLE.drop_columns("se").slice(0, 1)
    assert table_hash(without, NAMES) == table_hash(TABLE.slice(0, 1), NAMES)


@pytest.mark.parametrize(
    ("row", "name", "value"),
    [
        (0, "estimate", math.nextafter(0.1, 1)),
        (0, "estimate", None),
        (0, "se", 0.0),
        (1, "se", 0.0),
        (1, "estimate", None),
        (0, "covered", False),
        (1, "method", "BM"),
        (1, "replicate", 2),
    ],
)
def test_a_changed_value_shows(row, name, value):
    rows = [dict(r) for r in ROWS]
    rows[row][name] = value
    changed = pa.Table.from_pylist(rows, schema=TABLE.schema)
    assert table_hash(changed, NAMES) != table_hash(TABLE, NAMES)
    assert column_hashes(changed, [name]) != column_hashes(TABLE, [name])


def test_values_that_change_places_show():
    swapped = TABLE.set_column(2, "estimate", TABLE["estimate"].take([1, 0]))
    assert table_hash(swapped, NAMES) != table_hash(TABLE, NAMES)
    assert column_hashes(swapped, NAMES) != column_hashes(TABLE, NAMES)
