"""How far a sweep is: a bar on a terminal, now and then a line elsewhere. Written to stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

__all__ = ["reporter"]

SECONDS_BETWEEN_LINES = 5.0


@contextmanager
def reporter(quiet: bool) -> Iterator[Callable[[Any], None]]:
    """A function that shows the engine's progress events while the context is open."""
    console = Console(stderr=True)
    if quiet:
        yield lambda event: None
    elif console.is_terminal:
        with bar(console) as update:
            yield update
    else:
        yield lines(console)


@contextmanager
def bar(console: Console) -> Iterator[Callable[[Any], None]]:
    """A bar that counts steps, since batches differ in size."""
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[batches]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None, batches="starting")

        def update(event: Any) -> None:
            progress.update(
                task, total=event.total_steps, completed=event.done_steps, batches=counts(event)
            )

        yield update


def lines(console: Console) -> Callable[[Any], None]:
    """A line every few seconds."""
    started = time.monotonic()
    last = started

    def update(event: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            share = event.done_steps / max(event.total_steps, 1)
            line = f"{counts(event)}, {share:.0%} of the steps, {now - started:.0f} s"
            if share > 0:
                line += f", about {event.seconds * (1 / share - 1):.0f} s left"
            console.print(line, highlight=False)

    return update


def counts(event: Any) -> str:
    """Batches done, of how many."""
    return f"{event.done_batches}/{event.total_batches} batches"
