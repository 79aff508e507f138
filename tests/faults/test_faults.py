"""The fault matrix: files and disk; Ray; an object store behind a proxy that misbehaves."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import ldpflow.store.files
from ldpflow.cli import main
from ldpflow.store.run_store import RunStore
from tests.faults import object_store, on_disk, on_ray
from tests.faults.mutations import mutated
from tests.faults.study import trials

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.parametrize(("fault", "trial"), trials(full_disk=(2, 8), read_only=(2, 4)))
def test_on_disk(tmp_path, fault, trial):
    getattr(on_disk, fault)(tmp_path, trial)


def test_a_file_and_its_name_survive_a_power_cut(tmp_path, monkeypatch):
    steps, fsync, rename = [], os.fsync, os.replace

    def sync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", lambda *names: steps.append("rename") or rename(*names))
    RunStore(tmp_path / "run").publish("study.toml", b"x")
    assert steps == ["file", "rename", "folder"]


@pytest.mark.thorough
@pytest.mark.parametrize(("trials", "seed"), [(7, 1), pytest.param(700, 18, marks=pytest.mark.slow)])
def test_no_mutation_changes_what_is_printed_or_written_with_exit_code_0(tmp_path, trials, seed):
    assert mutated(tmp_path, trials, seed)["mutations noticed"] > trials / 2


@pytest.mark.parametrize(("fault", "trial"), trials(worker_killed=(1, 3), raising=(1, 2), stopped=(1, 2)))
def test_on_ray(tmp_path, ray_session, fault, trial):
    getattr(on_ray, fault)(tmp_path, trial)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["driver", "20", "3"], ["nodes", "2"], ["lost", "4"], ["early", "4"], ["joined", "2"], ["shm"]],
    ids=lambda a: a[0],
)
def test_on_a_ray_of_its_own(tmp_path, arguments):
    what, *numbers = arguments
    if what == "shm" and subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("a mount namespace of its own is not permitted here")
    command = [sys.executable, "-m", "tests.faults.ray_scripts", what, str(tmp_path), *numbers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def proxy():
    with object_store.bucket() as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("fault", "trial"), trials(merged=(1, 1), disturbed=(3, 6), killed_in_put=(0, 8), down=(0, 1))
)
def test_on_an_object_store(tmp_path, proxy, fault, trial):
    getattr(object_store, fault)(tmp_path, proxy, trial)


@pytest.mark.parametrize(
    ("endpoint", "out"),
    [
        (None, "s3://absent/run"),
        pytest.param("http://127.0.0.1:9", "s3://studies/run", marks=pytest.mark.slow),
    ],
    ids=["no bucket", "nobody there"],  # where nothing listens the client tries again for 6 s
)
def test_an_address_without_a_store(proxy, monkeypatch, capsys, endpoint, out):
    monkeypatch.setattr(ldpflow.store.files, "PUT_PAUSES", ())
    if endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    code = main(["sweep", "--engine", "serial", "--out", out, "--quiet"])
    said = capsys.readouterr().err
    assert code == 1 and said.startswith("ldpflow: ") and out in said
