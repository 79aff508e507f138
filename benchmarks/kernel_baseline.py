"""Time to run, to compile and to load kernels, of this checkout or of two checkouts in turn.

    python -m benchmarks.kernel_baseline                              # this checkout
    python -m benchmarks.kernel_baseline --against ../other-checkout  # and another checkout, in pairs
    python -m benchmarks.kernel_baseline --only quantile gaussian-d20 --pairs 5 --json FILE

All times are CPU seconds of one thread, so waiting for a core does not count. Each checkout runs in processes
of its own, with its own cache of compiled kernels (see kernel_worker.py). Two checkouts take turns: A B, B A,
A B, ... A ratio is this checkout's time over the other's in a pair. It is below 1 if this checkout is faster.
``compile`` is the time to make a kernel ready from an empty cache, ``load`` from a full cache. Both include
what the first run of the kernel compiles or loads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import report
from benchmarks.kernel_designs import DESIGNS
from benchmarks.measurement import quartiles, rounded

ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).with_name("kernel_worker.py")
KINDS = ("run", "compile", "load")


class Worker:
    """A process that measures the ldpflow of one checkout."""

    def __init__(self, checkout: Path, cache: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(checkout), "LDPFLOW_CACHE_DIR": cache}
        # -P: the folder of the script must not come before the checkout.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", str(WORKER)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout,
        )  # fmt: skip
        found = Path(self.ask(where=True)["file"])
        if not found.is_relative_to(checkout.resolve()):
            raise RuntimeError(f"{found} is not in {checkout}")

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and return its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or "null") or {}
        if not answer:
            raise RuntimeError(f"a worker ended with {self.process.wait()}, see above")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@contextmanager
def worker(checkout: Path, cache: str) -> Iterator[Worker]:
    """Start a worker, and end it with the block."""
    made = Worker(checkout, cache)
    try:
        yield made
    finally:
        made.close()


@dataclass
class Row:
    """CPU seconds of one design.

    ``seconds[kind][side]`` has a number per repetition, for the kinds :data:`KINDS` and each checkout.
    ``steps`` is the number of steps times replicates of a run.
    """

    name: str
    what: str
    steps: int = 0
    seconds: dict[str, list[list[float]]] = field(default_factory=dict)

    def ratios(self, kind: str) -> list[float]:
        """First side over second side, pair by pair. Empty if there is one side."""
        sides = self.seconds[kind]
        return [a / b for a, b in zip(*sides, strict=True)] if len(sides) == 2 else []

    def mapping(self) -> dict[str, Any]:
        """Row of the JSON file: medians and quartiles. Times per step are in nanoseconds."""
        found: dict[str, Any] = {"name": self.name, "what": self.what, "steps": self.steps}
        for kind, sides in self.seconds.items():
            scale = 1e9 / self.steps if kind == "run" else 1.0
            key = "ns_per_step" if kind == "run" else f"{kind}_cpu_seconds"
            for side, values in zip(("", "against_"), sides, strict=False):
                found[side + key] = rounded(scale * median(values))
                spread = [rounded(scale * q) for q in quartiles(values)]
                found[f"{side}{key}_quartiles"] = spread
            if ratios := self.ratios(kind):
                found[f"{kind}_ratio"] = rounded(median(ratios))
                found[f"{kind}_ratio_quartiles"] = [rounded(q) for q in quartiles(ratios)]
        return found

    def line(self) -> str:
        """Line of text for the terminal."""
        shown = self.mapping()
        text = f"{self.name:24} {shown['ns_per_step']:9.4g} ns/step"
        for kind in KINDS[1:]:
            text += f"  {kind} {shown[f'{kind}_cpu_seconds']:7.3f} s"
        for kind in KINDS:
            if f"{kind}_ratio" in shown:
                text += f"  {kind} x {shown[f'{kind}_ratio']:.3f}"
        return text


def in_turn(count: int, repetition: int) -> list[int]:
    """Order of the sides: forwards for even repetitions, backwards for odd ones."""
    return [*range(count)] if repetition % 2 == 0 else [*range(count)][::-1]


def measured(name: str, checkouts: Sequence[Path], pairs: int, compiles: int) -> Row:
    """Measure a design: compile and load in fresh processes, then run in turn in one process per side."""
    design = DESIGNS[name]
    count = len(checkouts)
    seconds: dict[str, list[list[float]]] = {kind: [[] for _ in checkouts] for kind in KINDS}
    row = Row(name, design.what, seconds=seconds)
    with tempfile.TemporaryDirectory() as folder:
        for repetition in range(compiles):
            for side in in_turn(count, repetition):
                cache = f"{folder}/{side}-{repetition}"
                for kind in ("compile", "load"):
                    with worker(checkouts[side], cache) as one:
                        answer = one.ask(prepare=design.study)
                    seconds[kind][side].append(answer["ready"])
        workers: list[Worker] = []
        try:
            for side in range(count):
                workers.append(Worker(checkouts[side], f"{folder}/{side}-0"))
                row.steps = workers[side].ask(prepare=design.study)["steps"]
                workers[side].ask(run=True)
            for repetition in range(pairs):
                for side in in_turn(count, repetition):
                    seconds["run"][side].append(workers[side].ask(run=True)["cpu"])
        finally:
            for one in workers:
                one.close()
    return row


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Seconds of compiling and loading over all rows, by side, and their ratio."""
    found: dict[str, Any] = {}
    for kind in KINDS[1:]:
        sides = [sum(median(v) for v in s) for s in zip(*(r.seconds[kind] for r in rows), strict=True)]
        for side, value in zip(("", "against_"), sides, strict=False):
            found[f"{side}{kind}_cpu_seconds"] = rounded(value)
        if len(sides) == 2:
            found[f"{kind}_ratio"] = rounded(sides[0] / sides[1])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the designs, print them, and write them as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernel_baseline", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout of ldpflow")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="checkout to measure; default: this one")
    parser.add_argument("--only", nargs="+", choices=DESIGNS, metavar="NAME", help=f"of {', '.join(DESIGNS)}")
    parser.add_argument("--pairs", type=int, default=15, help="number of runs of every kernel")
    parser.add_argument("--compiles", type=int, default=1, help="number of fresh caches for every kernel")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON too")
    parser.add_argument("--note", help="note to store with the numbers, such as what else was running")
    chosen = parser.parse_args(arguments)
    checkouts = [p.resolve() for p in (chosen.checkout, chosen.against) if p is not None]
    where = report.context(False, chosen.note)
    print(report.heading(where), end="\n\n", flush=True)
    rows = []
    for name in chosen.only or DESIGNS:
        rows.append(measured(name, checkouts, chosen.pairs, chosen.compiles))
        print(rows[-1].line(), flush=True)
    sums = totals(rows)
    print(", ".join(f"{key} {value:g}" for key, value in sums.items()))
    if chosen.json is not None:
        where |= {"load_average_after": [round(x, 2) for x in os.getloadavg()]}
        found = where | {"totals": sums, "rows": [row.mapping() for row in rows]}
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
