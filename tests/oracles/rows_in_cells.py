"""Cells and their measures from a table of rows that is held at once; the package reads a few at a time."""

from itertools import pairwise

import numpy as np
import pyarrow as pa

from ldpflow.results.columns import VALUES, CellRows, diagnostics_of, floats, group_keys
from ldpflow.results.measures import summarise_cells
from ldpflow.store.schema import FINISHED, key_codes


def cells_of(rows):
    """Keys of the cells, sorted, and the cells: rows of the replicates and ``path`` in any order."""
    groups = group_keys(rows.schema)
    rows = rows.sort_by([(name, "ascending") for name in (*groups, "replicate")])
    starts = np.zeros(rows.num_rows, dtype=bool)
    starts[:1] = True
    for name in groups:
        code = key_codes(rows[name])
        starts[1:] |= code[1:] != code[:-1]
    bounds = [*np.flatnonzero(starts).tolist(), rows.num_rows]
    columns = {name: floats(rows[name]) for name in VALUES}
    checks = {column: floats(rows[column.name]) for column in diagnostics_of(rows.schema)}
    columns["replicate"] = rows["replicate"].to_numpy()
    columns["ok"] = np.isin(rows["status"].to_numpy(), FINISHED)
    cells = [
        CellRows(
            **{name: values[first:last] for name, values in columns.items()},
            diagnostics={column: values[first:last] for column, values in checks.items()},
        )
        for first, last in pairwise(bounds)
    ]
    return rows.select(groups).take(pa.array(bounds[:-1], pa.int64())), cells


def summarise(rows, null=None):
    return summarise_cells(*cells_of(rows), null)
