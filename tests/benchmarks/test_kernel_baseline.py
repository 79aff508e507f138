"""Two checkouts' kernels compared: arithmetic, designs, one run; never how fast anything is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import kernel_baseline
from benchmarks.kernel_baseline import Row, totals
from benchmarks.kernel_designs import DESIGNS, Design
from ldpflow.study import Study

ROOT = Path(__file__).parents[2]


def row(name, ours, theirs):
    return Row(name, "x", 1000, {kind: [ours, theirs] for kind in kernel_baseline.KINDS})


def test_ratios_are_taken_pair_by_pair():
    made = row("x", [1.0, 4.0, 9.0], [2.0, 2.0, 9.0])
    assert made.ratios("run") == [0.5, 2.0, 1.0]
    found = made.mapping()
    assert found["run_ratio"] == 1.0 and found["run_ratio_quartiles"] == [0.75, 1.5]
    assert found["ns_per_step"] == 4e6 and found["against_ns_per_step"] == 2e6
    assert found["compile_cpu_seconds"] == 4.0 and found["against_load_cpu_seconds"] == 2.0


def test_totals_are_sums_over_kernels():
    found = totals([row("x", [1.0, 1.0], [2.0, 2.0]), row("y", [3.0, 3.0], [6.0, 6.0])])
    assert found["compile_cpu_seconds"] == 4.0 and found["against_compile_cpu_seconds"] == 8.0
    assert found["compile_ratio"] == 0.5 and found["load_ratio"] == 0.5


@pytest.mark.parametrize("name", DESIGNS)
def test_every_design_is_a_study_of_one_path(name):
    (plan,) = Study.from_mapping(DESIGNS[name].study).plans()
    assert plan.cells or plan.checkpoints


@pytest.mark.slow
def test_two_checkouts_in_one_call(monkeypatch, tmp_path):
    # This one against itself, on a path too short to say anything about speed.
    study = DESIGNS["quantile"].study | {"grid": {"n": 1000}}
    monkeypatch.setitem(kernel_baseline.DESIGNS, "quantile", Design("short", study))
    file = tmp_path / "found.json"
    options = ["--against", str(ROOT), "--pairs", "2", "--compiles", "1", "--json", str(file)]
    assert kernel_baseline.main(["--only", "quantile", *options]) == 0
    (found,) = json.loads(file.read_text())["rows"]
    assert found["steps"] == 32_000
    assert all(found[f"{kind}_ratio"] > 0 for kind in kernel_baseline.KINDS)
    # From a full cache nothing is compiled.
    assert found["load_cpu_seconds"] < found["compile_cpu_seconds"]
