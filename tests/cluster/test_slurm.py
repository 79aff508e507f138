"""The batch script, with this machine in the part of every node and a stand-in for Slurm's commands."""

import os
import secrets
import subprocess
import time

import pytest

from tests.cluster.own_cluster import ROOT, environment
from tests.faults.study import row_bytes, serial, study, whole

STAND_INS = {
    # The options of srun, left out; then the command, here.
    "srun": 'while [[ "$1" == --* ]]; do shift; done; exec "$@"',
    "scontrol": "printf 'node1\\nnode2\\n'",
    "hostname": "echo 127.0.0.1",
}


@pytest.fixture
def slurm(tmp_path):
    (tmp_path / "bin").mkdir()
    for name, line in STAND_INS.items():
        file = tmp_path / "bin" / name
        file.write_text(f"#!/usr/bin/env bash\n{line}\n")
        file.chmod(0o755)
    base = environment(tmp_path)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
        del base[name]  # the script's own affair
    base |= {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{base['PATH']}",
        "SLURM_JOB_ID": str(secrets.randbelow(10**6)),
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_CPUS_PER_TASK": "1",
        "LDPFLOW_SHARED": str(tmp_path),
    }

    def run(*arguments):
        command = ["bash", ROOT / "workflows/cluster/slurm.sh", *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=base, cwd=tmp_path, text=True, stdout=pipe, stderr=subprocess.STDOUT
        )

    return run


@pytest.mark.slow
def test_a_study_on_an_allocation(tmp_path, slurm):
    (tmp_path / "study.toml").write_text(study().to_toml())
    expected = serial(tmp_path / "expected")
    job = slurm("study.toml", "--out", tmp_path / "run")
    out, _ = job.communicate(timeout=240)
    assert job.returncode == 0, out
    assert "96 replicates in" in out
    whole(tmp_path / "run", expected)
    assert not list(tmp_path.glob(".ray-token-*")), "the token is taken away"


@pytest.mark.slow
def test_slurms_signal_ends_the_sweep_in_order(tmp_path, slurm):
    long = study(replicates=6400, grid={"n": [10**6], "level": [0.9]})
    (tmp_path / "study.toml").write_text(long.to_toml())
    job = slurm("study.toml", "--out", tmp_path / "run")
    deadline = time.monotonic() + 200
    while not list(tmp_path.glob("run/replicates/*/*.parquet")):
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    job.terminate()
    out, _ = job.communicate(timeout=60)
    assert job.returncode == 130, out
    assert "Run the same command again to continue" in out and "SIGTERM received" in out
    assert row_bytes(tmp_path / "run")
    assert not list(tmp_path.glob(".ray-token-*"))
