"""One replicate as n grows (Dette and Graw, Figure 1): every interval at hundreds of n, one path.

All n's come from one pass over one path: its record is kept at the union of the times that the
methods need at every n, and each row is bit for bit the row of a sweep at that n.
"""

from __future__ import annotations

import math

import pyarrow as pa

from ldpflow.errors import InputError
from ldpflow.simulators.batch import Batch, simulate
from ldpflow.simulators.cell import Cell
from ldpflow.study import Study

__all__ = ["log_spaced", "trace"]

MOST_BYTES = 2**30


def log_spaced(first: int, last: int, count: int) -> list[int]:
    """About ``count`` distinct integers from ``first`` to ``last``, evenly spaced in log n."""
    ratio = math.log(last / first)
    spaced = (round(first * math.exp(ratio * i / (count - 1))) for i in range(count))
    return sorted({first, last, *(min(max(n, first), last) for n in spaced)})


def trace(
    study: Study, first: int = 10, last: int = 10**6, points: int = 400, replicate: int = 0
) -> pa.Table:
    """Estimate and limits of every method of a study with one path, at many n.

    Parameters
    ----------
    study : Study
        Its n are not used.
    first, last : int
        Smallest and largest n (users).
    points : int
        How many n, evenly spaced in log n; rounding merges some of the smallest.
    replicate : int

    Returns
    -------
    pyarrow.Table
        Rows in the store's replicate schema, sorted by n.

    Raises
    ------
    InputError
        If the study has several paths or an algorithm that depends on the horizon.
    """
    plans = study.plans()
    if len(plans) != 1 or plans[0].simulator.horizon is not None:
        raise InputError(
            "study",
            f"{study.name} with {len(plans)} paths",
            "one path that serves every n",
            "Choose one value for every setting.",
        )
    simulator = plans[0].simulator
    least = simulator.parts()["algorithm"].records_per_step()
    if not least <= first < last:
        raise InputError("from", first, f"an integer in [{least}, {last})")
    grid = log_spaced(first, last, points)
    cells = tuple(Cell(n, m, level) for n in grid for m in study.method_settings for level in study.level)
    size = simulator.cost(simulator.needs(cells), 1).bytes
    if size > MOST_BYTES:
        allowed = f"a record of at most {MOST_BYTES / 2**20:,.0f} MiB"
        raise InputError("points", points, allowed, f"These points need {size / 2**20:,.0f} MiB.")
    rows = simulate(Batch(simulator, study.seed, replicate, replicate + 1, cells)).rows
    return rows.sort_by([(name, "ascending") for name in ("n", "method", "level", "coordinate")])
