"""What ends a sweep early: limits of time and memory, Ctrl-C, and the end of the interpreter."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ldpflow.errors import InputError

PROCESSES = Path("/proc")
CHECK_SECONDS = 1.0  # adding up the memory of many processes takes milliseconds


def limits(
    max_seconds: float | None = None,
    max_bytes: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], str | None]:
    """A function that says which limit has been passed, if one has.

    Parameters
    ----------
    max_seconds : float, optional
        Counted from this call.
    max_bytes : int, optional
        Of memory that this process and those it started (a local Ray) use on this machine.

    Raises
    ------
    InputError
        If memory is limited on a system without ``/proc``, where it cannot be measured.
    """
    if max_bytes is not None and not (PROCESSES / "self" / "stat").is_file():
        raise InputError(
            "max_memory", max_bytes, "nothing on a system without /proc (macOS)", "Limit the time, max_time."
        )
    start = clock()
    last = -CHECK_SECONDS

    def passed() -> str | None:
        nonlocal last
        now = clock() - start
        if max_seconds is not None and now >= max_seconds:
            return f"the time limit of {max_seconds:g} s has passed"
        if max_bytes is not None and now - last >= CHECK_SECONDS:
            last = now
            used = memory_in_use()
            if used > max_bytes:
                return f"{used / 2**20:,.0f} MiB of memory in use, the limit is {max_bytes / 2**20:,.0f} MiB"
        return None

    return passed


def memory_in_use() -> int:
    """Bytes of memory of this process and all its descendants; shared pages count once.

    0 where the system has no /proc.
    """
    children: dict[int, list[int]] = {}
    for entry in PROCESSES.glob("[0-9]*/stat"):
        try:
            # The command's name, in brackets, may hold anything.
            parent = int(entry.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # ended meanwhile
        children.setdefault(parent, []).append(int(entry.parent.name))
    total = 0
    family = [os.getpid()]
    while family:
        process = family.pop()
        family += children.get(process, [])
        total += proportional_size(process)
    return total


def proportional_size(process: int) -> int:
    """Bytes of a process, pages shared with k others counted as 1 / k."""
    try:
        with open(PROCESSES / str(process) / "smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, ValueError):
        return 0


LAST_SECONDS = 5.0


@contextmanager
def interpreter_open() -> Iterator[Callable[[], str | None]]:
    """Keep the interpreter from ending in the middle of a sweep, in a daemon thread too.

    At its end Python waits for threads that are no daemons; a daemon inside of compiled code would abort the
    process. So while a daemon thread sweeps another thread waits for it, and gives it a reason to stop.
    """
    if not threading.current_thread().daemon:
        yield lambda: None
        return
    over, main, caller = threading.Event(), threading.main_thread(), threading.current_thread()

    def hold() -> None:
        over.wait()
        if not main.is_alive():
            caller.join(LAST_SECONDS)  # for the traceback of its SweepInterrupted

    threading.Thread(target=hold, name="end of a sweep", daemon=False).start()
    try:
        yield lambda: None if main.is_alive() else "the main thread has ended"
    finally:
        over.set()


class Interrupts:
    """While the context is open, the first Ctrl-C is noted, the second ends all.

    SIGTERM, and SIGHUP when a terminal closes, do the same.

    Calling it gives the reason to stop, or None.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self.before: dict[signal.Signals, Any] = {}

    def __call__(self) -> str | None:
        return self.reason

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            try:
                self.before[number] = signal.signal(number, self.received)
            except ValueError:  # not in the main thread, which alone may set handlers
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def received(self, number: int, frame: FrameType | None) -> None:
        """The handler. It writes to the descriptor: a buffer may be locked by what it interrupts."""
        if self.reason is not None:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h")  # the progress bar hides the cursor
            os.write(2, b"\nldpflow: stopped at once; what was on disk is kept\n")
            # No clean-up: what is not on disk is computed again, and the lock dies with the process.
            os._exit(130)
        self.reason = f"{signal.Signals(number).name} received"
        os.write(2, b"\nldpflow: finishing what is running (at most 10 s); again to stop at once\n")
