"""Audits by name: mechanisms on suitable problems, algorithms, protocols; and of all that ldpflow has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ldpflow.algorithms import ALGORITHMS
from ldpflow.algorithms.finite_sum import FiniteSumAlgorithm
from ldpflow.allowed import closest
from ldpflow.audit.algorithms import audit_data_set, audit_path
from ldpflow.audit.distinguishing import Audit
from ldpflow.audit.local import audit_mechanism
from ldpflow.audit.protocols import audit_protocol
from ldpflow.errors import InputError
from ldpflow.mechanisms import MECHANISMS, Mechanism
from ldpflow.problems import PROBLEMS
from ldpflow.problems.problem import Problem
from ldpflow.protocols import PROTOCOLS
from ldpflow.study.entry import read_group
from ldpflow.study.plugins import load_plugins

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
    ("dp_nsgd", {"epochs": 2.0, "order": "fixed"}, ""),
    ("dp_nsgd_reduced", {"epochs": 2.0}, ""),
    ("dp_nsgd_reduced", {"epochs": 2.0, "order": "fixed"}, ""),
    ("dp_ssgd", {}, ""),
    ("dp_mbssgd", {}, ""),
    ("dp_ambssgd", {"doublings": 1, "part": 2}, ""),
    ("dp_ambssgd", {"doublings": 1, "part": 2, "rule": "printed"}, ""),
    ("sufficient_statistics", {}, ""),
    ("ldp_sgd", {"mu": 1.0}, ""),
    ("tail_sgd", {"mu": 1.0}, ""),
    ("minibatch_sgd", {"epsilon": 1.0, "noise": "batch", "batch_size": 2}, ""),
    ("budget_split", {"epsilon": 1.0, "perturbations": 2}, ""),
    ("rounds", {"epsilon": 1.0}, ""),
    ("thresholds", {"epsilon": 1.0, "k": 8}, ""),
    ("grr", {"epsilon": 1.0, "k": 8}, ""),
    ("oue", {"epsilon": 1.0, "k": 4}, ""),
    ("hrr", {"epsilon": 1.0, "k": 8}, ""),
    ("haar", {"epsilon": 1.0, "k": 8}, ""),
    ("tree", {"epsilon": 1.0, "k": 16}, ""),
)

BUDGET = {"epsilon": 2.0, "delta": 1e-3}
"""Of algorithms with their own noise, unless given: at a smaller delta a practical number shows little."""

SHUFFLED_BUDGET = {"epsilon": 0.3, "delta": 1e-2}
"""Of dp_ssgd, unless given: amplification by shuffling admits small budgets only."""

DEFAULT_MECHANISM = {"budget_split": "randomized_response", "minibatch_sgd": "laplace"}
"""Mechanism of an algorithm without a budget of its own; clipped_gaussian for others."""

STEP = {"eta": 0.01}
"""Of algorithms over a fixed data set, unless given."""


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
    """Hold a mechanism, an algorithm or a protocol to its privacy claim.

    Parameters
    ----------
    name : str
        Its kind, which an installed package may have brought.
    settings : dict
        Of an algorithm without noise of its own also those of the mechanism, whose kind is ``mechanism``.
    problem : str
        Kind of the problem whose gradients a mechanism randomises, with its default settings.
    samples : int, optional
        Outputs on each input, once to choose the test and once to count it; 500,000 of a mechanism or
        protocol and 100,000 runs of an algorithm unless given.
    confidence : float in (0, 1)
    seed : int

    Raises
    ------
    InputError
        If there is no such kind, or its settings are impossible.
    """
    load_plugins()
    if name in MECHANISMS:
        mechanism: Mechanism = one("mechanism", name, settings)
        kinds = [kind for kind, made in PROBLEMS.items() if issubclass(made, Problem)]
        if problem not in kinds:
            raise InputError("problem", problem, "one of " + ", ".join(kinds), closest(problem, kinds))
        chosen = one("problem", problem, {})
        return audit_mechanism(mechanism, chosen, samples or 500_000, confidence, seed)
    if name in PROTOCOLS:
        protocol = one("protocol", name, {"range": [0.0, 1.0]} | settings)
        return audit_protocol(protocol, samples or 500_000, confidence, seed)
    runs = samples or 100_000
    if name in finite_sum_kinds():
        algorithm = one("algorithm", name, BUDGET | STEP | settings)
        return audit_data_set(algorithm, 4, runs, confidence, seed)
    if name in ALGORITHMS:
        return audit_path(*path_parts(name, settings), runs, confidence, seed)
    kinds = [*MECHANISMS, *ALGORITHMS, *PROTOCOLS]
    raise InputError("name", name, "one of " + ", ".join(kinds), closest(name, kinds))


def path_parts(name: str, settings: dict[str, Any]) -> tuple[Any, Mechanism | None]:
    """A one-pass algorithm, and the mechanism under it unless it has noise of its own."""
    kind = ALGORITHMS[name]
    if kind.carries_privacy:
        budget = SHUFFLED_BUDGET if name == "dp_ssgd" else BUDGET
        known = {key: value for key, value in budget.items() if key in kind.model_fields}
        return one("algorithm", name, known | settings), None
    own = {key: value for key, value in settings.items() if key in kind.model_fields}
    rest = {key: value for key, value in settings.items() if key not in own}
    mechanism = rest.pop("mechanism", DEFAULT_MECHANISM.get(name, "clipped_gaussian"))
    start = {"eta": 0.01} if "eta" in kind.model_fields else {}
    return one("algorithm", name, start | own), one("mechanism", str(mechanism), rest)


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
