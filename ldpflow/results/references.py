"""References of the methods that a run uses, as BibTeX, and of ldpflow itself.

The kinds of a run's components are read from its study file, so that no code of a plug-in is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldpflow import __version__
from ldpflow.algorithms import ALGORITHMS
from ldpflow.mechanisms import MECHANISMS
from ldpflow.problems import PROBLEMS
from ldpflow.results.bibliography import ENTRIES

__all__ = ["USED_BY", "bibtex", "cited", "kinds_of", "own_variants", "references_of", "unreferenced"]


def cites_of(kinds: Mapping[str, type[Any]]) -> dict[str, tuple[str, ...]]:
    """Keys of the references of bundled components, by kind."""
    return {kind: cls.cites for kind, cls in kinds.items() if cls.__module__.startswith("ldpflow.")}


USED_BY: dict[str, dict[str, tuple[str, ...]]] = {
    "problem": cites_of(PROBLEMS),
    "mechanism": cites_of(MECHANISMS),
    "algorithm": cites_of(ALGORITHMS),
    "protocol": {
        "rounds": ("warner1965", "fieller1954"),
        "thresholds": ("warner1965",),
        "grr": ("wang2017",),
        "oue": ("wang2017",),
        "hrr": ("acharya2019",),
        "haar": ("cormode2019",),
        "tree": ("cormode2019", "hay2010"),
    },
    "method": {
        "BB": ("dette2024",),
        "BM": ("chen2020",),
        "SN": ("liu2023", "lee2022"),
        "oracle": (),
        "TR": ("frees1990", "ni2026", "fieller1954"),
        "TR-BM": ("frees1990", "ni2026", "chen2020"),
        "TRC": ("ni2026",),
        "PB": ("fang2018",),
        "NOL": ("zhu2023",),
        "OBM": ("zhu2023",),
        "EBS": ("singh2025",),
        "LUG": ("vats2022",),
        "SUF": ("wei2023",),
        "CHB": ("lam2026",),
        "ACS": ("waudbysmith2024", "xie2024"),
        "joint": (),
        "inversion": (),
        "fieller": ("fieller1954",),
        "PAR": ("zhu2024",),
        "HULC": ("kuchibhotla2024",),
    },
}
"""Keys of the references of every bundled kind, by the table of a study file that names it."""


OWN = {"method": ("TR", "TR-BM"), "mechanism": ("cells",), "protocol": ("rounds",)}
"""Kinds that are ldpflow's own: they build on their references and are in none of them."""

OWN_VARIANTS = (
    (("BM", "NOL", "EBS"), "quantile", "t", "the t quantiles"),
    (("LUG",), "base", "BM", "the batch means"),
)
"""Kinds of methods that are published, and a setting and value of theirs that is not."""


def kinds_of(study: Mapping[str, Any]) -> dict[str, list[str]]:
    """Kinds by table of a study file, each once, in the order of the file."""
    found: dict[str, list[str]] = {}
    for table in USED_BY:
        entries = study.get(table, [])
        for entry in [entries] if isinstance(entries, Mapping) else entries:
            kinds = entry.get("kind", [])
            found.setdefault(table, []).extend([kinds] if isinstance(kinds, str) else kinds)
    return {table: list(dict.fromkeys(kinds)) for table, kinds in found.items()}


def references_of(study: Mapping[str, Any]) -> list[str]:
    """Keys of the references of a study, each once; that of the measures comes first."""
    keys = {"morris2019": None}
    for table, kinds in kinds_of(study).items():
        for kind in kinds:
            keys |= dict.fromkeys(USED_BY[table].get(kind, ()))
    return list(keys)


def label(key: str) -> str:
    """A reference as a text names it: ``Dette and Graw, 2024``."""
    fields = ENTRIES[key][1]
    names = [author.partition(",")[0] for author in fields["author"].split(" and ")]
    who = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
    return f"{who}, {fields['year']}"


def cited(study: Mapping[str, Any], own: bool = False) -> dict[str, tuple[str, ...]]:
    """Kinds of a study that follow papers, by the papers in the words of :func:`label`.

    ``own``: those that are ldpflow's own (:data:`OWN`), by the papers that they build on.
    """
    found: dict[tuple[str, ...], list[str]] = {}
    for table, kinds in kinds_of(study).items():
        if table == "problem":
            continue  # the text describes it
        for kind in kinds:
            keys = USED_BY[table].get(kind, ())
            if keys and own == (kind in OWN.get(table, ())):
                found.setdefault(keys, []).append(kind)
    return {" and ".join(kinds): tuple(label(key) for key in keys) for keys, kinds in found.items()}


def own_variants(study: Mapping[str, Any]) -> list[str]:
    """Variants of published methods in a study that are ldpflow's own, in words."""
    entries = study.get("method", [])
    found = []
    for kinds, name, value, words in OWN_VARIANTS:
        for entry in entries if isinstance(entries, list) else [entries]:
            named = [entry["kind"]] if isinstance(entry["kind"], str) else entry["kind"]
            given = entry.get(name)
            if value in (given if isinstance(given, list) else [given]):
                found += [f"{words} of {kind}" for kind in named if kind in kinds]
    return list(dict.fromkeys(found))


def unreferenced(study: Mapping[str, Any]) -> list[str]:
    """Kinds of a study that are not bundled, those of plug-ins: their references are not known here."""
    return [kind for table, kinds in kinds_of(study).items() for kind in kinds if kind not in USED_BY[table]]


def bibtex(study: Mapping[str, Any]) -> str:
    """BibTeX of ldpflow and of the methods that a study uses."""
    own = {
        "author": "{The ldpflow authors}",
        "title": "ldpflow: {Monte Carlo} studies of confidence intervals from locally private stochastic "
        "gradient descent",
        "version": __version__,
        "year": "2026",
        "note": "Computer software, Apache-2.0",
    }
    entries = [written("ldpflow", "misc", own)]
    entries += [written(key, *ENTRIES[key]) for key in references_of(study)]
    return "\n\n".join(entries) + "\n"


def written(key: str, kind: str, fields: Mapping[str, str]) -> str:
    """One entry."""
    if "eprint" in fields:
        fields = {**fields, "archiveprefix": "arXiv"}
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
