"""Performance measures with Monte Carlo standard errors, and comparisons on the same replicates."""

from ldpflow.measures.cells import GROUP_KEYS, CellRows, cells_of
from ldpflow.measures.columns import COLUMNS, SUMMARY, Measure
from ldpflow.measures.comparison import Comparison, compare_cells
from ldpflow.measures.performance import summarise, summarise_cells
from ldpflow.measures.stored import stored_cells

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
