"""Files of a run directory by name, on a local disk or an object store, published atomically."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from ldpflow.errors import InputError, StorageError, redacted

__all__ = ["OBJECT_STORES", "RunFiles", "address_of"]

PUT_PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Seconds between tries of a put, beyond those that the object store's own client makes."""

UNUSABLE = {
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR,
}  # fmt: skip
"""Error numbers of places that this user cannot write to at all."""

OBJECT_STORES = {"s3", "gcs", "abfs"}
"""Types of file systems that have no folders to be made beforehand."""


def address_of(root: object) -> str:
    """The text of a directory or URI.

    Raises
    ------
    InputError
        If it is no path, or not in UTF-8.
    """
    allowed = "a directory, or an s3:// or gs:// address"
    if not isinstance(root, (str, os.PathLike)):
        raise InputError("out", root, allowed)
    address = os.fsdecode(root)
    try:
        address.encode()
    except UnicodeEncodeError:
        raise InputError("out", address, f"{allowed}, in UTF-8") from None
    return address


def open_filesystem(root: str | os.PathLike[str]) -> tuple[fs.FileSystem, str]:
    """File system and path of a directory or URI."""
    address = address_of(root)
    if not address.strip() or "\0" in address:
        raise InputError("out", address, "a directory, or an s3:// or gs:// address")
    if "://" not in address:
        try:
            return fs.LocalFileSystem(), os.path.abspath(address)
        except OSError:
            hint = "The current directory is gone: change to another one."
            raise InputError("out", address, "a directory, or an s3:// or gs:// address", hint) from None
    if address.startswith("s3://") and "allow_delayed_open" not in address:
        # Without it even a small object is a multipart upload instead of one put.
        address += ("&" if "?" in address else "?") + "allow_delayed_open=true"
    try:
        filesystem, base = fs.FileSystem.from_uri(address)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InputError(
            "out", os.fspath(root), "a directory, or an s3:// or gs:// address", str(error)
        ) from error
    if not base:
        raise InputError("out", os.fspath(root), "an address with a bucket", "s3://bucket/run")
    return filesystem, base


class RunFiles:
    """The files of a run, by names relative to its root.

    Parameters
    ----------
    root : str or path
        A directory (made on first writing) or a URI that :mod:`pyarrow.fs` understands.
    filesystem : pyarrow.fs.FileSystem, optional
        Where ``root`` lies; found from ``root`` unless given.

    Attributes
    ----------
    address : str
        ``root`` as given; it may hold credentials and is for opening the run alone.
    root : str
        The same for messages and records, credentials replaced.

    Raises
    ------
    InputError
        If ``root`` names no usable place.

    Notes
    -----
    A local file is written to RUN/tmp, synced and renamed; an object is serialised in memory and
    put at once. Either way a reader sees the old file or the new one, never a part of it.
    """

    def __init__(self, root: str | os.PathLike[str], filesystem: fs.FileSystem | None = None) -> None:
        self.address = address_of(root)
        self.root = redacted(self.address)
        if filesystem is None:
            self.filesystem, base = open_filesystem(root)
        else:
            self.filesystem, base = filesystem, self.address
        self.base = base.rstrip("/")
        self.local = isinstance(self.filesystem, fs.LocalFileSystem)
        if self.local and os.path.lexists(self.base) and not os.path.isdir(self.base):
            raise InputError("out", self.root, "a directory or a name that is still free")

    def full(self, name: str) -> str:
        """The path of a file of the run inside :attr:`filesystem`."""
        return f"{self.base}/{name}"

    def read(self, name: str, largest: int | None = None) -> pa.Buffer | None:
        """The bytes of a file of the run, or None where there is none.

        Raises
        ------
        InputError
            If it is no regular file of the run, such as a link to another place, or has more bytes than
            ``largest``.
        """
        try:
            if self.local:
                return self._read_local(name, largest)
            with self.filesystem.open_input_file(self.full(name)) as file:
                self._check_size(name, file.size(), largest)
                return file.read_buffer()
        except FileNotFoundError:
            return None

    def _check_size(self, name: str, size: int, largest: int | None) -> None:
        if largest is not None and size > largest:
            raise InputError(
                "run", self.full(name), f"a file of at most {largest:,} bytes", f"It has {size:,}."
            )

    def _read_local(self, name: str, largest: int | None) -> pa.Buffer:
        self.check_folders(name)
        try:
            # A link is not followed, and a pipe does not wait for its writer.
            descriptor = os.open(self.full(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self.not_ours(name) from None
            raise
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise self.not_ours(name)
            # Memory of Arrow's own, not of a Python object: Arrow's threads may be the last to free it,
            # when the interpreter has ended.
            size = os.fstat(descriptor).st_size
            self._check_size(name, size, largest)
            data = pa.allocate_buffer(size)
            return data.slice(0, file.readinto(memoryview(data)))

    def check_folders(self, name: str) -> None:
        """Refuse a file of the run in a folder that is a link: it would lie outside the run."""
        folder = self.base
        for step in name.split("/")[:-1] if self.local else ():
            folder = f"{folder}/{step}"
            if os.path.islink(folder):
                raise self.not_ours(folder.removeprefix(self.base + "/"))

    def not_ours(self, name: str) -> InputError:
        """The error about something in a run that no sweep has put there."""
        return InputError(
            "run", self.full(name), "regular files and folders in a run directory", "Remove it by hand."
        )

    def publish(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a file of the run atomically, replacing one of that name.

        Raises
        ------
        InputError
            If the place cannot be written to by this user at all.
        StorageError
            For anything that may pass, such as a full disk; the old file, if any, is intact.
        """
        with self.named_errors():
            if self.local:
                self._publish_local(Path(self.full(name)), data)
            else:
                self._publish_object(self.full(name), data)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Turn what the system says into a message that names the run.

        Raises
        ------
        InputError
            If the place cannot be used by this user at all.
        StorageError
            For anything that may pass.
        """
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            if error.errno in UNUSABLE:
                raise InputError(
                    "out", self.root, "a place that can be read and written", str(error)
                ) from error
            raise StorageError(self.root, str(error)) from error

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
        # The rename itself survives a power cut only once the folder is synced.
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
                # No context manager: it would close, and so publish, after a write that failed.
                stream = self.filesystem.open_output_stream(target)
                stream.write(data)
                stream.close()
                return
            except OSError:
                # A put twice is harmless: the same name has the same content.
                if pause is None:
                    raise
                time.sleep(pause)
