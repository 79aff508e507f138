"""A study to start from, and changed copies of it."""

from __future__ import annotations

import copy

BASE = {
    "name": "base",
    "seed": 7,
    "replicates": 100,
    "problem": {"kind": "quantile", "tau": [0.5, 0.9]},
    "mechanism": {"kind": "randomized_response", "epsilon": [0.5, 1]},
    "algorithm": {"kind": "ldp_sgd", "gamma": 0.6},
    "grid": {"n": [1e3, 1e5], "level": [0.9, 0.95]},
    "method": [{"kind": "BB", "beta": [0.65, 0.75], "B": 200}, {"kind": "BM"}, {"kind": "SN"}],
}


def changed(**paths):
    """BASE with ``table__key`` replaced; ``...`` deletes."""
    mapping = copy.deepcopy(BASE)
    for path, value in paths.items():
        *tables, key = path.split("__")
        target = mapping
        for table in tables:
            target = target[table]
        if value is ...:
            del target[key]
        else:
            target[key] = value
    return mapping
