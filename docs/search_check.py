"""Checks that the search of a built site finds what people look for: python docs/search_check.py SITE.

The words of a query are stemmed, stop words are left out, and a page is found if it has all that are left:
what the site's own JavaScript does, on the same index.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from sphinx.search.en import SearchEnglish

WANTED = {
    "confidence interval": "tutorials/collected_reports",
    "epsilon": "tutorials/pilot_to_plan",
    "own method": "tutorials/own_method",
    "utility analysis": "tutorials/pilot_to_plan",
    "coverage": "coverage",
    "local differential privacy": "privacy_notions",
}
"""A page that must be among those found, by query."""


def pages_found(index: dict[str, object], query: str) -> set[str]:
    """Names of the pages that have every word of the query."""
    language = SearchEnglish({})
    words = [word for word in re.findall(r"\w+", query.lower()) if word not in language.stopwords]
    names: list[str] = index["docnames"]  # type: ignore[assignment]
    found = set(range(len(names)))
    for word in words:
        stem = language.stem(word)
        pages = set()
        for part in ("terms", "titleterms"):
            entry = index[part].get(stem, [])  # type: ignore[attr-defined]
            pages |= {entry} if isinstance(entry, int) else set(entry)
        found &= pages
    return {names[page] for page in found} if words else set()


def main(site: str) -> int:
    """Print what was found; 1 if something is missing."""
    text = (Path(site) / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    missing = [query for query, page in WANTED.items() if page not in pages_found(index, query)]
    for query in WANTED:
        print(f"{query}: {len(pages_found(index, query))} pages{' MISSING' if query in missing else ''}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
