"""Rows to store: values that depend on (path, replicate, cell, coordinate) only."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.store.part import PartMeta, UnreadablePart
from ldpflow.store.run_store import RunStore
from ldpflow.store.schema import REPLICATES, cell_id

BB = {"n": 1000, "method": "BB", "beta": 0.75, "B": 500, "multiplier": "uniform", "level": 0.9}
BM = {"n": 1000, "method": "BM", "level": 0.9}
SN = {"n": 100, "method": "SN", "level": 0.95}
CELLS = (BB, BM, SN)

KEY = "0123456789abcdef"
OTHER_KEY = "1111111111111111"

META = PartMeta(seed=7, stream_version=1, path_settings={"problem": "quantile"}, versions={"ldpflow": "0"})


def complete_rows(
    first: int,
    last: int,
    cells: Sequence[Mapping[str, Any]] = CELLS,
    coordinates: int = 2,
    shift: float = 0.0,
) -> pa.Table:
    """Every replicate, cell and coordinate once; replicate 5 of SN is undefined."""
    rows = []
    for replicate in range(first, last):
        for cell in cells:
            for coordinate in range(coordinates):
                rng = np.random.default_rng([replicate, coordinate, len(cell_id(cell))])
                estimate, half = rng.normal() / 10 + shift, 0.1 + rng.random() / 10
                failed = replicate == 5 and cell["method"] == "SN"
                rows.append(
                    {
                        "replicate": replicate,
                        **cell,
                        "coordinate": coordinate,
                        "truth": 0.0,
                        "estimate": estimate,
                        "se": half / 2 if cell["method"] != "SN" else None,
                        "lower": math.nan if failed else estimate - half,
                        "upper": math.nan if failed else estimate + half,
                        "covered": None if failed else abs(estimate) <= half,
                        "length": math.nan if failed else 2 * half,
                        "status": "undefined" if failed else "ok",
                    }
                )
    return pa.Table.from_pylist(rows, schema=REPLICATES)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Equal rows whatever their order; NaN equals NaN."""
    return sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))


def unusable(store: RunStore) -> list[UnreadablePart]:
    """Files among the replicates that cannot be used; all rows are read."""
    found: list[UnreadablePart] = []
    for _ in store.replicates.loaded(store.replicates.scan(damaged=found), damaged=found):
        pass
    return found
