"""Rows for parts whose bytes are golden: exact binary fractions, every kind of null and status."""

from __future__ import annotations

import math

__all__ = ["CHECKPOINTS", "KEY", "SETTINGS", "interval_rows", "trajectory_rows"]

KEY = "0123456789abcdef"
SETTINGS = {"problem": {"kind": "quantile", "tau": 0.9}, "algorithm": {"kind": "ldp_sgd", "c": 0.5}}
CELLS = [
    {"n": 1000, "method": "BB", "beta": 0.75, "B": 500, "multiplier": "uniform", "level": 0.9},
    {"n": 1000, "method": "BM", "M": 5, "level": 0.9},
    {"n": 100, "method": "SN", "level": 0.95},
    {"n": 1000, "method": "TR", "level": 0.9, "degree": 2, "burn_in": "n^0.4", "variance": "known"},
]
CHECKPOINTS = [10, 100, 1000]


def interval_rows():
    """Four cells, two coordinates, replicates 64 to 69; 66 diverged, SN undefined in 67."""
    rows = []
    for replicate in range(64, 70):
        for number, cell in enumerate(CELLS):
            for coordinate in range(2):
                estimate = ((replicate * 37 + number * 11 + coordinate * 5) % 64 - 32) / 256
                half = (number + 1) / 16
                bad = replicate == 66 or (replicate == 67 and cell["method"] == "SN")
                row = {
                    "replicate": replicate,
                    **cell,
                    "coordinate": coordinate,
                    "truth": coordinate / 8,
                    "estimate": estimate,
                    "se": None if cell["method"] == "SN" else half / 2,
                    "lower": estimate - half,
                    "upper": estimate + half,
                    "covered": abs(estimate - coordinate / 8) <= half,
                    "length": 2 * half,
                    "status": "ok",
                }
                if bad:
                    row |= dict.fromkeys(("lower", "upper", "length"), math.nan)
                    row |= {"covered": None, "status": "diverged" if replicate == 66 else "undefined"}
                if cell["method"] == "TR":
                    row |= {"relaxation_times": 32.5, "condition": 4.0, "lack_of_fit": -0.75}
                rows.append(row)
    return rows


def trajectory_rows():
    """Replicates 0 to 4 at three checkpoints; 3 diverged."""
    return [
        {
            "replicate": replicate,
            "n": n,
            "step": n,
            "last_sq": math.nan if replicate == 3 else (replicate + 1) / n,
            "avg_sq": math.nan if replicate == 3 else (replicate + 2) / (2 * n),
            "status": "diverged" if replicate == 3 else "ok",
        }
        for replicate in range(5)
        for n in CHECKPOINTS
    ]
