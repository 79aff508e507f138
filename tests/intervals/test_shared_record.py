"""Methods that share what they compute on a record: rows of all the arena's methods, and of each alone."""

from __future__ import annotations

import pytest

from ldpflow.simulators.rows import rows_of
from ldpflow.simulators.simulator import by_runs
from ldpflow.study import Study

ARENA = {
    "name": "rows",
    "seed": 8,
    "replicates": 10,
    "problem": {"kind": "quantile", "tau": 0.9},
    "mechanism": {"kind": "randomized_response", "epsilon": 2.0},
    "algorithm": {"kind": "ldp_sgd", "theta0": 1.0},
    "grid": {"n": 900, "level": 0.9},
    "method": [
        {"kind": "TRC", "degree": [1, 2], "variance": ["known", "residual"], "small_run": [True, False]},
        {"kind": "NOL", "quantile": ["normal", "t"]},
        {"kind": "OBM", "block_c": [1.0, 0.5]},
        {"kind": "EBS", "block_rule": ["half", "third"]},
        {"kind": "EBS", "block_rule": "n^0.75", "quantile": "t"},
        {"kind": "LUG", "block_rule": "n^0.75"},
        {"kind": "LUG", "base": "BM"},
        {"kind": "BM", "quantile": "t"},
        {"kind": "SUF"},
        {"kind": "SUF", "base": "oracle", "share": 0.3},
        {"kind": "CHB", "B": [2, 5]},
        {"kind": "ACS", "t_opt": 400, "base": ["TRC", "oracle"]},
        {"kind": ["BB", "SN", "PAR", "HULC"]},
        {"kind": ["TR", "TR-BM"], "degree": [2, 3]},
    ],
}


@pytest.mark.thorough
def test_methods_of_one_record_do_not_change_each_other():
    """What methods compute together on a record is what each computes alone."""
    (plan,) = Study.from_mapping(ARENA).plans()
    cells = by_runs(plan.cells)[1]
    record = plan.simulator.run(ARENA["seed"], range(5), plan.simulator.needs(cells))
    together = rows_of(record, cells).to_pylist()
    again = rows_of(record, cells[::-1]).to_pylist()
    alone = []
    for cell in cells:
        own = plan.simulator.run(ARENA["seed"], range(5), plan.simulator.needs([cell]))
        alone += rows_of(own, [cell]).to_pylist()

    def sortable(rows):
        return sorted(repr(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)

    assert sortable(together) == sortable(alone) == sortable(again)
