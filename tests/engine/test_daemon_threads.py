"""Threads when the interpreter ends: none of ours is a daemon, and a caller's daemon thread may sweep."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ldpflow.engine.run import run_study
from tests.faults.study import study

ROOT = Path(__file__).parents[2]

SWEEPING = """
import faulthandler, sys, threading, time
faulthandler.dump_traceback_later(90, exit=True)  # where it hangs
import ldpflow as lf
from tests.faults.study import study

begun = threading.Event()

def work():
    for number in range(1000):
        run = f"{sys.argv[1]}/run-{number}"
        lf.sweep(study(replicates=3200), run, executor=sys.argv[2], on_plan=lambda plan: begun.set())

threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(float(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("tries", "executor"),
    [(2, "threads"), (1, "serial"), pytest.param(30, "threads", marks=pytest.mark.slow)],
)
def test_a_sweep_in_a_daemon_thread_does_not_abort_the_interpreter(tmp_path, tries, executor):
    for attempt in range(tries):
        out = str(tmp_path / str(attempt))
        command = [sys.executable, "-c", SWEEPING, out, executor, str(0.03 * attempt)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "terminate" not in done.stderr and "Fatal" not in done.stderr, done.stderr


def test_no_thread_of_ours_is_a_daemon_in_a_daemon_thread(tmp_path):
    seen = []

    def note(event):
        seen.extend(thread for thread in threading.enumerate() if thread.name == "batches")

    def work():
        run_study(study(replicates=32), tmp_path / "run", engine="threads", num_cpus=2, on_event=note)

    caller = threading.Thread(target=work, daemon=True)
    caller.start()
    caller.join()
    assert seen and not any(thread.daemon for thread in seen)
    assert not any(thread.is_alive() for thread in seen)
