"""Memory and time to compute a summary: how do they grow with the rows of a path?

    python -m benchmarks.summary --rows 1e5 --rows 1e6 --rows 1e7
    python -m benchmarks.summary --rows 1e7 --against ../other-checkout --pairs 3

The program makes a run of one path with synthetic rows, in parts of 200,000 rows as in a sweep. A fifth of
the cells has the columns of TR. It then computes the summary in a process of its own. With --against it
also computes the summary with another checkout, in turn.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.processes import resident
from benchmarks.scale import study
from ldpflow.results.summary import stored_summary
from ldpflow.store.part import PartMeta
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES
from ldpflow.study import Study

PART_ROWS = 200_000
METHODS = ("oracle", "BM", "BB", "SN", "TR")


def rows(first: int, last: int, cells: int) -> pa.Table:
    """Synthetic rows of some replicates, sorted as in a part. Most of their intervals cover."""
    shape = (last - first, cells)
    count = (last - first) * cells
    rng = np.random.default_rng([first, cells])
    estimate = rng.normal(size=count)
    half = 1.6 + 0.2 * rng.random(count)
    cell = np.broadcast_to(np.arange(cells), shape).reshape(-1)
    kind = cell % len(METHODS)
    method = np.array(METHODS)[kind]
    columns = {
        "replicate": np.repeat(np.arange(first, last), cells),
        "n": 1000 + cell // len(METHODS),
        "method": method,
        "beta": pa.array(np.full(count, 0.75), mask=method != "BB"),
        "B": pa.array(np.full(count, 500), mask=method != "BB"),
        "multiplier": pa.array(np.full(count, "uniform"), mask=method != "BB"),
        "level": np.full(count, 0.9),
        "coordinate": np.zeros(count, dtype=np.int32),
        "truth": np.zeros(count),
        "estimate": estimate,
        "se": pa.array(half / 1.645, mask=method == "SN"),
        "lower": estimate - half,
        "upper": estimate + half,
        "covered": np.abs(estimate) <= half,
        "length": 2 * half,
        "status": np.full(count, "ok"),
        "degree": pa.array(np.full(count, 2), mask=method != "TR"),
        "burn_in": pa.array(np.full(count, "n^0.4"), mask=method != "TR"),
        "variance": pa.array(np.full(count, "known"), mask=method != "TR"),
        **{
            name: pa.array(20.0 + 20.0 * rng.random(count), mask=method != "TR")
            for name in ("relaxation_times", "condition", "lack_of_fit")
        },
    }
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in REPLICATES
    ]
    return pa.Table.from_arrays(arrays, schema=REPLICATES)


def make(store: RunStore, count: int, cells: int) -> None:
    """Write a run of one path with about ``count`` rows."""
    path = Study.from_mapping(study(1, 1)).plans()[0].simulator
    meta = PartMeta(1, 1, path.settings(), {})
    size = max(PART_ROWS // cells, 1)
    replicates = count // cells
    for first in range(0, replicates, size):
        store.replicates.write(path.key, rows(first, min(first + size, replicates), cells), meta)


def measure(run: str) -> None:
    """Compute the summary of a run, and print its time and memory."""
    before = resident()
    started = time.perf_counter(), time.process_time()
    table = stored_summary(RunStore(run), damaged="refuse")
    wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    digest = hashlib.sha256(sink.getvalue()).hexdigest()[:12]
    count = sum(row["replicates"] for row in table.select(["replicates"]).to_pylist())
    print(
        f"| {count:,} | {table.num_rows:,} | {resident(name='VmHWM'):.0f} | {before:.0f} | {wall:.1f} "
        f"| {cpu:.1f} | {os.getloadavg()[0]:.1f} | {digest} |",
        flush=True,
    )


def measured(run: str, checkout: Path) -> float:
    """Compute and print a summary with the code of a checkout, in a process of its own.

    Returns CPU seconds.
    """
    command = [sys.executable, "-m", "benchmarks.summary", "--measure", run]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    ended = subprocess.run(
        command, check=True, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True
    )
    line = ended.stdout.strip().splitlines()[-1]
    print(line, flush=True)
    return float(line.split("|")[6])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, action="append")
    parser.add_argument("--cells", type=int, default=100)
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="measure it in turn; every second line"
    )
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--measure", metavar="RUN", help="a run that is there, and nothing else")
    given = parser.parse_args()
    if given.measure is not None:
        measure(given.measure)
        return
    here = Path(__file__).resolve().parent.parent
    print("| rows | cells | peak MB | MB before | seconds | CPU s | load | digest |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for count in given.rows or [1e5, 1e6]:
        with tempfile.TemporaryDirectory() as run:
            make(RunStore(run), int(count), given.cells)
            if given.against is None:
                measured(run, here)
                continue
            ratios = [
                measured(run, here) / measured(run, given.against.resolve()) for _ in range(given.pairs)
            ]
        print("CPU time over the other checkout's:", *(f"{ratio:.2f}" for ratio in ratios), flush=True)


if __name__ == "__main__":
    main()
