"""Planning a study before it is run, and searching the settings that make the best interval."""

from ldpflow.planning.checking import check_predictions
from ldpflow.planning.compare import ProtocolPlan, ProtocolsPlan, compare_protocols, compare_study
from ldpflow.planning.plans import Plan, PlanOptions, plan
from ldpflow.planning.tuning import Candidate, TuneResult, tune
from ldpflow.planning.wording import arrival_cautions

__all__ = [
    "Candidate",
    "Plan",
    "PlanOptions",
    "ProtocolPlan",
    "ProtocolsPlan",
    "TuneResult",
    "arrival_cautions",
    "check_predictions",
    "compare_protocols",
    "compare_study",
    "plan",
    "tune",
]
