"""Published tables as data, and the comparison of a run with them."""

from ldpflow.published.compare import (
    COMPARED,
    NAMES,
    Comparison,
    MissingCell,
    PublishedNumber,
    Row,
    compare,
    load,
)

__all__ = [
    "COMPARED",
    "NAMES",
    "Comparison",
    "MissingCell",
    "PublishedNumber",
    "Row",
    "compare",
    "load",
]
