"""Interval methods: a class in a module of this package is registered by its kind."""

from ldpflow.components.intervals.interval import IntervalMethod, Intervals, average, in_order
from ldpflow.settings import find_components

__all__ = ["INTERVAL_METHODS", "IntervalMethod", "Intervals", "average", "in_order"]

INTERVAL_METHODS: dict[str, type[IntervalMethod]] = find_components(__name__, IntervalMethod)
