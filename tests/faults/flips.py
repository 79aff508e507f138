"""Single flipped bits in every file of a run: what is printed stays the same, or the exit code says so."""

from __future__ import annotations

import contextlib
import io
import random
import shutil
from collections import Counter
from pathlib import Path

from ldpflow.cli import main
from tests.faults.study import serial, study

__all__ = ["COMMANDS", "flipped_bits"]

COMMANDS = {
    "summary.parquet": [["summary", "--format", "csv"]],
    "trajectories.parquet": [["summary", "--format", "csv"]],
    "study.toml": [["cite"], ["cite", "--text"]],
    "provenance.json": [["cite", "--text"]],
    "lock": [["summary", "--format", "csv"]],
    "replicates": [["summary", "--null", "0", "--format", "csv"]],
    "trajectories": [["summary", "--null", "0", "--format", "csv"], ["check"]],
}
"""What prints from a file of a run, by the first part of its name."""


def printed(command: list[str], run: Path) -> tuple[int, str]:
    """Exit code and standard output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main([command[0], str(run), *command[1:]])
    return code, out.getvalue()


def flipped_bits(work: Path, trials: int) -> Counter[str]:
    """Flip as many bits, spread over all files of a run; how often a command noticed.

    Raises
    ------
    AssertionError
        If a command printed something else with exit code 0.
    """
    run = work / "run"
    small = study(replicates=20, trajectory={"first": 10, "points": 4})
    serial(run, small)
    # Written in two sweeps, as a run that grew.
    serial(run, study(replicates=24, trajectory={"first": 10, "points": 4}))
    files = sorted(file for file in run.rglob("*") if file.is_file() and file.stat().st_size)
    assert {file.relative_to(run).parts[0] for file in files} >= set(COMMANDS) - {"lock"}
    copy = shutil.copytree(run, work / "copy")
    intact = {
        tuple(command): printed(command, copy) for commands in COMMANDS.values() for command in commands
    }
    assert all(code == 0 for code, _ in intact.values()), intact
    chance = random.Random(18)
    noticed: Counter[str] = Counter()
    for trial in range(trials):
        file = files[trial % len(files)]
        name = file.relative_to(run)
        data = bytearray(file.read_bytes())
        bit = chance.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        (copy / name).write_bytes(bytes(data))
        for command in COMMANDS[name.parts[0]]:
            code, shown = printed(command, copy)
            assert code != 0 or shown == intact[tuple(command)][1], (str(name), bit, command)
            noticed["noticed" if code else "printed the same"] += 1
        (copy / name).write_bytes(file.read_bytes())
    return noticed
