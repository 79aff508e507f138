"""Provenance of the rows of a run: provenance.json, a list of sessions.

Each command that writes to a run appends a session at its start, and completes the session at its end. The
session of a killed command has no end.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import secrets
import shlex
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

from ldpflow import __version__
from ldpflow.documents import parse_json
from ldpflow.errors import DamagedRun, InputError, redact
from ldpflow.store.files import RunFiles

RUN_VERSION = 3
"""Version of the format of a run. Runs of other versions are refused."""

PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "pyarrow", "pydantic", "ray")
FILE = "provenance.json"
LARGEST = 16 * 2**20
"""Maximum bytes of provenance.json."""

TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("session", "command", "started", "ended"), (str,)),
    **dict.fromkeys(("seed", "run_version"), (int,)),
    "wall_seconds": (int, float),
    **dict.fromkeys(("ns_per_step", "versions", "machine"), (dict,)),
}


@cache
def versions() -> dict[str, str]:
    found = {"ldpflow": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def machine() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def processor() -> str:
    """Name of the processor. On Linux platform.processor() lacks its model."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Session:
    """Session of a command that writes to a run. ``command``: by default the command line of this process."""

    def __init__(self, store: RunFiles, seed: int, command: str | None = None) -> None:
        self.store = store
        self.clock = time.monotonic()
        self.entry: dict[str, Any] = {
            "session": secrets.token_hex(8),
            "run_version": RUN_VERSION,
            "command": redact(shlex.join(sys.argv) if command is None else command),
            "seed": seed,
            "started": now(),
            "ended": None,
            "wall_seconds": None,
            "ns_per_step": {},
            "versions": versions(),
            "machine": machine(),
        }

    def end(self, ns_per_step: Mapping[str, float], **more: Any) -> None:
        """Record the end of the session. ``ns_per_step``: nanoseconds per step and replicate by path key."""
        self.entry.update(more)
        self.entry["ended"] = now()
        self.entry["wall_seconds"] = round(time.monotonic() - self.clock, 3)
        self.entry["ns_per_step"] = dict(ns_per_step)
        self.record()

    def record(self) -> None:
        """Write the session to provenance.json, in the place of its earlier state."""
        sessions = read_sessions(self.store)
        others = [entry for entry in sessions if entry.get("session") != self.entry["session"]]
        text = json.dumps(chain_checksums([*others, self.entry]), indent=2)
        self.store.publish(FILE, text.encode() + b"\n")


def read_sessions(store: RunFiles) -> list[dict[str, Any]]:
    """Read and verify the sessions of a run, in the order of their starts. Empty for a new run."""
    data = store.read(FILE, LARGEST)
    if data is None:
        return []
    allowed, hint = "a JSON list of sessions as sweeps write it", "Move the file away and sweep again."
    try:
        sessions = parse_json(data.to_pybytes(), LARGEST)
    except ValueError:
        sessions = None
    if not isinstance(sessions, list) or not sessions or not all(map(is_session, sessions)):
        raise DamagedRun(store.full(FILE), "its content", allowed, hint)
    if {entry.get("run_version") for entry in sessions} != {RUN_VERSION}:
        found = "a run of a version before 0.3, or of a later one"
        hint = "Compute it again with another `out`, or start over with `fresh`, which moves it aside."
        raise InputError(store.root, found, "a run that this version has made", hint)
    for number, (entry, sound) in enumerate(zip(sessions, chain_checksums(sessions), strict=True)):
        if entry != sound:
            raise DamagedRun(store.full(FILE), f"session {number + 1}, whose checksum fails", allowed, hint)
    return sessions


def chain_checksums(sessions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add to each session the SHA-256 of the previous checksum and the session's sorted JSON."""
    found: list[dict[str, Any]] = []
    total = ""
    for entry in sessions:
        own = {name: value for name, value in entry.items() if name != "sha256"}
        total = hashlib.sha256((total + json.dumps(own, sort_keys=True)).encode()).hexdigest()
        found.append(own | {"sha256": total})
    return found


def is_session(entry: object) -> bool:
    """Whether the values of an entry have the types of a session.

    A value whose name is not in TYPES may be text, a number or a table of these.
    """
    if not isinstance(entry, dict):
        return False
    for name, value in entry.items():
        kinds = TYPES.get(name, (str, int, float, dict))
        if value is not None and not isinstance(value, kinds):
            return False
        inside = value.values() if isinstance(value, dict) else ()
        if not all(item is None or isinstance(item, (str, int, float)) for item in inside):
            return False
    return True
