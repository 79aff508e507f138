"""Descendants, CPU time and memory of processes, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path


def stat(process: int) -> list[str]:
    """Fields of /proc/PID/stat, from the state on. Raises OSError if the process has ended."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()  # the name in parentheses may hold spaces


def family() -> list[int]:
    """Ids of this process and of all its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(stat(int(folder.name))[1])
        except OSError:
            continue
    found = []
    for process in parents:
        ancestor = process
        while ancestor > 1 and ancestor != os.getpid():
            ancestor = parents.get(ancestor, 0)
        if ancestor == os.getpid():
            found.append(process)
    return found


def command_line(process: int) -> str:
    """Command line of a process. Empty if the process has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def cpu_seconds(process: int, *, waited: bool = False) -> float:
    """CPU time of a process, 0 if it has ended. ``waited`` adds ended children that it waited for."""
    try:
        return sum(map(int, stat(process)[11 : 15 if waited else 13])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def resident(process: int | str = "self", name: str = "VmRSS") -> float:
    """Resident memory of a process in MB: now (VmRSS) or at its peak (VmHWM)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024.0
    return float("nan")
