"""The collector's state: an append-only file of reports, and theta, which follows from it.

A line is ``round,theta,report,user,check``: what was asked, what was answered, the user's token and a
checksum of the line. It is written in one call and forced to the disk before the device hears that the
report counts; a line that cannot be written whole is cut off again. After a crash the file is read again: a
last line that was not finished is cut off, and theta follows from the last complete one, so that no
report is lost or counted twice. The folder is locked while a collector uses it. Standard library only.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from dataclasses import dataclass
from io import FileIO
from math import exp
from pathlib import Path

__all__ = ["Design", "Stale", "Transcript"]

HEADER = b"round,theta,report,user,check\n"


class Stale(Exception):
    """A report about a theta that is not asked any more."""


@dataclass(frozen=True)
class Design:
    """What is estimated and how: the tau-quantile by steps c i^-gamma from theta0."""

    tau: float
    epsilon: float
    gamma: float
    c: float
    theta0: float

    def after(self, round_: int, theta: float, report: int) -> float:
        """theta_i = theta_{i-1} - c i^-gamma A_i."""
        p = 1.0 / (1.0 + exp(-self.epsilon))
        value = -self.tau + (report - (1.0 - p)) / (2.0 * p - 1.0)
        return theta - self.c * float(round_) ** -self.gamma * value

    def toml(self) -> str:
        """The settings that ``ldpflow analyse`` needs."""
        return (
            f'[problem]\nkind = "quantile"\ntau = {self.tau!r}\n\n'
            f'[mechanism]\nkind = "randomized_response"\nepsilon = {self.epsilon!r}\n\n'
            f"[algorithm]\ngamma = {self.gamma!r}\nc = {self.c!r}\ntheta0 = {self.theta0!r}\n"
        )


class Transcript:
    """The file, and what follows from it: the next round, its theta, and who has reported.

    Parameters
    ----------
    file : path
        Made if it is not there, with ``settings.toml`` beside it.
    design : Design
        Must be the one that the file was begun with.
    """

    def __init__(self, file: str | Path, design: Design) -> None:
        self.file = Path(file)
        self.design = design
        self.round = 1
        self.theta = design.theta0
        self.reported: dict[str, int] = {}
        self.lock = locked(self.file.parent)
        try:
            self.begin()
            # Nothing waits in a buffer, where a failed write would leave it to be written later.
            self.out = FileIO(self.file, "a")
        except BaseException:
            os.close(self.lock)
            raise
        self.size = os.fstat(self.out.fileno()).st_size
        self.broken = False

    def begin(self) -> None:
        """Make the file, or read it and cut off a line that was not finished."""
        settings = self.file.with_name("settings.toml")
        if not settings.exists():
            durable(settings, self.design.toml().encode())
        elif settings.read_text() != self.design.toml():
            raise SystemExit(f"{settings}: this transcript was begun with another design")
        if not self.file.exists():
            durable(self.file, HEADER)
            return
        data = self.file.read_bytes()
        sound = len(HEADER)
        if data[:sound] != HEADER:
            raise SystemExit(f"{self.file}: not a transcript")
        *lines, rest = data[sound:].split(b"\n")  # the rest has no end: its user had no answer
        for line in lines:
            body, _, check = line.rpartition(b",")
            if checksum(body) != check or not body.startswith(f"{self.round},{self.theta!r},".encode()):
                raise SystemExit(f"{self.file}: line {self.round + 1} is damaged; it was not written so")
            report, user = body.decode().split(",")[2:]
            self.take(user, int(report))
        sound = len(data) - len(rest)
        if sound < len(data):
            with open(self.file, "r+b") as file:
                file.truncate(sound)
                os.fsync(file.fileno())

    def take(self, user: str, report: int) -> None:
        """Move on by one report."""
        self.reported[user] = report
        self.theta = self.design.after(self.round, self.theta, report)
        self.round += 1

    def add(self, user: str, round_: int, report: int) -> bool:
        """Count a report; whether it is new.

        A user whose answer got lost sends the same report again: it is counted once, and the answer is the
        same. Once this returns the report is on the disk.

        Raises
        ------
        Stale
            If theta has moved on since the user was asked.
        OSError
            If the report cannot be stored: it does not count, and may be sent again.
        """
        if user in self.reported:
            return False
        if round_ != self.round:
            raise Stale
        if self.broken:
            raise OSError("what is on the disk is not known: start the collector again")
        body = f"{self.round},{self.theta!r},{report},{user}".encode()
        line = body + b"," + checksum(body) + b"\n"
        try:
            write_all(self.out, line)
            os.fsync(self.out.fileno())
        except OSError:
            self.undo()
            raise
        self.size += len(line)
        self.take(user, report)
        return True

    def undo(self) -> None:
        """Cut off a line that was not written whole."""
        self.broken = True
        self.out.truncate(self.size)
        os.fsync(self.out.fileno())
        self.broken = False

    def close(self) -> None:
        """Close the file and leave the folder to others."""
        self.out.close()
        os.close(self.lock)


def locked(folder: Path) -> int:
    """Descriptor of a folder that no other collector uses."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise SystemExit(f"{folder}: another collector uses this folder ({error.strerror})") from None
    return descriptor


def write_all(out: FileIO, line: bytes) -> None:
    """Write a line; a disk that fills up takes a part of it, and then refuses the rest."""
    while line:
        line = line[out.write(line) :]


def checksum(body: bytes) -> bytes:
    """CRC-32 in hexadecimal, against torn and damaged lines, not against forgers."""
    return f"{zlib.crc32(body):08x}".encode()


def durable(file: Path, content: bytes) -> None:
    """Write a file so that after a crash it is there in full or not at all."""
    temporary = file.with_suffix(".new")
    with open(temporary, "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(temporary, file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
