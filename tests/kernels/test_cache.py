"""The compile cache: found by a second process, never stale, private."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ldpflow
from ldpflow.cli import app
from ldpflow.errors import InputError
from ldpflow.numerics import distributions
from ldpflow.numerics import kernels as cache

ROOT = Path(__file__).parents[2]

COMPILE_ALL = """
from ldpflow.simulators.simulator import by_runs
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.study import load_study

for plan in load_study("quickstart").replace({"n": [400], "replicates": 10}).plans():
    for cells in by_runs(plan.cells).values():
        simulate(Batch(plan.simulator, 1, 0, 1, cells))

from tests.kernels.conftest import loads
print(*loads())
"""


def test_the_version_says_where_kernels_are(tmp_path, monkeypatch):
    monkeypatch.setenv("LDPFLOW_CACHE_DIR", str(tmp_path / "mine"))
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.exit_code == 0 and not (tmp_path / "mine").exists()
    assert shown.stdout == f"ldpflow {ldpflow.__version__}\nkernels: {tmp_path}/mine/kernels\n"
    cache.cache_folder.cache_clear()
    assert cache.cache_folder() == tmp_path / "mine" / "kernels"
    cache.cache_folder.cache_clear()


@pytest.mark.system
def test_processes_that_start_together_compile_once_and_a_later_one_finds_every_kernel(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "LDPFLOW_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", COMPILE_ALL]

    def start():
        return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def loads(process):
        return [int(word) for word in process.communicate()[0].split()]

    counts = [loads(process) for process in [start(), start()]]
    kernels = sum(counts[0])
    assert kernels >= 3
    # Each kernel was compiled by one of them, whichever came first, and loaded by the other.
    assert sum(misses for _, misses in counts) == kernels
    assert sum(hits for hits, _ in counts) == kernels
    assert loads(start()) == [kernels, 0]


PLANTED = {
    "foreign": lambda folder: folder.mkdir(mode=0o700),
    "shared": lambda folder: (folder.mkdir(), folder.chmod(0o1777)),
    "writable kernels": lambda folder: (folder / "kernels").chmod(0o770),
    "link": lambda folder: ((folder / "kernels").rmdir(), (folder / "kernels").symlink_to(folder.parent)),
    "open parent": lambda folder: (folder.mkdir(mode=0o700), folder.parent.chmod(0o777)),
    "file": lambda folder: folder.write_text(""),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_cache_that_others_could_fill_is_bad_input(folder, monkeypatch, name):
    if name in ("writable kernels", "link"):
        (folder / "kernels").mkdir(parents=True, mode=0o700)
        folder.chmod(0o700)
    PLANTED[name](folder)
    if name == "foreign":
        monkeypatch.setattr(os, "getuid", lambda: 123456)
    with pytest.raises(InputError) as refused:
        cache.cache_folder()
    assert refused.value.field == "LDPFLOW_CACHE_DIR"


def test_files_of_the_cache_that_others_could_write_are_not_read(folder):
    file = cache.cache_folder() / "kernel.bin"
    cache.write_private(file, b"code")
    assert cache.read_private(file) == b"code" and file.stat().st_mode & 0o077 == 0
    file.chmod(0o666)
    assert cache.read_private(file) is None
    file.chmod(0o600)
    link = file.with_name("link.bin")
    link.symlink_to(file)
    assert cache.read_private(link) is None
    cache.write_private(link, b"other")
    assert (cache.read_private(file), cache.read_private(link)) == (b"code", b"other")


def test_a_gamma_table_is_kept_and_a_damaged_one_made_again(folder, monkeypatch):
    made = []
    monkeypatch.setattr(
        distributions, "compute_gamma_table", lambda shape: np.array([made.append(shape) or shape] * 9)
    )
    load = distributions.gamma_table.__wrapped__
    assert load(2.5).tolist() == load(2.5).tolist() == [2.5] * 9 and made == [2.5]
    (file,) = (folder / "kernels").glob("gamma-*.bin")
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    assert load(2.5).tolist() == [2.5] * 9 and made == [2.5, 2.5]
