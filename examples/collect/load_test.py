"""Let simulated users take part in a collection whose collector is killed several times.

    python load_test.py --design designs/haar.toml --folder run --users 200000 --kills 5
    python load_test.py --design design.toml --folder run --values sessions.csv --column session_s

By default the population is made up: session lengths in whole seconds, 7% at 0, 9% at 30, and a long tail.
With --values it is a column of a CSV file, with one user per row. The reports are exported for ``ldpflow
analyse``.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import math
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path

from client import Device

HERE = Path(__file__).parent


def population(users: int, seed: int = 1) -> list[float]:
    """Draw session lengths in seconds."""
    law = random.Random(seed)
    values = []
    for _ in range(users):
        u = law.random()
        tail = float(round(law.lognormvariate(4.5, 1.0)))
        values.append(0.0 if u < 0.07 else 30.0 if u < 0.16 else tail)
    return values


def add_users(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--users", type=int, help="number of users; default: 200,000 or all rows of the file")
    parser.add_argument("--values", type=Path, metavar="FILE.csv", help="values of the users, one per row")
    parser.add_argument("--column", help="column of the file; default: the first")


def values_of(arguments: argparse.Namespace) -> list[float]:
    """Values of the users. Of a file they are the first --users values, which repeat if they are too few."""
    if arguments.values is None:
        return population(200_000 if arguments.users is None else arguments.users)
    column = arguments.column
    try:
        with open(arguments.values, newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or []
            column = column or next(iter(names), None)
            if column not in names:
                raise SystemExit(f"{arguments.values}: no column {column}, but {', '.join(names)}")
            found = [float(row[column]) for row in rows if row[column]]
    except (OSError, TypeError, ValueError, csv.Error) as error:
        raise SystemExit(f"{arguments.values}, {column}: {error}") from None
    if not all(map(math.isfinite, found)) or not found:
        raise SystemExit(f"{arguments.values}, {column}: values have to be finite numbers, at least one")
    count = len(found) if arguments.users is None else arguments.users
    return list(islice(cycle(found), count))


class Collector:
    """A server in a process of its own. It can be killed and started again on its port."""

    def __init__(self, design: Path, folder: Path) -> None:
        self.command = [sys.executable, HERE / "server.py", "--design", design, "--folder", folder]
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [*self.command, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = re.search(r":(\d+), (\d+) reports", said)
        if found is None:
            raise SystemExit("the collector did not start")
        self.port, self.found = int(found[1]), int(found[2])

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()


def simulate_users(collector: Collector, values: list[float], kills: int = 0, workers: int = 48) -> int:
    """Let users take part, ``workers`` at a time, and kill the collector ``kills`` times meanwhile.

    Returns the number of counted reports.
    """
    local = threading.local()
    finished: list[bool] = []

    def one(value: float) -> None:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection("127.0.0.1", collector.port, timeout=30)
        finished.append(Device(value, largest_budget=8.0).take_part(local.connection))

    with ThreadPoolExecutor(workers) as pool:
        done = pool.map(one, values)
        for number in range(1, kills + 1):
            while len(finished) < number * len(values) / (kills + 1):
                time.sleep(0.01)
            before = sum(finished)
            collector.stop(signal.SIGKILL)
            collector.start()
            if collector.found < before:
                raise SystemExit(f"{before:,} reports were confirmed, {collector.found:,} are there")
        list(done)
    return sum(finished)


def main() -> None:
    """Run the users, compare the counted with the stored reports, and export them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--design", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    add_users(parser)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--workers", type=int, default=48, help="users at a time")
    arguments = parser.parse_args()
    values = values_of(arguments)
    started = time.monotonic()
    collector = Collector(arguments.design, arguments.folder)
    counted = simulate_users(collector, values, arguments.kills, arguments.workers)
    collector.stop()
    seconds = time.monotonic() - started
    with closing(sqlite3.connect(arguments.folder / "reports.sqlite")) as database:
        (stored,) = database.execute("SELECT count(*) FROM reports").fetchone()
    print(f"{counted:,} of {len(values):,} users counted in {seconds:.1f} s, {arguments.kills} kills")
    print(f"{stored:,} reports are stored")
    subprocess.run([*collector.command, "--export", arguments.folder / "reports.csv"], check=True)
    # If the collector died after it stored a report, the report is confirmed when it is sent again.
    if stored != counted:
        raise SystemExit("not every stored report was confirmed")


if __name__ == "__main__":
    main()
