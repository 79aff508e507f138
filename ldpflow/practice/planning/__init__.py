"""Planning a study before it is run."""

from ldpflow.practice.planning.compare import ProtocolPlan, ProtocolsPlan, compare_protocols, compare_study
from ldpflow.practice.planning.plans import Plan, PlanOptions, check_predictions, plan
from ldpflow.practice.planning.rows import arrival_cautions

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
