"""``python -m tests.golden.make [FOLDER] [--only NAME ...]`` writes golden files, of the imported code.

A golden file that changes means that results have changed: see "Golden results" in CONTRIBUTING.md.

Hashes do not depend on new columns, the order of rows or Arrow's types: the columns that a golden file names
are written as text, floats in hexadecimal form, and the rows are sorted.
"""

import argparse
import contextlib
import hashlib
import json
import tempfile
import tomllib
from pathlib import Path

import pyarrow as pa

from ldpflow.simulators.rows import Batch, rows_schema, simulate
from ldpflow.simulators.simulator import by_runs
from ldpflow.store.schema import REPLICATES, TRAJECTORIES, cell_id
from ldpflow.study import Study
from tests.golden.cases import CASES, FURTHER, write_records

HERE = Path(__file__).parent
BUNDLED = {file.stem: file for file in sorted((HERE.parents[1] / "workflows").rglob("*.toml"))}


def as_text(value):
    if value is None:
        return "null"
    return value.hex() if isinstance(value, float) else str(value)


def canonical_rows(table, columns):
    """Write rows as sorted tuples of text. A column that the table lacks is null."""
    texts = [
        [as_text(value) for value in table[name].to_pylist()]
        if name in table.column_names
        else ["null"] * table.num_rows
        for name in columns
    ]
    return sorted(zip(*texts, strict=True))


def digest(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def table_hashes(table, columns):
    """Hash the names of columns with the rows, and each column that has a value."""
    rows = canonical_rows(table, columns)
    values = {name: [row[k] for row in rows] for k, name in enumerate(columns)}
    return {
        "count": table.num_rows,
        "sha256": digest(["\t".join(columns), *("\t".join(row) for row in rows)]),
        "columns": {name: digest(v)[:8] for name, v in values.items() if set(v) != {"null"}},
    }


def columns_of(studies=()):
    """List the columns of interval rows, with those of the studies' methods, and of trajectory rows."""
    names = list(REPLICATES.names)
    plans = [plan for mapping in studies for plan in Study.from_mapping(mapping).plans()]
    found = {name for plan in plans for name in rows_schema(plan.cells).names}
    return {"rows": names + sorted(found - {*names}), "trajectories": list(TRAJECTORIES.names)}


def tiny_run(mapping):
    """Simulate a study: rows and trajectories for each path key. Cells of several runs have a batch each."""
    study = Study.from_mapping(mapping)
    for plan in study.plans():
        checkpoints, tables, trajectories = plan.checkpoints, [], None
        for runs, cells in sorted((by_runs(plan.cells) or {1: ()}).items()):
            batch = Batch(plan.simulator, study.seed, 0, study.replicates // runs, cells, (), checkpoints)
            made = simulate(batch)
            tables.append(made.rows)
            trajectories, checkpoints = trajectories or made.trajectories, ()
        rows = pa.concat_tables(tables, promote_options="default") if plan.cells else None
        yield plan.simulator.key, {"rows": rows, "trajectories": trajectories}


def case_results(study, columns):
    return {
        f"p{key}": {
            kind: table_hashes(table, columns[kind]) for kind, table in made.items() if table is not None
        }
        for key, made in tiny_run(study)
    }


def key_results(file):
    """Hash path keys, cell ids and checkpoints of a study, and name the first ones."""
    plans = Study.from_mapping(tomllib.loads(file.read_text())).plans()
    keys = [plan.simulator.key for plan in plans]
    cells = [[cell_id(cell.columns()) for cell in plan.cells] for plan in plans]
    named = [f"{key} {cell}" for key, ids in zip(keys, cells, strict=True) for cell in ids]
    checkpoints = [f"{plan.simulator.key} {list(plan.checkpoints)}" for plan in plans]
    return {
        "paths": len(plans),
        "cells": len(named),
        "first_paths": keys[:3],
        "first_cells": cells[0][:3],
        "paths_sha256": digest(sorted(keys)),
        "cells_sha256": digest(sorted(named)),
        "checkpoints_sha256": digest(sorted(checkpoints)),
    }


def make_cases(group):
    columns = columns_of(CASES[group].values() if group in FURTHER else ())
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_records(Path(folder))
        return {
            "columns": columns,
            "cases": {name: case_results(study, columns) for name, study in CASES[group].items()},
        }


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make")
    parser.add_argument("folder", type=Path, nargs="?", default=HERE, help="where to write them")
    names = [*CASES, "keys"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    chosen = parser.parse_args()
    for name in chosen.only:
        keys = name == "keys"
        found = {study: key_results(file) for study, file in BUNDLED.items()} if keys else make_cases(name)
        (chosen.folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
