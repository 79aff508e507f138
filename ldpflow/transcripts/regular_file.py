"""A regular file that is read in several passes: opened without waiting, and always the same file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BufferedReader

import pyarrow as pa

from ldpflow.documents import open_regular
from ldpflow.errors import InputError

FORM = "a Parquet or CSV file"


@dataclass(frozen=True)
class RegularFile:
    """A transcript on the disk.

    Parameters
    ----------
    place : str
        Path.
    state : tuple of int
        Device, inode, size and time of change.
    """

    place: str
    state: tuple[int, ...]

    @classmethod
    def of(cls, place: str) -> RegularFile:
        """The file at a path.

        Raises
        ------
        InputError
            If it is not a regular file that can be read.
        """
        descriptor = open_regular(place, "file", FORM)
        state = state_of(descriptor)
        os.close(descriptor)
        return cls(place, state)

    def descriptor(self) -> int:
        """Descriptor of the file, opened anew.

        Raises
        ------
        InputError
            If it cannot be read, or changed since it was opened first.
        """
        descriptor = open_regular(self.place, "file", FORM)
        if state_of(descriptor) == self.state:
            return descriptor
        os.close(descriptor)
        raise self.error("a file that does not change while it is read", "Take a copy.")

    def for_python(self) -> BufferedReader:
        """The file, opened by Python."""
        return open(self.descriptor(), "rb")

    def for_arrow(self) -> pa.NativeFile:
        """The file, opened by Arrow: it reads ahead in threads, which must not need Python."""
        descriptor = self.descriptor()
        try:
            return pa.OSFile(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    def error(self, allowed: str, hint: str = "") -> InputError:
        """An error that names the file."""
        return InputError("file", self.place, allowed, hint)


def state_of(descriptor: int) -> tuple[int, ...]:
    """Device, inode, size and time of change of an opened file."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
