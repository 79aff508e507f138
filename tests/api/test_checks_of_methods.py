"""``check-plugin`` passes every sound method, and rows of one that reads the truth are refused."""

from typing import Literal

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.intervals import INTERVAL_METHODS, average
from ldpflow.errors import LdpflowError
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from ldpflow.testing import checks
from ldpflow.testing.checks import checks_of, path_of
from tests.kernels import uncompiled

BUNDLED = [
    kind
    for kind, method in INTERVAL_METHODS.items()
    if issubclass(method, lf.PathIntervalMethod) and kind not in ("joint", "PB")
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in ("OBM", "SUF") else ()) for kind in BUNDLED]
)
def test_bundled_methods_pass(kind):
    method = INTERVAL_METHODS[kind].model_validate({"t_opt": 500} if kind == "ACS" else {})
    for check in checks_of(method).values():
        check(method)


class Fixed(lf.PathIntervalMethod):
    """The average, give or take a half width that shrinks with the level."""

    kind: Literal["fixed"] = "fixed"

    def times(self, steps, algorithm):
        return np.array([steps // 2, steps])

    def level_times(self, steps, algorithm, levels):
        return np.array([steps])

    def count_times(self, steps, algorithm):
        return 2

    def around(self, centre, levels):
        half = np.stack([np.full_like(centre, 1.0 - level) for level in levels])
        return lf.Intervals(centre, None, centre - half, centre + half)

    def intervals(self, record, n, levels):
        return self.around(average(record, record.steps(n)), levels)


class OfRuns(Fixed):
    """The middle of three runs, each on all users; a level above .95 takes five."""

    kind: Literal["of_runs"] = "of_runs"

    def runs(self, level):
        return 5 if level > 0.95 else 3

    def intervals(self, record, n, levels):
        centre = average(record, record.steps(n))
        runs = self.runs(levels[0])
        return self.around(np.median(centre.reshape(len(centre), -1, runs), axis=2), levels)


@pytest.mark.parametrize("method", [Fixed(), OfRuns()], ids=lambda method: method.kind)
def test_methods_pass_that_have_times_by_level_or_several_runs_or_do_not_nest(method, monkeypatch):
    uncompiled.use(monkeypatch)
    monkeypatch.setattr(checks, "STEPS", 300)
    assert {name: check(method) for name, check in checks_of(method).items()}["times"] == "1 times"


class Cheat(Fixed):
    """Around the truth."""

    kind: Literal["cheat"] = "cheat"
    declared: bool = False

    def reads_truth(self):
        return self.declared

    def intervals(self, record, n, levels):
        return self.around(average(record, record.steps(n)) * 0 + record.truth[:, None], levels)


def test_rows_of_a_method_that_reads_the_truth_are_refused(monkeypatch):
    uncompiled.use(monkeypatch)
    batch = [Batch(path_of(), 1, 0, 3, (Cell(100, Cheat(declared=d), 0.9),)) for d in (True, False)]
    assert simulate(batch[0]).rows["covered"].to_pylist() == [True] * 3
    with pytest.raises(LdpflowError, match=r"Cheat: it reads record.truth.*let reads_truth\(\) return True"):
        simulate(batch[1])
