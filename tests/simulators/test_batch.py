"""A batch from seed to rows: statuses, failures, memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path as FilePath

import numpy as np
import pytest

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.bootstrap import BlockBootstrap
from ldpflow.components.intervals.variance import BatchMeans, Oracle, SelfNormalization
from ldpflow.components.mechanisms.laplace import Laplace
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.quantile_regression import QuantileRegression
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell

ROOT = FilePath(__file__).parents[2]
METHODS = (BlockBootstrap(B=20), BatchMeans(), SelfNormalization(), Oracle())


def cells(*ns, methods=METHODS, level=0.9):
    return tuple(Cell(n, method, level) for n in ns for method in methods)


def test_a_diverged_replicate_keeps_its_finite_rows():
    # One step of 1e308 is finite; the fourth overflows. The threshold differs by replicate.
    path = OnePass(Quantile(), Laplace(epsilon=1e-6), LdpSgd(c=3e301))
    rows = simulate(Batch(path, 1, 0, 32, cells(2, 4000, methods=(Oracle(),)))).rows
    early = rows.filter(np.array(rows["n"]) == 2)
    late = rows.filter(np.array(rows["n"]) == 4000)
    assert set(early["status"].to_pylist()) == {"ok"}
    assert set(late["status"].to_pylist()) == {"diverged"}
    assert early["covered"].null_count == 0
    assert late["covered"].null_count == 32
    assert np.isnan(late["lower"]).all() and np.isnan(late["length"]).all()


def test_divergence_of_one_coordinate_marks_the_replicate_and_no_other():
    # Only replicates that overflow are marked; the rest of their batch is what it is alone.
    path = OnePass(QuantileRegression(), Laplace(epsilon=1e-6), LdpSgd(c=8e300))
    rows = simulate(Batch(path, 1, 0, 32, cells(3, methods=(Oracle(),)))).rows
    statuses = np.array(rows["status"].to_pylist()).reshape(32, 4)
    assert (statuses == statuses[:, :1]).all()
    assert set(statuses.ravel()) == {"ok", "diverged"}
    record = run_path(path, 1, range(32), [3])
    finite = np.isfinite(record.prefix_sums[0]).all(axis=0)
    assert (finite == (statuses[:, 0] == "ok")).all()


def test_too_few_blocks_or_batches_are_undefined_and_no_miss():
    path = OnePass(Quantile(), RandomizedResponse(), LdpSgd())
    wanted = cells(10, methods=(BlockBootstrap(beta=0.9), BatchMeans()))
    rows = simulate(Batch(path, 1, 0, 5, wanted)).rows
    assert rows["status"].to_pylist() == ["undefined"] * 10
    assert rows["covered"].null_count == 10
    assert np.isfinite(rows["estimate"]).all()
    assert rows["se"].null_count == 10


def test_covered_is_what_it_says():
    path = OnePass(Quantile(tau=0.9), RandomizedResponse(), LdpSgd())
    rows = simulate(Batch(path, 1, 0, 96, cells(2000))).rows.to_pandas()
    assert (rows["covered"] == (rows["lower"] <= rows["truth"]) & (rows["truth"] <= rows["upper"])).all()
    assert (rows["length"] == rows["upper"] - rows["lower"]).all()
    assert rows["se"].isna().sum() == (rows["method"] == "SN").sum()
    assert 0.5 < rows["covered"].mean() < 1.0


def test_a_recording_is_the_union_of_what_the_cells_need():
    path = OnePass(Quantile(), RandomizedResponse(), LdpSgd())
    recording = path.needs(cells(100, 400))
    wanted = set()
    for n in (100, 400):
        for method in METHODS:
            wanted |= set(method.times(n, path.algorithm).tolist())
    assert recording.times == sorted(wanted)
    assert recording.marked == [100, 400]
    assert recording.sums == ["self_normalization"]


LARGE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, 2 * 10**9))
from ldpflow.study import load_study
from ldpflow.simulators.rows import Batch, simulate
study = load_study("paper-table2").replace({"replicates": 2})
(plan,) = study.plans()
rows = simulate(Batch(plan.simulator, study.seed, 0, 2, plan.cells)).rows
print(max(rows["n"].to_pylist()), set(rows["status"].to_pylist()))
# Not ru_maxrss: that of a child begins with what its parent had before the program was loaded.
with open("/proc/self/status") as file:
    print(next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_n():
    # 10^8 steps in four dimensions would be 3.2 GB of iterates per replicate.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LARGE],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, megabytes = done.stdout.splitlines()
    assert said == "100000000 {'ok'}"
    assert int(megabytes) < 600
