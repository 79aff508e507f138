"""Interval methods: a class in a module of this package is registered by its kind."""

from ldpflow.components.intervals.interval import (
    IntervalMethod,
    Intervals,
    PathIntervalMethod,
    Variance,
    VarianceMethod,
    average,
    in_order,
    normal_intervals,
    symmetric,
    undefined,
)
from ldpflow.components.intervals.record import PathRecord
from ldpflow.settings import find_components

__all__ = [
    "INTERVAL_METHODS",
    "IntervalMethod",
    "Intervals",
    "PathIntervalMethod",
    "PathRecord",
    "Variance",
    "VarianceMethod",
    "average",
    "in_order",
    "normal_intervals",
    "symmetric",
    "undefined",
]

INTERVAL_METHODS: dict[str, type[IntervalMethod]] = find_components(__name__, IntervalMethod)
