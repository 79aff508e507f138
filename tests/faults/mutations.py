"""Mutated files of a run: every command prints and writes what it did before, or its exit code says so."""

import contextlib
import io
import json
import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from ldpflow.cli import main
from ldpflow.errors import LdpflowError
from ldpflow.store.part import encode
from tests.faults.study import row_bytes, serial, study

Mutation = Callable[[Path, Path, random.Random], str]
"""Changes a file (the first path) of a run (the second), and says how."""

COMMANDS: dict[str, list[str]] = {
    "summary": ["--format", "csv"],
    "summary null": ["--null", "0", "--format", "json"],
    "explain": [],
    "compare": [],
    "cite": [],
    "cite text": ["--text"],
    "plot coverage": ["-o", "OUT/file.json"],
    "plot zip": ["-o", "OUT/file.json"],
    "plot distance": ["-o", "OUT/file.json"],
    "export": ["-o", "OUT/file.duckdb", "--force"],
    "plot choice": ["-o", "OUT/file.json"],
    "report": ["-o", "OUT/file.html"],
    "replay": ["--replicate", "3", "--path", "PATH"],
    "check": [],
}
"""Commands that read the rows or the summary of a run; PATH is one of its paths."""

PAGES = {"report", "plot choice", "plot coverage", "plot zip"}
"""Commands that take seconds: for every fourth mutation."""


def called(name: str, run: Path, out: Path, path: str) -> tuple[int, Any]:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    words = name.split()
    own = [word.replace("OUT", str(out)).replace("PATH", path) for word in COMMANDS[name]]
    more = words[1:] if words[0] == "plot" else []
    text, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(errors):
        code = main([words[0], str(run), *more, *own])
    assert "Traceback" not in errors.getvalue()
    return code, (text.getvalue(), {file.name: content(file) for file in sorted(out.rglob("*.*"))})


def content(file: Path) -> Any:
    """What a written file holds: every table of a database, the text of a page."""
    if file.suffix != ".duckdb":
        return re.sub(r"[-0-9]{10} [0-9]{2}:[0-9]{2} UTC", "", file.read_text())
    with duckdb.connect(str(file), read_only=True) as database:
        tables = [name for (name,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {name: repr(database.execute(f'FROM "{name}" ORDER BY ALL').fetchall()) for name in tables}


def flip(file: Path, run: Path, chance: random.Random) -> str:
    data = bytearray(file.read_bytes())
    bit = chance.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    return f"bit {bit} flipped"


def splice(file: Path, run: Path, chance: random.Random) -> str:
    """A piece is cut out, or comes twice: anywhere, at the end, or between ends of lines."""
    data = file.read_bytes()
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10] or [0]
    places = {0, len(data), len(data) - 1, chance.randrange(len(data)), chance.choice(ends)}
    one, other = chance.sample(sorted(places), 2)
    file.write_bytes(data[:one] + data[other:])
    return f"bytes {one} to {other} " + ("cut" if one < other else "twice")


def swap(file: Path, run: Path, chance: random.Random) -> str:
    data = file.read_bytes()
    others = [other for other in files_of(run) if other.read_bytes() != data]
    other = chance.choice([other for other in others if other.suffix == file.suffix] or others)
    file.write_bytes(other.read_bytes())
    other.write_bytes(data)
    return f"swapped with {other.relative_to(run)}"


def remove(file: Path, run: Path, chance: random.Random) -> str:
    if file.suffix == ".parquet" and file.parent != run and chance.random() < 0.5:
        shutil.rmtree(file.parent)
        return "folder removed"
    file.unlink()
    return "removed"


def renamed(file: Path, run: Path, chance: random.Random) -> str:
    """A part under the name of other replicates, or in another path's folder; as a copy or not."""
    words = file.name.split("-")
    if len(words) != 4:
        return flip(file, run, chance)
    words[1 + chance.randrange(2)] = str(chance.randrange(90))
    folders = [folder for folder in file.parent.parent.iterdir() if folder != file.parent]
    target = chance.choice([file.with_name("-".join(words)), *(folder / file.name for folder in folders)])
    if target.exists():
        return flip(file, run, chance)
    (shutil.copy if chance.random() < 0.5 else shutil.move)(str(file), str(target))
    return f"at {target.relative_to(run)}"


def forge(file: Path, run: Path, chance: random.Random) -> str:
    """Metadata of a Parquet file with checksums that hold; a session, or a line of the study, changed."""
    if file.suffix == ".parquet":
        table = pq.ParquetFile(file).read()
        meta = json.loads(table.schema.metadata[b"ldpflow"])
        name = chance.choice(sorted(set(meta) - {"versions"}))
        meta[name] = forged(meta[name], chance)
        text = json.dumps(meta).encode()
        file.write_bytes(bytes(encode(table.replace_schema_metadata({b"ldpflow": text}))))
        return f"{name} is {str(meta[name])[:60]}"
    if file.suffix == ".json":
        sessions = json.loads(file.read_text())
        others = [sessions[::-1], sessions[1:], sessions[:-1], [*sessions, sessions[0]]]
        file.write_text(json.dumps(chance.choice(others), indent=2))
        return "other sessions"
    lines = file.read_text().splitlines(keepends=True)
    at = chance.randrange(len(lines))
    changed = lines[at].replace("1", "2", 1) + "\n"
    lines[at : at + 1] = chance.choice([[], [lines[at]] * 2, ["# nothing\n"], [changed]])
    file.write_text("".join(lines))
    return f"line {at} changed"


def forged(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value:
        name = chance.choice(sorted(value))
        return value | {name: forged(value[name], chance)}
    if isinstance(value, list) and value:
        return chance.choice([[], value[1:], [*value, value[0]], [forged(value[0], chance), *value[1:]]])
    if isinstance(value, (int, float)):
        return chance.choice([0, -1, value + 1, value * 10**6, None, "x\ny"])
    return chance.choice([None, "", f"{value}x", 5, "ff" * 8])


TRAJECTORY = {"trajectory": {"first": 10, "points": 4}}
MUTATIONS: tuple[Mutation, ...] = (flip, splice, swap, remove, renamed, forge)


def files_of(run: Path) -> list[Path]:
    return sorted(file for file in run.rglob("*") if file.is_file() and file.stat().st_size)


def mutated(work: Path, trials: int, seed: int = 18) -> Counter[str]:
    """Mutate the files of a run in so many ways, one at a time; how often a command noticed.

    Raises
    ------
    AssertionError
        If a command printed or wrote something else with exit code 0.
    """
    run, out, whole = work / "run", work / "out", work / "whole"
    # Written in two sweeps, as a run that grew.
    serial(whole, study(replicates=20, **TRAJECTORY))
    rows = serial(whole, study(replicates=24, **TRAJECTORY))
    shutil.copytree(whole, run)
    path = min((run / "replicates").iterdir()).name.removeprefix("path=")
    intact = {name: called(name, run, out, path) for name in COMMANDS}
    assert not any(code for code, _ in intact.values()), {k: v for k, v in intact.items() if v[0]}
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    warnings.simplefilter("ignore")
    for trial in range(trials):
        shutil.rmtree(run)
        shutil.copytree(whole, run)
        files = files_of(run)
        file = files[trial % len(files)]
        # Another kind with every trial, and for a file with every round.
        mutation = MUTATIONS[(trial + trial // len(files)) % len(MUTATIONS)]
        what = f"{file.relative_to(run)}: {mutation(file, run, chance)}"
        noticed = 0
        left_out = set() if chance.random() < 0.25 else PAGES
        for name in intact.keys() - left_out:
            expected = intact[name][1]
            code, shown = called(name, run, out, path)
            assert code in (1, 2) or shown == expected, (what, name, code)
            noticed += code != 0
        assert trial % 10 or healed(run, rows), what
        found["mutations noticed" if noticed else "mutations that change nothing"] += 1
    return found


def healed(run: Path, rows: bytes) -> bool:
    """Whether another sweep leaves the rows of the undamaged run, or refuses."""
    try:
        serial(run, study(replicates=24, **TRAJECTORY))
    except LdpflowError:
        return True
    return row_bytes(run) == rows
