"""The folder of compiled kernels, on the node's own disk: what lies there is machine code that runs.

Only this user may write to it. Files are read and written whole.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from functools import cache
from pathlib import Path

from ldpflow.errors import InputError


def cache_place() -> Path:
    """Where compiled kernels are: in $LDPFLOW_CACHE_DIR, or in a private folder of the node's own disk."""
    base = os.environ.get("LDPFLOW_CACHE_DIR")
    root = Path(base) if base else Path(tempfile.gettempdir()) / f"ldpflow-{os.getuid()}"
    return root.absolute() / "kernels"


@cache
def cache_folder() -> Path:
    """Folder of compiled kernels, made where there is none, and checked.

    What lies there is machine code that this process runs.

    Raises
    ------
    InputError
        Naming LDPFLOW_CACHE_DIR, if another user could write to the folder or put another in its place,
        or if it cannot be written to.
    """
    folder = cache_place()
    root = folder.parent
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for above in root.parent.resolve(), *root.parent.resolve().parents:
            check_private(above, above=True)
        check_private(root)
        folder.mkdir(mode=0o700, exist_ok=True)
        check_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
    except OSError as error:
        reason = f"{error.strerror or error}."
        raise InputError("LDPFLOW_CACHE_DIR", str(root), "a folder that can be written to", reason) from None
    return folder


def check_private(folder: Path, above: bool = False) -> None:
    """Refuse a folder that others may change; ``above`` the cache the system's own and sticky ones will do.

    Raises
    ------
    InputError
        Naming LDPFLOW_CACHE_DIR.
    """
    found = os.lstat(folder)
    allowed = "a folder that only you can write to, in folders that no other user can rename"
    if not stat.S_ISDIR(found.st_mode):
        raise InputError("LDPFLOW_CACHE_DIR", str(folder), allowed, "It is a link or a file.")
    if found.st_uid not in ((os.getuid(), 0) if above else (os.getuid(),)):
        raise InputError("LDPFLOW_CACHE_DIR", str(folder), allowed, "It belongs to another user.")
    if found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX):
        mode = f"Its mode is {stat.S_IMODE(found.st_mode):o}: others could choose what runs."
        raise InputError("LDPFLOW_CACHE_DIR", str(folder), allowed, mode)


def read_private(file: Path) -> bytes | None:
    """A file of the cache; None where there is none, or one that this user alone did not write."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise
    with open(descriptor, "rb") as source:
        found = os.fstat(descriptor)
        private = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
        return source.read() if private else None


def write_private(file: Path, content: bytes) -> None:
    """A file of the cache, whole or not at all."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(temporary, flags, 0o600), "wb") as target:
        target.write(content)
    os.replace(temporary, file)


class Lock:
    """Exclusive lock on a file, released by the operating system if the process dies."""

    def __init__(self, file: Path) -> None:
        self.path = file

    def __enter__(self) -> None:
        import fcntl

        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        self.file = open(os.open(self.path, flags, 0o600), "a")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *exception: object) -> None:
        self.file.close()
