"""Events of a running sweep, for displays and logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Progress:
    """State of a sweep after a batch.

    ``done_steps`` and ``total_steps`` count SGD steps over all replicates of this session;
    ``statistics`` is a snapshot of the aggregators' running statistics (progress only, not results).
    """

    done_batches: int
    total_batches: int
    done_steps: int
    total_steps: int
    seconds: float
    failed_batches: int = 0
    statistics: Any = None


Listener = Callable[[Progress], None]


Phase = Callable[[str], None]
"""Called with what a sweep waits for, in a few words, when that changes; with "" once batches come back."""


@dataclass(frozen=True)
class Planned:
    """Rows of a path that are there already and rows that are to be computed.

    ``settings`` is what tells the path from the study's others; ``ranges`` are the replicates
    (last exclusive) to be computed and of how many cells.
    """

    path: str
    settings: str
    reused: int
    computed: int
    ranges: list[tuple[int, int, int]]


@dataclass(frozen=True)
class RunResult:
    """Outcome of a sweep.

    ``failures`` counts rows whose status is not ``ok``; ``failed_share`` is their share of all rows;
    ``finished_replicates`` is the least over the study's cells. ``stopped`` says why the run ended
    early, if it did. ``failed_batches`` names batches that raised, with their cause and the command
    that computes them again. ``paths`` counts the study's paths, ``complete_paths`` those that have all of
    their replicates; ``done_replicates`` of ``wanted_replicates`` are there of all paths together.
    ``batches`` were computed in this session.
    """

    out: str
    finished_replicates: int
    failures: int
    failed_share: float
    wall_seconds: float
    stopped: str | None = None
    failed_batches: list[str] = field(default_factory=list)
    paths: int = 0
    complete_paths: int = 0
    done_replicates: int = 0
    wanted_replicates: int = 0
    batches: int = 0
