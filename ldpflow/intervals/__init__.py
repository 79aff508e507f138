"""Interval methods: one file each, registered here by its kind."""

from ldpflow.intervals.batch_means import BatchMeans
from ldpflow.intervals.block_bootstrap import BlockBootstrap
from ldpflow.intervals.interval import IntervalMethod, Intervals
from ldpflow.intervals.oracle import Oracle
from ldpflow.intervals.perturbed_bootstrap import PerturbedBootstrap
from ldpflow.intervals.self_normalization import SelfNormalization

__all__ = ["INTERVAL_METHODS", "IntervalMethod", "Intervals"]

INTERVAL_METHODS: dict[str, type[IntervalMethod]] = {
    "BB": BlockBootstrap,
    "BM": BatchMeans,
    "SN": SelfNormalization,
    "oracle": Oracle,
    "PB": PerturbedBootstrap,
}
