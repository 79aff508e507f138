"""Audits of everything that ldpflow has: each mechanism on a suitable problem, each finite-sum algorithm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ldpflow.algorithms import ALGORITHMS
from ldpflow.algorithms.finite_sum import FiniteSumAlgorithm
from ldpflow.allowed import closest
from ldpflow.audit.audit import Audit
from ldpflow.audit.data_sets import audit_algorithm
from ldpflow.audit.local import audit_mechanism
from ldpflow.errors import InputError
from ldpflow.mechanisms import MECHANISMS, Mechanism
from ldpflow.problems import PROBLEMS
from ldpflow.study.entry import read_group

__all__ = ["BUNDLED", "audit", "audit_bundled", "finite_sum_kinds"]

# Name, settings, problem: quantile where a report is a number, a regression where it is a vector.
BUNDLED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("randomized_response", {"epsilon": 0.5}, "quantile"),
    ("randomized_response", {"epsilon": 1.0}, "quantile"),
    ("randomized_response", {"epsilon": 4.0}, "quantile"),
    ("cells", {"epsilon": 1.0}, "quantiles"),
    ("cells", {"epsilon": 3.0}, "quantiles"),
    ("laplace", {"epsilon": 1.0}, "quantile"),
    ("laplace", {"epsilon": 1.0}, "linear_regression"),
    ("gaussian", {"mu": 1.0}, "quantile"),
    ("gaussian", {"mu": 1.0}, "logistic_regression"),
    ("clipped_gaussian", {"mu": 1.0, "clip": 2.0}, "quantile"),
    ("clipped_gaussian", {"mu": 1.0}, "linear_regression"),
    ("dp_gd", {"epochs": 2.0}, ""),
    ("dp_sgd", {"epochs": 1.0, "batch_size": 2}, ""),
    ("dp_nsgd", {"epochs": 2.0}, ""),
    ("dp_nsgd_reduced", {"epochs": 2.0}, ""),
)

BUDGET = {"epsilon": 2.0, "delta": 1e-3, "eta": 0.01}
"""Of finite-sum algorithms, unless given: at a smaller delta a practical number of runs shows little."""


def finite_sum_kinds() -> list[str]:
    """Kinds of the algorithms over a fixed data set."""
    return [kind for kind, made in ALGORITHMS.items() if issubclass(made, FiniteSumAlgorithm)]


def audit(
    name: str,
    settings: dict[str, Any],
    problem: str = "quantile",
    samples: int | None = None,
    confidence: float = 0.999,
    seed: int = 1,
) -> Audit:
    """Hold a mechanism, or an algorithm over a fixed data set, to its privacy claim.

    Parameters
    ----------
    name : str
        Kind of the mechanism or algorithm.
    settings : dict
    problem : str
        Kind of the problem whose gradients a mechanism randomises, with its default settings.
    samples : int, optional
        Outputs on each input, once to choose the test and once to count it; 500,000 of a mechanism and
        100,000 runs of an algorithm unless given.
    confidence : float in (0, 1)
    seed : int

    Raises
    ------
    InputError
        If there is no such kind, or its settings are impossible.
    """
    if name in MECHANISMS:
        mechanism: Mechanism = one("mechanism", name, settings)
        if problem not in PROBLEMS:
            known = ", ".join(PROBLEMS)
            raise InputError("problem", problem, f"one of {known}", closest(problem, PROBLEMS))
        chosen = one("problem", problem, {})
        return audit_mechanism(mechanism, chosen, samples or 500_000, confidence, seed)
    if name in finite_sum_kinds():
        algorithm = one("algorithm", name, BUDGET | settings)
        return audit_algorithm(algorithm, 4, samples or 100_000, confidence, seed)
    kinds = [*MECHANISMS, *finite_sum_kinds()]
    raise InputError("name", name, "one of " + ", ".join(kinds), closest(name, kinds))


def one(group: str, kind: str, settings: dict[str, Any]) -> Any:
    """A component with these settings."""
    (entry,) = read_group(group, {"kind": kind, **settings})
    found = entry.combinations()
    if len(found) != 1:
        raise InputError(group, settings, "one value for every setting")
    return found[0]


def audit_bundled(samples: int | None = None, confidence: float = 0.999, seed: int = 1) -> Iterator[Audit]:
    """Audit everything in :data:`BUNDLED`, one after the other."""
    for name, settings, problem in BUNDLED:
        yield audit(name, settings, problem, samples, confidence, seed)
