"""Write the test vectors of ldpflow.client.

    python docs/clients/make_vectors.py > docs/clients/vectors.json

A vector has the function, its arguments, its random integers as pairs (limit, integer), and the report.
Integers are texts, because many exceed 2^53. The program needs only the standard library and ldpflow.client.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from typing import Any

from ldpflow import client

RANGE = (-1.0, 3.0)
EPSILONS = (1.0, 0.1, 4.0, 30.0)
VALUES = (0.3, -1.0, 3.0, 0.0, 1e300, -7.25, 2.999)
"""These contain an inner edge, both ends of the range, and values outside."""

GRADIENTS = ([0.25], [3.0, -4.0, 0.0], [-0.0, 1e-9], [math.pi, 1e30], [-0.123456789, 0.987654321])


def cases() -> list[tuple[str, list[Any]]]:
    found: list[tuple[str, list[Any]]] = [("odds", [epsilon]) for epsilon in (*EPSILONS, 1e-6, 2.5, 1 / 3)]
    for i, value in enumerate(VALUES):
        epsilon = EPSILONS[i % len(EPSILONS)]
        found += [
            ("rr_sgd", [value, 0.3, epsilon]),
            ("rounds", [value, 0.0, epsilon]),
            ("cells", [value, [-0.5, 0.3, 1.5], epsilon]),
            ("thresholds", [value, epsilon, *RANGE, 7]),
            ("grr", [value, epsilon, *RANGE, 12]),
            ("oue", [value, epsilon, *RANGE, 5]),
            ("hrr", [value, epsilon, *RANGE, 16]),
            ("haar", [value, epsilon, *RANGE, 16]),
            ("tree", [value, epsilon, *RANGE, 16]),
        ]
    for i, gradient in enumerate(GRADIENTS):
        budget = (1.0, 0.5, 8.0)[i % 3]
        found += [("laplace", [gradient, budget, 1.5]), ("gaussian", [gradient, budget, 1.5])]
    found += [("jitter", [value, width]) for value, width in ((50000.0, 1000.0), (0.3, 0.1), (-7.0, 2.0))]
    found += [("to_scale", [value, [0, 30, 60, 300]]) for value in (-6.0, 0.0, 31.0, 60.0, 299.5, 1e6)]
    found += [("to_scale", [0.0, "log1p"]), ("to_scale", [1.0, "log"]), ("to_scale", [7.25, "sqrt"])]
    return found


def recorder(choose: Callable[[int], int], draws: list[list[str]]) -> client.Draw:
    def draw(limit: int) -> int:
        u = choose(limit)
        draws.append([str(limit), str(u)])
        return u

    return draw


def sources(name: str, number: int) -> list[Callable[[int], int]]:
    """Sources of integers: seeded ones; and for a fixed number of draws also the least and the largest."""
    seeded = random.Random(f"{name} {number}").randrange
    if name in ("laplace", "gaussian"):
        return [seeded]
    return [
        seeded,
        lambda limit: 0,
        lambda limit: limit - 1,
        lambda limit: min(client.odds(1.0), limit - 1),
        lambda limit: min(client.odds(1.0) - 1, limit - 1),
    ]


def vectors() -> list[dict[str, Any]]:
    found = []
    for number, (name, arguments) in enumerate(cases()):
        function = getattr(client, name)
        if name in ("odds", "to_scale"):
            result = function(*arguments)
            report = str(result) if name == "odds" else result
            found.append({"function": name, "arguments": arguments, "report": report})
            continue
        for choose in sources(name, number):
            draws: list[list[str]] = []
            report = function(*arguments, draw=recorder(choose, draws))
            found.append({"function": name, "arguments": arguments, "draws": draws, "report": report})
    return found


def text() -> str:
    """Text of the vectors, one per line."""
    return "[\n" + ",\n".join(map(json.dumps, vectors())) + "\n]\n"


if __name__ == "__main__":
    sys.stdout.write(text())
