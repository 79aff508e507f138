"""A small transcript in memory and as files."""

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from ldpflow.errors import InputError
from tests.oracles.transcript import demo


@pytest.fixture(scope="session")
def rows():
    """20,000 rows of (theta, report), and the last theta."""
    return demo()


def field_of(call, *arguments, **options):
    """Field that the refusal of a call names."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    return caught.value.field


def as_table(rows, **columns):
    """A table of rows, with further columns."""
    return pa.table({"theta": [r[0] for r in rows], "report": [r[1] for r in rows], **columns})


def changed(table, row, column, value):
    """A table with another value in a row, from 1."""
    values = table[column].to_pylist()
    values[row - 1] = value
    return table.set_column(table.column_names.index(column), column, [values])


def write(table, file):
    """A table as Parquet or CSV."""
    if file.suffix == ".parquet":
        pq.write_table(table, file, row_group_size=3000)
    else:
        pc.write_csv(table, file, pc.WriteOptions(quoting_style="none"))
    return file
