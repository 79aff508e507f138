"""The live display: what it says, at any size of window, and lines where there is no terminal."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
import types
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from ldpflow.cli import main
from ldpflow.cli.progress import Display, clock_time, lines, magnitude, reporter
from ldpflow.engine.events import Progress
from ldpflow.store.aggregate import statistics_schema


def statistics(cells: int) -> pa.Table:
    """Cells whose coverage is the less precise the higher their number."""
    rows = [
        {
            "path": f"p{i % 5:016x}",
            "n": 1000 + i,
            "method": "BB",
            "beta": 0.75,
            "B": 500,
            "multiplier": "uniform",
            "level": 0.9,
            "coordinate": 0,
            "replicates": 64,
            "failures": 64 if i == 3 else 0,
            "covered": 0 if i == 3 else 64 - i // 20,
            "length_sum": 1.0,
            "length_sumsq": 1.0,
        }
        for i in range(cells)
    ]
    return pa.Table.from_pylist(rows, schema=statistics_schema())


def drawn(display: Display, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=False)
    console.print(display.picture(width, height))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text.rstrip("\n").split("\n")


@pytest.mark.parametrize("size", [(200, 60), (100, 24), (60, 10), (39, 24), (20, 5), (8, 2)])
def test_five_hundred_cells_fit_any_window(size: tuple[int, int]) -> None:
    now = [0.0]
    paths = {f"p{i:016x}": {"tau": 0.1 * i, "law": "normal"} for i in range(5)}
    display = Display(500, paths, clock=lambda: now[0])
    now[0] = 10.0
    display.take(Progress(5, 40, 1_000_000, 8_000_000, 10.0, statistics=statistics(500)))
    shown = drawn(display, *size)
    assert len(shown) <= max(size[1], 2)
    assert max(map(len, shown)) <= size[0]
    if size[0] >= 100:
        assert "12%, 320/2,500 replicates, 100k steps/s, 1:10 left" in shown[1]
        assert "64 intervals failed" in shown[1]
        # The least precise first; a cell that is undefined everywhere cannot become more precise.
        assert shown[2].split()[:2] == ["tau", "n"]  # what varies, and not what does not
        assert shown[3].split()[:5] == ["0", "1480", "0.625", "±", "0.061"]


@pytest.mark.parametrize("width", range(20, 100, 5))
def test_settings_of_cells_are_never_cut(width: int) -> None:
    settings = [(law, tau) for law in ("exponential", "normal", "student_t") for tau in (0.25, 0.75)]
    paths = {f"p{i:016x}": {"law": law, "tau": tau} for i, (law, tau) in enumerate(settings[:5])}
    display = Display(500, paths, clock=lambda: 0.0)
    display.take(Progress(5, 40, 1_000_000, 8_000_000, 10.0, statistics=statistics(500)))
    _, _, *cells = drawn(display, width, 24)
    assert not any("…" in line for line in cells)
    assert bool(cells) == (width >= 55)


def test_time_goes_on_between_events() -> None:
    now = [0.0]
    assert Display(None, clock=lambda: now[0]).counts() == "starting, 0s"
    display = Display(None, continued=True, clock=lambda: now[0])
    assert display.counts() == "reading what is stored, 0s"
    display.take("starting Ray")
    assert display.counts() == "starting Ray, 0s"
    display.take("compiling kernel 2 of 3 (quantile, laplace, ldp_sgd)")
    assert display.counts() == "compiling kernel 2 of 3 (quantile, laplace, ldp_sgd), 0s"
    display.take("")
    assert display.counts() == "the first batches run, 0s"
    now[0] = 62.0
    display.take(Progress(1, 4, 50, 200, 62.0, failed_batches=1))
    assert display.counts() == ("25%, 1/4 batches, 1:02 gone, 1 batches FAILED, 0 intervals failed"), (
        "a minute of compiling says nothing about the batches"
    )
    now[0] = 64.0
    display.take(Progress(2, 4, 100, 200, 64.0, failed_batches=1))
    assert display.counts() == (
        "50%, 2/4 batches, 25 steps/s, 4s left, 1:04 gone, 1 batches FAILED, 0 intervals failed"
    )
    now[0] = 66.0
    assert "2s left, 1:06 gone" in display.counts()
    display.take("compiling kernel 3 of 3 (quantile, ldp_sgd)")
    shown = display.counts()
    assert shown.startswith("50%, compiling kernel 3 of 3 (quantile, ldp_sgd), 2/4 batches, 1:06 gone")


def test_more_replicates_than_the_study_wants_are_no_more_than_all() -> None:
    """A run that has paths of another study, and more replicates than this one asks for."""
    display = Display(50, {"p" + "0" * 16: {}, "p" + f"{1:016x}": {}}, clock=lambda: 0.0)
    display.take(Progress(1, 4, 50, 200, 1.0, statistics=statistics(10)))
    assert "100/100 replicates" in display.counts()
    several = Display(None, display.paths, clock=lambda: 0.0)
    several.take(Progress(1, 4, 50, 200, 1.0, statistics=statistics(10)))
    assert "128 replicates" in several.counts() and "/" not in several.counts().split(",")[1]


def test_rows_of_paths_that_differ_do_not_look_the_same() -> None:
    paths = {f"p{i:016x}": {"problem": "quantile", "tau": 0.1 * i, "epsilon": 1.0} for i in range(5)}
    display = Display(64, paths, clock=lambda: 0.0)
    table = statistics(5)
    same = pa.table({**{name: table[name] for name in table.column_names}, "n": pa.array([100] * 5)})
    display.take(Progress(1, 4, 50, 200, 1.0, statistics=same))
    shown = drawn(display, 100, 30)
    assert shown[2].split() == ["tau", "coverage", "so", "far", "replicates"]
    assert len({line.split()[0] for line in shown[3:8]}) == 5


def test_a_line_every_few_seconds_without_a_terminal() -> None:
    now = [0.0]
    console = Console(file=io.StringIO(), force_terminal=False)
    update = lines(console, Display(100, clock=lambda: now[0]))
    for second in np.arange(0.0, 20.0, 0.25).tolist():
        now[0] = second
        update(Progress(1, 4, 50, 200, second + 0.1))
    written = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(written) == 3
    assert not any("\x1b" in line for line in written)


@pytest.mark.parametrize(("seconds", "text"), [(3.9, "3s"), (185, "3:05"), (3723, "1:02:03")])
def test_clock_time(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(312_400_000, "312M"), (9500, "9.5k"), (12, "12")])
def test_magnitude(value: float, text: str) -> None:
    assert magnitude(value) == text


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
def test_a_terminal(
    tmp_path: Any,
    flags: list[str],
    environment: dict[str, str],
    bar: bool,
    colour: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pty = pytest.importorskip("pty")
    ours, other = pty.openpty()
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)

    def run_study(study: Any, out: Any, **options: Any) -> None:
        time.sleep(0.6)  # the display has been drawn by then
        (options["on_engine"] or str)("a note")
        options["on_event"](Progress(1, 2, 50, 100, 1.0))
        raise KeyboardInterrupt

    import_module("ldpflow.planning.checking")  # it has a name of its own for what is replaced here
    monkeypatch.setattr("ldpflow.engine.run_study", run_study)
    blocks: list[bytes] = []

    def read() -> None:
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
    if bar:  # the note takes the place of the display, which is drawn again below it
        assert b"\x1b[2Ka note\r\n" in written
    assert (b"\x1b[38" in written or b"\x1b[3" in written.replace(b"\x1b[?", b"")) is colour


def test_a_notebook_shows_a_bar_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the three names of IPython that are used; a real notebook shows what they are given."""
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    def show(html: str, display_id: bool) -> Handle:
        shown.append(html)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    frontend = types.SimpleNamespace(HTML=str, display=show)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", frontend)  # type: ignore[arg-type]
    with reporter(False, 100) as update:
        update(Progress(1, 4, 25, 100, 1.0))
    assert 'value="0.0000"' in shown[0] and "starting" in shown[0]
    assert 'value="0.2500"' in shown[-1] and "1/4 batches" in shown[-1]
