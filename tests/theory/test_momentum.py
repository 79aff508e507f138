"""Analytic noise, schedules and bounds of the momentum family (Tran and Cutkosky, 2022)."""

import math

import numpy as np
import pytest

from ldpflow.components.algorithms.dp_nsgd import DpNsgd
from ldpflow.components.algorithms.dp_nsgd_reduced import DpNsgdReduced
from ldpflow.components.algorithms.finite_sum import best_epochs
from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.components.problems.robust_regression import RobustRegression
from ldpflow.errors import InputError
from ldpflow.numerics.streams import LANES
from ldpflow.numerics.tree import (
    mean_prefix_discount,
    mean_window_discount,
    prefix_discount,
    reduced_variance,
    squared_weights,
    window_variance,
)
from ldpflow.results import curves
from ldpflow.results.curves import theory_curves
from ldpflow.simulators.finite_sum import FiniteSum, draw_records, risk, run_erm
from tests.oracles import momentum as oracle


def test_prefix_noise_known():
    known = {(7, 0.5): 1.265625, (8, 0.5): 1, (6, 0.25): 1.31640625, (11, 0.1): 2.341441}
    for (t, alpha), value in known.items():
        assert prefix_discount(t, alpha) == pytest.approx(value, rel=1e-14)
    assert prefix_discount(1023, 0.001) == pytest.approx(8.505577, abs=1e-6)
    for alpha in (0.3, 0.01):
        exact = np.mean([prefix_discount(t, alpha) for t in range(256)])
        assert mean_prefix_discount(8, alpha) == pytest.approx(exact, rel=1e-12)


def test_window_and_reduced_noise_are_the_literal_ones():
    def variance(tree, y, z):
        return (7.0 if z <= 10 else 11.0) if tree == "G" else 3.0

    for t in range(1, 40):
        found = reduced_variance(t, 5, 0.2, 0.3, 7.0, 11.0, 3.0)
        assert found == pytest.approx(oracle.noise_variance(t, 5, 0.2, 0.3, variance), rel=1e-12)
    parts = reduced_variance(11, 4, 0.25, 0.5, 16 * 6.0, 16 * 32.0, 32.0)
    assert parts == pytest.approx((0.093962, 6.960374, 12.766968, 0.870239, 3.480957), abs=1e-6)
    assert mean_window_discount(100, 0.01) == pytest.approx(
        np.mean([window_variance(a, a + 99, 0.01) for a in range(129, 257)]), rel=0.05
    )
    s = [0.0]
    for i in range(4000):
        s.append(0.36 * s[-1] + 0.98**i)
    assert squared_weights(0.36, 0.02) == pytest.approx(sum(x * x for x in s), rel=1e-12)


def test_theorem_settings_known():
    problem = NonconvexLogistic(d=100)
    t = DpNsgd().theorem_steps(problem, 10**4)
    assert t == pytest.approx(155_958, abs=1)
    x = math.log2(t) * math.sqrt(100 * math.log(1e6))
    assert x * t == pytest.approx(1e8, rel=1e-9)
    steps = DpNsgd().theorem_steps(NonconvexLogistic(d=20), 10**5)
    assert steps / 1e5 == pytest.approx(245.08, abs=0.01)
    assert DpNsgdReduced().theorem_steps(problem, 10**4) == pytest.approx(1e8, rel=1e-14)
    first = DpNsgd(parameters="theorem", calibration="printed").plan(problem, 10**4)
    assert (first.epochs, first.sigma) == (16, pytest.approx(7.4338, abs=5e-5))
    assert first.alpha == 1e-4 and first.eta == pytest.approx(1 / math.sqrt(1e4 * 1.6e5))
    at = DpNsgdReduced(parameters="theorem").schedule(problem, 10**4)
    assert (at.steps, at.eta, at.cross) == (10**8, pytest.approx(1e-6), pytest.approx(0.01))


@pytest.mark.parametrize(("kind", "power"), [(DpNsgd, 1.0), (DpNsgdReduced, 4 / 3)])
def test_balanced_runs_grow_as_theory_says(kind, power):
    """q ~ eps N / sqrt(d) for Algorithm 1, its power 4/3 for Algorithm 2 (logarithms aside)."""

    def epochs(n, epsilon, d):
        algorithm = kind(epsilon=epsilon, order="fixed", parameters="balanced")
        return algorithm.schedule(NonconvexLogistic(d=d), n).steps / n

    base = epochs(4000, 2.0, 10)
    for factor, point in ((8, (32_000, 2.0, 10)), (4, (4000, 8.0, 10)), (0.5, (4000, 2.0, 40))):
        slope = math.log(epochs(*point) / base) / math.log(factor)
        assert slope == pytest.approx(power, abs=0.2), point


def test_balanced_epochs_without_a_gap_or_noise():
    assert best_epochs(1, 1000, 4.0, lambda q: 0.01 * math.sqrt(q)) == pytest.approx(200, rel=0.13)
    # No gap is known for robust regression: it is taken to be 1.
    assert DpNsgd(parameters="balanced").schedule(RobustRegression(), 1000).steps % 1000 == 0
    with pytest.raises(InputError, match="no noise"):
        DpNsgd(parameters="balanced", noise="none").schedule(NonconvexLogistic(), 100)


@pytest.mark.thorough
def test_bias_of_the_momentum_and_the_bounds_on_paths():
    """Spec facts 15 to 17, reshuffled, mean over 32 replicates; the bounds hold with much to spare."""
    problem, n = NonconvexLogistic(d=3, penalty=0.5), 16
    algorithm = DpNsgd(epsilon=4.0, epochs=10.0)
    plan = algorithm.plan(problem, n)
    times = range(1, plan.steps + 1)
    records = draw_records(problem, 4, n, range(LANES))
    record = run_erm(problem, algorithm, plan, records, 4, "k", range(LANES), times)
    _, gradients = risk(problem, records, record.iterates)
    bias = np.linalg.norm(record.momenta - gradients, axis=1).mean(axis=1)
    for t in times:
        assert bias[t - 1] <= curves.momentum_bias_bound(
            problem.lipschitz(), problem.smoothness(), plan.alpha, plan.eta, n, t
        )
    # Without the start-up term, which print leaves out, it fails at the first steps for small eta.
    assert curves.momentum_bias_bound(1.0, 0.0, 0.001, 1e-9, 1000, 1) > 0.999
    path = FiniteSum(problem, algorithm, n)
    bounds = theory_curves(path, list(times))["bound"]
    noise = np.linalg.norm(record.estimates - record.momenta, axis=1)
    # sqrt(d Var) is above the mean norm by 1/chi: at six standard errors of 160 correlated means.
    error = noise.std(axis=1, ddof=1) / math.sqrt(LANES)
    assert (noise.mean(axis=1) <= bounds["noise_norm"] + 6 * error).all()
    limit = theory_curves(path, list(times))["limit"]
    assert (np.abs(noise.mean(axis=1) - limit["noise_norm"]) <= 6 * error).all()
    mean = np.linalg.norm(gradients, axis=1).mean()
    assert mean < bounds["mean_gradient_norm"][-1] and np.isnan(bounds["mean_gradient_norm"][:-1]).all()
    assert limit["mean_gradient_norm"][0] == pytest.approx(3**0.25 / math.sqrt(4.0 * n))
