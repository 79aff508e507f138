"""Progress of a run: replicates of every cell, and of the paths."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ldpflow.store import cell_id
from ldpflow.store.schema import cell_keys
from ldpflow.study import Study

__all__ = ["reached"]


def reached(study: Study, summary: pa.Table, followed: pa.Table) -> dict[str, int]:
    """The counts of a :class:`~ldpflow.engine.events.RunResult`.

    ``finished_replicates`` is the least number that a cell, or a trajectory, of the study has;
    ``done_replicates`` the sum over paths of the least number that a cell of the path has, at most those
    that the study wants.
    """
    keys = [*cell_keys(summary.schema), "path", "replicates"]
    counts: dict[tuple[str, str], int] = {}
    for row in summary.select(keys).to_pylist():
        path, replicates = row.pop("path"), row.pop("replicates")
        counts[path, cell_id(row)] = replicates
    followed_by_path: dict[str, int] = {}
    if study.trajectory is not None and followed.num_rows:
        groups = followed.group_by("path").aggregate([("replicates", "min")])
        followed_by_path = dict(
            zip(groups["path"].to_pylist(), groups["replicates_min"].to_pylist(), strict=True)
        )
    least: list[int] = []
    for plan in study.plans():
        path = f"p{plan.simulator.key}"
        own = [followed_by_path.get(path, 0)] if plan.checkpoints else []
        for cell in plan.cells:
            rows = counts.get((path, cell_id(cell.columns())), 0)
            # What is left over makes no row.
            left = study.replicates % cell.runs if rows == study.replicates // cell.runs else 0
            own.append(rows * cell.runs + left)
        if own:
            least.append(min(own))
    finished = least.copy()
    if study.trajectory is not None:
        finished.append(pc.min(followed["replicates"]).as_py() or 0)
    wanted = study.replicates
    return {
        "finished_replicates": min(finished, default=0),
        "paths": len(least),
        "complete_paths": sum(count >= wanted for count in least),
        "done_replicates": sum(min(count, wanted) for count in least),
        "wanted_replicates": len(least) * wanted,
    }
