"""Planning a study before it is run, and searching the settings that make the best interval."""

from ldpflow.planning.prediction import Prediction, check_predictions, predict
from ldpflow.planning.tuning import Candidate, TuneResult, tune

__all__ = ["Candidate", "Prediction", "TuneResult", "check_predictions", "predict", "tune"]
