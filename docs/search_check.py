"""Check that the search of a built site finds what people look for: python docs/search_check.py SITE.

For each query, a page that answers it has to be among the first three results. This module ranks results as
the site's JavaScript does (Sphinx, searchtools.js), and reads the same index file. The ranking uses entries
of the general index, titles, names of the Python interface and words of the text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.search.en import SearchEnglish

FIRST = 3
"""Number of first results that are looked at."""

WANTED = {
    "epsilon": ("privacy_notions",),
    "privacy budget": ("privacy_notions",),
    "local differential privacy": ("privacy_notions",),
    "privacy statement": ("privacy",),
    "MCSE": ("reading-results",),
    "Monte Carlo standard error": ("reading-results",),
    "coverage": ("coverage",),
    "confidence interval": ("tutorials/collected_reports",),
    "install": ("tutorials/first_study",),
    "bibtex": ("cite",),
    "cite": ("cite",),
    "sample size": ("tutorials/pilot_to_plan", "pilot_to_plan"),
    "response rate": ("tutorials/pilot_to_plan", "pilot_to_plan"),
    "nonresponse": ("tutorials/pilot_to_plan", "pilot_to_plan"),
    "utility analysis": ("tutorials/pilot_to_plan", "pilot_to_plan"),
    "own method": ("tutorials/own_method",),
    "plugin": ("own_component", "tutorials/own_method"),
    "R": ("run_directory",),
    "pandas": ("run_directory",),
    "cluster": ("tutorials/cluster",),
    "dashboard": ("tutorials/dashboards",),
    "Quarto": ("tutorials/dashboards",),
}
"""By query, the pages that answer it. One of them has to be found."""

TITLE, TERM, PART_OF_TITLE, PART_OF_TERM = 15, 5, 7, 2
OBJECT, PART_OF_OBJECT, OBJECT_RANK = 11, 6, {0: 15, 1: 5, 2: -5}

Hit = tuple[int, str, str]
"""Score, title and page of a result."""


def plain(value: Any) -> list[int]:
    """List of the pages of a word. The index stores a single page as a number."""
    return [value] if isinstance(value, int) else list(value)


def titles_and_entries(index: dict[str, Any], query: str) -> tuple[list[Hit], list[Hit]]:
    """Hits in titles and main entries of the general index, then hits in its other entries."""
    names, titles = index["docnames"], index["titles"]
    main: list[Hit] = []
    other: list[Hit] = []
    for title, places in index["alltitles"].items():
        if query in title.lower().strip() and len(query) >= len(title) / 2:
            for page, _ in places:
                whole = titles[page] == title
                shown = title if whole else f"{titles[page]} > {title}"
                main.append((round(TITLE * len(query) / len(title)) + whole, shown, names[page]))
    for entry, places in index["indexentries"].items():
        if query in entry and len(query) >= len(entry) / 2:
            for page, _, is_main in places:
                hit = (round(100 * len(query) / len(entry)), titles[page], names[page])
                (main if is_main else other).append(hit)
    return main, other


def objects(index: dict[str, Any], words: list[str]) -> Iterator[Hit]:
    """Hits in names of the Python interface."""
    for word in words:
        for prefix, found in index["objects"].items():
            for page, kind, priority, _, name in found:
                full = f"{prefix}.{name}" if prefix else name
                last = full.lower().rpartition(".")[2]
                where = f"{prefix} {name} {index['objnames'][str(kind)][2]} {index['titles'][page]}".lower()
                if word not in full.lower() or any(w not in where for w in words if w != word):
                    continue
                score = OBJECT if word in (full.lower(), last) else PART_OF_OBJECT if word in last else 0
                yield score + OBJECT_RANK.get(priority, 0), full, index["docnames"][page]


def words_of_text(index: dict[str, Any], stems: list[str]) -> Iterator[Hit]:
    """Hits of pages that have every word, in their text or in a heading."""
    scores: dict[int, dict[str, int]] = {}
    for stem in stems:
        parts = [("terms", TERM, PART_OF_TERM), ("titleterms", TITLE, PART_OF_TITLE)]
        found = [(index[part][stem], whole) for part, whole, _ in parts if stem in index[part]]
        for part, _, partial in parts:
            if len(stem) > 2 and stem not in index[part]:
                found += [(pages, partial) for term, pages in index[part].items() if stem in term]
        for pages, score in found:
            for page in plain(pages):
                scores.setdefault(page, {})[stem] = score
    long = sum(len(stem) > 2 for stem in stems)
    for page, own in scores.items():
        if len(own) in (len(stems), long):
            yield max(own.values()), index["titles"][page], index["docnames"][page]


def results(index: dict[str, Any], query: str) -> list[str]:
    """Pages in the order in which the site shows them."""
    language = SearchEnglish({})
    said = query.strip()
    words = [word for word in re.findall(r"\w+", said.lower())]
    kept = [word for word in words if word not in language.stopwords and not word.isdigit()]
    main, other = titles_and_entries(index, said.lower())
    main += objects(index, list(dict.fromkeys(words)))
    main += words_of_text(index, list(dict.fromkeys(language.stem(word) for word in kept)))
    ordered = [sorted(group, key=lambda hit: (-hit[0], hit[1].lower())) for group in (main, other)]
    return list(dict.fromkeys(page for group in ordered for _, _, page in group))


def main(site: str) -> int:
    """Print the first pages of every query. Return 1 if a query has no wanted page among them."""
    text = (Path(site) / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    missing = 0
    for query, wanted in WANTED.items():
        first = results(index, query)[:FIRST]
        found = not set(first).isdisjoint(wanted)
        missing += not found
        print(f"{query}: {', '.join(first) or 'nothing'}{'' if found else ' MISSING ' + ' or '.join(wanted)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
