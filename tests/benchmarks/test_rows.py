"""Every row of the benchmarks runs, in sizes that say nothing about speed."""

import math

import pytest

import benchmarks.__main__
from benchmarks import engine_rows, pilot_rows, protocol_rows, report, sweep_rows
from benchmarks.__main__ import GROUPS, main
from benchmarks.effort import Effort
from benchmarks.measurement import Skipped

TINY = Effort(
    quick=True, repetitions=1, steps=3200, sweep_repetitions=1, ray_seconds=0.01, starts=1, memory_n=10**4
)
FAST = ("quantile", "pilot", "samplers", "sweep", "bootstrap", "ldpflow", "numpy", "random-scaling")
"""Rows whose kernels take seconds to compile; the others take minutes, or start Ray."""


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Sizes that are constants of a row."""
    monkeypatch.setattr(protocol_rows, "USERS", (1000,))
    monkeypatch.setattr(protocol_rows, "REPLICATES", 8)
    monkeypatch.setattr(pilot_rows, "PATHS", 4)
    monkeypatch.setattr(sweep_rows, "GRID_N", (1000, 2000))
    study = ("quickstart", "--n", "1e3", "--epsilon", "1", "--method", "SN")
    for name in ("SMALL", "QUICKSTART"):
        monkeypatch.setattr(engine_rows, name, (*study, "--replicates", "8"))
    monkeypatch.setattr(engine_rows, "LONG", study)


@pytest.mark.system
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in GROUPS]
)
def test_a_row_runs(name):
    try:
        rows = GROUPS[name](TINY)
    except Skipped as reason:
        pytest.skip(str(reason))
    assert rows
    for row in rows:
        assert row.skipped is None and row.values and all(map(math.isfinite, row.values))
        assert report.line(row).split()[1] == row.name


def test_a_row_that_fails_is_said_to_fail(monkeypatch, capsys):
    def broken(effort):
        raise AttributeError("no such kernel")

    def absent(effort):
        raise Skipped("R is not installed")

    monkeypatch.setattr(benchmarks.__main__, "GROUPS", {"broken": broken, "absent": absent})
    assert main(["--quick", "--only", "absent"]) == 0
    assert main(["--quick"]) == 1
    *_, first, second = capsys.readouterr().out.splitlines()
    assert first == "FAILED   broken: AttributeError: no such kernel"
    assert second == "skipped  absent: R is not installed"
