"""The contract on randomness: the same rows, bit for bit, however they come to be computed."""

import os
import subprocess
import sys
from pathlib import Path as FilePath

import pyarrow as pa
import pytest

from ldpflow.components import protocols
from ldpflow.engine import batching
from ldpflow.engine.run import run_study
from ldpflow.results.trajectories import read_trajectories
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import by_runs
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests import studies

ROOT = FilePath(__file__).parents[2]
KEYS = ("path", "replicate", "n", "method", "beta", "B", "multiplier", "level", "coordinate")
ORDER = [(name, "ascending") for name in KEYS]

STUDY = studies.changed(
    seed=99, mechanism__epsilon=[1.0], algorithm={"kind": "ldp_sgd"},
    grid={"n": [1000, 3000], "level": [0.9]},
    method=[{"kind": "BB", "beta": [0.75], "B": 60}, {"kind": ["BM", "SN", "oracle"]}],
)  # fmt: skip


def rows_of(study, out, **options):
    result = run_study(study, out, **{"engine": "serial", **options})
    assert not result.failed_batches
    return RunStore(out).replicates.read(damaged="refuse").sort_by(ORDER)


PROTOCOLS = {
    **STUDY,
    "replicates": 40,
    "problem": {"kind": "quantile"},
    "protocol": {"kind": ["haar", "rounds"], "epsilon": 1.0, "range": [-8.0, 8.0]},
    "grid": {"n": [1000]},
    "method": [{"kind": "inversion"}, {"kind": "fieller"}],
}
del PROTOCOLS["mechanism"], PROTOCOLS["algorithm"]
TRAJECTORIES = {
    **STUDY,
    "replicates": 40,
    "problem": {"kind": "quadratic", "curvatures": [[0.3, 1.0]]},
    "mechanism": {"kind": "gaussian", "mu": [1.0, 2.0]},
    "trajectory": {"points": 4},
    "method": [{"kind": ["BM", "HULC"]}],
}
STUDIES = {"paths": STUDY, "protocols": PROTOCOLS, "trajectories": TRAJECTORIES}


@pytest.mark.parametrize("name", STUDIES)
def test_rows_do_not_depend_on_the_engine(tmp_path, monkeypatch, ray_session, name):
    study, tables = Study.from_mapping(STUDIES[name]), {}
    rows_of(study.replace({"replicates": 10}), tmp_path / "grown")
    for engine, cores in (("serial", 1), ("threads", 5), ("ray", 2), ("grown", 1)):
        monkeypatch.setattr(batching, "TARGET_SECONDS", 1e3 if engine == "serial" else 1e-9)
        kind = engine.replace("grown", "serial")
        rows = rows_of(study, tmp_path / engine, engine=kind, num_cpus=cores)
        followed = read_trajectories(RunStore(tmp_path / engine), damaged="refuse")
        tables[engine] = rows.to_pydict(), followed.to_pydict()
        assert rows.num_rows and followed.num_rows == 2 * 40 * 5 * (name == "trajectories")
    # As text, in which NaN equals itself and every bit is seen.
    assert len({repr(table) for table in tables.values()}) == 1


@pytest.mark.parametrize("name", STUDIES)
def test_rows_do_not_depend_on_the_batch(name):
    every = {**PROTOCOLS["protocol"], "kind": list(protocols.PROTOCOLS)}
    study = STUDIES[name] | ({"protocol": every} if name == "protocols" else {})
    for plan in Study.from_mapping(study).plans():
        for cells in by_runs(plan.cells).values():

            def rows(first, last, cells=cells, plan=plan):
                return simulate(Batch(plan.simulator, 7, first, last, cells, (), plan.checkpoints))

            whole, pieces = rows(0, 70), [rows(0, 1), rows(1, 40), rows(40, 70)]
            assert repr(whole.rows.to_pydict()) == repr(pa.concat_tables(p.rows for p in pieces).to_pydict())
            if plan.checkpoints:
                assert whole.trajectories.equals(pa.concat_tables(p.trajectories for p in pieces))


BASELINE, HASWELL = ("x86-64", ""), ("haswell", "+avx2,+fma")


@pytest.mark.system
@pytest.mark.parametrize(
    ("cases", "processor"),
    [
        ("test_rows_of_a_tiny_run[quantile-response]", BASELINE),
        *(pytest.param("tiny_run", processor, marks=pytest.mark.slow) for processor in (BASELINE, HASWELL)),
    ],
)
def test_golden_rows_do_not_depend_on_the_processors_features(cases, processor):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        # Kernels are kept by processor and features: nothing compiled for this one is taken.
        "NUMBA_CPU_NAME": processor[0],
        "NUMBA_CPU_FEATURES": processor[1],
        "NPY_DISABLE_CPU_FEATURES": "AVX512_SPR AVX512_ICL AVX512_SKX X86_V4",
    }
    options = "-q -n 0 -W ignore tests/golden".split()
    command = [sys.executable, "-m", "pytest", *options, "-m", "", "-k", cases]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
