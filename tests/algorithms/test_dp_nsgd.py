"""Normalised SGD with private momentum: golden vectors, the literal algorithms, their noise."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from ldpflow.components.algorithms.dp_gd import DpGd
from ldpflow.components.algorithms.dp_nsgd import DpNsgd
from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.components.problems.robust_regression import RobustRegression
from ldpflow.components.problems.sigmoid_loss import SigmoidLoss
from ldpflow.numerics.noise_nodes import node_normals
from ldpflow.numerics.streams import LANES, lane_keys
from ldpflow.numerics.tree import touched_nodes
from ldpflow.simulators.finite_sum import Records, draw_records, risk, run_erm
from tests.algorithms import plain_order, pseudo_noise
from tests.algorithms.tanh_problem import Tanh
from tests.oracles import momentum

A = np.array([1.0, 0.5, 2.0])
C = np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, 0.5]])
GOLDEN = Records(3, C.reshape(-1).copy(), A.copy(), np.zeros(LANES, np.int64))
START = (0.3, -0.2)
PLAIN = {"draw_order": plain_order.draw_order, "draw_subset": plain_order.draw_subset}
PARTS = {"node_noise": pseudo_noise.node_normals, **PLAIN}


def tanh_gradient(w, s):
    return A[s] * np.tanh(w) + C[s]


def golden(algorithm, sigma, **parts):
    """Eight steps on three records from (.3, -.2): mhat, m and the last iterate of one lane."""
    problem = Tanh()
    plan = dataclasses.replace(algorithm.plan(problem, 3), sigma=sigma, steps=8)
    record = run_erm(problem, algorithm, plan, GOLDEN, 0, "golden", [0], range(1, 9), START, **PARTS | parts)
    return record.estimates[:, :, 0], record.momenta[:, :, 0], record.last[:, 0]


FIRST = DpNsgd(epochs=8 / 3, alpha=0.5, eta=0.1, order="fixed")


def test_golden_without_noise(plain):
    mhat, m, last = golden(FIRST, 0.0)
    expected = {
        1: (0.645656306226, -0.098687660112),
        2: (0.372447753615, 0.404953111493),
        3: (0.068890370260, 0.199590547917),
        4: (0.584688107277, -0.069730836463),
        8: (0.205010701238, 0.309654644488),
    }
    for t, value in expected.items():
        assert mhat[t - 1] == pytest.approx(value, abs=1e-10)
    assert np.array_equal(m, mhat)
    assert last == pytest.approx((-0.109769904032, -0.490705613382), abs=1e-10)


def test_golden_with_pseudo_noise(plain):
    # An exponent t - start, a root without noise or one vector for all nodes would show here.
    mhat, _, last = golden(FIRST, 1.0)
    expected = {
        1: (0.646156306226, -0.099687660112),
        3: (0.070439776696, 0.195933321291),
        6: (-0.162746628907, 0.039061941262),
        7: (0.440015681770, -0.195078989327),
        8: (0.204209633304, 0.304429881055),
    }
    for t, value in expected.items():
        assert mhat[t - 1] == pytest.approx(value, abs=1e-10)
    assert last == pytest.approx((-0.111332200519, -0.484418753706), abs=1e-10)


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
    draws = np.empty((2000, 8 * LANES))
    for index in range(2000):
        node_normals(draws[index], keys, 3, 2, index, 2.0)
    again = np.empty(4 * LANES)
    node_normals(again, keys, 3, 2, 77, 2.0)
    # The same address, the same numbers, however many coordinates there are.
    assert np.array_equal(again, draws[77, : 4 * LANES])
    for tree, level in ((2, 2), (3, 1)):
        node_normals(again, keys, tree, level, 77, 2.0)
        assert not np.isin(again, draws).any()
    z = draws / 2.0
    count = z.size
    # Six standard errors: fails once in 5e8 seeds for each of the four.
    assert abs(z.mean()) < 6 / math.sqrt(count)
    assert abs((z**2).mean() - 1) < 6 * math.sqrt(2 / count)
    assert abs((z**4).mean() - 3) < 6 * math.sqrt(96 / count)
    flat = z.reshape(2000, 8, LANES)
    for a, b in ((flat[:, 0], flat[:, 2]), (flat[:, 0], flat[:, 1]), (flat[:-1], flat[1:])):
        assert abs((a * b).mean()) < 6 / math.sqrt(a.size)


def problem_gradient(problem):
    """grad f(w, (x, y)) in NumPy, from the formulas."""

    def gradient(w, record):
        x, y = record
        u = x @ w
        if isinstance(problem, NonconvexLogistic):
            h = problem.penalty * 2 * w / (1 + w**2) ** 2
            return -y / (1 + math.exp(y * u)) * x + h
        if isinstance(problem, SigmoidLoss):
            s = 1 / (1 + math.exp(y * u))
            return -y * s * (1 - s) * x
        return (u - y) / (1 + (u - y) ** 2 / 2) * x

    return gradient


def lane_records(records, problem, lane):
    d, n = problem.dimension, records.n
    place = int(records.base[lane])
    rows = records.rows.reshape(-1, d)[place : place + n]
    return list(zip(rows, records.targets[place : place + n], strict=True))


PROBLEMS = [
    NonconvexLogistic(d=3, penalty=0.5),
    SigmoidLoss(d=6, bound=2.0),
    RobustRegression(d=4),
]


LITERAL = [*((p, "tree") for p in PROBLEMS), (PROBLEMS[0], "independent"), (PROBLEMS[0], "none")]


@pytest.mark.parametrize(("problem", "noise"), LITERAL, ids=lambda x: getattr(x, "kind", x))
def test_functions_of_the_kernel_are_the_literal_algorithm(problem, noise, plain):
    compare(problem, noise)


def test_compiled_kernel_is_the_literal_algorithm():
    compare(*LITERAL[0])


def compare(problem, noise):
    n, seed, replicate = 7, 3, 2
    algorithm = DpNsgd(epsilon=20.0, delta=1e-3, epochs=4.5, noise=noise, order="fixed", alpha=0.3, eta=0.05)
    plan = algorithm.plan(problem, n)
    records = draw_records(problem, seed, n, [0, 1, replicate])
    replicates = [0, 1, replicate]
    record = run_erm(problem, algorithm, plan, records, seed, "key", replicates, range(1, 32), **PLAIN)
    data = lane_records(records, problem, 2)
    d, g = problem.dimension, problem.lipschitz_of_loss()
    assert plan.steps == 32
    visits = [data[(t - 1) % n] for t in range(1, plan.steps + 1)]
    gradient = problem_gradient(problem)
    scale = 4 * plan.alpha * g * plan.sigma * math.sqrt(touched_nodes(plan.steps, n))
    zeta = zeta_of(seed, "key", replicate, d, lambda *_: scale, {"A": 0})
    if noise == "none":
        zeta = lambda *_: np.zeros(d)  # noqa: E731
    if noise == "independent":
        scale = 2 * g * plan.sigma * math.sqrt(32 / n)
        fresh = zeta_of(seed, "key", replicate, d, lambda *_: scale, {"A": 1})
        w, mhat = [np.zeros(d)], []
        m = np.zeros(d)
        for t, x in enumerate(visits, 1):
            m = 0.7 * m + 0.3 * (gradient(w[-1], x) + fresh("A", t, t))
            mhat.append(m)
            w.append(momentum.step(w[-1], m, 0.05))
    else:
        w, _, mhat = momentum.dp_nsgd(gradient, np.zeros(d), visits, 0.3, 0.05, zeta)
    assert np.allclose(record.iterates[:, :, 2], w[:-1], rtol=0, atol=1e-10)
    assert np.allclose(record.estimates[:, :, 2], mhat, rtol=1e-10, atol=1e-10)
    assert np.allclose(record.last[:, 2], w[-1], rtol=0, atol=1e-10)
    tau = int(record.chosen_times[2])
    assert np.allclose(record.chosen[:, 2], w[tau - 1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.kind)
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


def test_full_batch_descent(plain):
    problem, n, seed = PROBLEMS[0], 9, 2
    algorithm = DpGd(epsilon=3.0, delta=1e-4, epochs=12)
    plan = algorithm.plan(problem, n)
    records = draw_records(problem, seed, n, [0])
    record = run_erm(problem, algorithm, plan, records, seed, "key", [0], range(1, 13))
    gradient, data = problem_gradient(problem), lane_records(records, problem, 0)
    scale = 2 * problem.lipschitz_of_loss() / n * plan.sigma * math.sqrt(12)
    zeta = zeta_of(seed, "key", 0, 3, lambda *_: scale, {"A": 1})
    w = np.zeros(3)
    for t in range(1, 13):
        assert record.iterates[t - 1, :, 0] == pytest.approx(w, abs=1e-11)
        full = np.mean([gradient(w, r) for r in data], axis=0)
        w = w - (full + zeta("A", t, t)) / problem.smoothness()
    assert record.last[:, 0] == pytest.approx(w, abs=1e-11)
