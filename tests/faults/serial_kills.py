"""Kills the driver of a serial sweep with SIGKILL at seeded moments, between any two writes.

    python -m tests.faults.serial_kills FOLDER KILLS SEED

A process of its own, without Ray: the sweeps run in forks of it. A moment is before, in the middle
of and after every write, sync, rename, truncation and removal that a sweep makes.
"""

from __future__ import annotations

import builtins
import os
import random
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import ldpflow.engine.run
import ldpflow.store.files
from tests.faults.study import SmallParts, serial, whole

moments = 0


def moment(until: int) -> None:
    """Die, if this is the one."""
    global moments
    moments += 1
    if moments == until:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(until: int) -> None:
    """Make moments of all that changes files."""

    def around(function: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            moment(until)
            result = function(*arguments, **options)
            moment(until)
            return result

        return wrapped

    for name in ("fsync", "replace", "ftruncate", "write"):
        setattr(os, name, around(getattr(os, name)))

    def halved(name: Any, mode: str = "r", **options: Any) -> Any:
        file = builtins.open(name, mode, buffering=0) if "b" in mode else builtins.open(name, mode)
        if "b" not in mode or "r" in mode:
            return file

        class Halved:
            def __enter__(self) -> Halved:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def write(self, data: Any) -> None:
                view = memoryview(data)
                moment(until)
                file.write(view[: len(view) // 2])
                moment(until)
                file.write(view[len(view) // 2 :])
                moment(until)

            def flush(self) -> None: ...

            def fileno(self) -> int:
                return file.fileno()

        return Halved()

    ldpflow.store.files.open = halved  # type: ignore[attr-defined]


def in_a_fork(run: Path, until: int) -> tuple[int, int]:
    """A sweep that dies at a moment (never at 0): its wait status, and the moments it saw."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            watch(until)
            serial(run)
            os.close(reader)
            sys.stdout.flush()
            posix_write(writer, str(moments).encode())
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(9)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    text = os.read(reader, 64)
    os.close(reader)
    return status, int(text or b"0")


posix_write = os.write


def main(folder: str, kills: int, seed: int) -> None:
    """Kill, resume, compare; prints how many kills and moments there were."""
    warnings.simplefilter("ignore")
    ldpflow.engine.run.Aggregator = SmallParts  # type: ignore[misc,assignment]
    # Batches of 32 replicates, as a study of long paths has them.
    ldpflow.engine.run.cut.__globals__["TARGET_SECONDS"] = 1e-9
    expected = serial(Path(folder, "expected"))
    status, total = in_a_fork(Path(folder, "counted"), 0)
    assert status == 0 and total > 50, (status, total)
    chance = random.Random(seed)
    done = 0
    seen = set()
    while done < kills:
        run = Path(folder, f"run-{done}")
        # Up to three kills in a row: a resumed sweep is no safer than a first one.
        for _ in range(chance.randint(1, 3)):
            until = chance.randint(1, total)
            status, _ = in_a_fork(run, until)
            if os.WIFSIGNALED(status):
                done += 1
                seen.add(until)
            else:
                # It was done before that moment came: a resumed sweep has less to write.
                assert status == 0, status
        status, _ = in_a_fork(run, 0)
        assert status == 0, status
        whole(run, expected)
    print(f"{done} kills at {len(seen)} different moments of {total}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
