"""One sweep at a time."""

import os
import threading
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


@pytest.mark.parametrize("seconds", [61, -61])
def test_heartbeat_object(monkeypatch, seconds):
    store = RunStore("mock:///bucket/run")
    with RunLock(store, "first"), pytest.raises(InputError, match="first"), RunLock(store):
        pass
    assert store.read("lock") is None
    # A holder that died without releasing stops beating. Its last beat lies ahead if a clock was set back.
    dead = RunLock(store, "dead")
    monkeypatch.setattr(dead, "_keep_beating", lambda: None)
    dead.__enter__()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)
    with RunLock(store) as lock:
        assert lock.took_over is not None and lock.took_over["command"] == "dead"


def test_the_interpreter_ends_though_a_thread_holds_the_lock_of_an_object_store(monkeypatch):
    monkeypatch.setattr(threading, "main_thread", threading.Thread)  # one that does not run
    lock = RunLock(RunStore("mock:///bucket/run"))
    monkeypatch.setattr(lock._released, "wait", lambda seconds: False)
    entering = threading.Thread(target=lock.__enter__, daemon=True)
    entering.start()
    entering.join()
    lock._beating.join()
    assert not lock._beating.daemon
