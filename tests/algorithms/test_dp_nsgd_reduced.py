"""Sensitivity-reduced DP-NSGD: golden vectors, the literal algorithm, its noise."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from ldpflow.components.algorithms.dp_nsgd_reduced import DpNsgdReduced, tree_variances
from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.simulators.finite_sum import draw_records, run_erm
from tests.algorithms.test_dp_nsgd import (
    PLAIN,
    START,
    golden,
    lane_records,
    problem_gradient,
    tanh_gradient,
    zeta_of,
)
from tests.oracles import momentum

FIXED = DpNsgdReduced(epochs=8 / 3, alpha=0.5, eta=0.1, cross=0.25, order="fixed")
ROTATING = FIXED.model_copy(update={"order": "reshuffle"})
ZERO = lambda tree, y, z: np.zeros(2)  # noqa: E731
IDENTITY = [t % 3 for t in range(8)]
ROTATED = [(t + t // 3) % 3 for t in range(8)]


def pseudo(tree, y, z):
    return {"A": 0.05, "G": 1.0, "D": 2.0, "r": 3.0}[tree] * np.array([0.01 * y, -0.02 * z])


def oracle(records, zeta, **changed):
    settings = {"n": 3, "alpha": 0.5, "gamma": 0.25, "eta": 0.1} | changed
    return momentum.reduced(tanh_gradient, START, records, zeta=zeta, **settings)


GOLDEN = {
    3: (0.130872557983, 0.054311258893),
    5: (0.373591520004, 0.141253269087),
    6: (-0.128647017808, -0.183267680246),
    7: (0.556452764039, -0.537677907013),
    8: (0.232602670817, -0.005135933204),
}
GOLDEN_ROTATED = {
    6: ((0.520396025505, -0.191632963297), (0.186361861631, -0.031888867703)),
    7: ((0.085122599772, -0.299470195294), (-0.004620408935, 0.210119710796)),
    8: ((0.581116445917, -0.414419232420), (0.008472551237, -0.136584314395)),
}


def test_golden_with_pseudo_noise(plain):
    mhat, m, last = golden(FIXED, 1.0)
    for t, value in GOLDEN.items():
        assert mhat[t - 1] == pytest.approx(value, abs=1e-10)
    assert m[5] == pytest.approx((-0.275209517808, 0.184232319754), abs=1e-10)
    assert last == pytest.approx((-0.269867620445, -0.131585578035), abs=1e-10)
    w, ms, mhats, _ = oracle(IDENTITY, pseudo)
    assert np.allclose(mhat, mhats, atol=1e-13) and np.allclose(m, ms, atol=1e-13)
    assert last == pytest.approx(w[-1], abs=1e-13)


def test_without_noise_and_in_a_fixed_order_it_is_the_momentum(plain):
    mhat, m, _ = golden(FIXED, 0.0)
    assert np.allclose(mhat, m, rtol=0, atol=1e-14)


def test_golden_rotating_order(plain):
    # Lemma 17 fails here, and an anchor w_{qN} instead of w_{qN+1} shows from t = 7 on.
    mhat, m, last = golden(ROTATING, 0.0)
    assert np.allclose(mhat[:5], m[:5], rtol=0, atol=1e-14)
    for t, (secret, estimate) in GOLDEN_ROTATED.items():
        assert m[t - 1] == pytest.approx(secret, abs=1e-10)
        assert mhat[t - 1] == pytest.approx(estimate, abs=1e-10)
    assert last == pytest.approx((0.071072406866, -0.489458909773), abs=1e-10)


LITERAL = [(8, 5, "reshuffle"), (5, 6.4, "fixed")]


@pytest.mark.parametrize(("n", "epochs", "order"), LITERAL)
def test_functions_of_the_kernel_are_the_literal_algorithm(n, epochs, order, plain):
    compare(n, epochs, order)


def test_compiled_kernel_is_the_literal_algorithm():
    compare(*LITERAL[0])


def compare(n, epochs, order):
    problem, seed, replicate = NonconvexLogistic(d=2, penalty=0.3), 9, 4
    algorithm = DpNsgdReduced(
        epsilon=30.0, delta=1e-3, epochs=epochs, order=order, alpha=0.25, eta=0.03, cross=0.3
    )
    plan = algorithm.plan(problem, n)
    records = draw_records(problem, seed, n, [0, replicate])
    times = range(1, plan.steps + 1)
    record = run_erm(problem, algorithm, plan, records, seed, "key", [0, replicate], times, **PLAIN)
    data = lane_records(records, problem, 1)
    turn = order == "reshuffle"
    visits = [data[(t + turn * (t // n)) % n] for t in range(plan.steps)]
    v1, v2 = tree_variances(n, plan.steps)
    g, smooth = problem.lipschitz_of_loss(), problem.smoothness_of_loss()

    def scale(tree, y, z):
        if tree == "G":
            return 4 * g * plan.sigma * math.sqrt(v1 if z <= 2 * n else v2)
        return 4 * plan.eta * n * smooth * plan.sigma * math.sqrt(v2)

    zeta = zeta_of(seed, "key", replicate, 2, scale, {"G": 2, "D": 3, "r": 4})
    w, m, mhat, _ = momentum.reduced(problem_gradient(problem), np.zeros(2), visits, n, 0.25, 0.3, 0.03, zeta)
    assert np.allclose(record.estimates[:, :, 1], mhat, rtol=1e-10, atol=1e-10)
    assert np.allclose(record.momenta[:, :, 1], m, rtol=1e-10, atol=1e-10)
    assert np.allclose(record.last[:, 1], w[-1], rtol=0, atol=1e-10)


def test_the_order_of_batches_of_two_is_that_of_their_means(plain):
    # A batch of two records is one record whose gradient is their mean (ours, not the paper's).
    problem, seed = NonconvexLogistic(d=2, penalty=0.3), 1
    algorithm = DpNsgdReduced(
        epsilon=30.0, epochs=5, order="fixed", alpha=0.25, eta=0.03, cross=0.3, batch_size=2
    )
    plan = algorithm.plan(problem, 9)
    assert (plan.batches, plan.steps) == (4, 20)
    plan = dataclasses.replace(plan, sigma=0.0)
    records = draw_records(problem, seed, 9, [0])
    record = run_erm(problem, algorithm, plan, records, seed, "key", [0], range(1, 21), **PLAIN)
    data = lane_records(records, problem, 0)
    one = problem_gradient(problem)
    pairs = [(data[2 * i], data[2 * i + 1]) for i in range(4)]
    visits = [pairs[t % 4] for t in range(20)]
    _, _, mhat, _ = momentum.reduced(
        lambda w, pair: (one(w, pair[0]) + one(w, pair[1])) / 2, np.zeros(2), visits, 4, 0.25, 0.3, 0.03, ZERO
    )
    assert np.allclose(record.estimates[:, :, 0], mhat, rtol=0, atol=1e-12)


def unit_variances(n, steps, scale, eta, smooth):
    v1, v2 = 3 * math.log2(n), 4 * steps / n * math.log2(n)

    def variance(tree, y, z):
        if tree == "G":
            return 16 * (v1 if z <= 2 * n else v2)
        return (scale * eta * n * smooth) ** 2 * v2

    return variance


def test_noise_variance_known():
    parts = {
        1: 8.0, 5: (0.600677, 10.442871, 0, 0, 3.125), 8: (0, 3.999115, 1.5, 0.5, 2),
        11: (0.093962, 6.960374, 12.766968, 0.870239, 3.480957), 12: 13.583575, 16: 17.172391,
    }  # fmt: skip
    variance = unit_variances(4, 16, 2, 1 / 8, 1)
    for t, expected in parts.items():
        found = momentum.noise_variance(t, 4, 0.25, 0.5, variance)
        if isinstance(expected, tuple):
            assert found == pytest.approx(expected, abs=1e-6)
        else:
            assert sum(found) == pytest.approx(expected, abs=1e-6)
    # L is in the noise of Delta and r: twice the smoothness, four times their variance.
    doubled = sum(momentum.noise_variance(5, 4, 0.25, 0.5, unit_variances(4, 16, 2, 1 / 8, 2)))
    assert doubled == pytest.approx(23.543549, abs=1e-6)


@pytest.mark.parametrize("order", ["fixed", "reshuffle"])
@pytest.mark.parametrize("seed", range(2))
def test_sensitivity_of_every_node_on_neighbouring_data(order, seed):
    """One record replaced, the same iterates: nodes move by at most 2 G w (G) or 2 L eta N w (Delta, r)."""
    problem = NonconvexLogistic(d=3, penalty=0.4, bound=2.0)
    gradient, g, smooth = problem_gradient(problem), problem.lipschitz_of_loss(), 1.0
    assert problem.smoothness_of_loss() == smooth
    rng = np.random.default_rng(seed)
    n, epochs, alpha, eta = int(rng.integers(2, 7)), 4, 0.3, 0.2
    steps = n * epochs
    x = rng.normal(size=(n + 1, 3))
    x *= 2.0 / np.linalg.norm(x, axis=1, keepdims=True)
    records = list(zip(x, rng.choice([-1.0, 1.0], size=n + 1), strict=True))
    orders = [rng.permutation(n) for _ in range(epochs)]
    visits = [int(orders[0 if order == "fixed" else t // n][t % n]) for t in range(steps)]
    w = [rng.normal(size=3)]
    for _ in range(steps):
        w.append(momentum.step(w[-1], rng.normal(size=3), eta))

    def values(r, t):
        anchor, before = w[t // n * n], w[max(t // n - 1, 0) * n]
        at_anchor = gradient(anchor, r)
        return np.array([at_anchor, at_anchor - gradient(before, r), gradient(w[t], r) - at_anchor])

    for who in range(n):
        own = [t + 1 for t in range(steps) if visits[t] == who]
        moves = {t: values(records[who], t - 1) - values(records[n], t - 1) for t in own}
        for (y, z), weight in momentum.node_weights(own, steps, alpha).items():
            move = sum((1 - alpha) ** (z - t) * moves[t] for t in own if y <= t <= z)
            units = np.array([2 * g, 2 * smooth * eta * n, 2 * smooth * eta * n])
            assert (np.linalg.norm(move, axis=1) <= units * weight * (1 + 1e-12)).all(), (y, z)


@pytest.mark.parametrize("order", ["fixed", "reshuffle"])
@pytest.mark.parametrize("calibration", ["exact", "whole_tree"])
def test_noise_covers_what_is_released(order, calibration):
    # The oracle's cost of the nodes that are released, with the kernel's deviations.
    problem, n = NonconvexLogistic(d=2), 6
    algorithm = DpNsgdReduced(epsilon=2.0, epochs=5, order=order, calibration=calibration)
    plan = algorithm.plan(problem, n)
    settings = algorithm.kernel_settings(plan)
    early, late, small = settings["early"], settings["late"], settings["small"]
    top = n.bit_length() if calibration == "exact" else 99

    def variance(tree, y, z):
        size = z - y + 1
        sensitivity = 2.0 if tree == "G" else 2.0 * plan.smoothness * plan.eta * n
        if tree == "A" or (tree in "GD" and size >= 2**top) or (tree == "D" and y <= n):
            return None
        if tree == "r" and calibration == "exact" and (y - 1) // size % 2:
            return None
        return ((small if tree != "G" else early if z <= 2 * n else late) / sensitivity) ** 2

    if order == "fixed":
        visits = [range(p, plan.steps + 1, n) for p in range(1, n + 1)]
    else:
        visits = [[e * n + 1 + (e * p) % n for e in range(5)] for p in range(n)]
    worst = max(momentum.cost(v, plan.steps, plan.alpha, variance) for v in visits)
    assert worst <= 2 * plan.rho * (1 + 1e-12)
    if order == "fixed":
        assert worst == pytest.approx(2 * plan.rho, rel=1e-12)


def test_the_smoothness_is_in_the_noise():
    # bound^2 / 4: four times the smoothness, four times the noise of Delta and r, at equal sigma.
    plans = [FIXED.plan(NonconvexLogistic(bound=b), 30) for b in (1.0, 2.0)]
    small = [FIXED.kernel_settings(plan)["small"] for plan in plans]
    assert small[1] / small[0] == pytest.approx(4.0)
