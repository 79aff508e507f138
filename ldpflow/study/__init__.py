"""Studies: what a user types, validated and laid out as paths and cells."""

from ldpflow.study.entry import GROUPS, Entry
from ldpflow.study.fields import allowed
from ldpflow.study.files import bundled_studies, load_study
from ldpflow.study.memory import BUDGET
from ldpflow.study.study import Study

__all__ = ["BUDGET", "GROUPS", "Entry", "Study", "allowed", "bundled_studies", "load_study"]
