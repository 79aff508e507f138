"""Planning a study before it is run."""

from ldpflow.options import PlanOptions as PlanOptions
from ldpflow.practice.planning.plans import Plan as Plan
from ldpflow.practice.planning.plans import plan as plan
from ldpflow.practice.planning.rows import arrival_cautions as arrival_cautions
