"""Where among its cells a method holds or fails, as a pattern over the factors of a study, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ldpflow.report.results import Names, Row

MOST_VALUES = 3
"""Most values of a factor that are named one by one."""

Cells = set[int]


class Region(NamedTuple):
    """Cells with some values of one factor, or also with one value of a second, and these values in words."""

    words: str
    cells: Cells


def where(
    names: Names,
    factors: Sequence[str],
    rows: Sequence[Row],
    chosen: Sequence[Row],
    failing: Sequence[Row] = (),
) -> str:
    """Where rows of a method are chosen: how many, and the one region that says most about them.

    It is a region with chosen rows alone if that has at least half of them, or else the smallest one that has
    all of them, with the number of ``failing`` rows in it. A region of which they are less than half is not
    named.
    """
    if len(chosen) == len(rows):
        return "in every setting" if len(rows) > 1 else "in the one setting"
    ids = {id(row) for row in chosen}
    inside = {at for at, row in enumerate(rows) if id(row) in ids}
    if len(chosen) == 1 and (settings := names.settings(chosen[0], factors)):
        return f"at {settings}"
    if len(rows) - len(chosen) == 1 < len(chosen):
        other = next(row for row in rows if id(row) not in ids)
        return f"in all {len(rows):,} settings but {names.settings(other, factors)}"
    whole = regions(names, factors, rows, inside.issuperset)
    best = max(whole, key=lambda region: len(region.cells), default=Region("", set()))
    if best.cells == inside:
        return f"where {best.words}"
    if 2 * len(best.cells) >= len(inside):
        return f"in {len(inside):,} of {len(rows):,} settings: all with {best.words}, and others"
    found = [
        region for region in regions(names, factors, rows, inside.intersection) if region.cells >= inside
    ]
    everywhere = Region("", set(range(len(rows))))
    least = min(found, key=lambda region: len(region.cells), default=everywhere)
    least = least if 2 * len(inside) >= len(least.cells) else everywhere  # or it is no place for them
    text = f"in {len(inside):,} of {len(least.cells):,} settings" + f" with {least.words}" * bool(least.words)
    lost = sum(any(rows[at] is row for row in failing) for at in least.cells)
    return text + f" (shown to fail in {lost:,} of the {len(least.cells):,})" * bool(lost)


def regions(
    names: Names, factors: Sequence[str], rows: Sequence[Row], wanted: Callable[[Cells], Any]
) -> Iterator[Region]:
    """Regions of one factor, then of two, whose values each have cells that are wanted."""
    slices: dict[str, dict[Any, Cells]] = {name: {} for name in factors}
    for at, row in enumerate(rows):
        for name in factors:
            if row.get(name) is not None:
                slices[name].setdefault(row[name], set()).add(at)
    contexts = [("", "", set(range(len(rows))))]
    contexts += [(n, f"{names.value(n, v)} and ", own[v]) for n, own in slices.items() for v in sorted(own)]
    for first, words, context in contexts:
        for name in (name for name in slices if name != first):
            own = {value: cells & context for value, cells in slices[name].items() if cells & context}
            values = [value for value in sorted(own) if wanted(own[value])]
            if len(values) < len(own) and (text := name_values(names, name, values, sorted(own))):
                yield Region(words + text, set().union(*(own[value] for value in values)))


def name_values(names: Names, name: str, values: Sequence[Any], known: Sequence[Any]) -> str:
    """Values of a factor in words, a range where they are one end of the known values; or nothing."""
    number = not isinstance(known[0], (str, bool)) and name != "coordinate"
    if number and len(values) > 1:
        for sign, end, run in (("≤", -1, known[: len(values)]), ("≥", 0, known[-len(values) :])):
            if values == run:
                return names.value(name, values[end]).replace("=", sign)
    texts = [names.value(name, value) for value in values]
    further = [text.partition(" = ")[2] or text for text in texts[1:]]
    return " or ".join([*texts[:1], *further]) if len(texts) <= MOST_VALUES else ""
