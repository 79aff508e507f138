"""Design of the rows of a run: its settings, and whether the rows are a full factorial.

A run may grow, and study.toml holds only the study of the last command. If that study makes exactly these
rows, or is not finished, it is the design. Otherwise the design is read from the rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ldpflow.results.summary import every_path
from ldpflow.settings import canonical_json
from ldpflow.simulators.families import PARTS
from ldpflow.simulators.simulator import Simulator
from ldpflow.store.dataset import Damaged
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import cell_id, cell_keys
from ldpflow.study import Study
from ldpflow.study.reading import stored_mapping
from ldpflow.study.stored import public_study, stored_study

AXES = (*PARTS, "method", "level", "n")

Place = tuple[str, str]
"""Path, and id of a cell. The id of trajectories is empty."""

Block = dict[str, tuple[str, ...]]
"""Values of each setting, as canonical JSON. A block stands for all combinations of them."""


@dataclass(frozen=True)
class RunDesign:
    study: Mapping[str, Any]
    """Tables of a study file with all values of the rows. The values of a pilot are left out."""
    text: str = ""
    """Study file that gives the rows. Empty if no single study gives them."""
    factorial: bool = True
    """Whether the rows are all combinations of these values."""
    precision: Mapping[str, Any] | None = None
    """Targets that decided the number of replicates. None for a fixed number."""
    missing: tuple[int, int] | None = None
    """Cells with rows, and cells of the study, if the run is not finished, else None."""


def run_design(
    store: RunStore,
    summary: pa.Table,
    followed: pa.Table,
    sessions: Sequence[Mapping[str, Any]],
    damaged: Damaged = "refuse",
) -> RunDesign:
    """Find the design of a run's rows.

    ``summary`` and ``followed`` summarise the rows and the trajectories. ``sessions`` are read from
    provenance.json.
    """
    mapping = stored_mapping(store) or {}
    study = stored_study(store)
    targets = sessions[-1].get("precision") if sessions else None
    design = RunDesign(*public_study(mapping, store.read_study() or ""))
    cells: dict[Place, dict[str, Any]] = {}
    counts: dict[Place, int] = {}
    keys = cell_keys(summary.schema) if summary.num_rows else ()
    for row in summary.select(["path", "replicates", *keys]).to_pylist() if summary.num_rows else ():
        cell = {name: row[name] for name in keys if row[name] is not None}
        place = row["path"], cell_id(cell)
        cells[place], counts[place] = cell, row["replicates"]
    for row in followed.select(["path", "replicates"]).to_pylist() if followed.num_rows else ():
        counts[row["path"], ""] = row["replicates"]
    if not cells or (mapping and study is None and len(sessions) == 1):
        return replace(design, precision=targets)
    if study is not None:
        wanted = wanted_counts(study)
        if wanted == counts:
            return design
        if wanted.keys() == counts.keys() and targets is not None:
            return replace(design, precision=targets)
        last = sessions[-1] if sessions else {}
        broken = last.get("ended") is None or last.get("stopped") or last.get("failed_batches")
        fewer = any(counts.get(place, 0) < number for place, number in wanted.items())
        if broken and fewer and counts.keys() <= wanted.keys():
            return replace(design, missing=(len(counts), len(wanted)))
    seed = store.replicates.scan(damaged=damaged)[0].meta["seed"]
    return design_of_cells(cells, every_path(store, damaged=damaged), seed)


def wanted_counts(study: Study) -> dict[Place, int]:
    """Number of rows of each cell and of each trajectory that a study makes."""
    found: dict[Place, int] = {}
    for plan in study.plans():
        path = f"p{plan.simulator.key}"
        found |= {(path, cell_id(cell.columns())): study.replicates // cell.runs for cell in plan.cells}
        if plan.checkpoints:
            found[path, ""] = study.replicates
    return found


def design_of_cells(
    cells: Mapping[Place, Mapping[str, Any]], paths: Mapping[str, Simulator[Any, Any]], seed: int
) -> RunDesign:
    tables = {path: tables_of(simulator) for path, simulator in paths.items()}
    points = []
    for (path, _), cell in cells.items():
        settings = {name: value for name, value in cell.items() if name not in ("n", "level", "method")}
        method = {"kind": cell["method"], **settings}
        point = {**tables[path], "method": method, "level": cell["level"], "n": cell["n"]}
        points.append({name: canonical_json(value) for name, value in point.items()})
    values = {
        name: list(map(json.loads, dict.fromkeys(point[name] for point in points if name in point)))
        for name in AXES
    }
    study = {
        "seed": seed,
        **{name: joint_entries(values[name]) for name in (*PARTS, "method") if values[name]},
        "grid": {"n": sorted(values["n"]), "level": sorted(values["level"])},
    }
    return RunDesign(public_study(study, "")[0], factorial=len(products(points)) == 1)


def tables_of(simulator: Any) -> dict[str, dict[str, Any]]:
    parts = {table: part.model_dump(mode="json") for table, part in simulator.parts().items()}
    found = parts or {table: simulator.settings()[table] for table in PARTS if table in simulator.settings()}
    return {table: {k: v for k, v in part.items() if v is not None} for table, part in found.items()}


def joint_entries(tables: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of a study file for these kinds and settings.

    An entry stands for all combinations of the values in its lists.
    """
    points = [{name: canonical_json(value) for name, value in table.items()} for table in tables]
    found = []
    for block in products(points):
        entry = {name: sorted(map(json.loads, texts), key=axis_order) for name, texts in block.items()}
        kinds = entry["kind"]
        found.append(entry | {"kind": kinds[0] if len(kinds) == 1 else kinds})
    return found


def axis_order(value: Any) -> tuple[float, str]:
    return (value, "") if isinstance(value, (int, float)) else (math.inf, str(value))


def products(points: Iterable[Mapping[str, str]]) -> list[Block]:
    """Blocks whose combinations are these points, each point once.

    Two blocks that differ in a single axis are joined. This is repeated until no two blocks can be joined.
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
