"""When a sweep has run long enough or grown too large: time and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

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
