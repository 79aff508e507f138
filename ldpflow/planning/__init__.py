"""Planning a study before it is run."""

from ldpflow.planning.checking import check_predictions
from ldpflow.planning.compare import ProtocolPlan, compare_protocols
from ldpflow.planning.plans import Plan, plan
from ldpflow.planning.prediction import Prediction, arrival_cautions, predict
from ldpflow.planning.protocols_plan import Comparison, ProtocolsPlan, compare_study

__all__ = [
    "Comparison",
    "Plan",
    "Prediction",
    "ProtocolPlan",
    "ProtocolsPlan",
    "arrival_cautions",
    "check_predictions",
    "compare_protocols",
    "compare_study",
    "plan",
    "predict",
]
