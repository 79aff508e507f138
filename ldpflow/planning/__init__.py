"""Planning a study before it is run, and searching the settings that make the best interval."""

from ldpflow.planning.checking import check_predictions
from ldpflow.planning.plans import Plan, plan
from ldpflow.planning.prediction import Prediction, arrival_cautions, predict
from ldpflow.planning.tuning import Candidate, TuneResult, tune

__all__ = [
    "Candidate",
    "Plan",
    "Prediction",
    "TuneResult",
    "arrival_cautions",
    "check_predictions",
    "plan",
    "predict",
    "tune",
]
