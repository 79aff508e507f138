"""Progress of a sweep: a live display on a terminal or in a notebook, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from html import escape
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from ldpflow.columns import counted, round_text
from ldpflow.run import notebook_shell

SECONDS_BETWEEN_LINES = 5.0
DRAWN_PER_SECOND = 4
STARTING, STORED = "starting", "reading what is stored"


@contextmanager
def reporter(continued: bool = False, rounds: bool = False) -> Iterator[Callable[[Any], None]]:
    """Context with a function that shows events of the engine.

    ``continued``: whether the sweep first reads a stored run. ``rounds``: whether rounds of replicates run
    until a target of precision is met. The time left is then that of the current round.
    """
    console, state = Console(stderr=True), ProgressState(continued, rounds)
    if notebook_shell():
        from IPython.display import HTML, display

        cell = display(HTML(state.html()), display_id=True)

        def draw() -> None:
            cell.update(HTML(state.html()))

        yield update_every(1.0 / DRAWN_PER_SECOND, state, draw)
        draw()
    elif console.is_terminal and not console.is_dumb_terminal:
        drawn = partial(drawing, state, console)
        with Live(get_renderable=drawn, console=console, transient=True, refresh_per_second=DRAWN_PER_SECOND):
            yield state.take
    else:
        yield update_every(
            SECONDS_BETWEEN_LINES, state, lambda: print(state.counts(), file=console.file, flush=True)
        )


def update_every(seconds: float, state: ProgressState, draw: Callable[[], None]) -> Callable[[Any], None]:
    """Make a function that takes events, and draws at most once in ``seconds``."""
    last = state.clock()

    def update(event: Any) -> None:
        nonlocal last
        state.take(event)
        now = state.clock()
        if now - last >= seconds:
            last = now
            draw()

    return update


def drawing(state: ProgressState, console: Console) -> Group:
    counts = Text(state.counts(), no_wrap=True, overflow="ellipsis")
    if state.event is None:
        return Group(counts)
    bar = ProgressBar(1.0, state.share, width=min(console.width - 2, 80))
    return Group(Padding(bar, expand=False), counts)


class ProgressState:
    def __init__(
        self, continued: bool = False, rounds: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.of_what = " of this round" if rounds else ""
        self.phase = STORED if continued else STARTING
        self.waits = False  # whether the engine has waited for Ray or a compilation
        self.base: tuple[int, float] | None = None  # steps and seconds at the first event after the wait
        self.clock = clock
        self.started = clock()
        self.event: Any = None
        self.heard = self.started

    @property
    def share(self) -> float:
        return 0.0 if self.event is None else self.event.done_steps / max(self.event.total_steps, 1)

    def take(self, event: Any) -> None:
        """Take an event of the engine: its progress, or a text that says what it waits for."""
        if isinstance(event, str):
            self.phase = event
            self.waits, self.base = self.waits or bool(event), None
            return
        self.event = event
        if self.base is None:
            self.base = (event.done_steps, event.seconds) if self.waits else (0, 0.0)
        self.heard = self.clock()
        if self.phase in (STARTING, STORED):
            self.phase = ""

    def html(self) -> str:
        bar = f'<progress value="{self.share:.4f}" max="1" style="width: 30em"></progress>'
        return f"{bar}<br>{escape(self.counts())}"

    def counts(self) -> str:
        """Line with share done, batches, speed, time left and failures."""
        now = self.clock()
        if self.event is None:
            return f"{self.phase or 'the first batches run'}, {timedelta(seconds=int(now - self.started))}"
        event = self.event
        words = [f"{self.share:.0%}", *filter(None, [self.phase])]  # a narrow window cuts the end
        words.append(f"{event.done_batches}/{event.total_batches} batches")
        # Compilation and the start of Ray do not count, or the time left would be far too long.
        steps, seconds = self.base or (event.done_steps, event.seconds)
        if event.seconds > seconds and event.done_steps > steps:
            speed = (event.done_steps - steps) / (event.seconds - seconds)
            left = (event.total_steps - event.done_steps) / speed - (now - self.heard)
            words.append(f"{round_text(speed, 3)} steps/s")
            words.append(f"{timedelta(seconds=int(max(left, 0.0)))} left{self.of_what}")
        words.append(f"{timedelta(seconds=int(now - self.started))} gone")
        if event.failed_batches:
            words.append(f"{counted(event.failed_batches, 'batch', 'es')} FAILED")
        return ", ".join(words)
