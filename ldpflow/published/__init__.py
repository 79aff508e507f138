"""Published tables as data, and the comparison of a run with them."""

from ldpflow.published.compare import Comparison, MissingCell, Row, compare
from ldpflow.published.tables import NAMES, PublishedNumber, load

__all__ = ["NAMES", "Comparison", "MissingCell", "PublishedNumber", "Row", "compare", "load"]
