"""Progress of a sweep: a live display on a terminal or in a notebook, now and then a line elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from html import escape
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from ldpflow.columns import counted, distinguishing_columns, short
from ldpflow.run import notebook_shell

SECONDS_BETWEEN_LINES = 5.0
DRAWN_PER_SECOND = 4
STARTING, STORED = "starting", "reading what is stored"


@contextmanager
def reporter(
    replicates: int | None = None,
    paths: Mapping[str, Mapping[str, Any]] | None = None,
    continued: bool = False,
) -> Iterator[Callable[[Any], None]]:
    """Give a function that shows an event of the engine, while the context is open.

    ``replicates`` that the study wants of every path, the stored ones included. ``paths``: settings by path.
    ``continued``: whether there is a run, which is read first.
    """
    console = Console(stderr=True)
    state = ProgressState(replicates, paths, continued)
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
    """Give a function that takes events, and draws after the first one of every few seconds."""
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
    """A bar, the counts and, where it fits, the least precise cell, as they are now."""
    lines = [Text(state.counts(), no_wrap=True, overflow="ellipsis")]
    if 0 < len(state.least_precise) <= console.width:
        lines.append(Text(state.least_precise, no_wrap=True))
    if state.event is None:
        return Group(*lines)
    bar = ProgressBar(1.0, state.share, width=min(console.width - 2, 80))
    return Group(Padding(bar, expand=False), *lines)


class ProgressState:
    """Progress of a running sweep, in words; arguments as of :func:`reporter`."""

    def __init__(
        self,
        replicates: int | None = None,
        paths: Mapping[str, Mapping[str, Any]] | None = None,
        continued: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.replicates = replicates
        self.paths = paths or {}
        self.path_names = distinguishing_settings(list(self.paths.values()))
        self.phase = STORED if continued else STARTING
        self.waits = False  # whether something else than batches took time
        self.base: tuple[int, float] | None = None  # steps and seconds of the first batch after that
        self.clock = clock
        self.started = clock()
        self.event: Any = None
        self.heard = self.started
        self.least_precise = ""
        self.done = 0
        self.failed_rows = 0

    @property
    def share(self) -> float:
        return 0.0 if self.event is None else self.event.done_steps / max(self.event.total_steps, 1)

    def take(self, event: Any) -> None:
        """Take an event of the engine: its progress, or a text on what it waits for."""
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

    def read(self, statistics: Any) -> None:
        import numpy as np

        columns = {name: statistics[name].to_numpy() for name in ("replicates", "failures", "covered")}
        finished = columns["replicates"] - columns["failures"]
        # 0 and 1 have no estimated error: half a miss more or less keeps few replicates uncertain.
        nudged = (columns["covered"] + 0.5) / (finished + 1.0)
        error = np.sqrt(nudged * (1.0 - nudged) / np.maximum(finished, 1))
        error[finished == 0] = 0.0  # undefined there: more replicates will not help
        worst = int(np.argmax(error))
        if finished[worst]:
            keys = [name for name in statistics.column_names if name not in {"path", *columns}]
            several = [name for name in keys if len(statistics[name].drop_null().unique()) > 1]
            (cell,) = statistics.slice(worst, 1).to_pylist()
            values = dict(self.paths.get(cell["path"], {})) | {name: cell[name] for name in several}
            keys = [*self.path_names, *several]
            settings = ", ".join(f"{name} {short(values.get(name))}" for name in keys)
            coverage = columns["covered"][worst] / finished[worst]
            self.least_precise = f"least precise: {settings}: {coverage:.3f} ± {error[worst]:.3f}"
        self.failed_rows = int(columns["failures"].sum())
        by_path: dict[str, int] = {}
        paths = statistics["path"].to_pylist()
        for path, count in zip(paths, columns["replicates"].tolist(), strict=True):
            by_path[path] = max(by_path.get(path, 0), count)
        # A run may hold other paths, and more replicates, than this study wants.
        most = math.inf if self.replicates is None else self.replicates
        own = [count for path, count in by_path.items() if not self.paths or path in self.paths]
        self.done = int(sum(min(count, most) for count in own))

    def html(self) -> str:
        bar = f'<progress value="{self.share:.4f}" max="1" style="width: 30em"></progress>'
        return f"{bar}<br>{escape(self.counts())}"

    def counts(self) -> str:
        """One line: share done, replicates, speed, time left, failures."""
        now = self.clock()
        if self.event is None:
            return f"{self.phase or 'the first batches run'}, {clock_time(now - self.started)}"
        event = self.event
        words = [f"{self.share:.0%}", *([self.phase] if self.phase else [])]  # first: a line may be cut
        if self.done and self.replicates and self.paths:
            words.append(f"{self.done:,}/{self.replicates * len(self.paths):,} replicates")
        elif self.done and not self.replicates:
            words.append(f"{self.done:,} replicates")
        else:
            words.append(f"{event.done_batches}/{event.total_batches} batches")
        # A rate that counted the start of Ray or a compilation would promise hours.
        steps, seconds = self.base or (event.done_steps, event.seconds)
        if event.seconds > seconds and event.done_steps > steps:
            speed = (event.done_steps - steps) / (event.seconds - seconds)
            left = (event.total_steps - event.done_steps) / speed - (now - self.heard)
            words.append(f"{magnitude(speed)} steps/s")
            words.append(f"{clock_time(max(left, 0.0))} left")
        words.append(f"{clock_time(now - self.started)} gone")
        if event.failed_batches:
            words.append(f"{counted(event.failed_batches, 'batch', 'es')} FAILED")
        words.append(f"{self.failed_rows:,} intervals failed")
        return ", ".join(words)


def distinguishing_settings(paths: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(name for path in paths for name in path)
    following = ("dimension", "privacy_notion", "privacy_unit", "neighbouring")
    ordered = sorted(names, key=lambda name: name in following)
    return distinguishing_columns(ordered, paths)


def magnitude(value: float) -> str:
    """A large number to three digits, as in 312M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.0f}"


def clock_time(seconds: float) -> str:
    """Seconds as 12s, 3:05 or 1:02:03."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{whole}s"
