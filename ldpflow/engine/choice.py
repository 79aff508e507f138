"""Where a study runs if the user does not say: in threads of this process, or on a local Ray."""

from __future__ import annotations

import os
from collections.abc import Sized
from typing import Any

from ldpflow.engine.precision import Round
from ldpflow.errors import address_limit
from ldpflow.simulators.simulator import Simulator

RAY_NICENESS = 15  # of Ray's workers, if the user does not say
RAY_FROM_SECONDS = 60.0  # a Ray of one's own takes 6 s to start and 1.5 s to stop,
RAY_SECONDS = 8.0  # and half a second to the first batch
ROW_SECONDS = (
    15e-6  # of Python code per row of a coordinate or checkpoint: 5 to 40 microseconds were measured
)


def cores_of(engine: str, num_cpus: int | None) -> int:
    """Cores of this machine that an engine uses."""
    if engine == "serial":
        return 1
    if num_cpus is not None:
        return num_cpus
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def seconds_of(work: Round) -> float:
    """Rough CPU time of what is missing, and will be later, before anything was measured."""
    missing = [m for group in work.missing for m in group]
    seconds = sum(m.cost.seconds * (m.last - m.first) for m in missing)
    steps = sum(m.cost.steps * (m.last - m.first) for m in missing)
    return seconds * max(1.0, work.steps_left / max(1, steps))


def python_seconds_of(work: Round) -> float:
    """Rough CPU time of Python code in it, in which threads take turns."""
    missing = [m for group in work.missing for m in group]
    rows = sum((m.last - m.first) * python_rows(m.simulator, m.cells, m.checkpoints) for m in missing)
    steps = sum(m.cost.steps * (m.last - m.first) for m in missing)
    return ROW_SECONDS * rows * max(1.0, work.steps_left / max(1, steps))


def python_rows(simulator: Simulator[Any, Any], cells: Sized, checkpoints: Sized) -> int:
    """Rows of a replicate that Python code makes."""
    return simulator.dimension * len(cells) + len(checkpoints)


def chosen_engine(seconds: float, cores: int, python_seconds: float = 0.0) -> tuple[str, str]:
    """The engine for this much CPU time on this many cores of this machine, and a line that says why.

    Parameters
    ----------
    seconds : float
    cores : int
    python_seconds : float
        Of these, those of Python code: threads cannot be done before them, on however many cores.
    """
    wall = seconds / cores
    waiting = max(python_seconds - wall, 0.0)
    work = "less than a second" if seconds < 1 else f"about {seconds:,.0f} s"
    here = f"{work} of computing on {cores} {'core' if cores == 1 else 'cores'}"
    if wall < RAY_FROM_SECONDS and waiting < RAY_SECONDS:
        return "threads", f"engine threads: {here}; starting Ray would take longer than it saves"
    if address_limit() < ray_addresses():
        return (
            "threads",
            f"engine threads: {here}; Ray cannot be started with a limit of addresses (ulimit -v)",
        )
    return "ray", f"engine ray: {here}, in processes of their own"


def ray_addresses() -> float:
    """Bytes of address space below which a Ray of one's own crashes or waits without end as it starts.

    It maps its store of objects, 30% of the memory and at most 200 GB, into each process: with 23 GiB
    of memory it started with a limit of 9.5 GiB, and not with 7.6.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 3 * 2**30 + min(0.3 * memory, 200e9)


def busy_machine(nice: int | None) -> str | None:
    """A line on workers of a local Ray that wait for other programs, or None where they do not."""
    cores, level = cores_of("ray", None), RAY_NICENESS if nice is None else nice
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load < 1.5 * cores or level < 5:
        return None
    return (
        f"this machine is busy (load {load:.0f} on {cores} cores) and Ray's workers let others go first "
        f"(nice {level}); --nice 0 gives them an equal share, --engine threads too"
    )
