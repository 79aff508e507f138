"""Where among its cells a method holds or fails, as a pattern over the factors of a study, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ldpflow.report.results import Names, Row

MOST_REGIONS = 2
"""Most regions that are named; what is outside of them is counted."""
LEAST_SHARE = 0.1
"""Least share of the chosen cells that a region adds."""
MOST_VALUES = 3
"""Most values of a factor that are named one by one."""

Cells = set[int]
Slices = Mapping[str, Mapping[Any, Cells]]
"""Cells of each value of each factor."""


class Region(NamedTuple):
    """Cells with some values of one factor, or also with one value of a second, and these values in words."""

    words: str
    cells: Cells


def where(names: Names, factors: Sequence[str], rows: Sequence[Row], chosen: Sequence[Row]) -> str:
    """Where rows of a method are chosen: regions chosen as a whole, and how many of the other rows."""
    if len(chosen) == len(rows):
        return "in every setting" if len(rows) > 1 else "in the one setting"
    ids = {id(row) for row in chosen}
    inside = {at for at, row in enumerate(rows) if id(row) in ids}
    slices: dict[str, dict[Any, Cells]] = {name: {} for name in factors}
    for at, row in enumerate(rows):
        for name in factors:
            if row.get(name) is not None:
                slices[name].setdefault(row[name], set()).add(at)
    found: list[str] = []
    rest, others = inside, set(range(len(rows)))
    regions = list(whole_regions(names, slices, inside))
    while regions and len(found) < MOST_REGIONS:
        best = max(regions, key=lambda region: len(region.cells & rest))
        if len(best.cells & rest) < max(2, LEAST_SHARE * len(inside)):
            break
        found.append(f"where {best.words}")
        rest, others = rest - best.cells, others - best.cells
    if len(rest) == 1 and (settings := names.settings(rows[min(rest)], factors)):
        found.append(f"at {settings}")
    elif rest:
        within = closest_region(names, slices, rest, others)
        count = "all" if len(rest) == len(within.cells) else f"{len(rest):,}"
        of_them = f"{count} of {'the other ' if found else ''}{len(within.cells):,}"
        found.append(f"in {of_them}{' settings' * (not found)}{within.words and f' with {within.words}'}")
    return ", ".join(found[:-1]) + f" and {found[-1]}" if len(found) > 1 else found[0]


def whole_regions(names: Names, slices: Slices, inside: Cells) -> Iterator[Region]:
    """Regions whose cells are all inside: those of one factor, then those of two."""
    everywhere: Cells = set().union(*(cells for own in slices.values() for cells in own.values()))
    contexts = [("", "", everywhere)]
    contexts += [(n, f"{names.value(n, v)} with ", own[v]) for n, own in slices.items() for v in sorted(own)]
    for first, words, context in contexts:
        for name in (name for name in slices if name != first):
            own = {value: cells & context for value, cells in slices[name].items() if cells & context}
            values = [value for value in sorted(own) if own[value] <= inside]
            if text := name_values(names, name, values, sorted(own)):
                yield Region(words + text, set().union(*(own[value] for value in values)))


def closest_region(names: Names, slices: Slices, rest: Cells, others: Cells) -> Region:
    """The smallest region of one factor that has the rest, of the other cells; by default all of them.

    Of equal ones the last: n comes after the settings of a path.
    """
    best = Region("", others)
    for name, known in slices.items():
        own = {value: cells & others for value, cells in known.items() if cells & others}
        values = [value for value in sorted(own) if own[value] & rest]
        cells: Cells = set().union(*(own[value] for value in values))
        text = name_values(names, name, values, sorted(own))
        if text and rest <= cells and len(cells) <= min(len(best.cells), len(others) - 1):
            best = Region(text, cells)
    return best


def name_values(names: Names, name: str, values: Sequence[Any], known: Sequence[Any]) -> str:
    """Values of a factor in words, a range where they are one end of the known values; or nothing."""
    number = not isinstance(known[0], (str, bool)) and name != "coordinate" if known else False
    if 1 < len(values) < len(known) and number:
        for sign, end, run in (("≤", -1, known[: len(values)]), ("≥", 0, known[-len(values) :])):
            if values == run:
                return names.value(name, values[end]).replace("=", sign)
    return " or ".join(names.value(name, value) for value in values) if len(values) <= MOST_VALUES else ""
