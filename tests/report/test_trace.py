"""A trace: one path, every n, bit for bit the rows of sweeps at these n."""

import pytest

from ldpflow.errors import InputError
from ldpflow.report.trace import log_grid, trace
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.study import Study
from tests.studies import changed

ONE = changed(
    problem__tau=0.5, mechanism__epsilon=1, grid__level=0.9,
    method=[{"kind": "BB", "beta": 0.75, "B": 50}, {"kind": "BM"}, {"kind": "SN"}],
)  # fmt: skip


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldpflow.report.trace.LAST", 2000)
    monkeypatch.setattr("ldpflow.report.trace.POINTS", 20)


def test_rows_are_those_of_single_runs() -> None:
    study = Study.from_mapping(ONE)
    rows = trace(study, replicate=3)
    grid = log_grid(10, 2000, 20)
    assert sorted(set(rows["n"].to_pylist())) == grid and (grid[0], grid[-1]) == (10, 2000)
    assert 350 < len(log_grid(10, 1_000_000, 400)) <= 400
    path = study.plans()[0].simulator
    for n in (grid[4], grid[-1]):
        cells = tuple(Cell(n, method, 0.9) for method in study.method_settings)
        alone = simulate(Batch(path, study.seed, 3, 4, cells)).rows.sort_by("method")
        here = [row for row in rows.to_pylist() if row["n"] == n]
        assert repr(here) == repr(alone.to_pylist())


STEPS = {"kind": "minibatch_sgd", "gamma": 0.6, "batch_size": 5000}
LARGE = ONE | {"algorithm": STEPS, "grid": {"n": [1e5], "level": [0.9]}}


@pytest.mark.parametrize(("study", "said"), [(changed(), "one path"), (ONE, "MiB"), (LARGE, "2,000 records")])
def test_refused(study: dict, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldpflow.report.trace.MOST_BYTES", 2**14)
    with pytest.raises(InputError, match=f"^study: .*{said}"):
        trace(Study.from_mapping(study))
