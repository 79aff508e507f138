"""Transcripts of simulated replicates give the stored rows of a sweep, bit for bit."""

import math
import subprocess
import sys

import pyarrow.compute as pc
import pytest

from ldpflow.components.protocols import PROTOCOLS
from ldpflow.engine.run import run_study
from ldpflow.practice.transcripts import reading
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.collection import read_settings
from ldpflow.practice.transcripts.reading import Transcript
from ldpflow.practice.transcripts.writing import path_settings, stored_transcript, write_transcript
from ldpflow.report.analysis_page import analysis_html
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from ldpflow.study.reading import CollectionFacts
from tests.transcripts.conftest import field_of

QUANTILE = {
    "problem": {"kind": "quantile", "tau": 0.9, "scale": 3.0},
    "mechanism": {"kind": "randomized_response", "epsilon": 1.0},
    "algorithm": {"kind": "ldp_sgd", "c": 8.0, "theta0": 2.0},
}


def methods(kinds, *others, **common):
    """Tables of methods: kinds with equal settings, and others."""
    return [{"kind": kind, **common} for kind in kinds.split()] + list(others)


METHODS = methods(
    "BM SN oracle TR TR-BM TRC OBM LUG CHB",
    {"kind": "BB", "beta": [0.7, 0.8], "B": 100},
    {"kind": "TR", "degree": 3, "burn_in": "0.01n"},
    {"kind": "TRC", "degree": 1, "small_run": False},
    {"kind": "NOL", "quantile": ["normal", "t"]},
    {"kind": "EBS", "block_rule": ["half", "2n^0.6"]},
    {"kind": "LUG", "base": "BM"},
    {"kind": "SUF", "share": [0.3, 0.5]},
    {"kind": "ACS", "t_opt": 1000},
    {"kind": "ACS", "t_opt": 3000, "base": "TR", "degree": 3},
)
RESIDUAL = methods("TR TRC SUF", {"kind": "BB", "B": 50}, variance="residual")
RESIDUAL += methods("BM SN", {"kind": "ACS", "t_opt": 2000, "base": "EBS"})
LINE = {"degree": 1, "burn_in": "0.01n", "variance": "residual"}
VECTOR = methods("BM SN CHB OBM", {"kind": "TR", **LINE}, {"kind": "TR-BM", "degree": 1})
VECTOR += methods("TRC joint", {"kind": "SUF", "base": "NOL"}, variance="residual")
VECTOR += [{"kind": "joint", "base": "BM", "quantile": ["chi2", "F"]}]
BOTH = [{"kind": "TR", **LINE, "degree": [1, 2]}]
PLANE = {"kind": "linear_regression", "coefficients": [[1.0, -1.0]]}


def response(**settings):
    return QUANTILE | {"mechanism": {"kind": "randomized_response", "epsilon": 1.0} | settings}


def sgd(problem, mechanism, **settings):
    """A study's tables; rounds of several reports where there is a batch_size."""
    kind = "minibatch_sgd" if "batch_size" in settings else "ldp_sgd"
    return {"problem": problem, "mechanism": mechanism, "algorithm": {"kind": kind, **settings}}


LAPLACE, GAUSSIAN = {"kind": "laplace", "epsilon": 8.0}, {"kind": "gaussian", "mu": 1.0}
CELLS = {"kind": "cells", "epsilon": 2.0}
TWO, THREE = ({"kind": "quantiles", "taus": [taus]} for taus in ([0.4, 0.5], [0.2, 0.5, 0.8]))
CASES = {
    "randomised response": (QUANTILE, METHODS),
    "private bit": (response(sampling="private_bit"), METHODS),
    "liars": (response(kind="deployed_response", liars=0.1, answer_above=0.8), METHODS[:6]),
    "laplace": (QUANTILE | {"mechanism": LAPLACE | {"epsilon": 2.0}}, RESIDUAL),
    "gaussian": (QUANTILE | {"mechanism": GAUSSIAN}, RESIDUAL),
    "no mechanism": (QUANTILE | {"mechanism": {"kind": "none"}}, RESIDUAL),
    "mini-batches": (
        sgd(QUANTILE["problem"], QUANTILE["mechanism"], batch_size=3, c=8.0, theta0=2.0),
        METHODS[:5],
    ),
    "vector": (sgd(PLANE, LAPLACE, c=0.4), VECTOR),
    "three quantiles in rounds": (
        sgd(THREE | {"scale": 3.0}, CELLS | {"sampling": "private_bit"}, batch_size=2, c=3.0),
        VECTOR,
    ),
    "steps and starts of their own": (
        sgd(TWO, CELLS, batch_size=2, c=[[3.0, 5.0]], theta0=[[-0.5, 0.25]]),
        VECTOR,
    ),
    "four coordinates": (sgd({"kind": "quantile_regression"}, LAPLACE, c=1.0), BOTH),
}
FAST = ("randomised response", "mini-batches", "vector")
PATHS = [c if c in FAST else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
PROTOCOL = {"epsilon": 2.0, "range": [-6.3, 9.7], "liars": 0.01, "answer_above": 0.9}
OF_PROTOCOLS = {"rounds": [{"kind": "fieller"}]}
COLUMNS = {"grr": ["report"], "oue": ["report"], "rounds": ["round", "question", "theta", "report"]}
CASES |= {
    kind: (
        {"problem": {"kind": "quantile", "tau": 0.6}, "protocol": PROTOCOL | {"kind": kind}},
        OF_PROTOCOLS.get(kind, [{"kind": "inversion", "limits": ["outer", "line"]}]),
    )
    for kind in PROTOCOLS
}
VALUES = ("estimate", "se", "lower", "upper", "relaxation_times", "condition", "lack_of_fit")


def study_of(tables, methods):
    grid = {"n": [2000, 4000], "level": [0.9, 0.95]}
    own = {"name": "d1", "seed": 11, "replicates": 2, "grid": grid, "method": methods}
    return Study.from_mapping(own | tables)


@pytest.fixture(scope="module")
def run(request, tmp_path_factory):
    """A small run, its path key, and the stored rows of replicate 1 at the largest n."""
    folder = tmp_path_factory.mktemp("runs") / request.param.replace(" ", "-")
    study = study_of(*CASES[request.param])
    run_study(study, folder, engine="serial")
    plan = study.plans()[-1]
    rows = RunStore(folder).replicates.read(plan.simulator.key, damaged="refuse")
    wanted = pc.and_(pc.equal(rows["replicate"], 1), pc.equal(rows["n"], 4000))
    return folder, plan, rows.filter(wanted).to_pylist()


def bits(value):
    return None if value is None or math.isnan(value) else float(value).hex()


def matching(rows, row):
    """The stored row of the same method, settings, level and coordinate."""
    found = [
        stored
        for stored in rows
        if stored["method"] == row["method"]
        # A setting that came later is no column of rows where it has its default.
        and all(stored.get(name, value) == value for name, value in row.own.items())
        and stored["level"] == row["level"]
        and stored["coordinate"] == row["coordinate"]
    ]
    (only,) = found
    return only


@pytest.mark.thorough
@pytest.mark.parametrize("run", [*PATHS, *PROTOCOLS], indirect=True)
def test_the_rows_of_the_sweep(run, tmp_path, request, monkeypatch):
    """Of Parquet and CSV in turn."""
    folder, plan, rows = run
    place = list(CASES).index(request.node.callspec.params["run"])
    kind, chunk = ((".parquet", 999), (".csv", 2**16))[place % 2]
    monkeypatch.setattr(reading, "CHUNK", chunk)
    file = tmp_path / f"transcript{kind}"
    stored_transcript(folder, plan.simulator.key, 1, file)
    settings = read_settings(f"{file}.toml") if kind == ".csv" else None
    found = analyse(file, settings)
    for row in found.asked:
        stored = matching(rows, row)
        for name in {*VALUES, *row.checks}:
            assert bits(row.get(name)) == bits(stored.get(name)), (row["method"], name)
        assert row["status"] == stored["status"]
    assert len(found.asked) == len([row for row in rows if row["method"] != "oracle"])
    if (protocol := found.collection.protocol) is None:
        return
    assert found.oddities == [] and found.to_dict()["protocol"]["kind"] == protocol.kind
    assert f"by {protocol.kind} with epsilon = 2 (eps-LDP" in found.methods_paragraph()
    assert "Estimated distribution function" in analysis_html(found)
    assert Transcript.of(file).schema.names == COLUMNS.get(protocol.kind, ["question", "report"])


def test_a_bound_and_a_budget_at_their_default_are_written():
    tables = QUANTILE | {"mechanism": {"kind": "clipped_gaussian", "mu": 1.0}}
    (path, *_) = study_of(tables, [{"kind": "BM"}]).simulators()
    found = path_settings(path, 1, 0)["mechanism"]
    assert found == {"kind": "clipped_gaussian", "mu": 1.0, "clip": 1.0}


def test_what_is_written_by_default_and_what_cannot_be(tmp_path):
    """By the first digits of the path, or of the only path, the largest n, with the unit of the study."""
    study = study_of(QUANTILE, [{"kind": "BM"}]).with_fields(collection=CollectionFacts(unit="s"))
    folder, key = tmp_path / "run", study.plans()[-1].simulator.key
    run_study(study, folder, engine="serial")
    assert stored_transcript(folder, f"p{key[:5]}", 1, tmp_path / "whole.csv") == 4000
    assert stored_transcript(folder, None, 1, tmp_path / "only.csv") == 4000
    assert analyse(tmp_path / "only.csv", read_settings(tmp_path / "only.csv.toml")).unit == "s"
    for path, place, field in (
        ("0" * 16, "t.csv", "path"), ("xyz", "t.csv", "path"), (key, "none/t.csv", "output"),
    ):  # fmt: skip
        assert field_of(stored_transcript, folder, path, 1, tmp_path / place) == field


PROGRAM = """
import resource, sys
from ldpflow.cli import main
assert main(["analyse", sys.argv[1], "--format", "json"]) == 0
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ten_million_rows(tmp_path, kind):
    """Peak of a process, MiB: 10^7 rows take at most 100 more than 10^5; the Parquet file has 120."""
    (path, *_) = study_of(QUANTILE, [{"kind": "BM"}]).simulators()
    peaks = []
    for rows in (10**5, 10**7):
        file = tmp_path / f"{rows}.{kind}"
        write_transcript(path, 1, 0, rows, file)
        done = subprocess.run([sys.executable, "-c", PROGRAM, file], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks.append(float(done.stderr.split()[-1]))
    assert peaks[1] < peaks[0] + 100
