"""One sweep at a time on a run."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ldpflow.errors import InputError, redact
from ldpflow.store.files import has_ended
from ldpflow.store.run_store import RunStore

FILE = "lock"
LARGEST = 2**16  # bytes of the lock that are read

BEAT_SECONDS = 15.0
STALE_SECONDS = 60.0


class RunLock:
    """Exclusive lock on writing to a run, as a context manager.

    Parameters
    ----------
    store : RunStore
    command : str, optional
        Command line of the holder. Default: that of this process.

    Attributes
    ----------
    took_over : dict or None
        Earlier holder (host, pid, started, command) that died without releasing the lock.

    Raises
    ------
    InputError
        On entering, if another process holds the lock. Names its host and pid.

    Notes
    -----
    On a local disk the lock is exact: ``flock`` on RUN/lock, which the kernel releases when the holder dies.
    On an object store it is best effort. The holder rewrites the object RUN/lock every 15 s, and the lock
    counts as dead 60 s after its last beat by the hosts' clocks. Two processes that acquire it at one instant
    may both succeed. That costs work but no rows: parts are idempotent.
    """

    def __init__(self, store: RunStore, command: str | None = None) -> None:
        self.store = store
        self.took_over: dict[str, Any] | None = None
        self.holder: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": redact(shlex.join(sys.argv) if command is None else command),
        }
        self._descriptor: int | None = None
        self._released = threading.Event()
        self._beating: threading.Thread | None = None

    def __enter__(self) -> RunLock:
        if self.store.local:
            self._acquire_file()
        else:
            self._acquire_object()
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            # Emptied, not removed: a second opener may be waiting on this very file.
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None
        if self._beating is not None:
            self._released.set()
            self._beating.join()
            self._beating = None
            # If the network is down, the lock goes stale by itself.
            with suppress(OSError):
                self.store.filesystem.delete_file(self.store.full(FILE))

    def _acquire_file(self) -> None:
        try:
            with self.store.named_errors():
                Path(self.store.base).mkdir(parents=True, exist_ok=True)
                descriptor = self.store.descriptor(FILE, os.O_RDWR | os.O_CREAT)
        except FileExistsError as error:
            raise InputError("out", self.store.root, "a directory", str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = parse_holder(os.pread(descriptor, LARGEST, 0))
            os.close(descriptor)
            raise self._lock_error(holder or {}) from None
        # A released lock is empty: a holder that is still named has died.
        self.took_over = parse_holder(os.pread(descriptor, LARGEST, 0))
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(self.holder).encode())
        self._descriptor = descriptor

    def _acquire_object(self) -> None:
        found = self.store.read(FILE, LARGEST)
        holder = None if found is None else parse_holder(found.to_pybytes())
        if holder is not None:
            beat = holder.get("beat")
            fresh = isinstance(beat, (int, float)) and abs(time.time() - beat) < STALE_SECONDS
            if fresh and not dead(holder):
                raise self._lock_error(holder)
            self.took_over = holder
        self._beat()
        self._released.clear()
        self._beating = threading.Thread(target=self._keep_beating, name="lock of a run", daemon=False)
        self._beating.start()

    def _beat(self) -> None:
        self.store.publish(FILE, json.dumps({**self.holder, "beat": time.time()}).encode())

    def _keep_beating(self) -> None:
        last = time.monotonic()
        # No daemon thread: it ends with the main thread, even if the lock is never released.
        while not self._released.wait(1.0) and threading.main_thread().is_alive():
            if time.monotonic() - last < BEAT_SECONDS:
                continue
            last = time.monotonic()
            # The next beat makes up for a missed one, or the lock goes stale.
            with suppress(OSError, InputError):
                self._beat()

    def _lock_error(self, holder: dict[str, Any]) -> InputError:
        return InputError(
            "out",
            self.store.root,
            "a run that no other sweep is writing to",
            f"Host {holder.get('host', 'unknown')}, process {holder.get('pid', 'unknown')} has "
            f"held it since {holder.get('started', 'unknown')}: {holder.get('command', '')}",
        )


def dead(holder: dict[str, Any]) -> bool:
    """Whether the holder is an ended process of this host."""
    pid = holder.get("pid")
    return holder.get("host") == socket.gethostname() and isinstance(pid, int) and has_ended(pid)


def parse_holder(text: bytes) -> dict[str, Any] | None:
    """Parse the content of a lock; None if it is empty or unreadable."""
    try:
        holder = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return holder if isinstance(holder, dict) else None
