"""Measured rates of DP-NSGD and its sensitivity-reduced form.

    python workflows/momentum_rates.py OUT [AXIS ...]

Gradient norm of the empirical risk against N, eps and d, with the number of epochs balanced as the
theory balances it: q ~ eps N / sqrt(d) for Algorithm 1, its power 4/3 for Algorithm 2. Writes
OUT/trajectories.parquet and OUT/rates.csv and prints the log-log slopes.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ldpflow.algorithms.dp_nsgd import DpNsgd
from ldpflow.algorithms.dp_nsgd_reduced import DpNsgdReduced
from ldpflow.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.simulate_erm import simulate_erm

SEED, REPLICATES, DELTA, LIMIT = 20221130, 16, 1e-6, 5.2e6
N = (500, 1000, 2000, 4000, 8000, 16000)


def signal(n, epsilon, d):
    """eps N / sqrt(d), 1 at the point (1000, 8, 10)."""
    return n / 1000 * epsilon / 8 * math.sqrt(10 / d)


def first(n, epsilon, d, scale=1.0, **more):
    epochs = max(2, round(20 * scale * signal(n, epsilon, d)))
    return DpNsgd(epsilon=epsilon, delta=DELTA, epochs=epochs, **more)


def reduced(n, epsilon, d, scale=1.0):
    epochs = max(4, round(40 * scale * signal(n, epsilon, d) ** (4 / 3)))
    return DpNsgdReduced(epsilon=epsilon, delta=DELTA, epochs=epochs, order="fixed")


KINDS = {
    "tree": lambda *point: first(*point, order="fixed"),
    "reduced": reduced,
    "tree, reshuffled": first,
    "independent": lambda *point: first(*point[:3], noise="independent"),
    "none": lambda *point: first(*point[:3], noise="none"),
}
DESIGN = (
    [("N", n, 8.0, 10, 1.0) for n in N]
    + [("eps", 2000, e, 10, 1.0) for e in (2.0, 4.0, 8.0, 16.0)]
    + [("d", 2000, 8.0, d, 1.0) for d in (5, 10, 20, 40)]
    # Is the number of epochs well chosen? Which algorithm is better at its best one?
    + [("epochs", n, 8.0, 10, s) for n in (1000, 2000) for s in (0.25, 0.5, 2.0, 4.0)]
)
AXES = {"N": list(KINDS), "eps": list(KINDS)[:4], "d": list(KINDS)[:4], "epochs": ["tree", "reduced"]}


def mean(table, name, output):
    """Mean over steps and replicates, and its Monte Carlo standard error over replicates."""
    rows = table.filter(pc.equal(table["output"], output))
    per = rows.group_by("replicate").aggregate([(name, "mean")])[f"{name}_mean"]
    return pc.mean(per).as_py(), pc.stddev(per, ddof=1).as_py() / math.sqrt(len(per))


def measure(out, axes):
    results, tables = [], []
    for axis, n, epsilon, d, scale in DESIGN:
        for kind in AXES[axis] if axis in axes else ():
            algorithm = KINDS[kind](n, epsilon, d, scale)
            if algorithm.epochs * n > LIMIT:
                continue
            begun = time.process_time()
            plan, table = simulate_erm(
                NonconvexLogistic(d=d), algorithm, n, seed=SEED, replicates=range(REPLICATES), points=48
            )
            tables.append(table.append_column("axis", pa.repeat(pa.scalar(axis), table.num_rows)))
            along, output = mean(table, "gradient_norm", False), mean(table, "gradient_norm", True)
            row = {
                "axis": axis, "kind": kind, "n": n, "epsilon": epsilon, "delta": DELTA, "d": d,
                "epochs": plan.epochs, "sigma": plan.sigma, "cost": plan.cost,
                "gradient_norm": along[0], "mcse": along[1], "output": output[0],
                "output_mcse": output[1], "noise_norm": mean(table, "noise_norm", False)[0],
                "loss": mean(table, "loss", False)[0], "cpu_seconds": time.process_time() - begun,
            }  # fmt: skip
            results.append(row)
            print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)
    pq.write_table(pa.concat_tables(tables, promote_options="default"), out / "trajectories.parquet")
    with open(out / "rates.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, results[0])
        writer.writeheader()
        writer.writerows(results)
    return results


def slope(pairs):
    """Least-squares slope of log y in log x."""
    x = [math.log(a) for a, _ in pairs]
    y = [math.log(b) for _, b in pairs]
    centre = sum(x) / len(x)
    return sum((a - centre) * b for a, b in zip(x, y, strict=True)) / sum((a - centre) ** 2 for a in x)


def main():
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    results = measure(out, sys.argv[2:] or list(AXES))
    for axis, name in (("N", "n"), ("eps", "epsilon"), ("d", "d")):
        for kind in KINDS:
            rows = [r for r in results if r["axis"] == axis and r["kind"] == kind]
            if len(rows) > 2:
                for what in ("gradient_norm", "noise_norm"):
                    if all(r[what] for r in rows):
                        pairs = [(r[name], r[what]) for r in rows]
                        ends = f"{pairs[0][0]}..{pairs[-1][0]}"
                        print(f"{axis} {kind} {what}: slope {slope(pairs):.3f} over {ends}")


if __name__ == "__main__":
    main()
