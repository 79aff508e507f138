"""Summaries to show, and a way to run a command line as a user does."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from ldpflow.cli import main
from ldpflow.store.run_store import RunStore


@pytest.fixture
def ldpflow(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    # pytest's own terminal, or a CI's, must not colour what is compared here.
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return run


def cell(**columns):
    """A row of a summary: paper-table1's BB at n = 1e6 unless said otherwise."""
    return {
        "path": "p0123456789abcdef", "problem": "quantile", "tau": 0.5, "law": "normal",
        "location": 0.0, "scale": 1.0, "theta0": 0.0, "sampling": "data",
        "mechanism": "randomized_response", "epsilon": 1.0, "delta": None, "privacy_notion": "eps-LDP",
        "algorithm": "ldp_sgd", "gamma": 0.51, "c": 1.0,
        "n": 10**6, "method": "BB", "beta": 0.75, "B": 500, "M": None, "multiplier": "uniform", "level": 0.9,
        "coordinate": 0, "truth": 0.0, "replicates": 500, "failures": 0,
        "coverage": 0.88, "coverage_mcse": 0.0145,
        "coverage_failures_as_misses": 0.88, "coverage_failures_as_misses_mcse": 0.0145,
        "length_mean": 0.0085123456789, "length_mcse": 5.2e-5, "bias": -1.234e-5, "bias_mcse": 1e-4,
        "empirical_se": 0.0026123, "empirical_se_mcse": 8.3e-5,
    } | columns  # fmt: skip


def without(**columns):
    return cell(beta=None, B=None, multiplier=None, **columns)


@pytest.fixture
def run(tmp_path):
    rows = [
        cell(n=n, beta=beta, epsilon=epsilon)
        for epsilon in (0.5, 1.0)
        for n in (10**6, 10**7)
        for beta in (0.65, 0.75)
    ]
    rows += [without(method="BM"), without(method="SN", coverage=0.91, length_mean=0.0106, length_mcse=None)]
    RunStore(tmp_path / "run").write_summary(pa.Table.from_pylist(rows))
    return tmp_path / "run"
