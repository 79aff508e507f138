"""A trace: one path, every n, bit for bit the rows of sweeps at these n."""

import pytest

from ldpflow.errors import InputError
from ldpflow.report.trace import trace
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.study import Study
from tests.studies import changed

ONE = changed(
    problem__tau=0.5, mechanism__epsilon=1, grid__level=0.9,
    method=[{"kind": "BB", "beta": 0.75, "B": 50}, {"kind": "BM"}, {"kind": "SN"}],
)  # fmt: skip


def test_rows_are_those_of_single_runs():
    study = Study.from_mapping(ONE)
    rows = trace(study, 10, 2000, 20, replicate=3)
    grid = sorted(set(rows["n"].to_pylist()))
    assert (grid[0], grid[-1], len(grid)) == (10, 2000, 20)
    path = study.plans()[0].simulator
    for n in (grid[4], grid[-1]):
        cells = tuple(Cell(n, method, 0.9) for method in study.method_settings)
        alone = simulate(Batch(path, study.seed, 3, 4, cells)).rows.sort_by("method")
        assert repr([row for row in rows.to_pylist() if row["n"] == n]) == repr(alone.to_pylist())


@pytest.mark.parametrize(
    ("study", "options", "said"),
    [
        (changed(), {}, "^study: "),
        (ONE, {"first": 20, "last": 10}, "^from: "),
        (ONE, {"last": 10_000, "points": 50}, "^points: "),
    ],
)
def test_refused(study, options, said, monkeypatch):
    monkeypatch.setattr("ldpflow.report.trace.MOST_BYTES", 2**16)
    with pytest.raises(InputError, match=said):
        trace(Study.from_mapping(study), **options)
