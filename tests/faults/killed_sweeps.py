"""Sweeps in forks of a process that has loaded everything, each killed at a chosen line."""

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from functools import cache
from types import FrameType
from typing import Any
from unittest import mock

import ldpflow.engine.run
from ldpflow.study import Study
from tests.faults.on_disk import small_parts

WATCHED = tuple(f"{os.sep}ldpflow{os.sep}{package}{os.sep}" for package in ("engine", "store"))
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.faults.warm"])


@cache
def watched(file: str) -> bool:
    return any(name in file for name in WATCHED)


def sweep(address: str, tables: dict[str, Any], engine: str) -> None:
    """Sweep, with a part for every batch; SIGKILL loses nothing that was written, synchronised or not."""
    with small_parts(), mock.patch.object(os, "fsync"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ldpflow.engine.run.run_study(Study.from_mapping(tables), address, engine=engine)


def sweep_to_line(
    environment: dict[str, str], address: str, tables: dict[str, Any], engine: str, last: int
) -> None:
    """Sweep until that line of the packages engine and store."""
    os.environ.update(environment)  # since then: where an object store is
    count = 0

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    def enter(frame: FrameType, event: str, argument: object) -> Any:
        return line if watched(frame.f_code.co_filename) else None

    threading.settrace(enter)
    sys.settrace(enter)
    sweep(address, tables, engine)


def killed_sweep(*request: Any) -> int | None:
    """Exit code of a sweep in a fork: 0 when it ended before the line, else that of SIGKILL."""
    process = FORKS.Process(target=sweep_to_line, args=(dict(os.environ), *request))
    process.start()
    process.join()
    return process.exitcode
