"""Simulate the users of a design without a server, and write their reports as a CSV file.

    python simulate.py pilot.csv --pilot 3000
    python simulate.py design.toml reports.csv --users 200000
    python simulate.py design.toml reports.csv --values sessions.csv --column session_s

The devices of client.py draw reports from the operating system's generator, so every call gives other
reports. The pilot is a sample of the made-up population of load_test.py.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from client import Device
from collection import Collection
from load_test import add_users, population, values_of

from ldpflow.errors import InputError

COLUMN = "session_s"


def main() -> None:
    """Write a pilot, or simulate users and export their reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="pilot, or design and reports")
    parser.add_argument("--pilot", type=int, metavar="N", help="write a pilot of N values instead")
    add_users(parser)
    arguments = parser.parse_args()
    if arguments.pilot is not None:
        lines = [f"{value:.0f}\n" for value in population(arguments.pilot, seed=7)]
        arguments.files[0].write_text(f"{COLUMN}\n" + "".join(lines), encoding="utf-8")
        return
    if len(arguments.files) != 2:
        parser.error("give two files: the design and the reports")
    design, reports = arguments.files
    try:
        collection = Collection(":memory:", design)
    except InputError as error:
        parser.exit(2, f"{error}\n")
    column = tomllib.loads(design.read_text(encoding="utf-8")).get("problem", {}).get("column", COLUMN)
    if arguments.values is None and column != COLUMN:
        text = f"the users have made-up session lengths, and the design is about {column!r}"
        print(f"warning: {text}: --values FILE.csv --column {column} names values", file=sys.stderr)
    for value in values_of(arguments):
        if not any(collection.state.needed):
            break
        asked = collection.question()
        report = Device(value, largest_budget=8.0).report(asked["function"], asked["parameters"])
        collection.add([(asked["ticket"], asked["mac"], report)])
    planned = collection.design.n
    print(f"{reports}: {collection.export(reports):,} reports; the design plans {planned:,} users")
    collection.close()


if __name__ == "__main__":
    main()
