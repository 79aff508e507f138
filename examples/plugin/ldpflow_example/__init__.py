"""One component of every kind except a protocol. Importing the modules registers their classes."""

from ldpflow_example.averaged_laplace import AveragedLaplace
from ldpflow_example.capped_mean import CappedMean
from ldpflow_example.late_batches import LateBatches
from ldpflow_example.shifted_sgd import ShiftedSgd
from ldpflow_example.triangular import Triangular

__all__ = ["AveragedLaplace", "CappedMean", "LateBatches", "ShiftedSgd", "Triangular"]
