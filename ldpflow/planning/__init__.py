"""Planning a study before it is run, and searching the settings that make the best interval."""

from ldpflow.planning.checking import check_predictions
from ldpflow.planning.compare import ProtocolPlan, compare_protocols
from ldpflow.planning.plans import Plan, plan
from ldpflow.planning.prediction import Prediction, arrival_cautions, predict
from ldpflow.planning.protocols_plan import Comparison, ProtocolsPlan, compare_study
from ldpflow.planning.tuning import Candidate, TuneResult, tune

__all__ = [
    "Candidate",
    "Comparison",
    "Plan",
    "Prediction",
    "ProtocolPlan",
    "ProtocolsPlan",
    "TuneResult",
    "arrival_cautions",
    "check_predictions",
    "compare_protocols",
    "compare_study",
    "plan",
    "predict",
    "tune",
]
