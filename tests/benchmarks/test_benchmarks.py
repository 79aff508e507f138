"""Arithmetic, designs and naive loops of the benchmarks; never how fast anything is."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import kernel_baseline, kernel_worker, peers
from benchmarks.kernel_baseline import Row
from benchmarks.kernel_designs import DESIGNS, Design
from benchmarks.measurement import Measurement, quartiles
from benchmarks.scheduler import Parts, simulate

ROOT = Path(__file__).parents[2]


def test_median_quartiles_and_verdict():
    row = Measurement("x", "x", "times", [3.0, 1.0, 2.0], 2.0, "higher")
    assert row.value == 2.0
    assert row.met is True
    assert quartiles(row.values) == [1.5, 2.5]
    assert Measurement("x", "x", "times", [3.0], 2.0, "lower").met is False
    assert Measurement("x", "x", "ns", [3.0]).met is None
    assert Measurement("x", "x", target=2.0, skipped="no R").met is None


@pytest.mark.parametrize("generator", ["Generator", "np.random"])
def test_naive_quantile_estimates_the_quantile(generator):
    # One path: sd of the average is about sqrt(2.8 / n) (S over G squared) = 0.006; 8 sd allowed.
    n = 100_000
    sums = np.empty(1)
    settings = (n, 0.5, np.e / (1 + np.e), 1.0, 0.51, 0.0, np.array([n]), sums)
    if generator == "Generator":
        peers.naive_quantile_generator(np.random.default_rng(1), *settings)
    else:
        peers.naive_quantile_legacy(1, *settings)
    assert abs(sums[0] / n) < 0.05


EVEN = {"start": 0.0, "spread": 0.0}


@pytest.mark.parametrize(
    ("parts", "cores", "per_second"),
    [
        (Parts(driver=1e-6, aggregator=1e-6, **EVEN), 10, 10.0),  # the cores
        (Parts(driver=0.02, aggregator=1e-6, **EVEN), 1000, 50.0),  # the driver
        (Parts(driver=1e-6, aggregator=0.05, **EVEN), 1000, 20.0),  # the aggregator
    ],
)
def test_the_slowest_part_sets_the_pace(parts, cores, per_second):
    short, long = (simulate(cores, 1.0, n, parts) for n in (4000, 8000))
    assert 4000 / (long.seconds - short.seconds) == pytest.approx(per_second, rel=0.02)
    assert long.work == pytest.approx(8000.0)


def row(name, ours, theirs):
    return Row(name, "x", 1000, {kind: [ours, theirs] for kind in kernel_baseline.KINDS})


def test_ratios_are_taken_pair_by_pair():
    made = row("x", [1.0, 4.0, 9.0], [2.0, 2.0, 9.0])
    assert made.ratios("run") == [0.5, 2.0, 1.0]
    found = made.mapping()
    assert found["run_ratio"] == 1.0 and found["run_ratio_quartiles"] == [0.75, 1.5]
    assert found["ns_per_step"] == 4e6 and found["against_ns_per_step"] == 2e6
    assert found["compile_cpu_seconds"] == 4.0 and found["against_load_cpu_seconds"] == 2.0


@pytest.mark.parametrize("name", [n for n in DESIGNS if n != "subsets"])  # its privacy takes seconds
def test_every_design_is_a_study_of_one_path(name):
    _, _, steps = kernel_worker.piece_of_work(DESIGNS[name].study)  # fails for a study of several paths
    assert steps > 0


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
