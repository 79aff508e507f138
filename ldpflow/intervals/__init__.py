"""Interval methods: one file each, registered here by its kind."""

from ldpflow.intervals.batch_means import BatchMeans
from ldpflow.intervals.block_bootstrap import BlockBootstrap
from ldpflow.intervals.cheap_bootstrap import CheapBootstrap
from ldpflow.intervals.confidence_sequence import ConfidenceSequence
from ldpflow.intervals.equal_batches import EqualBatches
from ldpflow.intervals.fieller import Fieller
from ldpflow.intervals.hulc import ConvexHull
from ldpflow.intervals.interval import (
    IntervalMethod,
    Intervals,
    PathIntervalMethod,
    average,
    in_order,
    symmetric,
    undefined,
)
from ldpflow.intervals.inversion import Inversion
from ldpflow.intervals.joint_region import JointRegion
from ldpflow.intervals.lugsail import Lugsail
from ldpflow.intervals.nonoverlapping_blocks import NonoverlappingBlocks
from ldpflow.intervals.oracle import Oracle
from ldpflow.intervals.overlapping_blocks import OverlappingBlocks
from ldpflow.intervals.parallel_runs import ParallelRuns
from ldpflow.intervals.perturbed_bootstrap import PerturbedBootstrap
from ldpflow.intervals.record import PathRecord
from ldpflow.intervals.self_normalization import SelfNormalization
from ldpflow.intervals.suffix_average import SuffixAverage
from ldpflow.intervals.transcript_covariance import TranscriptCovariance
from ldpflow.intervals.transcript_regression import (
    TranscriptRegression,
    TranscriptRegressionBatchMeans,
)

__all__ = [
    "INTERVAL_METHODS",
    "IntervalMethod",
    "Intervals",
    "PathIntervalMethod",
    "PathRecord",
    "average",
    "in_order",
    "symmetric",
    "undefined",
]

INTERVAL_METHODS: dict[str, type[IntervalMethod]] = {
    "BB": BlockBootstrap,
    "BM": BatchMeans,
    "SN": SelfNormalization,
    "oracle": Oracle,
    "TR": TranscriptRegression,
    "TR-BM": TranscriptRegressionBatchMeans,
    "PB": PerturbedBootstrap,
    "TRC": TranscriptCovariance,
    "NOL": NonoverlappingBlocks,
    "OBM": OverlappingBlocks,
    "EBS": EqualBatches,
    "LUG": Lugsail,
    "SUF": SuffixAverage,
    "CHB": CheapBootstrap,
    "ACS": ConfidenceSequence,
    "joint": JointRegion,
    "inversion": Inversion,
    "fieller": Fieller,
    "PAR": ParallelRuns,
    "HULC": ConvexHull,
}
