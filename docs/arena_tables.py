"""Prints the tables of arena.md from a run: python docs/arena_tables.py RUN."""

from __future__ import annotations

import math
import sys
from statistics import median

from ldpflow.columns import short
from ldpflow.report.results import Results
from ldpflow.results.arena import HOLDS, UNDECIDED, ArenaEntry, ArenaSetting, settings_of

SAID = ("law", "tau", "mechanism", "epsilon")


def recommended(settings: list[ArenaSetting]) -> str:
    """A table of the recommended methods: a row per setting, a column per n.

    Brackets have the coverage and the length divided by the oracle's.
    """
    across = sorted({setting.keys["n"] for setting in settings})
    rows: dict[tuple[str, ...], dict[int, str]] = {}
    for setting in settings:
        row = setting.entries[0].row
        entry = setting.reference
        name = "too few to say" if setting.undecided else "none"
        if setting.best is not None:
            name = setting.best.row["series"]
        text = name if entry is None else f"{name} ({entry.coverage:.3f}, {entry.length:.2f})"
        case = tuple("-" if row.get(name) is None else f"{row[name]}" for name in SAID)
        rows.setdefault(case, {})[setting.keys["n"]] = text
    head = [*SAID, *(f"n = {short(n)}" for n in across)]
    body = [[*case, *(found.get(n, "-") for n in across)] for case, found in sorted(rows.items())]
    return table(head, body)


def over_all(settings: list[ArenaSetting]) -> str:
    """A row per method, summed over all settings. Methods that hold their level most often come first."""
    by_name: dict[str, list[ArenaEntry]] = {}
    for entry in (entry for setting in settings for entry in setting.entries):
        by_name.setdefault(entry.row["series"], []).append(entry)
    best = {id(setting.best) for setting in settings}
    body = []
    for name, entries in by_name.items():
        held = [entry for entry in entries if entry.state == HOLDS]
        lengths = [entry.length for entry in held if math.isfinite(entry.length)]
        barred, failed = entries[0].barred, max(entry.row["failure_share"] for entry in entries)
        body.append(
            {
                "method": f"{name} ({barred})" if barred else name,
                "holds its level in": f"{len(held)} of {len(entries)}",
                "too few replicates in": str(sum(entry.state == UNDECIDED for entry in entries)),
                "recommended in": str(sum(id(entry) in best for entry in entries)),
                "lowest coverage": f"{min(entry.coverage for entry in entries):.3f}",
                "most failures": f"{failed:.1%}" if failed else "0",
                "median length": f"{median(lengths):.2f}" if lengths else "-",
            }
        )
    body.sort(key=lambda row: -int(row["holds its level in"].partition(" ")[0]))
    return table([*body[0]], [[*row.values()] for row in body])


def table(head: list[str], body: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    found = settings_of(Results.load(sys.argv[1]).rows)
    print(recommended(found), over_all(found), sep="\n\n")
