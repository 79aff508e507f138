"""What ranks, picks or praises counts a replicate without an interval as a miss; figures hide nothing."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ldpflow.engine.run import run_study
from ldpflow.report.answers import diverged_counts, failures, glance, why_failed
from ldpflow.report.pictures import FIGURES
from ldpflow.report.results import Results
from ldpflow.results.arena import settings_of
from ldpflow.study import Study
from tests.report.test_figures import values
from tests.studies import changed


@pytest.fixture(scope="module")
def picky(results: Results) -> Results:
    """The run with a method that leaves 54 of 200 intervals undefined and covers in all others."""
    rows = [dict(row) for row in results.rows]
    for row in rows:
        if row["method"] == "SN":
            row |= {"replicates": 200, "failures": 54, "coverage": 1.0, "coverage_mcse": 0.0}
            row |= {"coverage_low": 0.974, "coverage_high": 1.0, "coverage_failures_as_misses": 0.73}
            row |= {"coverage_failures_as_misses_mcse": 0.0314}
            row |= {"coverage_failures_as_misses_low": 0.665, "coverage_failures_as_misses_high": 0.787}
    return dataclasses.replace(results, rows=rows)


def test_at_a_glance_counts_them_as_misses(picky: Results) -> None:
    (row,) = (row for row in glance(picky, settings_of(picky.rows)) if row["series"] == "SN")
    assert row["coverage"] == "0.730" and row["fails"] == row["cells"] and row["holds"] == "0"
    assert row["failures"].endswith("(27.0%)")


def test_figures_of_coverage_count_them_as_misses(picky: Results) -> None:
    spec = FIGURES["coverage"].chart(picky).to_dict()
    shown = {row["y"] for row in values(spec) if row.get("series") == "SN"}
    assert shown == {0.73}


def test_the_table_of_failures_stands_by_the_coverage_and_says_why(results: Results, shell: str) -> None:
    places = [shell.index(f'id="{name}"') for name in ("coverage", "failures", "length")]
    assert places == sorted(places)
    assert shell.count('id="failures"') == 1
    table = failures(results)
    assert table["rows"] and table["head"][-1] == "why"
    assert all("undefined: there are fewer than two blocks" in row[-1] for row in table["rows"])


def test_paths_that_diverge_are_not_what_a_method_cannot_define(tmp_path: Path) -> None:
    study = changed(
        replicates=6, problem__tau=0.5, mechanism__epsilon=1.0, algorithm__gamma=0.51, algorithm__c=1.7e308,
        grid={"n": 500, "level": 0.9}, method=[{"kind": "SN"}],
    )  # fmt: skip
    run_study(Study.from_mapping(study), tmp_path / "run", engine="serial")
    loaded = Results.load(tmp_path / "run")
    counts = diverged_counts(loaded, {row["path"] for row in loaded.rows})
    statuses = loaded.store.replicates.read(damaged="refuse")["status"].to_pylist()
    assert list(counts.values()) == [statuses.count("diverged")] == [6]
    assert all(row[-1] == "6 diverged" for row in failures(loaded)["rows"])


def test_the_words_for_both_causes() -> None:
    words = why_failed({"method": "TR", "failures": 7}, 2)
    assert words.startswith("2 diverged; 5 undefined: the fit has no root")
    assert why_failed({"method": "unknown", "failures": 3}, 0) == "3 undefined"


def test_two_values_of_a_second_setting_are_two_lines(tmp_path: Path) -> None:
    methods = [{"kind": "BB", "beta": [0.6, 0.7], "B": [50, 100]}, {"kind": "BM"}, {"kind": "SN"}]
    study = changed(
        replicates=8, problem__tau=0.5, mechanism__epsilon=1.0, grid={"n": 300, "level": 0.9}, method=methods
    )
    run_study(Study.from_mapping(study), tmp_path / "run", engine="serial")
    results = Results.load(tmp_path / "run")
    for name in ("coverage", "length"):
        data = [row for row in values(FIGURES[name].chart(results, "beta").to_dict()) if "series" in row]
        assert {row["series"] for row in data} == {"n = 300, B = 50", "n = 300, B = 100"}
        assert len({(row["series"], row["x"]) for row in data}) == len(data)
    for name in ("coverage", "length"):
        chart = FIGURES[name].chart(results, "beta")
        assert chart.usermeta["left_out"] == "Left out: BM, SN, which have no beta."
        assert "left_out" not in FIGURES[name].chart(results, "n").usermeta


def test_a_figure_has_every_line(results: Results) -> None:
    model = next(row for row in results.rows if row["method"] == "BB" and row["beta"] == 0.6)
    betas = (0.1, 0.2, 0.3, 0.4, 0.5)
    crowded = [model | {"beta": beta, "series": f"BB, β = {beta}"} for beta in betas]
    more = dataclasses.replace(results, rows=results.rows + crowded)
    chart = FIGURES["coverage"].chart(more)
    assert len({row["series"] for row in values(chart.to_dict())}) == 11
    assert "left_out" not in chart.usermeta
