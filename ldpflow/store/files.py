"""Atomic reads and writes of the files of a run on a local disk or an object store, and the run's lock."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import re
import secrets
import shlex
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from ldpflow.errors import AGAIN, DamagedRun, InputError, StorageError, redact

PUT_PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Seconds between attempts to write an object. Each attempt includes the retries of Arrow's client."""

UNFINISHED = re.compile(r".*\.(\d{1,9})\.[0-9a-f]{8}", re.DOTALL)
"""Names of files in RUN/tmp: name of the file, process id, random number."""

UNUSABLE = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR,
}  # fmt: skip
"""Error numbers of places that no retry makes writable."""

LARGEST = 2**29
"""Maximum bytes of a file of a run. A part of a sweep has about ten million bytes."""

OBJECT_STORES = {"s3", "gcs", "abfs"}
"""Names of Arrow's file systems without folders."""

PLACES = "a directory, or an s3:// or gs:// address"


def address_of(root: object) -> str:
    if not isinstance(root, (str, os.PathLike)):
        raise InputError("out", root, PLACES)
    address = os.fsdecode(root)
    try:
        address.encode()
    except UnicodeEncodeError:
        raise InputError("out", address, f"{PLACES}, in UTF-8") from None
    return address


def open_filesystem(root: str) -> tuple[fs.FileSystem, str]:
    """File system of a directory or URI, and the path in it."""
    if not root.strip() or "\0" in root:
        raise InputError("out", root, PLACES)
    if "://" not in root:
        try:
            return fs.LocalFileSystem(), os.path.abspath(root)
        except OSError:
            raise InputError("out", root, PLACES, "The current directory is gone.") from None
    address = root
    if root.startswith("s3://") and "allow_delayed_open" not in root:
        # Otherwise Arrow writes even a small object as a multipart upload, not as one put.
        address += ("&" if "?" in address else "?") + "allow_delayed_open=true"
    try:
        filesystem, base = fs.FileSystem.from_uri(address)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InputError("out", root, PLACES, str(error).partition("\n")[0]) from error
    if not base:
        raise InputError("out", root, "an address with a bucket", "s3://bucket/run")
    return filesystem, base


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


class LocalFile(io.FileIO):
    """Local file with the ``size`` and ``read_at`` of Arrow's files, without Arrow's threads."""

    def size(self) -> int:
        return os.fstat(self.fileno()).st_size

    def read_at(self, nbytes: int, offset: int) -> bytes:
        return os.pread(self.fileno(), nbytes, offset)


class RunFiles:
    """The files of a run, by names relative to its root, a directory or a URI of :mod:`pyarrow.fs`.

    A local file is written to RUN/tmp, synced and renamed. An object is written by one put. So a reader sees
    the whole old file or the whole new file.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.address = address_of(root)
        """Root as given. It may contain credentials."""
        self.root = redact(self.address)
        """Root without credentials, for messages and records."""
        self.again = AGAIN
        """Advice after a failure."""
        self.filesystem, base = open_filesystem(self.address)
        self.base = base.rstrip("/")
        self.local = isinstance(self.filesystem, fs.LocalFileSystem)
        if self.local and os.path.lexists(self.base) and not os.path.isdir(self.base):
            name = Path(self.base)
            hint = f"It is a study: its run is runs/{name.stem} by default." * (name.suffix == ".toml")
            raise InputError("out", self.root, "a run directory, not a file", hint)

    def full(self, name: str) -> str:
        return f"{self.base}/{name}"

    def read(self, name: str, most: int = LARGEST) -> pa.Buffer | None:
        """Read a file of the run of at most ``most`` bytes. None if the file is absent."""
        try:
            with self.open(name) as file:
                size = file.size()
                if size > most:
                    allowed = f"at most {most:,} bytes, the most that a sweep writes"
                    raise DamagedRun(self.full(name), f"{size:,} bytes", allowed, "Move the file away.")
                # Arrow owns this memory, because Arrow's threads may free it after the interpreter has ended.
                data = pa.allocate_buffer(size)
                return data.slice(0, file.readinto(memoryview(data)))
        except FileNotFoundError:
            return None

    def open(self, name: str) -> LocalFile | pa.NativeFile:
        """Open a regular file of the run for reading. Refuses links and pipes."""
        if not self.local:
            return self.filesystem.open_input_file(self.full(name))
        self.check_folders(name)
        return LocalFile(self.descriptor(name, os.O_RDONLY))

    def descriptor(self, name: str, flags: int) -> int:
        """File descriptor of a regular local file of the run. Refuses links and pipes."""
        try:
            found = os.open(self.full(name), flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise self.not_ours(name) from None
            raise
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise self.not_ours(name)
        return found

    def check_folders(self, name: str) -> None:
        """Refuse a file of the run in a folder that is a link: the file may lie outside the run."""
        folder = self.base
        for step in name.split("/")[:-1] if self.local else ():
            folder = f"{folder}/{step}"
            if os.path.islink(folder):
                raise self.not_ours(folder.removeprefix(self.base + "/"))

    def not_ours(self, name: str) -> InputError:
        return DamagedRun(
            "run", self.full(name), "regular files and folders in a run directory", "Remove it by hand."
        )

    def publish(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write or replace a file of the run atomically. After an error the old file is unchanged."""
        with self.named_errors():
            if self.local:
                self._publish_local(Path(self.full(name)), data)
            else:
                self._publish_object(self.full(name), data)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Convert an OSError to an InputError if the place cannot be used, else to a StorageError."""
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            if error.errno in UNUSABLE:
                allowed = "a place that can be read and written"
                raise InputError("out", self.root, allowed, str(error)) from error
            raise StorageError(self.root, str(error), self.again) from error

    def clear_unfinished(self) -> None:
        """Remove unfinished files of processes of this machine that have ended."""
        folder = Path(self.base, "tmp")
        if not self.local or folder.is_symlink() or not folder.is_dir():
            return
        for file in folder.iterdir():
            name = UNFINISHED.fullmatch(file.name)
            if name is not None and not file.is_symlink() and has_ended(int(name[1])):
                file.unlink(missing_ok=True)

    def _publish_local(self, target: Path, data: pa.Buffer | bytes) -> None:
        folder = Path(self.base, "tmp")
        for name in ("tmp/file", target.relative_to(self.base).as_posix()):
            self.check_folders(name)
        folder.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{target.name}.{os.getpid()}.{secrets.token_hex(4)}"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        # A rename survives a power cut if the folder is synced.
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _publish_object(self, target: str, data: pa.Buffer | bytes) -> None:
        if self.filesystem.type_name not in OBJECT_STORES:
            self.filesystem.create_dir(target.rsplit("/", 1)[0], recursive=True)
        for pause in (*PUT_PAUSES, None):
            try:
                # No context manager: after a failed write it would close the stream and so publish.
                stream = self.filesystem.open_output_stream(target)
                stream.write(data)
                stream.close()
                return
            except OSError:
                # The first put may have worked. A second one is harmless: equal names have equal content.
                if pause is None:
                    raise
                time.sleep(pause)


LOCK = "lock"
LOCK_BYTES = 2**16

BEAT_SECONDS = 15.0
STALE_SECONDS = 60.0


class RunLock:
    """Exclusive lock on writing to a run. The context manager can be entered once.

    On a local disk the lock is ``flock`` on RUN/lock. The operating system releases it if the holder dies. On
    an object store the holder writes the time into the object RUN/lock every 15 s. The lock is dead if that
    time differs from the reader's clock by more than 60 s. Two processes may get the lock of an object store
    if they ask at the same moment. Both then compute rows, and no rows are lost, because equal parts have
    equal names.
    """

    def __init__(self, store: RunFiles, command: str | None = None) -> None:
        self.store = store
        self.took_over: dict[str, Any] | None = None
        """Holder that died without a release of the lock, or None."""
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
            # The file is not removed: another process may have opened it.
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
        if self._beating is not None:
            self._released.set()
            self._beating.join()
            # If this fails, the lock is dead after 60 s.
            with suppress(OSError):
                self.store.filesystem.delete_file(self.store.full(LOCK))

    def _acquire_file(self) -> None:
        with self.store.named_errors():
            Path(self.store.base).mkdir(parents=True, exist_ok=True)
            descriptor = self.store.descriptor(LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = parse_holder(os.pread(descriptor, LOCK_BYTES, 0))
            os.close(descriptor)
            raise self._lock_error(holder or {}) from None
        # A released lock is an empty file, so a holder that the file names has died.
        self.took_over = parse_holder(os.pread(descriptor, LOCK_BYTES, 0))
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(self.holder).encode())
        self._descriptor = descriptor

    def _acquire_object(self) -> None:
        found = self.store.read(LOCK, LOCK_BYTES)
        holder = None if found is None else parse_holder(found.to_pybytes())
        if holder is not None:
            beat = holder.get("beat")
            fresh = isinstance(beat, (int, float)) and abs(time.time() - beat) < STALE_SECONDS
            here, pid = holder.get("host") == socket.gethostname(), holder.get("pid")
            if fresh and not (here and isinstance(pid, int) and has_ended(pid)):
                raise self._lock_error(holder)
            self.took_over = holder
        self._beat()
        self._beating = threading.Thread(target=self._keep_beating, name="lock of a run", daemon=False)
        self._beating.start()

    def _beat(self) -> None:
        self.store.publish(LOCK, json.dumps({**self.holder, "beat": time.time()}).encode())

    def _keep_beating(self) -> None:
        last = time.monotonic()
        # The thread also ends with the main thread, if the lock is not released.
        while not self._released.wait(1.0) and threading.main_thread().is_alive():
            if time.monotonic() - last < BEAT_SECONDS:
                continue
            last = time.monotonic()
            # After an error the next beat is in 15 s.
            with suppress(OSError, InputError):
                self._beat()

    def _lock_error(self, holder: dict[str, Any]) -> InputError:
        host, pid, started = (holder.get(name, "unknown") for name in ("host", "pid", "started"))
        hint = f"Host {host}, process {pid} has held it since {started}: {holder.get('command', '')}"
        hint += "\nWait until it ends, or stop that process."
        return InputError("out", self.store.root, "a run that no other sweep is writing to", hint)


def parse_holder(text: bytes) -> dict[str, Any] | None:
    """Parse the content of a lock. None if it is empty or unreadable."""
    try:
        holder = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return holder if isinstance(holder, dict) else None


READERS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
    """Iterate over (item, result) in order. READERS threads compute the next results."""
    items = list(items)
    if len(items) == 1:
        yield items[0], function(items[0])
        return
    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(items), READERS):
            few = items[start : start + READERS]
            yield from zip(few, list(pool.map(function, few)), strict=True)
