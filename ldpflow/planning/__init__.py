"""Planning a study before it is run."""

from ldpflow.planning.checking import check_predictions
from ldpflow.planning.compare import ProtocolPlan, ProtocolsPlan, compare_protocols, compare_study
from ldpflow.planning.plans import Plan, PlanOptions, plan
from ldpflow.planning.wording import arrival_cautions

__all__ = [
    "Plan",
    "PlanOptions",
    "ProtocolPlan",
    "ProtocolsPlan",
    "arrival_cautions",
    "check_predictions",
    "compare_protocols",
    "compare_study",
    "plan",
]
