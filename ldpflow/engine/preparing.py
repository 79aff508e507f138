"""Kernels of batches that run in threads: several are compiled at the same time, in processes of their own.

Numba compiles one function at a time in a process. So while this process compiles a kernel, another
process is started for each further one; it leaves the kernel in the cache (:mod:`ldpflow.kernels.cache`).
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Hashable

from ldpflow.engine.batching import LOOKED, kernel_of
from ldpflow.kernels.module import counts
from ldpflow.simulators.batch import Batch
from ldpflow.simulators.turns import turn

__all__ = ["Preparation", "main"]

POLL_SECONDS = 0.02
DONE = b"."
COMMAND = "from ldpflow.engine.preparing import main; main()"


class Preparation:
    """Loads or compiles the kernels of batches that come in several threads."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.kernels: set[Hashable] = set()
        self.changed = threading.Condition()
        self.preparing = 0  # threads that load or compile a kernel in this process
        self.working: set[subprocess.Popen[bytes]] = set()
        self.idle: list[subprocess.Popen[bytes]] = []
        self.stopped = False

    def needed(self, batch: Batch) -> bool:
        """Whether this is the first batch with its kernel."""
        path = batch.simulator.key
        if path in self.paths or len(self.paths) == LOOKED:
            return False
        self.paths.add(path)
        kernel = kernel_of(batch)
        new = kernel not in self.kernels
        self.kernels.add(kernel)
        return new

    def compiling(self) -> int:
        """Number of kernels that are being compiled."""
        return counts["compiling"] + len(self.working)

    def prepare(self, batch: Batch) -> None:
        """Have the kernel of a batch ready: loaded, or compiled by this process or another."""
        request = batch.simulator.needs(batch.cells + batch.witnesses, batch.checkpoints)
        with self.changed:
            while self.preparing and not counts["compiling"]:  # one that is loaded takes no time
                self.changed.wait(POLL_SECONDS)
            alone = not self.preparing
            self.preparing += alone
        if not alone:
            self.compile_elsewhere((batch.simulator, request))
            return
        try:
            with turn():
                batch.simulator.prepare(request)
        finally:
            with self.changed:
                self.preparing -= 1
                self.changed.notify_all()

    def compile_elsewhere(self, work: object) -> None:
        """Wait for a process that compiles; return where none can, as with a class of a script.

        Then this process compiles the kernel when the batch runs.
        """
        try:
            content = pickle.dumps(work)
        except (pickle.PicklingError, AttributeError, TypeError):
            return  # a class that is no module's
        with self.changed:
            if self.stopped:
                return
            try:
                process = self.idle.pop() if self.idle else started()
            except OSError:
                return  # no such program, or no more processes are allowed
            self.working.add(process)
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(content)
            process.stdin.flush()
            alive = process.stdout.read(1) == DONE
        except BrokenPipeError:
            alive = False
        with self.changed:
            self.working.remove(process)
            if alive:
                self.idle.append(process)
            else:
                process.kill()
                process.wait()

    def stop(self) -> None:
        """End the processes: no batch waits for them any more."""
        with self.changed:
            self.stopped = True
            for process in [*self.working, *self.idle]:
                process.kill()
                process.wait()


def started() -> subprocess.Popen[bytes]:
    """A process that compiles what its standard input asks for, until that is closed."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )


def main() -> None:
    """Compile what standard input asks for; standard output says when a kernel is in the cache."""
    while True:
        try:
            simulator, request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        simulator.prepare(request)
        sys.stdout.buffer.write(DONE)
        sys.stdout.flush()
