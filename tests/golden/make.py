"""``python -m tests.golden.make [FOLDER] [--only NAME ...]`` writes golden files, of the imported code.

A golden file that changes means that results have changed: see "Golden results" in CONTRIBUTING.md.

Rows are hashed in a form that survives new columns and another order of rows: the columns that a golden
file names as text, floats by their hexadecimal form; the rows sorted. Types of Arrow do not enter.
"""

import argparse
import contextlib
import hashlib
import json
import math
import tempfile
import time
import tomllib
from pathlib import Path

import pyarrow as pa

from ldpflow.simulators.rows import Batch, rows_schema, simulate
from ldpflow.simulators.simulator import by_runs
from ldpflow.store.part import PartMeta
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES, TRAJECTORIES, cell_id
from ldpflow.study import Study
from tests.golden.cases import CASES, FAST, FURTHER, write_records

HERE = Path(__file__).parent
BUNDLED = {file.stem: file for file in sorted((HERE.parents[1] / "workflows").rglob("*.toml"))}


def as_text(value):
    """Text of a value with nothing rounded; NaN equals itself."""
    if value is None:
        return "null"
    return value.hex() if isinstance(value, float) else str(value)


def canonical_rows(table, columns):
    """Rows as text, sorted; a column that the table lacks is null."""
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
    """SHA-256 of the columns' names and canonical rows, and short ones of columns that are not all null."""
    rows = canonical_rows(table, columns)
    values = {name: [row[k] for row in rows] for k, name in enumerate(columns)}
    return {
        "count": table.num_rows,
        "sha256": digest(["\t".join(columns), *("\t".join(row) for row in rows)]),
        "columns": {name: digest(v)[:8] for name, v in values.items() if set(v) != {"null"}},
    }


def columns_of(studies=()):
    """Columns of interval rows and of trajectory rows, further columns of the studies' methods last."""
    names = list(REPLICATES.names)
    plans = [plan for mapping in studies for plan in Study.from_mapping(mapping).plans()]
    found = {name for plan in plans for name in rows_schema(plan.cells).names}
    return {"rows": names + sorted(found - {*names}), "trajectories": list(TRAJECTORIES.names)}


def tiny_run(mapping):
    """Path keys of a study, and the rows and trajectories of its replicates in one batch.

    Cells whose rows are made of several replicates have a batch of their own.
    """
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
    """Hashes of every path of a case, by path key; run where :func:`write_records` has written."""
    return {
        f"p{key}": {
            kind: table_hashes(table, columns[kind]) for kind, table in made.items() if table is not None
        }
        for key, made in tiny_run(study)
    }


def key_results(file):
    """Path keys, cell ids and checkpoints of a study: hashes over all, and the first ones in clear."""
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


# Parts whose bytes are golden: exact binary fractions, every kind of null and status.

KEY = "0123456789abcdef"
SETTINGS = {"problem": {"kind": "quantile", "tau": 0.9}, "algorithm": {"kind": "ldp_sgd", "c": 0.5}}
CELLS = [
    {"n": 1000, "method": "BB", "beta": 0.75, "B": 500, "multiplier": "uniform", "level": 0.9},
    {"n": 1000, "method": "BM", "M": 5, "level": 0.9},
    {"n": 100, "method": "SN", "level": 0.95},
    {"n": 1000, "method": "TR", "level": 0.9, "degree": 2, "burn_in": "n^0.4", "variance": "known"},
]
CHECKPOINTS = [10, 100, 1000]


def interval_rows():
    """Four cells, two coordinates, replicates 64 to 69; 66 diverged, SN undefined in 67."""
    rows = []
    for replicate in range(64, 70):
        for number, cell in enumerate(CELLS):
            for coordinate in range(2):
                estimate = ((replicate * 37 + number * 11 + coordinate * 5) % 64 - 32) / 256
                half = (number + 1) / 16
                bad = replicate == 66 or (replicate == 67 and cell["method"] == "SN")
                row = {
                    "replicate": replicate,
                    **cell,
                    "coordinate": coordinate,
                    "truth": coordinate / 8,
                    "estimate": estimate,
                    "se": None if cell["method"] == "SN" else half / 2,
                    "lower": estimate - half,
                    "upper": estimate + half,
                    "covered": abs(estimate - coordinate / 8) <= half,
                    "length": 2 * half,
                    "status": "ok",
                }
                if bad:
                    row |= dict.fromkeys(("lower", "upper", "length"), math.nan)
                    row |= {"covered": None, "status": "diverged" if replicate == 66 else "undefined"}
                if cell["method"] == "TR":
                    row |= {"relaxation_times": 32.5, "condition": 4.0, "lack_of_fit": -0.75}
                rows.append(row)
    return rows


def trajectory_rows():
    """Replicates 0 to 4 at three checkpoints; 3 diverged."""
    return [
        {
            "replicate": replicate,
            "n": n,
            "step": n,
            "last_sq": math.nan if replicate == 3 else (replicate + 1) / n,
            "avg_sq": math.nan if replicate == 3 else (replicate + 2) / (2 * n),
            "status": "diverged" if replicate == 3 else "ok",
        }
        for replicate in range(5)
        for n in CHECKPOINTS
    ]


def part_results(folder):
    """Names and SHA-256 of a part of intervals and a part of trajectories, with fixed metadata."""
    store, versions = RunStore(folder), {"ldpflow": "0", "numpy": "0"}
    meta = PartMeta(seed=7, stream_version=1, path_settings=SETTINGS, versions=versions)
    rows = pa.Table.from_pylist(interval_rows(), schema=REPLICATES)
    trajectories = pa.Table.from_pylist(trajectory_rows(), schema=TRAJECTORIES)
    names = {
        "intervals": store.replicates.write(KEY, rows, meta),
        "trajectories": store.trajectories.write(KEY, trajectories, meta, [{"checkpoints": CHECKPOINTS}]),
    }
    return {"pyarrow": pa.__version__} | {
        kind: {"name": name, "sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()}
        for kind, name in names.items()
    }


def make_parts():
    with tempfile.TemporaryDirectory() as folder:
        return part_results(Path(folder))


def make_keys():
    return {name: key_results(file) for name, file in BUNDLED.items()}


def make_cases(group):
    """Golden rows of a group of cases; prints what every case costs."""
    columns = columns_of(CASES[group].values() if group in FURTHER else ())
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_records(Path(folder))
        for name, study in CASES[group].items():
            before = time.process_time()
            found[name] = case_results(study, columns)
            cost = time.process_time() - before
            print(f"{cost:7.2f} s CPU  {'fast' if name in FAST else 'slow'}  {name}", flush=True)
    return {"columns": columns, "cases": found}


def main():
    """Write the golden files that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make")
    parser.add_argument("folder", type=Path, nargs="?", default=HERE, help="where to write them")
    names = [*CASES, "keys", "parts"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    chosen = parser.parse_args()
    makers = {"keys": make_keys, "parts": make_parts}
    folder = chosen.folder.resolve()
    for name in chosen.only:
        found = makers[name]() if name in makers else make_cases(name)
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
