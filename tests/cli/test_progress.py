"""The live display: what it says, at any size of window, and lines where there is no terminal."""

import io
import os
import sys
import threading
import time
import types
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest
from rich.console import Console

from ldpflow.cli import main
from ldpflow.cli.progress import ProgressState, drawing, reporter, update_every
from ldpflow.engine.loop import Progress


def drawn(state, width):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(drawing(state, console))
    text = console.file.getvalue()
    return text.rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [200, 20, 8])
def test_bar_and_counts_fit_any_window(width):
    state = ProgressState(clock=lambda: 10.0)
    state.take(Progress(5, 40, 1_000_000, 8_000_000, 10.0))
    bar, counts = drawn(state, width)
    assert set(bar.strip()) <= set("━╸╺-") and max(map(len, (bar, counts))) <= width
    assert width < 100 or counts == "12%, 5/40 batches, 100000 steps/s, 0:01:10 left, 0:00:00 gone"


def test_time_goes_on_between_events():
    now = [0.0]
    assert ProgressState(clock=lambda: now[0]).counts() == "starting, 0:00:00"
    state = ProgressState(True, rounds=True, clock=lambda: now[0])
    assert state.counts() == "reading what is stored, 0:00:00"
    state.take("starting Ray")
    assert state.counts() == "starting Ray, 0:00:00"
    state.take("")
    assert state.counts() == "the first batches run, 0:00:00"
    now[0] = 62.0
    state.take(Progress(1, 4, 50, 200, 62.0, failed_batches=1))
    assert state.counts() == ("25%, 1/4 batches, 0:01:02 gone, 1 batch FAILED"), (
        "a minute of starting says nothing about the batches"
    )
    now[0] = 64.0
    state.take(Progress(2, 4, 100, 200, 64.0, failed_batches=1))
    assert state.counts() == (
        "50%, 2/4 batches, 25 steps/s, 0:00:04 left of this round, 0:01:04 gone, 1 batch FAILED"
    )
    now[0] = 66.0
    assert "0:00:02 left of this round, 0:01:06 gone" in state.counts()
    state.take("summarising the rows")
    assert state.counts().startswith("50%, summarising the rows, 2/4 batches, 0:01:06 gone")


def test_a_line_every_few_seconds():
    now, drawn_at = [0.0], []
    state = ProgressState(clock=lambda: now[0])
    update = update_every(5.0, state, lambda: drawn_at.append(now[0]))
    for second in np.arange(0.0, 20.0, 0.25).tolist():
        now[0] = second
        update(Progress(1, 4, 50, 200, second + 0.1))
    assert drawn_at == [5.0, 10.0, 15.0] and "1/4 batches" in state.counts()


@pytest.mark.parametrize(
    ("flags", "terminal", "bar"),
    [
        ([], "xterm", True),
        ([], "dumb", False),
        (["--no-progress"], "xterm", False),
        (["--quiet"], "xterm", False),
    ],
)
def test_a_terminal(tmp_path, flags, terminal, bar, monkeypatch):
    pty = pytest.importorskip("pty")
    ours, other = pty.openpty()
    monkeypatch.setenv("TERM", terminal)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("ldpflow.cli.progress.DRAWN_PER_SECOND", 40)

    def run_study(study, out, chosen, **options):
        time.sleep(0.2)  # the state has been drawn by then
        (options["on_engine"] or str)("a note")
        options["on_event"](Progress(1, 2, 50, 100, 1.0))
        raise KeyboardInterrupt

    import_module("ldpflow.practice.planning.plans")  # it has a name of its own for what is replaced here
    monkeypatch.setattr("ldpflow.engine.run.run_study", run_study)
    blocks = []

    def read():
        with suppress(OSError):  # Linux: the other end is closed
            while block := os.read(ours, 65536):
                blocks.append(block)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(other, "w", encoding="utf-8") as written_to:
        monkeypatch.setattr(sys, "stderr", written_to)
        code = main(["sweep", "--out", str(tmp_path / "run"), *flags])
        monkeypatch.undo()
    reader.join()
    os.close(ours)
    written = b"".join(blocks)
    assert code == 130 and ("━" in written.decode()) is bar
    # The note takes the place of the state, which is drawn again below it.
    assert (b"\x1b[2Ka note\r\n" in written) is bar


def test_a_notebook_shows_a_bar_that_is_replaced(monkeypatch):
    """With the three names of IPython that are used; a real notebook shows what they are given."""
    shown = []

    def show(html, display_id):
        shown.append(html)
        return types.SimpleNamespace(update=shown.append)

    shell = types.SimpleNamespace(kernel=object())
    frontend = types.SimpleNamespace(HTML=str, display=show)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", frontend)
    with reporter() as update:
        update(Progress(1, 4, 25, 100, 1.0))
    assert 'value="0.0000"' in shown[0] and "starting" in shown[0]
    assert 'value="0.2500"' in shown[-1] and "1/4 batches" in shown[-1]
