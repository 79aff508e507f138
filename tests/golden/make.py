"""``python -m tests.golden.make [FOLDER] [--only NAME ...]`` writes golden files, of the imported code.

A golden file that changes means that results have changed: see "Golden results" in CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from tests.golden import adapter, part
from tests.golden.canonical import column_hashes, digest, table_hash
from tests.golden.cases import CASES, FURTHER, write_records

__all__ = ["HERE", "case_results", "key_results", "part_results"]

HERE = Path(__file__).parent


def case_results(case, columns):
    """Hashes of every path of a case, by path key; run where :func:`write_records` has written."""
    found = {}
    for key, made in adapter.tiny_run(case.study):
        found[f"p{key}"] = {
            kind: {
                "count": table.num_rows,
                "sha256": table_hash(table, columns[kind]),
                "columns": column_hashes(table, columns[kind]),
            }
            for kind, table in made._asdict().items()
            if table is not None
        }
    return found


def key_results(plans):
    """Path keys, cell ids and checkpoints of a study: hashes over all, and the first ones in clear."""
    cells = [f"{plan.key} {cell}" for plan in plans for cell in plan.cells]
    checkpoints = [f"{plan.key} {plan.checkpoints}" for plan in plans]
    return {
        "paths": len(plans),
        "cells": len(cells),
        "first_paths": [plan.key for plan in plans[:3]],
        "first_cells": plans[0].cells[:3],
        "paths_sha256": digest(sorted(plan.key for plan in plans)),
        "cells_sha256": digest(sorted(cells)),
        "checkpoints_sha256": digest(sorted(checkpoints)),
    }


def part_results(folder):
    """Names and SHA-256 of a part of intervals and a part of trajectories."""
    files = {
        "intervals": adapter.write_part(folder, part.KEY, part.interval_rows(), part.SETTINGS),
        "trajectories": adapter.write_trajectory_part(
            folder, part.KEY, part.CHECKPOINTS, part.trajectory_rows(), part.SETTINGS
        ),
    }
    return {"pyarrow": pa.__version__} | {
        kind: {
            "name": str(file.relative_to(folder)),
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        for kind, file in files.items()
    }


def make_parts():
    """Golden bytes."""
    with tempfile.TemporaryDirectory() as folder:
        return part_results(Path(folder))


def make_cases(group):
    """Golden rows of a group of cases; prints what every case costs."""
    columns = (
        adapter.columns(case.study for case in CASES[group].values())
        if group in FURTHER
        else adapter.columns()
    )
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_records(Path(folder))
        for name, case in CASES[group].items():
            before = time.process_time()
            found[name] = case_results(case, columns)
            cost = time.process_time() - before
            print(f"{cost:7.2f} s CPU  {'slow' if case.slow else 'fast'}  {name}", flush=True)
    return {"columns": columns, "cases": found}


def make_keys():
    """Golden keys of the bundled studies."""
    return {name: key_results(adapter.plans_of(file)) for name, file in adapter.bundled_studies().items()}


MAKERS = {
    **{group: (lambda group=group: make_cases(group)) for group in CASES},
    "keys": make_keys,
    "parts": make_parts,
}


def main():
    """Write the golden files that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.make")
    parser.add_argument("folder", type=Path, nargs="?", default=HERE, help="where to write them")
    parser.add_argument("--only", nargs="+", choices=MAKERS, default=list(MAKERS))
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    for name in chosen.only:
        text = json.dumps(MAKERS[name](), indent=1)
        (folder / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
