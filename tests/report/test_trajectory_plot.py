"""Trajectories on figures and the page: the store's numbers, theory's lines, and runs without intervals."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ldpflow.cli import main
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.report.export import export_duckdb
from ldpflow.report.figures import CURVES, shown_curves
from ldpflow.report.page import report_html
from ldpflow.report.pictures import FIGURES
from ldpflow.report.results import Results
from ldpflow.store.schema import STATISTICS
from ldpflow.study import Study

STUDY = {
    "name": "followed",
    "seed": 3,
    "replicates": 12,
    "problem": {"kind": "linear_regression", "coefficients": [[1.0], [1.0, -1.0]]},
    "mechanism": {"kind": "gaussian", "mu": [1.0, 2.0]},
    "algorithm": {"kind": "ldp_sgd", "gamma": [0.3, 0.6], "c": 0.4},
    "grid": {"n": 200},
    "trajectory": {"points": 4},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "followed"
    run_study(Study.from_mapping(STUDY), folder, engine="serial")
    return folder


@pytest.fixture(scope="module")
def followed(run: Path) -> Results:
    return Results.load(run)


def invented(followed: Results, stat: str) -> Results:
    """Two algorithms at two epsilons over many epochs of one data set: n stays, the step moves."""
    rows = []
    for algorithm, momentum in (("dp_gd", None), ("dp_nsgd", 0.9)):
        for epsilon in (1.0, 4.0):
            for step in (1, 10, 100):
                row = {name: None for name in followed.trajectories.column_names}
                row |= {"path": f"p{algorithm}{epsilon}", "algorithm": algorithm, "epsilon": epsilon}
                row |= {"gamma": momentum, "n": 500, "step": step, "stat": stat, "mean": 1.0 / step}
                row |= {"mcse": 0.01, "replicates": 20, "failures": 0}
                rows.append(row)
    table = pa.Table.from_pylist(rows, schema=followed.trajectories.schema)
    return dataclasses.replace(followed, trajectories=table)


def test_every_statistic_has_one_figure() -> None:
    drawn = [stat for curves in CURVES.values() for stat in curves.statistics]
    assert sorted([*drawn, "avg_pre_sq"]) == sorted(STATISTICS)


@pytest.mark.thorough
def test_a_panel_per_dimension_and_exponent_a_colour_per_budget(followed: Results) -> None:
    points = shown_curves(followed, "distance", "n")
    panels = [f"d = {d}, \u03b3 = {gamma}" for d in (1, 2) for gamma in (0.3, 0.6)]
    assert list(dict.fromkeys(p["panel"] for p in points)) == panels
    assert {p["series"] for p in points} == {"μ = 1", "μ = 2"}
    assert len(points) == 8 * 2 * 4
    stored = {r["mean"] for r in followed.followed if r["stat"] in ("last_sq", "avg_sq")}
    assert {p["y"] for p in points} == stored
    assert all(p["low"] < p["y"] < p["high"] and "limit" in p for p in points)


@pytest.mark.parametrize(("name", "kind"), [("distance", "leading term"), ("excess-loss", "proved bound")])
def test_theory_is_drawn_beside(followed: Results, name: str, kind: str) -> None:
    spec = FIGURES[name].chart(followed).to_dict()
    text = json.dumps(spec)
    assert f"'{kind}'" in text and "NaN" not in text
    dashes = spec["spec"]["layer"][1]["encoding"]["strokeDash"]
    assert dashes["legend"]["values"] == ["simulated", kind]
    if name == "excess-loss":
        assert "None of 64 points lie above the proved bound" in spec["description"]


def test_steps_where_n_stays_and_what_colours_tell(followed: Results) -> None:
    results = invented(followed, "gradient_norm")
    points = shown_curves(results, "gradient-norm", "n")
    assert {p["across"] for p in points} == {"step"} and {p["x"] for p in points} == {1, 10, 100}
    assert {p["series"] for p in points} == {"dp_gd", "dp_nsgd"}
    assert {p["panel"] for p in points} == {"ε = 1", "ε = 4"}
    assert "gradient" in FIGURES["gradient-norm"].chart(results).to_dict()["description"]
    share = FIGURES["clipped"].chart(invented(followed, "clipped")).to_dict()
    assert "type" not in share["spec"]["layer"][-1]["encoding"]["y"]["scale"]  # linear: it may touch 0


@pytest.mark.parametrize(("name", "x", "said"), [("loss", "n", "statistic"), ("distance", "mu", "n or step")])
def test_what_is_not_there_is_refused(followed: Results, name: str, x: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        FIGURES[name].chart(followed, x)


def test_a_report_without_intervals(followed: Results) -> None:
    text = report_html(followed)
    assert len(text.encode()) < 3_000_000
    shell = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    for said in (
        "8 paths followed at 4 checkpoints up to n = 200",
        "12 replicates per path",
        "mu-GDP (local)",
        "Distance to the optimum",
        "Excess loss",
        "All 64 means that theory bounds",
        "last_exc",
    ):
        assert said in shell
    assert shell.count('role="img"') == 2
    for absent in ("At a glance", "All cells", "nominal level", "Interval methods"):
        assert absent not in shell


def test_trajectories_are_exported(followed: Results, tmp_path: Path) -> None:
    file = tmp_path / "study.duckdb"
    export_duckdb(followed, file)
    with duckdb.connect(str(file), read_only=True) as db:
        assert db.execute("SELECT count(*) FROM trajectories").fetchone() == (8 * 12 * 4,)
        same = db.execute(
            "SELECT count(*) FROM trajectory_summary s JOIN (SELECT path, n, avg(last_sq) AS m "
            "FROM trajectories GROUP BY ALL) t USING (path, n) "
            "WHERE s.stat = 'last_sq' AND abs(s.mean / t.m - 1) < 1e-12"
        ).fetchone()
        assert same == (32,)


def test_plot_and_report_as_typed(run: Path, tmp_path: Path, capsys: Any) -> None:
    assert main(["plot", str(run), "excess-loss", "-o", str(tmp_path / "a.svg")]) == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert main(["report", str(run), "-o", str(tmp_path / "a.html")]) == 0
    assert "a.html: 8 followed paths" in capsys.readouterr().out
    assert main(["plot", str(run), "coverage"]) == 2
