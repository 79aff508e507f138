"""Studies as a stranger may write them, and what the command line does with each: seeded, in a process.

python -m tests.faults.hostile_studies FOLDER FIRST END
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from ldpflow.cli import main
from ldpflow.documents import append_checksum
from ldpflow.settings import Settings
from ldpflow.study import GROUPS
from ldpflow.study.reading import toml_text
from tests.faults.study import study
from tests.transcripts.hostile import peak

COUNT = 260
SLOWEST = 20.0
LARGEST = 2 * 2**30

NUMBERS = [
    0, -1, 1, 2, 10**6, 10**12, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 10**300, 0.0, -0.0, 0.5, 1e-300,
    5e-324, 1.7976931348623157e308, 1 - 1e-9, 1e-6, float("inf"), float("nan"), 1e12, 999_999_999,
]  # fmt: skip
TEXTS = [
    "", " ", "\0", "\x1b[2J\x1b]0;x\x07", "\u202e\u0661", "é" * 200, "x" * 5000, "../../etc/passwd",
    "/dev/zero",
    "=1+1", "\n[plugins]\nfiles = ['plug.py']", "__class__", "None", "nan", "a\u0000b", "\U0001f4a9",
    "{x.y}",
    "%s%n", "<script>",
]  # fmt: skip
PLUGINS = [
    {"files": ["plug.py"]}, {"modules": "os"}, {"names": ["x"], "sha256": [1]}, {"names": 3},
    {"names": ["../../x"]},    {"sha256": [["a"]]}, {"names": ["x"] * 50, "sha256": ["0" * 64] * 50}, [1],
]  # fmt: skip
STORED = (
    ["summary"], ["check"], ["cite", "--text"], ["explain"], ["report"], ["replay", "--replicate", "0"],
    ["cite"],    ["verify"], ["compare"], ["summary", "--null", "0"], ["check", "--recompute", "0.5"],
    ["plot", "coverage"],
)  # fmt: skip


def odd_value(chance: random.Random, depth: int = 0) -> Any:
    """A value that no setting, or hardly one, allows."""
    kind = chance.randrange(8 if depth < 3 else 3)
    if kind == 0:
        return chance.choice(NUMBERS)
    if kind == 1:
        return chance.choice(TEXTS)
    if kind == 2:
        return chance.choice([True, False])
    if kind == 3:
        return [odd_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 4:
        return {chance.choice(["kind", "n", "x", "é", "a b"]): odd_value(chance, depth + 1)}
    if kind == 5:
        value: Any = 1
        for _ in range(chance.choice([5, 50, 70, 200])):
            value = [value]
        return value
    if kind == 6:
        return [chance.choice(NUMBERS)] * 2 if depth or chance.random() < 0.5 else [0.5] * 100_001
    return [chance.random() for _ in range(chance.choice([100, 3000]))]


def fields_of(chance: random.Random, group: str) -> tuple[str, type[Settings]]:
    """A kind of a group, and its class."""
    return chance.choice(sorted(GROUPS[group].items()))


def mutate(chance: random.Random, tables: dict[str, Any]) -> None:
    """Change something in the tables of a study."""
    kind = chance.randrange(9)
    if kind == 0:
        tables[chance.choice([*tables, "unknown", "\x1b[1m", "é"])] = odd_value(chance)
    elif kind == 1:
        tables.pop(chance.choice(sorted(tables)))
    elif kind == 2:
        tables["plugins"] = chance.choice(PLUGINS)
    elif kind == 3:
        tables["grid"] = {
            "n": chance.choice([NUMBERS, 10**12, [10**12, 1], odd_value(chance)]),
            "level": chance.choice([0.9, [1e-6, 1 - 1e-9], odd_value(chance)]),
            **({"independent_n": odd_value(chance)} if chance.random() < 0.3 else {}),
        }
    elif kind == 4:
        group = chance.choice(sorted(GROUPS))
        name, component = fields_of(chance, group)
        names = [field for field in component.model_fields if field != "kind"]
        settings = {
            field: chance.choice(NUMBERS) if chance.random() < 0.8 else odd_value(chance)
            for field in chance.sample(names, min(len(names), chance.choice([0, 1, 1, 2])))
        }
        if "epsilon" in names:
            settings.setdefault("epsilon", 1.0)
        tables[group] = [{"kind": name, **settings}]
    elif kind == 5:
        tables["trajectory"] = {
            "first": chance.choice(NUMBERS),
            "points": chance.choice([2, 1000, 10**6, "x"]),
        }
    elif kind == 6:
        tables["monitor"] = {
            name: odd_value(chance)
            for name in ("first_n", "target_length", "target_n")
            if chance.random() < 0.6
        }
    else:
        group = chance.choice(
            [name for name in ("problem", "mechanism", "algorithm", "method") if name in tables] or ["x"]
        )
        entries = tables.get(group)
        entry = entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else None
        if entry:
            entry[chance.choice([*entry, "B", "theta0", "law", "file"])] = odd_value(chance)


def hostile_text(number: int) -> str:
    """Text of a hostile study; some are no TOML."""
    chance = random.Random(number)
    while True:
        tables = json.loads(json.dumps(study().settings()))
        for _ in range(chance.randrange(2, 5)):
            mutate(chance, tables)
        try:
            text = toml_text({str(name): value for name, value in tables.items()})
            break
        except (AttributeError, RecursionError):  # a list of numbers in the place of tables, for example
            continue
    at, damage = chance.randrange(len(text)), chance.randrange(10)
    if damage == 0:
        odd = chance.choice(["\0", "]", '"', "\u2028", "[" * 5000, "'''", "a." * 300])
        return text[:at] + odd + text[at:]
    return text[:at] if damage == 1 else text


def trial(folder: Path, number: int) -> list[dict[str, Any]]:
    """What the command line does with a study file, and with a run that holds the study."""
    text = hostile_text(number).encode("utf-8", "replace").decode()
    (folder / "hostile.toml").write_text(text, encoding="utf-8")
    body = f"# Resolved study, hash {'0' * 16}\n{text}\n"
    (folder / "run" / "study.toml").write_text(append_checksum(body), encoding="utf-8")
    plot = ["-o", str(folder / "plot.svg")]
    lines = [["sweep", str(folder / "hostile.toml"), "--dry-run"]]
    for at in (number, number // len(STORED) + 5):
        name, *more = STORED[at % len(STORED)]
        lines.append([name, str(folder / "run"), *more, *(plot if name == "plot" else [])])
    return [called(number, line) for line in lines]


def called(number: int, line: list[str]) -> dict[str, Any]:
    """Exit code, seconds of CPU, and the traceback, if any, of a command line."""
    said = io.StringIO()
    before = time.process_time()
    found: dict[str, Any] = {"number": number, "line": line}
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            found["code"] = main(line)
    except BaseException:
        found |= {"code": None, "traceback": traceback.format_exc()[-3000:]}
    largest = 2**20 * peak()
    seconds = time.process_time() - before
    return found | {"seconds": seconds, "peak": largest, "messages": said.getvalue()[-600:]}


def wrong(found: dict[str, Any]) -> bool:
    """Whether an answer is a traceback, late, or needed too much memory."""
    return found["code"] not in (0, 1, 2) or found["seconds"] > SLOWEST or found["peak"] > LARGEST


if __name__ == "__main__":
    place, first, end = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    os.chdir(place)
    for index in range(first, end):
        for answer in trial(place, index):
            print(json.dumps(answer), flush=True)
