"""RUN at an s3:// address, against a real server over real connections, some of them spoilt."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.faults import object_store


@pytest.fixture(scope="module")
def proxy():
    with object_store.bucket() as proxy:
        yield proxy


def test_undisturbed(tmp_path, proxy):
    object_store.undisturbed(tmp_path, proxy, 0)


@pytest.mark.parametrize("trial", range(3))
def test_disturbed(tmp_path, proxy, trial):
    object_store.disturbed(tmp_path, proxy, trial)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(2))
def test_killed_while_a_part_is_uploaded(tmp_path, proxy, trial):
    object_store.killed_in_put(tmp_path, proxy, trial)


@pytest.mark.slow
def test_down(tmp_path, proxy):
    object_store.down(tmp_path, proxy, 0)


def test_nobody_there(proxy):
    """The command line, where nothing listens at all: one message, exit code 1."""
    environment = {**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "ldpflow", "sweep", "--engine", "serial"]
    command += ["--out", "s3://studies/nobody", "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and "s3://studies/nobody" in done.stderr
