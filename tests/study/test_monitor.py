"""The table [monitor] of a study, from the file to the summary's columns."""

import numpy as np
import pyarrow.compute as pc
import pytest

import ldpflow as lf
from ldpflow.components.intervals.variance import asymptotic_variances
from ldpflow.engine.check import check_run
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests import studies
from tests.kernels import uncompiled
from tests.oracles import monitoring

STUDY = studies.changed(
    seed=5, replicates=60, problem__tau=0.5, mechanism__epsilon=1, algorithm={"kind": "ldp_sgd"},
    grid={"n": [100, 300, 1000], "level": 0.9}, monitor={"target_n": 500},
    method=[{"kind": ["BM", "SN", "TRC"]}, {"kind": "ACS", "t_opt": 100, "base": "oracle"}],
)  # fmt: skip


def changed(**monitor):
    return STUDY | {"monitor": monitor}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("monitor") / "run"
    study = Study.from_mapping(changed(first_n=300, target_n=500))
    with pytest.MonkeyPatch.context() as patched:
        uncompiled.use(patched)
        run_study(study, out, engine="serial")
    return study, RunStore(out)


def literal(store, method, first_n, last_n, target):
    rows = store.replicates.read(damaged="refuse")
    rows = rows.filter(pc.and_(pc.equal(rows["method"], method), pc.less_equal(rows["n"], last_n)))
    by_replicate = {}
    for row in rows.to_pylist():
        look = (row["n"], row["status"], bool(row["covered"]), row["length"])
        by_replicate.setdefault(row["replicate"], []).append(look)
    found = list(by_replicate.values())
    return monitoring.every_n(found, first_n), monitoring.at_stop(found, first_n, target)


def test_the_summary_follows_replicates(run):
    study, store = run
    summary = store.read_summary().to_pylist()
    variance = asymptotic_variances(study.plans()[0].simulator)[0]
    target = 2 * constants.normal_quantile(0.95) * np.sqrt(variance / 500)
    for row in summary:
        if row["n"] == 100:
            assert row["looks"] is None and row["coverage_all_n"] is None
            continue
        (defined, everyone), stop = literal(store, row["method"], 300, row["n"], target)
        assert row["looks"] == {300: 1, 1000: 2}[row["n"]]
        assert row["coverage_all_n"] == pytest.approx(defined)
        assert row["coverage_all_n_failures_as_misses"] == pytest.approx(everyone)
        ours = [row[name] for name in ("stopped_share", "coverage_at_stop", "stop_n_mean", "stop_n_median")]
        ours = [np.nan if value is None else value for value in ours]
        assert ours == pytest.approx(stop, nan_ok=True)
        if row["looks"] == 1:
            assert row["coverage_all_n"] == row["coverage"]
    stopped = {row["method"]: row["stopped_share"] for row in summary if row["n"] == 1000}
    assert stopped["BM"] > 0.5 and stopped["ACS"] == 0.0
    assert check_run(store.root)[0] == []


def test_what_a_study_says_of_its_looks():
    assert Study.from_mapping(STUDY).settings()["monitor"] == {"first_n": 100, "target_n": 500}
    assert Study.from_mapping(changed()).settings()["monitor"] == {"first_n": 100}
    without = {key: value for key, value in STUDY.items() if key != "monitor"}
    assert "monitor" not in Study.from_mapping(without).settings()
    study = Study.from_mapping(changed(first_n=1e3, target_length=0.5))
    assert Study.from_toml(study.to_toml()) == study
    fewer = Study.from_mapping(changed()).replace({"n": [50, 80]})
    assert fewer.settings()["monitor"] == {"first_n": 50}, "looks begin at the smallest n"
    with pytest.raises(InputError, match="monitor.first_n: 1000 is not allowed; expected at most 500"):
        study.replace({"n": 500})  # a sweep would refuse the study.toml that it wrote


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (changed(first_n=2000), "at most 1,000"),
        (changed(first=100), "one of first_n, target_length, target_n"),
        (changed(target_length=0.1, target_n=500), "cannot be used with target_length"),
        (changed(target_length=-1), "number > 0"),
        (STUDY | {"monitor": 5}, r"a table \[monitor\]"),
        (STUDY | {"grid": STUDY["grid"] | {"independent_n": True}}, "share their paths"),
        (STUDY | {"method": [], "trajectory": {}}, "needs interval methods"),
    ],
)
def test_refused(mapping, message):
    with pytest.raises(InputError, match=message):
        Study.from_mapping(mapping)


def test_the_joint_region_of_a_vector(tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    methods = [lf.BatchMeans(), lf.JointRegion(base="BM", quantile=["chi2", "F"], M=8)]
    parts = lf.QuantileRegression(), lf.Laplace(epsilon=8.0), lf.LdpSgd(), methods
    run = lf.sweep(lf.Study(*parts, n=100, replicates=30), tmp_path / "run", executor="serial")
    rows = run.rows(method="joint")
    for row in run.summary().to_pylist():
        if row["method"] != "joint" or row["coordinate"] > 0:
            assert row["joint_coverage"] is None
            continue
        alike = [pc.equal(rows[name], row[name]) for name in ("quantile", "coordinate")]
        own = rows.filter(pc.and_(*alike))
        p, size = np.mean(own["joint_covered"]), np.array(own["joint_size"])
        found = [row[f"joint_{name}"] for name in ("coverage", "coverage_mcse", "size_mean", "size_mcse")]
        errors = np.sqrt(p * (1 - p) / 30), size.std(ddof=1) / np.sqrt(30)
        assert found == pytest.approx([p, errors[0], size.mean(), errors[1]])
