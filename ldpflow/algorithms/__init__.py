"""Algorithms: one file each, registered here by its kind."""

from ldpflow.algorithms.algorithm import Algorithm, BaseAlgorithm
from ldpflow.algorithms.budget_split import BudgetSplit
from ldpflow.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.algorithms.dp_gd import DpGd
from ldpflow.algorithms.dp_mbssgd import DpMbssgd
from ldpflow.algorithms.dp_nsgd import DpNsgd
from ldpflow.algorithms.dp_nsgd_reduced import DpNsgdReduced
from ldpflow.algorithms.dp_sgd import DpSgd
from ldpflow.algorithms.dp_ssgd import DpSsgd
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.algorithms.sufficient_statistics import OrdinaryLeastSquares, SufficientStatistics
from ldpflow.algorithms.tail_sgd import TailSgd

__all__ = ["ALGORITHMS", "Algorithm", "BaseAlgorithm"]

ALGORITHMS: dict[str, type[BaseAlgorithm]] = {
    cls.model_fields["kind"].default: cls
    for cls in (
        LdpSgd,
        MinibatchSgd,
        BudgetSplit,
        DpNsgd,
        DpNsgdReduced,
        DpGd,
        DpSgd,
        TailSgd,
        DpSsgd,
        DpAmbssgd,
        DpMbssgd,
        OrdinaryLeastSquares,
        SufficientStatistics,
    )
}
