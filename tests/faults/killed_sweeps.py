"""Sweeps in forks of a process that has loaded everything, each killed at a chosen line.

    python -m tests.faults.killed_sweeps

Reads the tables of a study that it sweeps first. Then it reads one request a line, as JSON: the address of
a run, the tables of a study, the engine, and a line number. The fork kills itself at that line of
the packages engine and store. The answer is the status of the fork.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from functools import cache
from types import FrameType
from typing import Any
from unittest import mock

import ldpflow.engine.run
import ldpflow.store.run_store
from ldpflow.study import Study
from tests.faults.on_disk import small_parts

WATCHED = tuple(f"{os.sep}ldpflow{os.sep}{package}{os.sep}" for package in ("engine", "store"))


@cache
def watched(file: str) -> bool:
    return any(name in file for name in WATCHED)


def sweep(address: str, tables: dict[str, Any], engine: str) -> None:
    """Sweep, with a part for every batch; SIGKILL loses nothing that was written, synchronised or not."""
    with small_parts(), mock.patch.object(os, "fsync"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ldpflow.engine.run.run_study(Study.from_mapping(tables), address, engine=engine)


def killed(address: str, tables: dict[str, Any], engine: str, last: int) -> int:
    """Status of a fork that sweeps until that line."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
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
    try:
        sweep(address, tables, engine)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


class Forks:
    """The process, from outside.

    Parameters
    ----------
    tables : dict
        Study that it sweeps once, so that forks find the compiler and the kernels loaded.
    """

    def __init__(self, tables: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "tests.faults.killed_sweeps"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.answer(tables) == "ready"

    def answer(self, request: Any) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def sweep(self, *request: Any) -> int:
        """Status of a sweep in a fork: 0 when it ended before the line, else that of SIGKILL."""
        return int(self.answer(request))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sweep(f"{folder}/run", json.loads(sys.stdin.readline()), "serial")
    print("ready", flush=True)
    for request in sys.stdin:
        print(killed(*json.loads(request)), flush=True)
