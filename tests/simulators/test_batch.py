"""A batch from seed to rows: diverged replicates."""

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from tests.kernels import uncompiled


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    uncompiled.use(monkeypatch)
    with np.errstate(all="ignore"):  # as compiled, without warnings of overflow
        yield


def rows_of(path, *ns):
    return simulate(Batch(path, 1, 0, 32, tuple(Cell(n, lf.Oracle(), 0.9) for n in ns))).rows


def test_a_diverged_replicate_keeps_its_finite_rows():
    # One step of 1e308 is finite; the fourth overflows. The threshold differs by replicate.
    rows = rows_of(OnePass(lf.Quantile(), lf.Laplace(epsilon=1e-6), lf.LdpSgd(c=3e301)), 2, 300)
    early = rows.filter(np.array(rows["n"]) == 2)
    late = rows.filter(np.array(rows["n"]) == 300)
    assert set(early["status"].to_pylist()) == {"ok"}
    assert set(late["status"].to_pylist()) == {"diverged"}
    assert early["covered"].null_count == 0
    assert late["covered"].null_count == 32
    assert np.isnan(late["lower"]).all() and np.isnan(late["length"]).all()


def test_divergence_of_one_coordinate_marks_the_replicate_and_no_other():
    # Only replicates that overflow are marked; the rest of their batch is what it is alone.
    path = OnePass(lf.QuantileRegression(), lf.Laplace(epsilon=1e-6), lf.LdpSgd(c=8e300))
    statuses = np.array(rows_of(path, 3)["status"].to_pylist()).reshape(32, 4)
    assert (statuses == statuses[:, :1]).all()
    assert set(statuses.ravel()) == {"ok", "diverged"}
    record = run_path(path, 1, range(32), [3])
    finite = np.isfinite(record.prefix_sums[0]).all(axis=0)
    assert (finite == (statuses[:, 0] == "ok")).all()
