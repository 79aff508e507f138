"""Pass over the rows of a transcript: what is common to paths and to protocols."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.errors import InputError
from ldpflow.practice.transcripts.collection import Collection
from ldpflow.practice.transcripts.methods import Row
from ldpflow.practice.transcripts.reading import Chunk, Joined, RowError, list_names
from ldpflow.practice.transcripts.result import Analysis

FEWEST = 1000
"""Fewest reports."""

LARGEST_USERS = 10**7
"""Rows up to which users are compared."""


class ReportReader:
    """Reader of a transcript in chunks."""

    def __init__(self, source: Joined, collection: Collection, chunk: int) -> None:
        self.source = source
        self.collection = collection
        self.chunk = chunk
        self.rows = source.rows
        self.notes: list[str] = []
        if source.columns.ignored:
            self.notes.append(f"columns not used: {list_names(source.columns.ignored)}")
        if self.rows < FEWEST:
            self.check_n()
            raise InputError("rows", self.rows, f"at least {FEWEST:,} reports")
        self.users_compared = "user" in source.columns.optional and self.rows <= LARGEST_USERS

    def check_n(self) -> None:
        n, steps = self.collection.n, self.collection.steps
        if n is not None and steps(n) != steps(self.rows) and self.rows != self.collection.users_asked(n):
            short = "Was a file cut off?" if n > self.rows else "Was another file joined to it?"
            hint = f"{short} If these are all reports that came, give their number as `n`."
            raise InputError("n", n, f"{self.rows}, the reports of the file", hint)

    def read_chunks(self, take: Callable[[Chunk], None], rounds: bool = False) -> None:
        """Take every chunk, by round if asked for, and compare the users."""
        hashes = np.empty((self.rows, 2), np.uint64) if self.users_compared else None
        if hashes is None and "user" in self.source.columns.optional:
            self.notes.append(f"users are compared up to {LARGEST_USERS:,} rows: not here")
        rows = 0
        for chunk in self.source.chunks(self.chunk, rounds):
            rows += len(chunk)
            if rows > self.rows:
                break
            take(chunk)
            if hashes is not None:
                hashes[chunk.first - 1 : chunk.first - 1 + len(chunk)] = hash_users(chunk.users)
        if rows != self.rows:
            raise InputError("file", self.source.place, f"a file of {self.rows:,} reports, one a line")
        self.check_n()
        if hashes is not None:
            refuse_doubled(hashes, self.source)

    def result(self, rows: list[Row], **own: Any) -> Analysis:
        """The analysis, with rows in the unit of the values."""
        for row in rows if self.collection.scale is not None else ():
            row.in_unit(self.collection.scale)
        return Analysis(
            rows=rows,
            users=self.rows,
            collection=self.collection,
            file=self.source.place,
            sha256=self.source.sha256(),
            files=len(self.source.parts),
            notes=self.notes,
            users_compared=self.users_compared,
            **own,
        )


def hash_users(users: pa.Array) -> NDArray[np.uint64]:
    """Hashes of 128 bits, shape (m, 2)."""
    places = np.arange(len(users))
    if pa.types.is_dictionary(users.type):
        used, places = np.unique(users.indices.to_numpy(), return_inverse=True)
        users = users.dictionary.take(pa.array(used))
    names = [user if isinstance(user, bytes) else str(user).encode() for user in users.to_pylist()]
    digests = [hashlib.blake2b(name, digest_size=16).digest() for name in names]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)[places]


def refuse_doubled(hashes: NDArray[np.uint64], source: Joined) -> None:
    """Refuse users that reported twice, by their hashes."""
    order = np.lexsort(hashes.T)
    equal = np.flatnonzero((hashes[order[1:]] == hashes[order[:-1]]).all(axis=1))
    if len(equal):
        earlier, later = min(zip(order[equal] + 1, order[equal + 1] + 1, strict=True), key=max)
        row, place = source.find(int(earlier))
        found = f"the user of row {row:,}" + (f" of {place}" if len(source.parts) > 1 else "")
        raise RowError(int(later), "user", found, "a user without an earlier report")
