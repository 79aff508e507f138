"""Private regressions in studies: from a file to labelled rows, figures, warnings and refusals."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.study import Study

STUDY = {
    "name": "t", "seed": 5, "replicates": 40, "grid": {"n": [4000, 8000]}, "trajectory": {"points": 2},
    "problem": {"kind": "least_squares", "d": 3, "sigma": [0.5, 0.1]},
    "algorithm": [
        {"kind": "dp_ambssgd", "epsilon": [20.0, 50.0], "iterations": 4},
        {"kind": "sufficient_statistics", "epsilon": 20.0},
        {"kind": "ols"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clipping")
    run_study(Study.from_mapping(STUDY), folder, engine="serial")
    return folder


def last_rows(folder):
    rows = pq.read_table(folder / "trajectories.parquet").to_pylist()
    return [r for r in rows if r["stat"] == "tail_exc" and r["n"] == r["horizon"]]


def test_every_row_is_labelled(run):
    rows = last_rows(run)
    assert len(rows) == 2 * 2 * (2 + 1 + 1)
    names = ("algorithm", "mechanism", "privacy_notion", "privacy_unit", "epsilon", "delta")
    label = "none", "(eps, delta)-DP (central)", "record (replacement)"
    assert {tuple(map(row.get, names)) for row in rows} == {
        ("dp_ambssgd", *label, 20.0, 1e-6), ("dp_ambssgd", *label, 50.0, 1e-6),
        ("sufficient_statistics", *label, 20.0, 1e-6), ("ols", "none", "none", None, None, None),
    }  # fmt: skip
    for row in rows:
        if row["algorithm"] != "ols":
            assert row["mu"] == pytest.approx(1 / row["noise_multiplier"])
            assert row["rho"] == pytest.approx(0.5 / row["noise_multiplier"] ** 2)
    steps = [r for r in rows if r["algorithm"] == "dp_ambssgd" and r["horizon"] == 8000]
    assert {(r["steps"], r["threshold_records"], r["gradient_records"]) for r in steps} == {(4, 181, 1819)}
    assert all(0 < r["margin"] * 4 <= 181 and r["eta"] > 0.9 for r in steps)


def test_risks_are_those_of_theory(run):
    """16 cells at 40 replicates: |z| < 4.5 (once in 8000 seeds), and 15% for what is a prediction."""
    for row in last_rows(run):
        slack = 0.0 if row["algorithm"] == "ols" else 0.15
        gap = abs(row["mean"] - row["theory_limit"]) - slack * row["theory_limit"]
        assert gap < 4.5 * row["mcse"], row


def test_the_end_of_every_path_is_a_figure(run):
    pytest.importorskip("altair")
    from ldpflow.report.figures import ENDS, end_rows
    from ldpflow.report.pictures import FIGURES
    from ldpflow.report.results import Results

    results = Results.load(run)
    assert len(end_rows(results, ENDS["risk"].statistics)) == 16
    text = FIGURES["risk"].chart(results, "sigma").to_json()
    assert all(name in text for name in ("dp_ambssgd", "ols", "sufficient_statistics"))
    # A baseline without a budget stands at every epsilon.
    values = FIGURES["risk"].chart(results, "epsilon").to_dict()["data"]["values"]
    assert {v["x"] for v in values if v["series"] == "ols"} == {20.0, 50.0}
    with pytest.raises(InputError, match="sigma"):
        FIGURES["risk"].chart(results, "kappa")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"algorithm": {"kind": "dp_ambssgd", "epsilon": 0.1}}, "grid.n"),
        ({"algorithm": {"kind": "dp_ambssgd", "epsilon": 1.0, "iterations": 5}}, "algorithm.iterations"),
        ({"algorithm": {"kind": "tail_sgd"}}, "mechanism"),
        ({"problem": {"kind": "quantile"}}, "algorithm.kind"),
        ({"mechanism": {"kind": "gaussian", "mu": 1.0}}, "algorithm.kind"),
        ({"mechanism": {"kind": "gaussian", "mu": 1.0}, "algorithm": {"kind": "ldp_sgd"}}, "mechanism.kind"),
        ({"method": {"kind": "BM"}, "trajectory": None}, "method.kind"),
        ({"algorithm": {"kind": "ols"}, "grid": {"n": 2}}, "grid.n"),
    ],
)
def test_what_is_refused(changes, field):
    with pytest.raises(InputError) as refused:
        Study.from_mapping({k: v for k, v in {**STUDY, **changes}.items() if v is not None})
    assert refused.value.field == field


def test_a_file_has_so_many_records(tmp_path):
    x = np.random.default_rng(1).standard_normal((50, 2))
    pq.write_table(pa.table({"y": x.sum(axis=1), "a": x[:, 0], "b": x[:, 1]}), tmp_path / "f.parquet")
    problem = {"kind": "least_squares", "file": str(tmp_path / "f.parquet"), "target": "y"}
    with pytest.raises(InputError, match="at most 50"):
        Study.from_mapping(STUDY | {"problem": problem, "algorithm": {"kind": "ols"}, "grid": {"n": 51}})


def test_what_cannot_work_is_warned_of():
    shuffled = {"kind": "dp_ssgd", "epsilon": 0.02, "step_rule": ["practical", "printed"]}
    vacuous = Study.from_mapping({**STUDY, "algorithm": shuffled, "grid": {"n": 10**6}})
    found = " ".join(vacuous.warnings())
    assert "worse than the start" in found
    assert "the start is not forgotten" in found
    grid = {"kind": "dp_ambssgd", "epsilon": 50.0, "iterations": 4, "doublings": 3}
    assert "above sigma/4" in " ".join(Study.from_mapping({**STUDY, "algorithm": grid}).warnings())
    few = {"kind": "dp_mbssgd", "epsilon": 1.0, "iterations": 4000, "infeasible_is": "warned"}
    skew = {"kind": "least_squares", "kappa": 100.0}
    found = Study.from_mapping({**STUDY, "problem": skew, "algorithm": few}).warnings()
    assert "vacuous at this size" in found[0]
