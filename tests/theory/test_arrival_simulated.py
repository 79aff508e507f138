"""Predicted against simulated arrival: minutes of Monte Carlo, seeds fixed.

Bounds are those of the predictor's own study plus four standard errors of what is simulated here, so that
each comparison fails with probability below 1e-4 if all is well.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Law
from ldpflow.engine.run import run_study
from ldpflow.practice.planning.sources import design
from ldpflow.results.arrival import LATTICE, lattice_ratio, predict_arrivals
from ldpflow.simulators.approach import Approach
from ldpflow.store.run_store import RunStore
from tests.studies import quantile_path
from tests.theory.test_arrival import grid

TR3 = {"kind": "TR", "degree": 3, "burn_in": "0.01n"}


def simulated(folder, problem, epsilon, steps, n, methods, replicates, seed=11):
    """Rows of the summary by method (TR3 for TR of degree 3), one path."""
    study = quantile_path(n, seed=seed, epsilon=epsilon, methods=methods, **problem)
    study = study.replace(replicates=replicates, algorithm=LdpSgd(**steps))
    run_study(study, folder, engine="serial")
    rows = RunStore(folder).read_summary().to_pylist()
    return {row["method"] + ("3" if row["degree"] == 3 else ""): row for row in rows}


def covered(row):
    return row["coverage_failures_as_misses"]


@pytest.mark.slow
def test_predicted_coverage_of_cells_drawn_from_the_grid(tmp_path):
    """24 of the 432 cells, 400 replicates each: good is good, lost is lost, and large biases are right."""
    cells = np.random.default_rng(20240521).choice(len(grid()), 24, replace=False)
    cases = [grid()[k] for k in cells]
    for case, found in zip(cases, predict_arrivals(cases), strict=True):
        law = case.law
        problem = {"tau": case.tau, "law": law.name, "scale": law.scale}
        problem |= {k: v for k, v in (("df", law.df), ("shape", law.shape)) if v is not None}
        epsilon = 2.0 * math.asinh(0.5 / math.sqrt(case.noise))
        steps = {"gamma": case.gamma, "c": case.c}
        folder = tmp_path / f"{law.name}-{law.scale}-{case.tau}-{case.noise}-{case.gamma}"
        row = simulated(folder, problem, epsilon, steps, case.steps, [{"kind": "oracle"}], 400)["oracle"]
        if found.coverage(0.9) > 0.87:
            assert covered(row) > 0.80
        if found.coverage(0.9) < 0.5:
            assert covered(row) < 0.75
        if abs(found.bias) > 3:
            ratio = row["bias"] / found.standard_error / found.bias
            assert 0.25 < ratio < 4


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize("tau", [0.5, 0.9])
@pytest.mark.parametrize("name", ["normal", "exponential", "lognormal"])
def test_the_rule_survives_a_factor_of_two(tmp_path, name, tau, epsilon):
    """TR3 with the rule's c, half and twice of it: coverage in [.87, .95], 1,000 replicates."""
    law = Law(name, shape=1.0 if name == "lognormal" else None)
    problem = {"tau": tau, "law": name} | ({"shape": 1.0} if name == "lognormal" else {})
    rule = design(law, tau, 100_000)
    for factor in (0.5, 1.0, 2.0):
        steps = {"gamma": rule.gamma, "c": rule.c * factor, "theta0": rule.theta0}
        folder = tmp_path / f"{factor}"
        row = simulated(folder, problem, epsilon, steps, 100_000, [TR3], 1000)["TR3"]
        assert 0.87 <= covered(row) <= 0.95, (factor, covered(row))


ROUNDED = np.round(2 * np.random.default_rng(3).normal(size=20_000)) / 2


def test_jitter_makes_a_lattice_harmless(tmp_path):
    """N(0, 1) rounded to .5, K = 50: of 400 an honest interval covers .90 +- .05, but for 1 seed in 1000."""
    n, c = 20_000, 50.0 / 0.3989 / float(np.sum(np.arange(1, 20_001.0) ** -0.51))
    file = tmp_path / "values.csv"
    np.savetxt(file, ROUNDED, header="v", comments="")
    problem = {"tau": 0.5, "law": "empirical", "file": str(file), "column": "v", "jitter": 0.5}
    methods = [{"kind": "oracle"}, {"kind": "TR"}]  # TR has a kernel that other tests compile
    found = simulated(tmp_path / "run", problem, 1.0, {"gamma": 0.51, "c": c}, n, methods, 400)
    assert 0.85 <= covered(found["oracle"]) <= 0.95


def test_the_true_law_of_a_rounded_value_is_coarse_for_these_steps():
    """What the caution of a plan measures: spacing over the deviation of the last iterates."""
    table = column_law(ROUNDED)
    case = Approach(Law("empirical", table=table), 0.9, math.e / (math.e - 1) ** 2, 0.3, 0.51, 0.0, 20_000)
    assert table.spacing == 0.5 and lattice_ratio(case) > LATTICE
    assert lattice_ratio(replace(case, c=100.0)) < LATTICE
    assert lattice_ratio(replace(case, law=Law("normal"))) == 0.0
