"""Prints the tables of arena.md from a run: python docs/arena_tables.py RUN."""

from __future__ import annotations

import sys

import ldpflow as lf
from ldpflow.columns import short
from ldpflow.results.arena import UNDECIDED, ArenaSetting, settings_of, standings

SAID = ("law", "tau", "mechanism", "epsilon")


def recommended(settings: list[ArenaSetting]) -> str:
    """What the rule recommends: settings down, n across; coverage and length over the oracle's."""
    across = sorted({setting.keys["n"] for setting in settings})
    rows: dict[tuple[str, ...], dict[int, str]] = {}
    for setting in settings:
        row = setting.entries[0].row
        entry = setting.reference
        name = (
            ("too few to say" if setting.undecided else "none")
            if setting.best is None
            else setting.best.label
        )
        text = name if entry is None else f"{name} ({entry.coverage:.3f}, {entry.length:.2f})"
        case = tuple("-" if row.get(name) is None else f"{row[name]}" for name in SAID)
        rows.setdefault(case, {})[setting.keys["n"]] = text
    head = [*SAID, *(f"n = {short(n)}" for n in across)]
    body = [[*case, *(found.get(n, "-") for n in across)] for case, found in sorted(rows.items())]
    return table(head, body)


def over_all(settings: list[ArenaSetting]) -> str:
    """Every method over all settings."""
    head = [
        "method",
        "holds its level in",
        "too few replicates in",
        "recommended in",
        "lowest coverage",
        "most failures",
        "median length",
    ]
    best = {id(setting.best) for setting in settings}
    body = []
    for s in standings(settings):
        barred, failed = s.entries[0].barred, max(float(entry.row["failure_share"]) for entry in s.entries)
        body.append(
            [
                f"{s.label} ({barred})" if barred else s.label,
                f"{s.held} of {len(s.entries)}",
                str(sum(entry.state == UNDECIDED for entry in s.entries)),
                str(sum(id(entry) in best for entry in s.entries)),
                f"{min(entry.coverage for entry in s.entries):.3f}",
                f"{failed:.1%}" if failed else "0",
                "-" if s.length is None else f"{s.length:.2f}",
            ]
        )
    return table(head, body)


def table(head: list[str], body: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    found = settings_of(lf.open_run(sys.argv[1]).summary().to_pylist())
    print(recommended(found), over_all(found), sep="\n\n")
