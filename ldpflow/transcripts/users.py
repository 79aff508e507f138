"""Users that reported twice, found by 64-bit hashes; two equal hashes are looked up in the file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.transcripts.reading import Chunk, Transcript
from ldpflow.transcripts.values import RowError

LARGEST_USERS = 10**7
"""Rows up to which users are compared."""

LOOKED_UP = 1000
"""Pairs of equal hashes that are looked up."""


@dataclass
class Users:
    """Hashes of the users of a transcript.

    Parameters
    ----------
    rows : int
    """

    rows: int
    hashes: NDArray[np.uint64] = field(init=False)

    def __post_init__(self) -> None:
        self.hashes = np.empty(self.rows, np.uint64)

    def add(self, chunk: Chunk) -> None:
        """Take in the users of a chunk."""
        users = chunk.users
        if pa.types.is_dictionary(users.type):
            used, places = np.unique(users.indices.to_numpy(), return_inverse=True)
            found = hashes_of(users.dictionary.take(pa.array(used)))[places]
        else:
            found = hashes_of(users)
        self.hashes[chunk.first - 1 : chunk.first - 1 + len(chunk)] = found

    def suspects(self) -> list[tuple[int, int]]:
        """Pairs of rows with equal hashes, (earlier, later) from 1, by the later one."""
        order = np.argsort(self.hashes, kind="stable")
        equal = np.flatnonzero(self.hashes[order[1:]] == self.hashes[order[:-1]])
        pairs = zip((order[equal] + 1).tolist(), (order[equal + 1] + 1).tolist(), strict=True)
        return sorted(pairs, key=lambda pair: pair[1])

    def refuse_doubled(self, source: Transcript) -> None:
        """Refuse a transcript with several reports of one user.

        Raises
        ------
        RowError
            Naming the first row of a user with an earlier report.
        """
        suspects = self.suspects()[:LOOKED_UP]
        if not suspects:
            return
        rows = {row for pair in suspects for row in pair}
        names: dict[int, bytes] = {}
        for chunk in source.chunks():
            names |= {
                row: as_bytes(chunk.users[row - chunk.first].as_py())
                for row in rows
                if chunk.first <= row < chunk.first + len(chunk)
            }
        for earlier, later in suspects:
            if names[earlier] == names[later]:
                name = names[later].decode("utf-8", "backslashreplace")
                hint = f"Row {earlier:,} is of the same user."
                raise RowError(later, "user", name, "a user without an earlier report", hint)


def hashes_of(users: pa.Array) -> NDArray[np.uint64]:
    """64-bit hashes of users."""
    digests = [hashlib.blake2b(as_bytes(user), digest_size=8).digest() for user in users.to_pylist()]
    return np.frombuffer(b"".join(digests), np.uint64)


def as_bytes(user: object) -> bytes:
    """A user's name or number as bytes."""
    return user if isinstance(user, bytes) else str(user).encode("utf-8", "surrogatepass")
