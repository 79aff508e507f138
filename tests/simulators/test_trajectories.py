"""Trajectories: from study to file and summary, against the exact moments of the quadratic (A6, A7)."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpflow as lf
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.results import curves as bounds
from ldpflow.results.curves import constants_of, theory_curves
from ldpflow.results.trajectories import read_trajectories
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests import draws
from tests.kernels import uncompiled
from tests.oracles import gaussian_sgd
from tests.studies import changed

MINIMISER = lf.Quadratic(curvatures=(0.3, 1.0), minimiser=(-1.0, 1.0))
QUADRATIC = OnePass(MINIMISER, lf.Gaussian(mu=np.sqrt(2.0)), lf.LdpSgd(gamma=0.6, c=0.5))
MOMENTS = gaussian_sgd.quadratic_moments([0.3, 1.0], [1 / 3, 1 / 3], 4.0, [1.0, -1.0], 0.5, 0.6, 1000)
STUDY = changed(
    seed=5, replicates=70, problem={"kind": "linear_regression", "coefficients": [[1.0, -1.0]]},
    mechanism={"kind": "gaussian", "mu": 2.0}, algorithm={"kind": "ldp_sgd", "gamma": 0.3, "c": 0.4},
    grid={"n": 400}, trajectory={"points": 5}, method=...,
)  # fmt: skip


def test_simulator_against_exact_moments():
    """Mean squared distances at 4 checkpoints, R = 2048: every |z| < 4 (fails once in 2000 seeds)."""
    n = (1, 10, 100, 1000)
    records = [run_path(QUADRATIC, 7, range(a, a + 32), n) for a in range(0, 2048, 32)]
    rows = pa.concat_tables([QUADRATIC.trajectories(record, n) for record in records])
    names = {"last_sq": "distance", "avg_sq": "average_post", "avg_pre_sq": "average_pre"}
    for name, exact in names.items():
        found = rows[name].to_numpy().reshape(-1, len(n))
        error = found.std(axis=0, ddof=1) / np.sqrt(2048)
        with np.errstate(all="ignore"):
            z = (found.mean(axis=0) - MOMENTS[exact][list(n)]) / error
        assert (np.abs(z[np.isfinite(z)]) < 4).all(), (name, z)


def test_budgets_are_public_and_shared():
    path = OnePass(lf.Quadratic(), lf.Gaussian(mu_min=1.0, mu=2.0), lf.LdpSgd())
    other = OnePass(lf.Quadratic(), lf.Gaussian(mu_min=1.0, mu=2.0), lf.LdpSgd(gamma=0.7))
    one, two = draws.noise(path, 1, 3, 500), draws.noise(other, 1, 3, 500)
    assert (one[:, -1] == two[:, -1]).all()
    assert not (one[:, 0] == two[:, 0]).any()
    assert path.mechanism.privacy().mu == 2.0
    assert lf.Gaussian(budgets=(0.5, 1.5)).privacy().mu == 1.5
    assert path.mechanism.mean_inverse_square() == pytest.approx(0.5)


def test_a_study_of_trajectories_and_its_summary(tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    study = Study.from_mapping({**STUDY, "replicates": 32})
    assert run_study(study, tmp_path / "a", engine="serial").finished_replicates == 32
    summary = pq.read_table(tmp_path / "a" / "trajectories.parquet").to_pylist()
    assert {row["n"] for row in summary} == {10, 25, 63, 159, 400} and len(summary) == 5 * 5
    row = next(row for row in summary if (row["n"], row["stat"]) == (400, "avg_exc"))
    assert row["mean"] + 3 * row["mcse"] < row["theory_bound"]
    assert row["privacy_notion"] == "mu-GDP (local)" and row["replicates"] == 32
    rows = read_trajectories(RunStore(tmp_path / "a"), damaged="refuse").to_pandas()
    for row in summary:
        x = rows[row["stat"]][rows["n"] == row["n"]]
        literal = [x.mean(), x.std(ddof=1) / np.sqrt(32), x.quantile(0.05), x.median(), x.max()]
        found = [row[name] for name in ("mean", "mcse", "q05", "q50", "max")]
        assert found == pytest.approx(literal, rel=1e-12)


def test_projected_paths_have_the_third_theorems_line(tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    projected = {**STUDY, "algorithm": {**STUDY["algorithm"], "radius": [1.0, 5.0]}, "replicates": 12}
    run_study(Study.from_mapping(projected), tmp_path, engine="serial")
    rows = pq.read_table(tmp_path / "trajectories.parquet").to_pylist()
    bounded = [row for row in rows if row["stat"] == "last_sq"]
    # theta* = (1, -1) lies outside the small ball.
    assert all((row["theory_bound"] is None) == (row["radius"] == 1.0) for row in bounded)
    assert all(row["theory_bound"] is None for row in rows if row["stat"] == "last_exc")
    for row in bounded:
        assert row["radius"] == 1.0 or row["mean"] < row["theory_bound"]


def test_the_quadratic_has_the_fourth_theorems_line():
    n = np.array([1, 10, 100, 1000])
    found = theory_curves(QUADRATIC, n)["bound"]
    s = constants_of(QUADRATIC)
    leading = (4 + 1 / 3) * (1 / 0.09 + 1)
    expected = bounds.average_bound(replace(s, convexity=0.3), n, leading, MOMENTS["distance"], post=False)
    np.testing.assert_allclose(found["avg_pre_sq"], expected, rtol=1e-10)
    assert (MOMENTS["average_pre"][n] <= found["avg_pre_sq"]).all()
    assert (MOMENTS["average_post"][n] <= found["avg_sq"]).all()
    assert set(found) == {"avg_sq", "avg_pre_sq"}
    assert theory_curves(replace(QUADRATIC, algorithm=lf.LdpSgd(radius=3.0)), n)["bound"] == {}


def test_trajectories_and_intervals_from_one_run(tmp_path):
    # Intervals need gamma above 1/2.
    slow = {**STUDY, "algorithm": {**STUDY["algorithm"], "gamma": 0.6}, "replicates": 33}
    slow["problem"] = {"kind": "quadratic", "curvatures": [[0.3, 1.0]]}
    both = {**slow, "method": [{"kind": "BM"}]}
    run_study(Study.from_mapping(both), tmp_path, engine="serial")
    store = RunStore(tmp_path)
    assert store.replicates.read(damaged="refuse").num_rows == 33 * 2
    alone = read_trajectories(store, damaged="refuse")
    assert alone.num_rows == 33 * 5
    run_study(Study.from_mapping(slow), tmp_path / "c", engine="serial")
    assert read_trajectories(RunStore(tmp_path / "c"), damaged="refuse").equals(alone)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"trajectory": {"points": 1}}, "trajectory.points"),
        ({"trajectory": None, "method": []}, "method"),
        ({"mechanism": {"kind": "gaussian", "mu": 0}}, "mechanism.mu"),
        ({"mechanism": {"kind": "gaussian", "mu": 1.0, "mu_min": 2.0}}, "mechanism"),
        ({"mechanism": {"kind": "gaussian", "mu": 2.0, "budgets": [[1.0, 2.0]]}}, "mechanism"),
        ({"problem": {"kind": "linear_regression", "bounding": "clip"}}, "problem"),
    ],
)
def test_what_is_refused(changes, field):
    with pytest.raises(InputError) as refused:
        Study.from_mapping({k: v for k, v in {**STUDY, **changes}.items() if v is not None})
    assert refused.value.field == field


def test_clipping_is_warned_of():
    clip = {"kind": "logistic_regression", "bounding": "clip", "clip": 1.0}
    study = Study.from_mapping({**STUDY, "problem": clip})
    assert "biased" in " ".join(study.warnings())
