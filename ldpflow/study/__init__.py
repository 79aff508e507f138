"""Studies: what a user types, validated and laid out as simulators and cells."""

from ldpflow.settings import allowed
from ldpflow.study.entry import GROUPS, Entry
from ldpflow.study.study import Study, bundled_studies, load_study

__all__ = ["GROUPS", "Entry", "Study", "allowed", "bundled_studies", "load_study"]
