"""One component of every kind. Importing the modules registers their classes with ldpflow."""

from ldpflow_example.averaged_laplace import AveragedLaplace
from ldpflow_example.capped_mean import CappedMean
from ldpflow_example.late_batches import LateBatches
from ldpflow_example.shifted_sgd import ShiftedSgd
from ldpflow_example.triangular import Triangular

__all__ = ["AveragedLaplace", "CappedMean", "LateBatches", "ShiftedSgd", "Triangular"]
