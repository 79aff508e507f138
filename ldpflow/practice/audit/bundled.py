"""Audits of mechanisms, algorithms and protocols by name.

A mechanism is audited on pairs of gradients. One pair is as far apart as the gradients of two records can be,
if the problem bounds them. The outputs are the reports of a path with a constant gradient, made by the kernel
function of the mechanism.

A protocol is audited on the report of one user whose value lies in a given bin. The output is the estimate
of the distribution function from this report alone. This estimate determines the report. For ``rounds`` the
output is the answer at one threshold.

A function of ldpflow.client is audited on its reports on two values of a user. A seeded generator replaces
that of the system, so an audit can be repeated. The claim is that of the mechanism or protocol whose reports
the function makes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow import client
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.algorithms.finite_sum import FiniteSumAlgorithm
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.mechanisms import MECHANISMS, Mechanism
from ldpflow.components.problems import PROBLEMS
from ldpflow.components.problems.column_law import Records
from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.problem import Problem
from ldpflow.components.protocols import PROTOCOLS, OneShot, Protocol
from ldpflow.components.protocols.collections import call, edge_cdf, run_one_shot
from ldpflow.components.protocols.round_counts import ask, population_of
from ldpflow.components.protocols.rounds import Rounds
from ldpflow.errors import InputError
from ldpflow.numerics.streams import counter_keys
from ldpflow.practice.audit.distinguishing import Audit, Neighbours, claim_of, run_audit
from ldpflow.practice.audit.given_gradient import GivenGradient
from ldpflow.practice.audit.paths import audit_data_set, audit_path
from ldpflow.settings import closest
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.reports import reports_of
from ldpflow.study.entry import read_component
from ldpflow.study.plugins import load_plugins

Floats = NDArray[np.float64]

RECORDS = 30_000  # records whose gradients are compared
POINTS = (0.0, 1.0, -3.0)  # values of theta at which these gradients are taken
MAGNITUDES = (0.3, 1.0, 10.0, 1000.0)  # sizes of gradients, if the guarantee holds for every gradient


def outputs(path: OnePass, seed: int, count: int, replicate: int) -> Floats:
    return np.concatenate([part[2] for part in reports_of(path, seed, replicate, count)])


def extreme_pairs(clouds: list[Floats], seed: int) -> list[tuple[Floats, Floats]]:
    """Up to four pairs of gradients that are far apart. A cloud has the gradients at one theta."""
    d = clouds[0].shape[1]
    rng = np.random.default_rng(seed)
    directions = [*np.eye(d), np.ones(d), *rng.normal(size=(16, d)), *rng.choice([-1.0, 1.0], (16, d))]
    pairs: list[tuple[Floats, Floats]] = []
    for gradients in clouds:
        along = [gradients @ direction for direction in directions]
        places = {(int(np.argmax(values)), int(np.argmin(values))) for values in along}
        pairs += [(gradients[a], gradients[b]) for a, b in sorted(places)]
    chosen: dict[int, tuple[Floats, Floats]] = {}
    for order in (1, 2):
        ranked = sorted(pairs, key=lambda pair: -float(np.linalg.norm(pair[0] - pair[1], ord=order)))
        chosen |= {id(pair): pair for pair in ranked[:2]}
    return list(chosen.values())


def inputs_of(mechanism: Mechanism, problem: Problem, seed: int) -> list[tuple[Floats, Floats, Any]]:
    d = problem.dimension
    bits = problem.gradient_values()
    if mechanism.unsuitable(GivenGradient(values=(0.0,) * d, original=problem)) is None:
        # The guarantee holds for every gradient.
        unit = np.eye(d)[0]
        pairs = [(m * unit, -m * unit) for m in MAGNITUDES] + [(MAGNITUDES[-1] * unit, 0.0 * unit)]
        return [(a, b, {}) for a, b in pairs]
    claimed = {"l1": problem.l1_sensitivity(), "l2": problem.l2_sensitivity(), "bits": bits}
    if mechanism.reads_bit() and problem.levels() is not None:
        # Records in the first and the last cell, and in neighbouring cells.
        cells = [np.where(np.arange(d) < cell, 0.0, 1.0) for cell in range(d + 1)]
        pairs = [(cells[0], cells[-1]), *zip(cells[1:], cells[:-1], strict=True)]
        return [(a, b, claimed | {"taus": problem.levels()}) for a, b in (pairs if d > 1 else pairs[:1])]
    if bits is not None:
        return [(np.array([bits[1]]), np.array([bits[0]]), claimed)]
    none = MECHANISMS["none"].model_validate({})
    standing = [LdpSgd(c=1e-12, theta0=point) for point in POINTS]  # theta hardly moves
    clouds = [outputs(OnePass(problem, none, algorithm), seed, RECORDS, 0) for algorithm in standing]
    return [(a, b, claimed) for a, b in extreme_pairs(clouds, seed)]


def audit_mechanism(
    mechanism: Mechanism, problem: Problem, samples: int = 500_000, confidence: float = 0.999, seed: int = 1
) -> Audit:
    """Audit the claim of a local mechanism on gradients of a problem."""
    reason = mechanism.unsuitable(problem)
    if reason is not None:
        raise InputError("mechanism", mechanism.kind, f"a mechanism for {problem.kind}", reason)
    if mechanism.replaces_data():
        hint = "It simulates reports without values. Audit sampling = 'data': its reports have the same law."
        raise InputError("mechanism.sampling", getattr(mechanism, "sampling", None), "'data'", hint)
    claim = claim_of(mechanism.privacy())
    neighbours = []
    for number, (first, second, claimed) in enumerate(inputs_of(mechanism, problem, seed), start=1):
        values = (tuple(map(float, each)) for each in (first, second))
        given = [GivenGradient(values=each, original=problem, **claimed) for each in values]
        paths = [OnePass(each, mechanism, LdpSgd()) for each in given]

        def draw(which: int, count: int, stage: int, paths: list[OnePass] = paths) -> Floats:
            return outputs(paths[which], seed, count, stage)

        name = f"{number}: gradients {vector_text(first)} and {vector_text(second)}"
        neighbours.append(Neighbours(name, draw, (first, second)))
    return run_audit(mechanism, claim, neighbours, samples, confidence)


def vector_text(values: Floats) -> str:
    listed = ", ".join(f"{value:.4g}" for value in values[:4].tolist())
    return f"({listed}{', ...' if len(values) > 4 else ''})"


USERS = 10_000  # number of users from which a protocol chooses its number of bins


def ask_once(kernel, out, keys, x, population, design, budget):  # type: ignore[no-untyped-def]
    """Sum of the answers of one user at the threshold x, for each row of ``keys``."""
    for r in range(out.shape[0]):
        _, ones = ask(x, keys[r, 0], keys[r, 1], 0, 0, 1.0, population, design, budget)
        out[r, 0] = ones


def audit_protocol(protocol: Protocol, samples: int, confidence: float, seed: int) -> Audit:
    """Audit a protocol on the report of one honest user: a liar's report depends on no value."""
    protocol = protocol.model_copy(update={"answer_below": 1.0, "answer_above": 1.0, "liars": 0.0})
    if isinstance(protocol, Rounds):
        neighbours = [rounds_neighbours(protocol, seed)]
    elif isinstance(protocol, OneShot):
        k = protocol.bins(USERS)
        neighbours = [bin_neighbours(protocol, k, pair, seed) for pair in pairs_of_bins(k)]
    else:
        raise InputError("protocol.kind", protocol.kind, "a protocol of one round, or rounds of thresholds")
    return run_audit(protocol, claim_of(protocol.privacy()), neighbours, samples, confidence)


def pairs_of_bins(k: int) -> list[tuple[int, int]]:
    return list(dict.fromkeys([(0, k - 1), (k // 2 - 1, k // 2), (0, 1)]))


def keys_of(seed: int, which: int, count: int, stage: int, name: str) -> NDArray[np.uint64]:
    """Keys of the random streams of ``count`` users with one of two values (``which``), shape (count, 2)."""
    first = stage * 2**32
    stream = f"audit/{name}/{which}"
    keys = [counter_keys(seed, "mechanism", stream, replicate) for replicate in range(first, first + count)]
    return np.array(keys, dtype=np.uint64)


def bin_neighbours(protocol: OneShot, k: int, pair: tuple[int, int], seed: int) -> Neighbours:
    protocol = protocol.model_copy(update={"k": k})
    edges = protocol.edges(k)
    laws = [Law("records", table=Records((float(edges[place : place + 2].mean()),), (1,))) for place in pair]

    def draw(which: int, count: int, stage: int) -> Floats:
        keys = keys_of(seed, which, count, stage, f"{protocol.kind}/{pair}")
        return run_one_shot(protocol, laws[which], 0.5, 1, keys).values

    first, second = (edge_cdf(law, edges)[1:-1] for law in laws)
    name = f"values in bins {pair[0] + 1} and {pair[1] + 1} of {k}"
    return Neighbours(name, draw, (first, second))


def rounds_neighbours(protocol: Rounds, seed: int) -> Neighbours:
    low, high = protocol.range
    width = high - low
    design = protocol.design(USERS, 0.5)
    values = (low + 0.25 * width, low + 0.75 * width)

    def draw(which: int, count: int, stage: int) -> Floats:
        # All values of this narrow law lie on one side of the threshold.
        population = population_of(Law("uniform", values[which], 1e-3 * width))
        out = np.empty((count, 1))
        keys = keys_of(seed, which, count, stage, protocol.kind)
        call(ask_once, out, keys, low + 0.5 * width, population, design, protocol.budget())
        return out

    centres = (np.array([float(protocol.answers)]), np.array([0.0]))
    return Neighbours("values below and above the threshold", draw, centres)


PREFIX = "client:"
RANGE = (0.0, 1.0)
SAMPLES = 100_000

# Mechanisms of functions of ldpflow.client whose name differs from that of the mechanism.
KINDS = {"rr_sgd": "randomized_response", "gaussian": "clipped_gaussian"}

THETAS = (0.25, 0.5, 0.75)
GRADIENTS = ([1000.0, 0.0], [-1000.0, 0.0], [0.0, 0.0])

# Protocols and settings of ``ldpflow audit all`` and ``ldpflow audit clients``.
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rounds", {"epsilon": 1.0}),
    ("thresholds", {"epsilon": 1.0, "k": 8}),
    ("grr", {"epsilon": 1.0, "k": 8}),
    ("oue", {"epsilon": 1.0, "k": 4}),
    ("hrr", {"epsilon": 1.0, "k": 8}),
    ("haar", {"epsilon": 1.0, "k": 8}),
    ("tree", {"epsilon": 1.0, "k": 16}),
)

# Functions and settings of ``ldpflow audit clients``.
PATHS = (("rr_sgd", {"epsilon": 1.0}), ("cells", {"epsilon": 1.0}))
CLIENTS = (*PATHS, *ASKED, ("laplace", {"epsilon": 1.0}), ("gaussian", {"mu": 1.0}))


def audit_client(
    name: str, settings: dict[str, Any], samples: int | None = None, confidence: float = 0.999, seed: int = 1
) -> Audit:
    """Audit a function of ldpflow.client, with the settings of the mechanism or protocol of its reports."""
    if name not in client.REPORTS:
        names = [PREFIX + known for known in client.REPORTS]
        raise InputError("name", PREFIX + name, "one of " + ", ".join(names), closest(PREFIX + name, names))
    kind = KINDS.get(name, name)
    if kind in MECHANISMS:
        component = read_component("mechanism", {"kind": kind, **settings})
    else:
        component = read_component("protocol", {"kind": kind, "range": list(RANGE), **settings})
    neighbours = []
    for first, second, report in client_inputs(name, component):
        draw = partial(client_outputs, report, (first, second), f"{seed}/{name}/{first}/{second}")
        neighbours.append(Neighbours(f"values {first} and {second}", draw))
    found = run_audit(component, claim_of(component.privacy()), neighbours, samples or SAMPLES, confidence)
    return replace(found, name=PREFIX + name)


def client_inputs(name: str, component: Any) -> list[tuple[Any, Any, Callable[..., Any]]]:
    """Pairs of values that are easiest to distinguish, each with the function to call on a value."""
    function = client.REPORTS[name]
    if name in ("rr_sgd", "rounds"):
        return [(0.25, 0.75, partial(function, theta=0.5, epsilon=component.epsilon))]
    if name == "cells":
        report = partial(function, thetas=THETAS, epsilon=component.epsilon)
        return [(0.1, 0.9, report), (0.4, 0.6, report)]
    if name in ("laplace", "gaussian"):
        budget = {"epsilon": component.epsilon} if name == "laplace" else {"mu": component.mu}
        report = partial(function, clip=getattr(component, "clip", 1.0), **budget)
        a, b, nothing = GRADIENTS
        return [(a, b, report), (a, nothing, report)]
    k = component.bins(SAMPLES)
    report = partial(function, epsilon=component.epsilon, low=RANGE[0], high=RANGE[1], k=k)
    return [((i + 0.5) / k, (j + 0.5) / k, report) for i, j in pairs_of_bins(k)]


def client_outputs(
    report: Callable[..., Any], values: tuple[Any, Any], stream: str, which: int, count: int, stage: int
) -> Floats:
    """Reports as rows of numbers: question and answers, with zeros at the end of shorter reports."""
    draw = random.Random(f"{stream}/{which}/{stage}").randrange
    rows = [numbers(report(values[which], draw=draw)) for _ in range(count)]
    found = np.zeros((count, max(map(len, rows))))
    for row, numbers_of_row in zip(found, rows, strict=True):
        row[: len(numbers_of_row)] = numbers_of_row
    return found


def numbers(report: Any) -> list[float]:
    if isinstance(report, tuple | list):
        return [number for part in report for number in numbers(part)]
    return [2.0 * int(bit) - 1.0 for bit in report] if isinstance(report, str) else [float(report)]


# Name, settings and problem of ``ldpflow audit all``.
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
    *((name, settings, "") for name, settings in ASKED),
)

# Default budget of algorithms with their own noise. A smaller delta would take too many outputs to test.
BUDGET = {"epsilon": 2.0, "delta": 1e-3}
SHUFFLED_BUDGET = {"epsilon": 0.3, "delta": 1e-2}  # of dp_ssgd, whose theorem needs a small epsilon
# Default mechanism of algorithms without noise of their own. Other algorithms have clipped_gaussian.
DEFAULT_MECHANISM = {"budget_split": "randomized_response", "minibatch_sgd": "laplace"}


def audit(
    name: str,
    settings: dict[str, Any],
    problem: str = "quantile",
    samples: int | None = None,
    confidence: float = 0.999,
    seed: int = 1,
) -> Audit:
    """Audit the privacy claim of a mechanism, an algorithm, a protocol, or a client ``client:FUNCTION``.

    If an algorithm has no noise of its own, ``settings`` includes the settings of its mechanism, and the kind
    of the mechanism as ``mechanism``. ``samples`` outputs on each input choose the test, and as many others
    are counted. The default is 500,000 for a mechanism or protocol and 100,000 for a client or algorithm.
    """
    load_plugins()
    if name.startswith(PREFIX):
        return audit_client(name.removeprefix(PREFIX), settings, samples, confidence, seed)
    if name in MECHANISMS:
        mechanism: Mechanism = read_component("mechanism", {"kind": name, **settings})
        kinds = [kind for kind, made in PROBLEMS.items() if issubclass(made, Problem)]
        if problem not in kinds:
            raise InputError("problem", problem, "one of " + ", ".join(kinds), closest(problem, kinds))
        chosen = read_component("problem", {"kind": problem})
        return audit_mechanism(mechanism, chosen, samples or 500_000, confidence, seed)
    if name in PROTOCOLS:
        protocol = read_component("protocol", {"kind": name, "range": [0.0, 1.0], **settings})
        return audit_protocol(protocol, samples or 500_000, confidence, seed)
    runs = samples or 100_000
    if name in ALGORITHMS and issubclass(ALGORITHMS[name], FiniteSumAlgorithm):
        algorithm = read_component("algorithm", {"kind": name, **BUDGET, "eta": 0.01, **settings})
        return audit_data_set(algorithm, 4, runs, confidence, seed)
    if name in ALGORITHMS:
        return audit_path(*path_parts(name, settings), runs, confidence, seed)
    kinds = [*MECHANISMS, *ALGORITHMS, *PROTOCOLS]
    raise InputError("name", name, "one of " + ", ".join(kinds), closest(name, kinds))


def path_parts(name: str, settings: dict[str, Any]) -> tuple[Any, Mechanism | None]:
    """A one-pass algorithm, and its mechanism, or None if the algorithm has noise of its own."""
    kind = ALGORITHMS[name]
    if kind.carries_privacy:
        budget = SHUFFLED_BUDGET if name == "dp_ssgd" else BUDGET
        known = {key: value for key, value in budget.items() if key in kind.model_fields}
        return read_component("algorithm", {"kind": name, **known, **settings}), None
    own = {key: value for key, value in settings.items() if key in kind.model_fields}
    rest = {key: value for key, value in settings.items() if key not in own}
    mechanism = rest.pop("mechanism", DEFAULT_MECHANISM.get(name, "clipped_gaussian"))
    start = {"eta": 0.01} if "eta" in kind.model_fields else {}
    algorithm = read_component("algorithm", {"kind": name, **start, **own})
    return algorithm, read_component("mechanism", {"kind": str(mechanism), **rest})
