"""Faults of the disk. A trial is a call with a folder."""

import shutil
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

import ldpflow.engine.run
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError, StorageError
from ldpflow.store.run_store import RunStore
from tests.faults.study import SmallParts, serial, study, whole
from tests.store.replicates import unusable


@contextmanager
def small_parts() -> Iterator[None]:
    """Sweeps of this process publish every batch as a part."""
    with mock.patch.object(ldpflow.engine.run, "Aggregator", SmallParts):
        yield


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[Path]:
    """A small file system of its own; skips where mounting is not permitted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def full_disk(work: Path, trial: int) -> None:
    with mounted(work / "disk", 256 * 1024) as disk, small_parts(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ballast = disk / "ballast"
        # Full before the first byte, or after some parts.
        ballast.write_bytes(bytes(256 * 1024 - 4096 * (1 + 3 * trial)))
        with pytest.raises(StorageError, match="No space left"):
            run_study(study(), disk / "run", engine="serial")
        if (disk / "run").is_dir():
            assert unusable(RunStore(disk / "run")) == []
            assert not list((disk / "run").glob("tmp/*"))
        ballast.unlink()
        serial(disk / "run")
        whole(disk / "run")


def read_only(work: Path, trial: int) -> None:
    with mounted(work / "disk", 4 * 2**20) as disk, warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def remount(how: str) -> None:
            subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)

        if trial % 2:
            serial(disk / "run", study(replicates=32))
        remount("ro")
        with pytest.raises(InputError, match="a place that can be read and written") as caught:
            run_study(study(), disk / "run", engine="serial")
        assert caught.value.field == "out"
        remount("rw")
        serial(disk / "run")
        whole(disk / "run")
