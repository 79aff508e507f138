"""Performance measures with Monte Carlo standard errors, and comparisons on the same replicates."""

from ldpflow.results.cells import GROUP_KEYS, CellRows, cells_of
from ldpflow.results.columns import COLUMNS, SUMMARY, Measure
from ldpflow.results.measures import summarise, summarise_cells
from ldpflow.results.paired import Comparison, compare_cells
from ldpflow.results.stored import stored_cells

__all__ = [
    "COLUMNS",
    "GROUP_KEYS",
    "SUMMARY",
    "CellRows",
    "Comparison",
    "Measure",
    "cells_of",
    "compare_cells",
    "stored_cells",
    "summarise",
    "summarise_cells",
]
