"""What ends a sweep early: Ctrl-C, once in order and twice at once, and the end of the interpreter."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Interrupts", "interpreter_open"]


@contextmanager
def interpreter_open() -> Iterator[Callable[[], str | None]]:
    """Keep the interpreter from ending in the middle of a sweep, in a daemon thread too.

    At its end Python waits for threads that are no daemons; a daemon inside of compiled code would abort the
    process. So while a daemon thread sweeps another thread waits for it, and gives it a reason to stop.
    """
    if not threading.current_thread().daemon:
        yield lambda: None
        return
    over = threading.Event()
    threading.Thread(target=over.wait, name="end of a sweep", daemon=False).start()
    main = threading.main_thread()
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
