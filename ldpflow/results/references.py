"""References of a run, as BibTeX, and a paragraph about it for the methods section of a paper.

A component names its papers by their keys in references.bib, as in ``cites = ("dette2024",)``. A plug-in may
give whole BibTeX entries instead. The kinds of components are read from the study file of a run, so that no
code of a plug-in is executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_origin

import pyarrow as pa
import pyarrow.compute as pc
from pydantic.fields import FieldInfo

from ldpflow import __version__
from ldpflow.components.intervals import INTERVAL_METHODS, IntervalMethod
from ldpflow.documents import Reference, label, read_bib, references, templates
from ldpflow.results.design import RunDesign
from ldpflow.settings import bare_type, plain_values
from ldpflow.study import GROUPS
from ldpflow.study.stored import entries as entries

TITLES = {name: name for name in ("problem", "mechanism", "algorithm", "protocol")}
TITLES |= {"method": "interval methods"}
"""Tables of a study file whose components cite papers, and the names of these tables in a text."""

OWN = {"method": ("TR", "TR-BM"), "mechanism": ("cells",), "protocol": ("rounds",)}
"""Kinds that are ldpflow's own. They build on their references, and no reference contains them."""


def kinds_of(study: Mapping[str, Any], table: str) -> list[str]:
    kinds: list[str] = []
    for entry in entries(study, table):
        kind = entry.get("kind", [])
        kinds += [kind] if isinstance(kind, str) else kind
    return list(dict.fromkeys(kinds))


def cites_of(table: str, kind: str) -> dict[str, Reference] | None:
    """References of a kind by key. None if a component of a plug-in cites nothing or is not loaded."""
    component = GROUPS[table].get(kind)
    names = getattr(component, "cites", ())
    if not names and (component is None or component.__module__.partition(".")[0] != "ldpflow"):
        return None
    found: dict[str, Reference] = {}
    for name in names:
        found |= read_bib(name) if name.lstrip().startswith("@") else {name: references()[name]}
    return found


def references_of(study: Mapping[str, Any]) -> dict[str, Reference]:
    found = {"morris2019": references()["morris2019"]}  # on the measures and their errors
    for table in TITLES:
        for kind in kinds_of(study, table):
            found |= cites_of(table, kind) or {}
    return found


def kinds_without_reference(study: Mapping[str, Any]) -> list[str]:
    return [kind for table in TITLES for kind in kinds_of(study, table) if cites_of(table, kind) is None]


def bibtex(study: Mapping[str, Any]) -> str:
    own = (
        "@misc{ldpflow,\n  author = {{The ldpflow authors}},\n  title = {ldpflow: {Monte Carlo} studies of "
        "confidence intervals from locally private stochastic gradient descent},\n"
        f"  version = {{{__version__}}},\n  year = {{2026}},\n  note = {{Computer software, Apache-2.0}},\n}}"
    )
    return "\n\n".join([own, *(reference.text for reference in references_of(study).values())]) + "\n"


def citing_kinds(study: Mapping[str, Any], own: bool) -> dict[str, list[str]]:
    """Labels of the papers that kinds cite, by kind: the kinds in OWN if ``own``, or else all others."""
    found: dict[tuple[str, ...], list[str]] = {}
    for table in [*TITLES][1:]:  # the text describes the problem
        for kind in kinds_of(study, table):
            papers = tuple(map(label, (cites_of(table, kind) or {}).values()))
            if papers and own == (kind in OWN.get(table, ())):
                found.setdefault(papers, []).append(kind)
    return {" and ".join(kinds): list(papers) for papers, kinds in found.items()}


NAMED = ("law", "tau", "epsilon", "mu", "delta", "gamma", "c", "d", "beta", "degree")
"""Settings that the paragraph names also at their default."""

UNNAMED = ("kind", "file", "sha256", "units", "law_table")
"""Settings of the place and the format of data, which are no part of the design."""

MOST_VECTORS = 4


def study_paragraph(design: RunDesign, summary: pa.Table, sessions: Sequence[Mapping[str, Any]]) -> str:
    study = design.study
    parts = [
        f"{title} {enumerate_words([entry_words(table, entry, study) for entry in entries(study, table)])}"
        for table, title in TITLES.items()
        if entries(study, table)
    ]
    parts.append(f"n = {values_text(study['grid']['n'])} users")
    if entries(study, "method"):
        parts.append(f"nominal level {values_text(study['grid']['level'])}")
    last = sessions[-1] if sessions else {}
    versions = {"ldpflow": "?", "python": "?"} | dict(last.get("versions") or {})
    named = [f"{name} {versions[name]}" for name in ("numpy", "numba", "scipy") if name in versions]
    targets: list[Mapping[str, Any]] = []
    for target in (entry.get("precision") or {} for entry in sessions):
        aimed = {target.get("target_mcse"), target.get("target_length")} != {None}
        if aimed and target not in targets:
            targets.append(target)
    template = templates("ldpflow.results", enumerated=enumerate_words).get_template("methods.txt.jinja")
    text = template.render(
        factorial=design.factorial,
        missing=design.missing,
        parts=parts,
        cited=citing_kinds(study, own=False),
        own=citing_kinds(study, own=True),
        unnamed=kinds_without_reference(study),
        own_n=own_n(summary),
        precision=targets,
        seed=study["seed"],
        several=[
            kind
            for kind in kinds_of(study, "method")
            if INTERVAL_METHODS.get(kind, IntervalMethod).runs is not IntervalMethod.runs
        ],
        versions=versions if sessions else None,
        packages=named,
        processor=(last.get("machine") or {}).get("processor"),
        **replicates(study, summary),
    )
    return " ".join(text.split())


def own_n(summary: pa.Table) -> str | None:
    """Which n have paths of their own: ``every``, ``some`` or ``none``. None if there is one n."""
    if "n" not in summary.column_names or pc.count_distinct(summary["n"]).as_py() < 2:
        return None
    shared = summary["horizon"].null_count if "horizon" in summary.column_names else summary.num_rows
    return "every" if shared == 0 else "none" if shared == summary.num_rows else "some"


def replicates(study: Mapping[str, Any], summary: pa.Table) -> dict[str, Any]:
    if summary.num_rows == 0:
        return {"cells": 0, "replicates": f"{study['replicates']:,}"}
    counts = pc.min_max(summary["replicates"]).as_py()
    return {
        "cells": summary.num_rows,
        "replicates": " to ".join(dict.fromkeys(f"{count:,}" for count in counts.values())),
        "error": pc.max(summary["coverage_mcse"]).as_py(),
        "failures": pc.sum(summary["failures"]).as_py(),
        "rows": pc.sum(summary["replicates"]).as_py(),
    }


def entry_words(table: str, entry: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    """Kinds of an entry with the settings that are in NAMED, vary, or differ from their default.

    All settings of a component of a plug-in are named.
    """
    kinds = kinds_of({table: entry}, table)
    classes = [GROUPS[table].get(kind) for kind in kinds]
    bundled = all(kind and kind.__module__.startswith("ldpflow.") for kind in classes)
    alike = [other for other in entries(study, table) if {*kinds} & {*kinds_of({table: other}, table)}]
    settings = []
    for name, value in entry.items():
        if name in UNNAMED:
            continue
        fields = [kind.model_fields[name] for kind in classes if kind and name in kind.model_fields]
        varies = any(other.get(name) != value for other in alike)
        if name in NAMED or varies or not bundled or not at_default(value, fields):
            vector = any(get_origin(bare_type(field.annotation)[0]) is tuple for field in fields)
            settings.append(f"{name} = {values_text(value, vector)}")
    return f"{enumerate_words(kinds)} ({', '.join(settings)})" if settings else enumerate_words(kinds)


def at_default(value: object, fields: Sequence[FieldInfo]) -> bool:
    given, *defaults = map(plain_values, (value, *(field.get_default() for field in fields)))
    return all(default in (given, [given]) or [default] == given for default in defaults)


def values_text(value: object, vector: bool = False) -> str:
    found = value if isinstance(value, list) else [value]
    if vector and not all(isinstance(one, list) for one in found):
        found = [found]
    if len(found) > MOST_VECTORS and any(isinstance(one, list) for one in found):
        return f"{len(found)} vectors"
    return enumerate_words([value_text(one) for one in found])


def value_text(value: object) -> str:
    if isinstance(value, list):
        return f"({', '.join(map(value_text, value))})"
    if isinstance(value, Mapping):
        return f"({', '.join(f'{name} {value_text(own)}' for name, own in value.items())})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def enumerate_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
