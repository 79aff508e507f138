"""Performance measures with Monte Carlo standard errors."""

from ldpflow.results.cells import CellRows, group_keys
from ldpflow.results.columns import COLUMNS, SUMMARY, Measure
from ldpflow.results.measures import summarise_cells
from ldpflow.results.stored import stored_cells

__all__ = [
    "COLUMNS",
    "SUMMARY",
    "CellRows",
    "Measure",
    "group_keys",
    "stored_cells",
    "summarise_cells",
]
