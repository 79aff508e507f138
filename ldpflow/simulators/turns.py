"""Threads that compute batches take turns in Python and run kernels at the same time.

Components need not be safe for threads then: those of plug-ins too may use mpmath's global precision.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TURN = threading.Lock()


class Held(threading.local):
    """Whether this thread has its turn."""

    yes = False


HELD = Held()


@contextmanager
def turn() -> Iterator[None]:
    """Run Python code of a batch while no other thread does."""
    with TURN:
        HELD.yes = True
        try:
            yield
        finally:
            HELD.yes = False


def run_kernel(kernel: Callable[..., None], *arguments: Any) -> None:
    """Run compiled code; other threads may have their turn meanwhile."""
    if not HELD.yes:
        kernel(*arguments)
        return
    TURN.release()
    try:
        kernel(*arguments)
    finally:
        TURN.acquire()
