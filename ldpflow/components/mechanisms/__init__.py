"""Local randomisers: a class in a module of this package is registered by its kind."""

from ldpflow.components.mechanisms.mechanism import Mechanism, PrivacyStatement
from ldpflow.settings import find_components

__all__ = ["MECHANISMS", "Mechanism", "PrivacyStatement"]

MECHANISMS: dict[str, type[Mechanism]] = find_components(__name__, Mechanism)
