"""Collections by a client and a collector in NumPy, which share no code with ldpflow.

They read a design file alone. Row i of a table holds the question to user i and the report.
"""

from __future__ import annotations

import tomllib

import numpy as np


def population(users, rng):
    """Session lengths in whole seconds: 7% at 0, 9% at 30, and a long tail."""
    u = rng.random(users)
    tail = np.rint(np.exp(rng.normal(4.5, 1.0, users)))
    return np.where(u < 0.07, 0.0, np.where(u < 0.16, 30.0, tail))


def single(value):
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def collect(design, values, rng):
    """Tables of independent collections; shape of ``values``: (collections, users)."""
    with open(design, "rb") as file:
        tables = tomllib.load(file)
    if "protocol" in tables:
        assert tables["protocol"]["kind"] == "haar"
        edges = np.array(tables["problem"].get("edges", tables["protocol"]["range"]), dtype=float)
        return [collect_signs(tables["protocol"], edges, row, rng) for row in values]
    return collect_paths(tables, values, rng)


def collect_signs(protocol, edges, values, rng):
    """A table of the Haar protocol: sign of the user's half of a node, times an entry of a Hadamard matrix.

    ``edges`` are mapped to equal distances of the range, and values between them linearly.
    """
    k, keep = protocol["k"], 1.0 / (1.0 + np.exp(-protocol["epsilon"]))
    scaled = np.interp(values, edges, np.linspace(0.0, 1.0, len(edges)))
    bins = np.minimum((scaled * k).astype(np.int64), k - 1)
    nodes = 2 ** rng.integers(0, int(np.log2(k)), len(values))
    row = rng.integers(0, nodes)
    node, place = np.divmod(bins, k // nodes)
    left = place < k // nodes // 2
    odd = np.bitwise_count(row & node) % 2 == 1
    true = left ^ odd  # the sign is +1 in the left half where the entry of the matrix is +1
    report = np.where(rng.random(len(values)) < keep, true, ~true)
    return {"question": nodes + row, "report": report.astype(np.int64)}


def collect_paths(tables, values, rng):
    """Tables of LDP-SGD or cells, one user at a time in all collections."""
    problem, mechanism, algorithm = (tables[name] for name in ("problem", "mechanism", "algorithm"))
    taus = np.atleast_1d(np.array(problem.get("taus", problem.get("tau")), dtype=float))
    gamma, epsilon = float(single(algorithm["gamma"])), float(single(mechanism["epsilon"]))
    c = np.broadcast_to(np.array(single(algorithm["c"]), dtype=float), taus.shape)
    theta0 = np.broadcast_to(np.array(single(algorithm["theta0"]), dtype=float), taus.shape)
    collections, users = values.shape
    theta = np.tile(theta0, (collections, 1))
    asked = np.empty((users, collections, len(taus)))
    reports = np.empty((users, collections), dtype=np.int64)
    cells = len(taus) + 1
    keep = np.exp(epsilon) / (np.exp(epsilon) + cells - 1)
    other = (1.0 - keep) / (cells - 1)
    for i in range(users):
        asked[i] = theta
        own = (values[:, i, None] > theta).sum(axis=1)  # 0: at or below the lowest threshold
        moved = (own + rng.integers(1, cells, collections)) % cells
        reports[i] = np.where(rng.random(collections) < keep, own, moved)
        below = reports[i][:, None] <= np.arange(len(taus))
        debiased = (below - other * np.arange(1, cells)) / (keep - other)
        theta = np.sort(theta - c * (i + 1) ** -gamma * (debiased - taus), axis=1)
    if len(taus) == 1:  # randomised response reports 1 for a value at or below theta
        return [{"theta": asked[:, r, 0], "report": 1 - reports[:, r]} for r in range(collections)]
    columns = [f"theta_{q}" for q in range(len(taus))]
    return [
        dict(zip(columns, asked[:, r].T, strict=True)) | {"report": reports[:, r]} for r in range(collections)
    ]
