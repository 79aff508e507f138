"""Methods, trajectories and replicates that a study asks for and that are left out, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldpflow.study.study import Study

__all__ = ["left_out"]

MOST_NAMES = 6


def left_out(study: Study) -> list[str]:
    """Sentences on the methods, trajectories and replicates of a study that make no rows, and why.

    One for each method and reason; none where everything that the study asks for is computed.
    """
    simulators = study.simulators()
    found = []
    for kind in dict.fromkeys(method.kind for method in study.method_settings):
        methods = [method for method in study.method_settings if method.kind == kind]
        reasons: dict[str, dict[str, None]] = {}
        used = False
        for simulator in simulators:
            for method in methods:
                if method.applies(simulator):
                    used = True
                else:
                    reasons.setdefault(method.lacking(simulator), {})[name_of(simulator)] = None
        for reason, names in reasons.items():
            share = "is left out with" if used else "makes no interval in this study; it is left out with"
            found.append(f"{kind} {share} {listed(list(names))}: {reason}")
    return [*found, *without_trajectory(study), *without_row(study)]


def name_of(simulator: Any) -> str:
    """The algorithm or protocol of a simulator."""
    parts = simulator.parts()
    acting = parts.get("algorithm") or parts.get("protocol") or parts["problem"]
    return str(acting.kind)


def listed(names: list[str]) -> str:
    """Some names, the first of them where there are many."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def without_trajectory(study: Study) -> list[str]:
    """A sentence on what has no trajectory although the study asks for them."""
    if study.trajectory is None:
        return []
    names = dict.fromkeys(name_of(plan.simulator) for plan in study.plans() if not plan.checkpoints)
    return [f"trajectory: none of {listed(list(names))}, which makes no steps to follow"] if names else []


def without_row(study: Study) -> list[str]:
    """Sentences on methods whose rows are made of several replicates, where some are left over."""
    found: dict[str, None] = {}
    for plan in study.plans():
        for cell in plan.cells:
            if left := study.replicates % cell.runs:
                text = f"{cell.method.kind}, level {cell.level:g}: a row is made of {cell.runs} replicates; "
                text += f"the last {left} of {study.replicates:,} make none"
                found[text] = None
    return list(found)
