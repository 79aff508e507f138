"""Progress of a sweep: a live display on a terminal or in a notebook, now and then a line elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ldpflow.cli.tables import width_of
from ldpflow.report.numbers import distinguishing_columns, short

__all__ = ["Display", "reporter"]

SECONDS_BETWEEN_LINES = 5.0
DRAWN_PER_SECOND = 4
MAX_CELLS = 12
STARTING, STORED = "starting", "reading what is stored"


@contextmanager
def reporter(
    quiet: bool,
    replicates: int | None = None,
    paths: Mapping[str, Mapping[str, Any]] | None = None,
    continued: bool = False,
) -> Iterator[Callable[[Any], None]]:
    """A function that shows the engine's progress, and what it waits for, while the context is open.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    replicates : int, optional
        Replicates of every path that the study wants, those stored before included.
    paths : mapping, optional
        The study's paths and their settings, by the name of their partition.
    continued : bool
        Whether there is a run, which is read first.
    """
    console = Console(stderr=True)
    display = Display(replicates, paths, continued)
    if quiet:
        yield lambda event: None
    elif in_notebook():
        with shown_in_notebook(display) as update:
            yield update
    elif console.is_terminal and not console.is_dumb_terminal:
        # The display asks for itself at every drawing, so times go on and the window may change.
        live = Live(
            console=console,
            refresh_per_second=DRAWN_PER_SECOND,
            transient=True,
            get_renderable=lambda: display.picture(console.width, console.height),
        )
        with live:
            yield display.take
    else:
        yield lines(console, display)


class Display:
    """Progress of a running sweep and its display.

    Parameters
    ----------
    replicates, paths, continued
        As in :func:`reporter`.
    clock : callable
        Monotonic seconds.
    """

    def __init__(
        self,
        replicates: int | None = None,
        paths: Mapping[str, Mapping[str, Any]] | None = None,
        continued: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.replicates = replicates
        self.paths = paths or {}
        self.path_names = settings_apart(list(self.paths.values()))
        self.phase = STORED if continued else STARTING
        self.waits = False  # whether something else than batches took time
        self.base: tuple[int, float] | None = None  # steps and seconds of the first batch after that
        self.clock = clock
        self.started = clock()
        self.event: Any = None
        self.heard = self.started
        self.cells: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.done = 0
        self.failed_rows = 0

    def take(self, event: Any) -> None:
        """An event of the engine: progress, or in words what it waits for."""
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
        if event.statistics is not None and event.statistics.num_rows:
            self.read(event.statistics)

    def read(self, statistics: Any) -> None:
        """Running coverage of the least precise cells, and counts, from the aggregators' sums."""
        import numpy as np

        columns = {name: statistics[name].to_numpy() for name in ("replicates", "failures", "covered")}
        finished = columns["replicates"] - columns["failures"]
        share = np.full(len(finished), np.nan)
        np.divide(columns["covered"], finished, out=share, where=finished > 0)
        # 0 and 1 have no estimated error: half a miss more or less keeps few replicates uncertain.
        nudged = (columns["covered"] + 0.5) / (finished + 1.0)
        error = np.sqrt(nudged * (1.0 - nudged) / np.maximum(finished, 1))
        error[finished == 0] = 0.0  # undefined there: more replicates will not help
        order = np.argsort(-error, kind="stable")[:MAX_CELLS]
        rows = statistics.take(order).to_pylist()
        names = statistics.column_names  # what names a cell, then counts and sums
        keys = [name for name in names[: names.index("replicates")] if name != "path"]
        several = [name for name in keys if len(statistics[name].drop_null().unique()) > 1]
        self.keys = [*self.path_names, *several]
        self.cells = [
            {
                **{name: self.paths.get(row["path"], {}).get(name) for name in self.path_names},
                **row,
                "coverage": float(share[at]),
                "mcse": float(error[at]),
            }
            for row, at in zip(rows, order.tolist(), strict=True)
        ]
        self.failed_rows = int(columns["failures"].sum())
        by_path: dict[str, int] = {}
        paths = statistics["path"].to_pylist()
        for path, count in zip(paths, columns["replicates"].tolist(), strict=True):
            by_path[path] = max(by_path.get(path, 0), count)
        # A run may hold other paths, and more replicates, than this study wants.
        most = math.inf if self.replicates is None else self.replicates
        own = [count for path, count in by_path.items() if not self.paths or path in self.paths]
        self.done = int(sum(min(count, most) for count in own))

    def picture(self, width: int, height: int) -> RenderableType:
        """The display, cut to the window: the counts always, cells as far as they fit."""
        counts = Text(self.counts(), no_wrap=True, overflow="ellipsis")
        if self.event is None:
            return counts
        bar = Padding(  # a bar alone does not end its line
            ProgressBar(
                total=max(self.event.total_steps, 1),
                completed=self.event.done_steps,
                width=max(min(width - 2, 80), 4),
            ),
            0,
        )
        rows = min(height - 6, len(self.cells))
        if rows < 1:
            return Group(bar, counts)
        table = self.table(rows)
        # Settings that are cut would name other cells.
        return Group(bar, counts, table) if width_of(table) <= width else Group(bar, counts)

    def html(self) -> str:
        """A bar and the counts, for a notebook."""
        share = 0.0 if self.event is None else self.event.done_steps / max(self.event.total_steps, 1)
        bar = f'<progress value="{share:.4f}" max="1" style="width: 30em"></progress>'
        return f"{bar}<br>{escape(self.counts())}"

    def table(self, rows: int) -> Table:
        """The least precise cells."""
        shown = self.cells[:rows]
        names = self.keys or ["method"]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in (*names, "coverage so far", "replicates"):
            table.add_column(name, justify="right", no_wrap=True)
        for cell in shown:
            if cell["replicates"] > cell["failures"]:
                text = f"{cell['coverage']:.3f} ± {cell['mcse']:.3f}"
            else:
                text = "-"
            settings = (short(cell.get(name)) for name in names)
            table.add_row(*map(Text, settings), text, f"{cell['replicates']:,}")
        return table

    def counts(self) -> str:
        """One line: share done, replicates, speed, time left, failures."""
        now = self.clock()
        if self.event is None:
            return f"{self.phase or 'the first batches run'}, {clock_time(now - self.started)}"
        event = self.event
        share = event.done_steps / max(event.total_steps, 1)
        words = [f"{share:.0%}", *([self.phase] if self.phase else [])]  # first: a line may be cut
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
            words.append(f"{event.failed_batches} batches FAILED")
        words.append(f"{self.failed_rows:,} intervals failed")
        return ", ".join(words)


def settings_apart(paths: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that tell paths apart, what follows from others last."""
    names = dict.fromkeys(name for path in paths for name in path)
    following = ("dimension", "privacy_notion", "privacy_unit", "neighbouring")
    ordered = sorted(names, key=lambda name: name in following)
    return distinguishing_columns(ordered, [{name: path.get(name) for name in ordered} for path in paths])


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, whose output cells show HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextmanager
def shown_in_notebook(display: Display) -> Iterator[Callable[[Any], None]]:
    """A bar and the counts in the output of the cell, replaced as the sweep goes on."""
    from IPython.display import HTML
    from IPython.display import display as show

    handle = show(HTML(display.html()), display_id=True)
    last = display.clock()

    def update(event: Any) -> None:
        nonlocal last
        display.take(event)
        now = display.clock()
        if now - last >= 1.0 / DRAWN_PER_SECOND:
            last = now
            handle.update(HTML(display.html()))

    yield update
    handle.update(HTML(display.html()))


def lines(console: Console, display: Display) -> Callable[[Any], None]:
    """A line every few seconds."""
    last = display.clock()

    def update(event: Any) -> None:
        nonlocal last
        display.take(event)
        now = display.clock()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            print(display.counts(), file=console.file, flush=True)

    return update


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
