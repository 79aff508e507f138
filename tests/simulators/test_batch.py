"""A batch from seed to rows: statuses, failures, memory."""

from __future__ import annotations

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
from tests.kernels import uncompiled

METHODS = (BlockBootstrap(B=20), BatchMeans(), SelfNormalization(), Oracle())


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    uncompiled.use(monkeypatch)
    with np.errstate(all="ignore"):  # as compiled, without warnings of overflow
        yield


def cells(*ns, methods=METHODS, level=0.9):
    return tuple(Cell(n, method, level) for n in ns for method in methods)


def test_a_diverged_replicate_keeps_its_finite_rows():
    # One step of 1e308 is finite; the fourth overflows. The threshold differs by replicate.
    path = OnePass(Quantile(), Laplace(epsilon=1e-6), LdpSgd(c=3e301))
    rows = simulate(Batch(path, 1, 0, 32, cells(2, 300, methods=(Oracle(),)))).rows
    early = rows.filter(np.array(rows["n"]) == 2)
    late = rows.filter(np.array(rows["n"]) == 300)
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
