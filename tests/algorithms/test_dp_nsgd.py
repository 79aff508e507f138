"""Normalised SGD with private momentum: the kernels against the literal algorithms."""

import math

import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.components.algorithms.dp_nsgd_reduced import tree_variances
from ldpflow.numerics.noise_nodes import node_normals
from ldpflow.numerics.streams import LANES, lane_keys
from ldpflow.numerics.tree import touched_nodes
from ldpflow.simulators.finite_sum import draw_records, risk, run_erm
from tests.kernels import uncompiled
from tests.oracles import momentum


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    uncompiled.use(monkeypatch)


def turned_order(order, state, epoch, count):
    """Epoch e visits e, e + 1, ... modulo count; in a fixed order only epoch 0 is asked for."""
    order.reshape(count, LANES)[:] = ((np.arange(count) + epoch) % count)[:, None]


def run(problem, algorithm, n, seed, replicates, start=None):
    """Plan, records of the last replicate and the record of all steps in turned orders."""
    plan = algorithm.plan(problem, n)
    records = draw_records(problem, seed, n, replicates)
    times = range(1, plan.steps + 1)
    order = {"draw_order": turned_order} if hasattr(algorithm, "order") else {}
    record = run_erm(problem, algorithm, plan, records, seed, "key", replicates, times, start, **order)
    return plan, lane_records(records, problem, len(replicates) - 1), record


def follows(record, lane, w, mhat, m=None):
    close = {"rtol": 1e-10, "atol": 1e-10}
    np.testing.assert_allclose(record.iterates[:, :, lane], w[:-1], **close)
    np.testing.assert_allclose(record.last[:, lane], w[-1], **close)
    np.testing.assert_allclose(record.estimates[:, :, lane], mhat, **close)
    if m is not None:
        np.testing.assert_allclose(record.momenta[:, :, lane], m, **close)


def zeta_of(seed, key, replicate, d, scales, trees):
    """zeta(tree, start, end) as the streams have it, times the tree's scale."""
    keys = lane_keys(seed, "tree", key, [replicate])
    known = {}

    def zeta(tree, y, z):
        if (tree, y, z) not in known:
            out = np.empty(-(-d // 4) * 4 * LANES)
            size = z - y + 1
            node_normals(out, keys, trees[tree], size.bit_length() - 1, (y - 1) // size, 1.0)
            known[tree, y, z] = out.reshape(-1, LANES)[:d, 0]
        return scales(tree, y, z) * known[tree, y, z]

    return zeta


def test_node_noise_is_addressed_and_normal():
    keys = lane_keys(5, "tree", "key", range(LANES))
    draws = np.empty((1000, 8 * LANES))
    for index in range(1000):
        node_normals(draws[index], keys, 3, 2, index, 2.0)
    again = np.empty(4 * LANES)
    node_normals(again, keys, 3, 2, 77, 2.0)
    # The same address, the same numbers, however many coordinates there are.
    assert np.array_equal(again, draws[77, : 4 * LANES])
    for tree, level in ((2, 2), (3, 1)):
        node_normals(again, keys, tree, level, 77, 2.0)
        assert not np.isin(again, draws).any()
    z = draws.reshape(1000, 8, LANES) / 2.0
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-6
    # Six standard errors: fails once in 5e8 seeds for each of the three.
    for a, b in ((z[:, 0], z[:, 2]), (z[:, 0], z[:, 1]), (z[:-1], z[1:])):
        assert abs((a * b).mean()) < 6 / math.sqrt(a.size)


def problem_gradient(problem):
    def gradient(w, record):
        x, y = record
        u = x @ w
        if isinstance(problem, lf.NonconvexLogistic):
            h = problem.penalty * 2 * w / (1 + w**2) ** 2
            return -y / (1 + math.exp(y * u)) * x + h
        if isinstance(problem, lf.SigmoidLoss):
            s = 1 / (1 + math.exp(y * u))
            return -y * s * (1 - s) * x
        return (u - y) / (1 + (u - y) ** 2 / 2) * x

    return gradient


def lane_records(records, problem, lane):
    d, n = problem.dimension, records.n
    place = int(records.base[lane])
    rows = records.rows.reshape(-1, d)[place : place + n]
    return list(zip(rows, records.targets[place : place + n], strict=True))


PROBLEMS = [lf.NonconvexLogistic(d=3, penalty=0.5), lf.SigmoidLoss(d=3, bound=2.0), lf.RobustRegression(d=6)]


LITERAL = [*((p, "tree") for p in PROBLEMS), (PROBLEMS[0], "independent"), (PROBLEMS[0], "none")]


@pytest.mark.thorough
@pytest.mark.parametrize(("problem", "noise"), LITERAL, ids=lambda x: getattr(x, "kind", x))
def test_dp_nsgd_is_the_literal_algorithm(problem, noise):
    n, seed, replicate = 7, 3, 2
    algorithm = lf.DpNsgd(
        epsilon=20.0, delta=1e-3, epochs=4.5, noise=noise, order="fixed", alpha=0.3, eta=0.05
    )
    d, g = problem.dimension, problem.lipschitz_of_loss()
    start = np.linspace(0.3, -0.2, d)
    plan, data, record = run(problem, algorithm, n, seed, [0, 1, replicate], start)
    assert plan.steps == 32
    visits = [data[(t - 1) % n] for t in range(1, plan.steps + 1)]
    gradient = problem_gradient(problem)
    scale = 4 * plan.alpha * g * plan.sigma * math.sqrt(touched_nodes(plan.steps, n))
    if noise == "none":
        scale = 0.0
    zeta = zeta_of(seed, "key", replicate, d, lambda *_: scale, {"A": 0})
    if noise == "independent":
        scale = 2 * g * plan.sigma * math.sqrt(32 / n)
        fresh = zeta_of(seed, "key", replicate, d, lambda *_: scale, {"A": 1})
        w, mhat = [start], []
        m = np.zeros(d)
        for t, x in enumerate(visits, 1):
            m = 0.7 * m + 0.3 * (gradient(w[-1], x) + fresh("A", t, t))
            mhat.append(m)
            w.append(momentum.step(w[-1], m, 0.05))
    else:
        w, _, mhat = momentum.dp_nsgd(gradient, start, visits, 0.3, 0.05, zeta)
    follows(record, 2, w, mhat)
    tau = int(record.chosen_times[2])
    assert np.allclose(record.chosen[:, 2], w[tau - 1], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "problem",
    [PROBLEMS[0], *(pytest.param(p, marks=pytest.mark.thorough) for p in PROBLEMS[1:])],
    ids=lambda p: p.kind,
)
def test_risk_and_its_gradient(problem):
    n, d = 40, problem.dimension
    records = draw_records(problem, 1, n, range(LANES))
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3, d, LANES))
    _, gradients = risk(problem, records, points)
    gradient = problem_gradient(problem)
    for k, lane in ((0, 0), (1, 5), (2, 31)):
        data = lane_records(records, problem, lane)
        expected = np.mean([gradient(points[k, :, lane], r) for r in data], axis=0)
        assert gradients[k, :, lane] == pytest.approx(expected, rel=1e-11, abs=1e-13)
    # The gradient is that of the loss: central differences.
    h = 1e-5
    for j in range(d):
        step = np.zeros((1, d, 1))
        step[0, j] = h
        above = risk(problem, records, points + step)[0]
        below = risk(problem, records, points - step)[0]
        assert np.allclose((above - below) / (2 * h), gradients[:, j], rtol=1e-6, atol=1e-8)
    norms = np.linalg.norm(records.rows.reshape(-1, d), axis=1)
    assert np.allclose(norms, problem.bound, rtol=1e-14)
    assert np.linalg.norm(gradients, axis=1).max() <= problem.lipschitz() + 1e-12


def test_full_batch_descent():
    problem, n, seed = PROBLEMS[0], 9, 2
    algorithm = lf.DpGd(epsilon=3.0, delta=1e-4, epochs=12)
    plan, data, record = run(problem, algorithm, n, seed, [0])
    gradient = problem_gradient(problem)
    scale = 2 * problem.lipschitz_of_loss() / n * plan.sigma * math.sqrt(12)
    zeta = zeta_of(seed, "key", 0, 3, lambda *_: scale, {"A": 1})
    w, noisy = [np.zeros(3)], []
    for t in range(1, 13):
        noisy.append(np.mean([gradient(w[-1], r) for r in data], axis=0) + zeta("A", t, t))
        w.append(w[-1] - noisy[-1] / problem.smoothness())
    follows(record, 0, w, noisy)


@pytest.mark.parametrize(
    ("n", "b", "epochs", "order"), [(8, 1, 5, "reshuffle"), (5, 1, 6.4, "fixed"), (9, 2, 5, "fixed")]
)
def test_reduced_is_the_literal_algorithm(n, b, epochs, order):
    problem, seed, replicate = lf.NonconvexLogistic(d=3, penalty=0.3), 9, 4
    algorithm = lf.DpNsgdReduced(
        epsilon=30.0, delta=1e-3, epochs=epochs, order=order, alpha=0.25, eta=0.03, cross=0.3, batch_size=b
    )
    plan, data, record = run(problem, algorithm, n, seed, [0, replicate])
    turn, batches = order == "reshuffle", n // b
    assert (plan.batches, plan.steps) == (batches, epochs * batches)
    places = [(t + turn * (t // batches)) % batches for t in range(plan.steps)]
    visits = [data[b * place : b * place + b] for place in places]
    v1, v2 = tree_variances(batches, plan.steps)
    g, smooth, one = problem.lipschitz_of_loss(), problem.smoothness_of_loss(), problem_gradient(problem)

    def scale(tree, y, z):
        if tree == "G":
            return 4 * g / b * plan.sigma * math.sqrt(v1 if z <= 2 * batches else v2)
        return 4 * plan.eta * batches * smooth / b * plan.sigma * math.sqrt(v2)

    def gradient(w, batch):
        return np.mean([one(w, record) for record in batch], axis=0)

    zeta = zeta_of(seed, "key", replicate, 3, scale, {"G": 2, "D": 3, "r": 4})
    w, m, mhat = momentum.reduced(gradient, np.zeros(3), visits, batches, 0.25, 0.3, 0.03, zeta)
    follows(record, 1, w, mhat, m)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.kind)
def test_gradients_of_a_loss_are_within_the_constants_of_the_noise(problem):
    """|g| <= G and |g(w) - g(v)| <= L |w - v| without a penalty, which is that of all records."""
    gradient = problem_gradient(problem.model_copy(update={"penalty": 0.0}))
    rng, largest = np.random.default_rng(0), np.zeros(2)
    for _ in range(1200):
        x, w, step = rng.normal(size=(3, problem.dimension))
        target = rng.normal() if isinstance(problem, lf.RobustRegression) else rng.choice([-1.0, 1.0])
        record = problem.bound * x / np.linalg.norm(x), target
        v = w + 10.0 ** rng.uniform(-3, 0) * step
        here, there = gradient(w, record), gradient(v, record)
        found = np.linalg.norm([here, (here - there) / np.linalg.norm(w - v)], axis=1)
        largest = np.maximum(largest, found / [problem.lipschitz_of_loss(), problem.smoothness_of_loss()])
    assert (largest <= 1 + 1e-9).all() and (largest > 0.7).all(), largest


@pytest.mark.parametrize("order", ["fixed", "reshuffle"])
@pytest.mark.parametrize("calibration", ["exact", "whole_tree"])
def test_noise_covers_what_is_released(order, calibration):
    # The oracle's cost of the nodes that are released, with the kernel's deviations.
    problem, n = lf.NonconvexLogistic(d=2), 6
    algorithm = lf.DpNsgdReduced(epsilon=2.0, epochs=5, order=order, calibration=calibration)
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
