"""When a sweep has run long enough or grown too large: limits as people type them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from ldpflow.errors import InputError

__all__ = ["limits", "memory_in_use", "read_bytes", "read_seconds"]

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
PROCESSES = Path("/proc")
CHECK_SECONDS = 1.0  # adding up the memory of many processes takes milliseconds


def read_seconds(text: str) -> float:
    """Seconds in a time such as ``90``, ``90s``, ``1h30m`` or ``1.5h``.

    Raises
    ------
    InputError
        Naming ``max_time``.
    """
    pieces = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text) if text.isascii() else []
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        pieces = [(text, "s")]
    elif "".join(number + unit for number, unit in pieces) != text:
        pieces = []
    seconds = sum(float(number) * SECONDS[unit] for number, unit in pieces)
    if not 0 < seconds < 1e9:
        raise InputError("max_time", text, "a time above 0 such as 90s, 45m, 2h or 1h30m")
    return seconds


def read_bytes(text: str) -> int:
    """Bytes in a size such as ``500M``, ``8G`` or ``1.5GiB``; units are powers of 1024.

    Raises
    ------
    InputError
        Naming ``max_memory``.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text, re.IGNORECASE | re.ASCII)
    size = float(match[1]) * BYTES[match[2].lower()] if match else 0.0
    if not 1 <= size < 2**60:
        raise InputError("max_memory", text, "a size such as 500M or 8G")
    return int(size)


def limits(
    max_seconds: float | None = None,
    max_bytes: int | None = None,
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
