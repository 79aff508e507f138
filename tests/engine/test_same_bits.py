"""The contract on randomness: the same rows, bit for bit, however they come to be computed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path as FilePath

import pyarrow as pa
import pytest

from ldpflow.components.intervals.bootstrap import BlockBootstrap
from ldpflow.components.intervals.variance import BatchMeans, Oracle, SelfNormalization
from ldpflow.engine import batching
from ldpflow.engine.run import run_study
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study

KEYS = ("path", "replicate", "n", "method", "beta", "B", "multiplier", "level", "coordinate")
ORDER = [(name, "ascending") for name in KEYS]

STUDY = {
    "name": "bits",
    "seed": 99,
    "replicates": 100,
    "problem": {"kind": "quantile", "tau": [0.5, 0.9]},
    "mechanism": {"kind": "randomized_response", "epsilon": [1.0]},
    "algorithm": {"kind": "ldp_sgd"},
    "grid": {"n": [1000, 3000], "level": [0.9]},
    "method": [{"kind": "BB", "beta": [0.75], "B": 60}, {"kind": ["BM", "SN", "oracle"]}],
}


def changed(**tables):
    """The study with some tables' keys replaced."""
    result = {key: value for key, value in STUDY.items()}
    for name, change in tables.items():
        if isinstance(change, dict):
            result[name] = {**result[name], **change}
        else:
            result[name] = change
    return Study.from_mapping(result)


def rows_of(study, out, **options):
    result = run_study(study, out, **{"engine": "serial", **options})
    assert not result.failed_batches
    return RunStore(out).replicates.read(damaged="refuse").sort_by(ORDER)


def by_key(rows):
    """Rows as a mapping from what identifies them; floats as hex, so that NaN equals itself."""
    return {
        tuple(row[name] for name in KEYS): {
            name: value.hex() if isinstance(value, float) else value for name, value in row.items()
        }
        for row in rows.to_pylist()
    }


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    return rows_of(Study.from_mapping(STUDY), tmp_path_factory.mktemp("serial") / "run")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ray_gives_the_serial_rows(serial, tmp_path, ray_session, workers):
    # One session of two cores; with one worker the batches are forced into a row.
    rows = rows_of(Study.from_mapping(STUDY), tmp_path / "run", engine="ray", num_cpus=workers)
    assert rows.equals(serial)


def test_threads_give_the_serial_rows(serial, tmp_path, monkeypatch):
    monkeypatch.setattr(batching, "TARGET_SECONDS", 1e-9)  # many batches
    rows = rows_of(Study.from_mapping(STUDY), tmp_path / "run", engine="threads", num_cpus=5)
    assert rows.equals(serial)


@pytest.mark.parametrize("target", [1e-9, 1e3])
def test_batch_size_does_not_matter(serial, tmp_path, monkeypatch, target):
    monkeypatch.setattr(batching, "TARGET_SECONDS", target)
    sizes = []
    original = batching.cut

    def cut(missing, seed, cores):
        # Without the shrinking towards the end the target alone decides.
        batches = original([*missing], seed, 1e-9 if target > 1 else cores)
        sizes.append({b.last - b.first for b in batches})
        return batches

    monkeypatch.setattr("ldpflow.engine.run.cut", cut)
    assert rows_of(Study.from_mapping(STUDY), tmp_path / "run").equals(serial)
    assert sizes[0] == ({32, 4} if target < 1 else {100})


MORE = {
    "grid": {"n": [500, 1000, 3000, 7001], "level": [0.8, 0.9, 0.95]},
    "mechanism": {"epsilon": [0.5, 1.0, 3.0]},
    "problem": {"tau": [0.5, 0.9, 0.95]},
    "method": [*STUDY["method"], {"kind": "BM", "M": 9}],
    "replicates": 132,
}
OTHERS_OF_BB = {"kind": "BB", "beta": [0.6, 0.75], "B": [60, 90], "multiplier": ["uniform", "rademacher"]}


@pytest.mark.parametrize(
    "tables",
    [
        MORE,
        {"grid": {"n": [1000]}, "problem": {"tau": [0.9]}, "replicates": 40},
        {"method": [{"kind": "SN"}]},
        {"method": [OTHERS_OF_BB]},
    ],
    ids=["more", "fewer", "one method", "other settings"],
)
def test_cells_and_replicates_do_not_disturb_each_other(serial, tmp_path, tables):
    ours = by_key(rows_of(changed(**tables), tmp_path / "run"))
    theirs = by_key(serial)
    both = ours.keys() & theirs.keys()
    assert len(both) >= 160
    assert all(ours[key] == theirs[key] for key in both)


def test_independent_n_gives_every_n_its_own_paths(serial, tmp_path):
    rows = rows_of(changed(grid={"independent_n": True}), tmp_path / "run")
    assert rows.num_rows == serial.num_rows
    assert len(set(rows["path"].to_pylist())) == 2 * len(set(serial["path"].to_pylist()))
    estimates = set(serial["estimate"].to_pylist())
    assert not estimates & set(rows["estimate"].to_pylist())


TRANSCRIPT = [
    {"kind": ["TR", "TR-BM"], "degree": [1, 2, 3], "burn_in": ["n^0.4", "0.1n"]},
    {"kind": "TR", "degree": 2, "variance": "residual"},
]
VECTORS = [{"kind": ["TR", "TR-BM"], "degree": 1, "burn_in": "0.1n"}]
QUADRATIC = [{"kind": ["TR", "TR-BM"], "degree": [1, 2], "burn_in": "0.1n"}]

FOLLOWED = {**STUDY, "mechanism": {"kind": "none"}, "trajectory": {"points": 3}, "method": []}
EPOCHS = {
    **FOLLOWED,
    "problem": {"kind": "nonconvex_logistic", "d": 3, "penalty": 0.5},
    "algorithm": {"kind": "dp_gd", "epsilon": 4.0, "epochs": 4.0},
    "grid": {"n": [30]},
}
ONE_PASS = {
    **FOLLOWED,
    "problem": {"kind": "least_squares", "d": 3},
    "algorithm": {"kind": "dp_ambssgd", "epsilon": 50.0, "iterations": 4},
    "grid": {"n": [4000]},
}


LAPLACE = {"kind": "laplace", "epsilon": 1.0}


def digest():
    """Hash of the rows of a batch that goes through every sampler, kind of problem and method."""
    laws = {"tau": 0.3, "law": ["laplace", "exponential", "uniform", "logistic"]}
    truncated, uniform = (
        {"kind": "quantile_regression", "covariates": kind} for kind in ("truncated_normal", "uniform")
    )
    studies = (
        changed(method=[*STUDY["method"], *TRANSCRIPT]),
        changed(problem=laws, mechanism=LAPLACE),
        changed(problem={"law": "student_t", "df": 2.5}),
        Study.from_mapping(
            STUDY | {"problem": truncated, "mechanism": LAPLACE, "method": [*STUDY["method"], *VECTORS]}
        ),
        Study.from_mapping(STUDY | {"problem": uniform, "mechanism": LAPLACE}),
        changed(algorithm={"kind": "minibatch_sgd", "batch_size": 3}, mechanism=LAPLACE),
        Study.from_mapping(ONE_PASS),
    )
    return hashed([plan for study in studies for plan in study.plans()])


def small_digest():
    """The same of one path with every method of the study."""
    return hashed(Study.from_mapping(STUDY).plans()[:1])


def epochs_digest():
    """The same of many epochs over the same records."""
    return hashed(Study.from_mapping(EPOCHS).plans())


def longer_digest():
    """The same of what takes long to compile: noise trees, reduced noise, vectors under Gaussian noise."""
    algorithms = {"kind": ["dp_nsgd", "dp_nsgd_reduced"], "epsilon": 4.0, "epochs": 4.0}
    moments = {"kind": ["sufficient_statistics", "dp_mbssgd", "dp_ssgd"], "epsilon": 0.01}
    vectors = {
        "problem": {"kind": "linear_regression", "coefficients": [1.0, -0.5]},
        "mechanism": {"kind": "gaussian", "mu": 1.0},
        "method": [*STUDY["method"], *QUADRATIC],
    }
    mappings = (EPOCHS | {"algorithm": algorithms}, ONE_PASS | {"algorithm": moments}, STUDY | vectors)
    return hashed([plan for mapping in mappings for plan in Study.from_mapping(mapping).plans()])


def hashed(plans):
    """Hash of 32 replicates of each path."""
    result = hashlib.sha256()
    for plan in plans:
        made = simulate(Batch(plan.simulator, 99, 0, 32, plan.cells, (), plan.checkpoints))
        for rows in filter(None, (made.rows, made.trajectories)):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            result.update(sink.getvalue())
    return result.hexdigest()


BASELINE = ("x86-64", "")
OTHERS = (BASELINE, ("haswell", "+avx2,+fma"))


@pytest.mark.parametrize(
    ("what", "processors"),
    [
        ("small_digest", (BASELINE,)),
        pytest.param("digest", OTHERS, marks=pytest.mark.slow),
        pytest.param("epochs_digest", (BASELINE,), marks=pytest.mark.slow),
        pytest.param("longer_digest", OTHERS, marks=pytest.mark.slow),
    ],
)
def test_bits_do_not_depend_on_the_processors_features(what, processors):
    root = FilePath(__file__).parents[2]
    digests = [globals()[what]()]
    for name, features in processors:
        environment = {**os.environ, "PYTHONPATH": str(root)}
        # Kernels are kept by processor and features: nothing compiled for this one is taken.
        environment |= {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
        # NumPy's own dispatch too.
        environment["NPY_DISABLE_CPU_FEATURES"] = "AVX512_SPR AVX512_ICL AVX512_SKX X86_V4"
        code = f"from tests.engine import test_same_bits as bits; print(bits.{what}())"
        command = [sys.executable, "-W", "ignore", "-c", code]
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
        digests.append(done.stdout.strip())
    assert len(digests) > 1 and len(set(digests)) == 1


def test_rows_come_by_replicate_cell_and_coordinate():
    plan = Study.from_mapping(STUDY).plans()[0]
    cells = (
        Cell(500, BlockBootstrap(B=20), 0.9),
        Cell(500, BatchMeans(), 0.8),
        Cell(1000, SelfNormalization(), 0.9),
        Cell(1000, Oracle(), 0.95),
    )
    rows = simulate(Batch(plan.simulator, 1, 3, 6, cells)).rows
    assert rows["replicate"].to_pylist() == [3] * 4 + [4] * 4 + [5] * 4
    assert rows["method"].to_pylist() == ["BB", "BM", "SN", "oracle"] * 3
    assert rows["n"].to_pylist() == [500, 500, 1000, 1000] * 3
    assert rows["level"].to_pylist() == [0.9, 0.8, 0.9, 0.95] * 3
