"""The live display: what it says, at any size of window, and lines where there is no terminal."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
import types
from importlib import import_module

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from ldpflow.cli import main
from ldpflow.cli.progress import ProgressState, clock_time, drawing, magnitude, reporter, update_every
from ldpflow.engine.loop import Progress


def statistics(cells):
    """Cells whose coverage is the less precise the higher their number."""
    rows = [
        {
            "path": f"p{i % 5:016x}", "n": 1000 + i, "method": "BB", "beta": 0.75, "B": 500,
            "multiplier": "uniform", "level": 0.9, "coordinate": 0, "replicates": 64,
            "failures": 64 if i == 3 else 0, "covered": 0 if i == 3 else 64 - i // 20,
        }
        for i in range(cells)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def drawn(state, width):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(drawing(state, console))
    text = console.file.getvalue()
    return text.rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [200, 60, 20, 8])
def test_five_hundred_cells_fit_any_window(width):
    now = [0.0]
    paths = {f"p{i:016x}": {"tau": 0.1 * i, "law": "normal"} for i in range(5)}
    state = ProgressState(500, paths, clock=lambda: now[0])
    now[0] = 10.0
    state.take(Progress(5, 40, 1_000_000, 8_000_000, 10.0, statistics=statistics(500)))
    bar, counts, *cell = drawn(state, width)
    assert set(bar.strip()) <= set("━╸╺-") and max(map(len, (bar, counts, *cell))) <= width
    if width >= 100:
        assert counts.startswith("12%, 320/2,500 replicates, 100k steps/s, 1:10 left")
        assert "64 intervals failed" in counts
    # What varies is named, and settings are never cut: they would name another cell.
    assert cell == (["least precise: tau 0, n 1480: 0.625 ± 0.061"] if width >= 60 else [])


def test_time_goes_on_between_events():
    now = [0.0]
    assert ProgressState(None, clock=lambda: now[0]).counts() == "starting, 0s"
    state = ProgressState(None, continued=True, clock=lambda: now[0])
    assert state.counts() == "reading what is stored, 0s"
    state.take("starting Ray")
    assert state.counts() == "starting Ray, 0s"
    state.take("")
    assert state.counts() == "the first batches run, 0s"
    now[0] = 62.0
    state.take(Progress(1, 4, 50, 200, 62.0, failed_batches=1))
    assert state.counts() == ("25%, 1/4 batches, 1:02 gone, 1 batch FAILED, 0 intervals failed"), (
        "a minute of starting says nothing about the batches"
    )
    now[0] = 64.0
    state.take(Progress(2, 4, 100, 200, 64.0, failed_batches=1))
    assert state.counts() == (
        "50%, 2/4 batches, 25 steps/s, 4s left, 1:04 gone, 1 batch FAILED, 0 intervals failed"
    )
    now[0] = 66.0
    assert "2s left, 1:06 gone" in state.counts()
    state.take("summarising the rows")
    assert state.counts().startswith("50%, summarising the rows, 2/4 batches, 1:06 gone")


def test_more_replicates_than_the_study_wants_are_no_more_than_all():
    """A run that has paths of another study, and more replicates than this one asks for."""
    state = ProgressState(50, {"p" + "0" * 16: {}, "p" + f"{1:016x}": {}}, clock=lambda: 0.0)
    state.take(Progress(1, 4, 50, 200, 1.0, statistics=statistics(10)))
    assert "100/100 replicates" in state.counts()
    several = ProgressState(None, state.paths, clock=lambda: 0.0)
    several.take(Progress(1, 4, 50, 200, 1.0, statistics=statistics(10)))
    assert "128 replicates" in several.counts() and "/" not in several.counts().split(",")[1]


def test_a_line_every_few_seconds():
    now, drawn_at = [0.0], []
    state = ProgressState(100, clock=lambda: now[0])
    update = update_every(5.0, state, lambda: drawn_at.append(now[0]))
    for second in np.arange(0.0, 20.0, 0.25).tolist():
        now[0] = second
        update(Progress(1, 4, 50, 200, second + 0.1))
    assert drawn_at == [5.0, 10.0, 15.0] and "1/4 batches" in state.counts()


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (clock_time, 3.9, "3s"), (clock_time, 185, "3:05"), (clock_time, 3723, "1:02:03"),
        (magnitude, 312_400_000, "312M"), (magnitude, 9500, "9.5k"), (magnitude, 12, "12"),
    ],
)  # fmt: skip
def test_numbers(show, value, text):
    assert show(value) == text


@pytest.mark.parametrize(
    ("flags", "environment", "bar", "colour"),
    [
        ([], {}, True, True),
        ([], {"NO_COLOR": "1"}, True, False),
        ([], {"TERM": "dumb"}, False, False),
        (["--no-progress"], {}, False, False),
        (["--quiet"], {}, False, False),
    ],
)
def test_a_terminal(tmp_path, flags, environment, bar, colour, monkeypatch):
    pty = pytest.importorskip("pty")
    ours, other = pty.openpty()
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)

    def run_study(study, out, chosen, **options):
        time.sleep(0.6)  # the state has been drawn by then
        (options["on_engine"] or str)("a note")
        options["on_event"](Progress(1, 2, 50, 100, 1.0))
        raise KeyboardInterrupt

    import_module("ldpflow.practice.planning.plans")  # it has a name of its own for what is replaced here
    monkeypatch.setattr("ldpflow.engine.run.run_study", run_study)
    blocks = []

    def read():
        try:
            while block := os.read(ours, 65536):
                blocks.append(block)
        except OSError:
            pass  # Linux: the other end is closed

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(other, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        code = main(["sweep", "--out", str(tmp_path / "run"), *flags])
        monkeypatch.undo()
    reader.join()
    os.close(ours)
    written = b"".join(blocks)
    assert code == 130
    assert ("━" in written.decode()) is bar
    if bar:  # the note takes the place of the state, which is drawn again below it
        assert b"\x1b[2Ka note\r\n" in written
    assert (b"\x1b[38" in written or b"\x1b[3" in written.replace(b"\x1b[?", b"")) is colour


def test_a_notebook_shows_a_bar_that_is_replaced(monkeypatch):
    """With the three names of IPython that are used; a real notebook shows what they are given."""
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    def show(html, display_id):
        shown.append(html)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    frontend = types.SimpleNamespace(HTML=str, display=show)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", frontend)
    with reporter(100) as update:
        update(Progress(1, 4, 25, 100, 1.0))
    assert 'value="0.0000"' in shown[0] and "starting" in shown[0]
    assert 'value="0.2500"' in shown[-1] and "1/4 batches" in shown[-1]
