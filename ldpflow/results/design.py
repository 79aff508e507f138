"""Design of a run's rows: settings, whether they are a full factorial, and a study file that gives them.

A run may grow, and study.toml is the study of the last command. It is the design if it has all cells of rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ldpflow.errors import InputError
from ldpflow.results.summary import every_path
from ldpflow.settings import canonical_json
from ldpflow.simulators.families import PARTS
from ldpflow.store.dataset import Damaged
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_id, cell_keys
from ldpflow.study import Study
from ldpflow.study.reading import stored_mapping, toml_text
from ldpflow.study.stored import entries, public_study, stored_study

AXES = (*PARTS, "method", "level", "n")
"""Axes of a study's product."""

FIXED = ("replicates", "independent_n", "followed")
"""Settings that all cells of a study share."""

Place = tuple[str, str]
"""Path, and id of a cell; an empty id for trajectories."""

Block = dict[str, tuple[str, ...]]
"""Values by name, as canonical JSON: all combinations of them."""


@dataclass(frozen=True)
class RunDesign:
    """Design of the rows of a run."""

    study: Mapping[str, Any]
    """The tables of a study file that has all values of the rows, without the values of a pilot."""
    text: str = ""
    """Study file that gives the rows, empty if none is known."""
    factorial: bool = True
    """Whether the rows are all combinations of these values."""
    precision: Mapping[str, Any] | None = None
    """Targets that decided the number of replicates."""
    missing: tuple[int, int] | None = None
    """Cells that have rows, and cells of the study, of a run that is not finished."""


def run_design(
    store: RunStore,
    summary: pa.Table,
    followed: pa.Table,
    sessions: Sequence[Mapping[str, Any]],
    damaged: Damaged = "refuse",
) -> RunDesign:
    """The design of a run's rows, from summaries of them and of the trajectories and from provenance.json."""
    mapping = stored_mapping(store) or {}
    rows = StoredDesign(store, summary, followed, damaged)
    study = stored_study(store)
    last = sessions[-1] if sessions else {}
    targets = last.get("precision")
    design = RunDesign(*public_study(mapping, store.read_study() or ""))
    if not rows.cells or (mapping and study is None and len(sessions) == 1):
        return design if targets is None else replace(design, precision=targets)
    if study is not None:
        wanted = places_of(study)
        if wanted == rows.counts.keys():
            if rows.fit(study.replicates):
                return design
            if targets is not None:
                return replace(design, precision=targets)
        broken = last.get("ended") is None or last.get("stopped") or last.get("failed_batches")
        fewer = any(count < study.replicates // rows.runs[place] for place, count in rows.counts.items())
        if broken and (rows.counts.keys() < wanted or (fewer and rows.counts.keys() <= wanted)):
            return replace(design, missing=(len(rows.counts), len(wanted)))
    return rows.design(mapping, targets)


def places_of(study: Study) -> set[Place]:
    found = set()
    for plan in study.plans():
        path = f"p{plan.simulator.key}"
        found |= {(path, cell_id(cell.columns())) for cell in plan.cells}
        found |= {(path, "")} if plan.checkpoints else set()
    return found


class StoredDesign:
    """The cells of a run that have rows, their numbers of rows, and their paths."""

    def __init__(self, store: RunStore, summary: pa.Table, followed: pa.Table, damaged: Damaged) -> None:
        self.paths = every_path(store, damaged=damaged)
        self.name = store.root.rstrip("/").rsplit("/", 1)[-1]
        self.cells: dict[Place, dict[str, Any]] = {}
        self.counts: dict[Place, int] = {}
        keys = cell_keys(summary.schema) if summary.num_rows else ()
        for row in summary.select(["path", "replicates", *keys]).to_pylist() if summary.num_rows else ():
            cell = {name: row[name] for name in keys if row[name] is not None}
            place = row["path"], cell_id(cell)
            self.cells[place], self.counts[place] = cell, row["replicates"]
        for row in followed.select(["path", "replicates"]).to_pylist() if followed.num_rows else ():
            self.counts[row["path"], ""] = row["replicates"]
        parts = store.replicates.scan(damaged=damaged)
        said = {(f"p{part.path_key}", cell): runs for part in parts for cell, runs in part.runs.items()}
        self.runs = {place: said.get(place, 1) for place in self.counts}
        self.seed = parts[0].meta["seed"] if parts else 0

    def fit(self, replicates: int) -> bool:
        return all(count == replicates // self.runs[place] for place, count in self.counts.items())

    def points(self, mapping: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        tables = {path: tables_of(simulator) for path, simulator in self.paths.items()}
        least = {place: count * self.runs[place] for place, count in self.counts.items()}
        most = max(least.values())
        replicates = dict.fromkeys(least, most) if self.fit(most) else least
        for place, cell in self.cells.items():
            path = place[0]
            settings = {k: v for k, v in cell.items() if k not in ("n", "level", "method")}
            values = {
                **tables[path],
                "method": {"kind": cell["method"], **settings},
                "level": cell["level"],
                "n": cell["n"],
                "replicates": replicates[place],
                "independent_n": has_own_n(self.paths[path], mapping),
                "followed": (path, "") in self.counts,
            }
            yield {name: canonical_json(value) for name, value in values.items()}

    def design(self, mapping: Mapping[str, Any], targets: Mapping[str, Any] | None) -> RunDesign:
        """The design from the rows alone. ``mapping`` is the study of the last command."""
        points = list(self.points(mapping))
        whole = {name: tuple(dict.fromkeys(p[name] for p in points if name in p)) for name in (*AXES, *FIXED)}
        study = self.study_of(whole, mapping)
        made = self.made_by(study)
        cells = [{name: value for name, value in point.items() if name != "replicates"} for point in points]
        factorial = made == self.counts.keys() or len(products(cells)) == 1
        differing = {name for name in FIXED if len(whole[name]) > 1}
        known = factorial and made in (None, self.counts.keys())
        if not known or not differing <= ({"replicates"} if targets is not None else set()):
            return RunDesign(public_study(study, "")[0], factorial=factorial)
        return RunDesign(*public_study(study, toml_text(study)), precision=targets if differing else None)

    def made_by(self, study: Mapping[str, Any]) -> set[Place] | None:
        """The cells of a study: None if a component is not known here, empty if the study is impossible."""
        if not all(simulator.parts() for simulator in self.paths.values()):
            return None
        try:
            return places_of(Study.from_mapping(study, stored=True))
        except (InputError, ValueError):
            return set()

    def study_of(self, block: Block, mapping: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: [json.loads(text) for text in texts] for name, texts in block.items()}
        files = {
            table.get("sha256"): table["file"] for table in entries(mapping, "problem") if "file" in table
        }
        for problem in values["problem"]:
            if problem.get("sha256") in files:
                problem["file"] = files[problem["sha256"]]
        tables = {name: joint_entries(values[name]) for name in PARTS if values.get(name)}
        further = [name for name in ("monitor", "plugins") if name in mapping]
        further += ["trajectory"] if True in values["followed"] and "trajectory" in mapping else []
        return {
            "name": mapping.get("name", self.name),
            "seed": mapping.get("seed", self.seed),
            "replicates": max(values["replicates"]),
            **tables,
            "grid": {
                "n": sorted(values["n"]),
                "level": sorted(values["level"]),
                "independent_n": True in values["independent_n"],
            },
            "method": joint_entries(values["method"]),
            **{name: mapping[name] for name in further},
        }


def tables_of(simulator: Any) -> dict[str, dict[str, Any]]:
    parts = {table: part.model_dump(mode="json") for table, part in simulator.parts().items()}
    found = parts or {table: simulator.settings()[table] for table in PARTS if table in simulator.settings()}
    return {table: {k: v for k, v in part.items() if v is not None} for table, part in found.items()}


def has_own_n(simulator: Any, mapping: Mapping[str, Any]) -> bool:
    """Whether a path serves one n because a study says so, as far as its parts are known."""
    if simulator.settings().get("n") is None:
        return False
    if not simulator.parts():
        return bool(mapping.get("grid", {}).get("independent_n"))
    return simulator.family == "one_pass" and not simulator.parts()["algorithm"].depends_on_horizon()


def joint_entries(tables: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of a study file for these kinds and settings: each stands for all combinations of its lists."""
    points = [{name: canonical_json(value) for name, value in table.items()} for table in tables]
    found = []
    for block in products(points):
        entry = {name: sorted(map(json.loads, texts), key=axis_order) for name, texts in block.items()}
        kinds = entry["kind"]
        found.append(entry | {"kind": kinds[0] if len(kinds) == 1 else kinds})
    return found


def axis_order(value: Any) -> tuple[float, str]:
    """Sort key of an axis: numbers by size, then others as text."""
    return (value, "") if isinstance(value, (int, float)) else (math.inf, str(value))


def products(points: Iterable[Mapping[str, str]]) -> list[Block]:
    """Blocks whose combinations are these points, each once.

    Two blocks that differ in one axis alone are joined, axis by axis, until no two do.
    """
    blocks: list[Block] = [{name: (value,) for name, value in point.items()} for point in points]
    names = list(dict.fromkeys(name for block in blocks for name in block))
    count = None
    while count != len(blocks):
        count = len(blocks)
        for name in names:
            groups: dict[Any, Block] = {}
            for block in blocks:
                rest = tuple(sorted((k, v) for k, v in block.items() if k != name))
                found = groups.setdefault((rest, name in block), dict(block))
                if name in block:
                    found[name] = tuple(sorted({*found[name], *block[name]}))
            blocks = list(groups.values())
    return blocks
