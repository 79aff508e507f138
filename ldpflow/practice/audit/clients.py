"""Audits of ldpflow.client: reports of the functions themselves, on two values of a user.

The integers come from a seeded generator in the place of the system's, so that an audit can be repeated. The
claim is that of the mechanism or protocol whose reports the function makes.
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
from ldpflow.components.mechanisms import MECHANISMS
from ldpflow.errors import InputError
from ldpflow.practice.audit.distinguishing import Audit, Neighbours, claim_of, run_audit
from ldpflow.settings import closest
from ldpflow.study.entry import read_component

PREFIX = "client:"
RANGE = (0.0, 1.0)
SAMPLES = 100_000

KINDS = {"rr_sgd": "randomized_response", "gaussian": "clipped_gaussian"}
"""Mechanism whose claim a function's reports keep, for functions with another name."""

THETAS = (0.25, 0.5, 0.75)
GRADIENTS = ([1000.0, 0.0], [-1000.0, 0.0], [0.0, 0.0])

ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rounds", {"epsilon": 1.0}),
    ("thresholds", {"epsilon": 1.0, "k": 8}),
    ("grr", {"epsilon": 1.0, "k": 8}),
    ("oue", {"epsilon": 1.0, "k": 4}),
    ("hrr", {"epsilon": 1.0, "k": 8}),
    ("haar", {"epsilon": 1.0, "k": 8}),
    ("tree", {"epsilon": 1.0, "k": 16}),
)
"""Protocols that are audited, and their settings."""

PATHS = (("rr_sgd", {"epsilon": 1.0}), ("cells", {"epsilon": 1.0}))
CLIENTS = (*PATHS, *ASKED, ("laplace", {"epsilon": 1.0}), ("gaussian", {"mu": 1.0}))
"""Functions and settings of ``ldpflow audit clients``."""


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
    for first, second, report in inputs_of(name, component):
        draw = partial(outputs, report, (first, second), f"{seed}/{name}/{first}/{second}")
        neighbours.append(Neighbours(f"values {first} and {second}", draw))
    found = run_audit(component, claim_of(component.privacy()), neighbours, samples or SAMPLES, confidence)
    return replace(found, name=PREFIX + name)


def inputs_of(name: str, component: Any) -> list[tuple[Any, Any, Callable[..., Any]]]:
    """Pairs of values that are easiest to distinguish, and the function with its public parameters."""
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
    pairs = dict.fromkeys([(0, k - 1), (k // 2 - 1, k // 2), (0, 1)])
    return [((i + 0.5) / k, (j + 0.5) / k, report) for i, j in pairs]


def outputs(
    report: Callable[..., Any], values: tuple[Any, Any], stream: str, which: int, count: int, stage: int
) -> NDArray[np.float64]:
    """Reports as numbers: question, answers, and zeros where others have more bits."""
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
