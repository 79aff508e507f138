"""One sweep at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ldpflow.errors import InputError
from ldpflow.store.files import RunLock
from ldpflow.store.run_store import RunStore


def test_the_same_process_is_refused_too_and_an_error_releases_the_lock(tmp_path):
    store = RunStore(tmp_path / "new")
    with RunLock(store), pytest.raises(InputError, match=str(os.getpid())), RunLock(store):
        pass
    with pytest.raises(KeyError), RunLock(store):
        raise KeyError
    with RunLock(store) as lock:
        assert lock.took_over is None


def test_an_unusable_place_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError), RunLock(RunStore(tmp_path / "file" / "run")):
        pass


def test_heartbeat_object(monkeypatch):
    store = RunStore("mock:///bucket/run")
    with RunLock(store, "first"), pytest.raises(InputError, match="first"), RunLock(store):
        pass
    assert store.read("lock") is None
    # A holder that died without releasing stops beating.
    dead = RunLock(store, "dead")
    monkeypatch.setattr(dead, "_keep_beating", lambda: None)
    dead.__enter__()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with RunLock(store) as lock:
        assert lock.took_over is not None and lock.took_over["command"] == "dead"


LEFT = """
import threading
from ldpflow.store.files import RunLock
from ldpflow.store.run_store import RunStore

def work():
    RunLock(RunStore("mock:///bucket/run"), "left").__enter__()
    entered.set()
    threading.Event().wait()

entered = threading.Event()
threading.Thread(target=work, daemon=True).start()
entered.wait()
assert [thread.daemon for thread in threading.enumerate() if thread.name == "lock of a run"] == [False]
"""


def test_the_interpreter_ends_though_a_daemon_thread_holds_the_lock_of_an_object_store():
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
