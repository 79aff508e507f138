"""Tree accounting: node counts, weights and the accountant's figures (Tran and Cutkosky, 2022)."""

from __future__ import annotations

import random

import pytest

from ldpflow.numerics.accounting import zcdp_epsilon, zcdp_noise_multiplier, zcdp_printed_multiplier
from ldpflow.numerics.tree import NoiseTree, compose, cost_bound, touched_nodes, tree_cost
from tests.oracles import momentum


def test_covers():
    assert compose(6, 13) == [(6, 6), (7, 8), (9, 12), (13, 13)]
    assert compose(5, 4) == []
    for first in range(1, 34):
        for last in range(first, 66):
            assert compose(first, last) == momentum.cover(first, last)


@pytest.mark.parametrize(
    ("n", "steps", "v"),
    [
        (4, 8, 7), (4, 12, 10), (4, 10, 9), (3, 10, 11), (7, 64, 45), (8, 64, 39), (10, 100, 50),
        (12, 36, 15), (4, 16, 15), (1000, 20000, 235),
    ],
)  # fmt: skip
def test_touched_nodes(n, steps, v):
    # With T/N rounded down, (4, 10), (3, 10) and (7, 64) would be too small for what is touched.
    assert touched_nodes(steps, n) == v
    most = max(
        len(momentum.node_weights(range(p, steps + 1, n), steps, 0.5))
        for p in range(1, n + 1, max(1, n // 50))
    )
    assert most <= v
    if n < 100:
        assert most == v


def orders(rng, n, steps):
    """The steps at which each record is visited when every epoch has an order of its own."""
    visits = [[] for _ in range(n)]
    t = 0
    while t < steps:
        for record in rng.sample(range(n), n):
            t += 1
            if t <= steps:
                visits[record].append(t)
    return visits


def test_no_record_touches_more_nodes_than_counted():
    rng = random.Random(3)
    for _ in range(60):
        n, steps = rng.randint(1, 20), rng.randint(1, 150)
        for visits in orders(rng, n, steps):
            assert len(momentum.node_weights(visits, steps, 0.3)) <= touched_nodes(steps, n)


def single(n, steps):
    return [NoiseTree(4.0 * touched_nodes(steps, n))]


@pytest.mark.parametrize("seed", range(12))
def test_cost_is_the_oracles_and_below_its_bound(seed):
    rng = random.Random(seed)
    n, steps = rng.randint(1, 20), rng.randint(1, 140)
    alpha = rng.uniform(1 / n, 1) if seed else 1.0 / n
    left, levels, after, early = rng.random() < 0.5, rng.randint(1, 6), rng.randint(0, n), 2 * n
    tree = NoiseTree(2.0, 0.5, early=early, levels=levels, left=left, after=after)

    def variance(name, y, z):
        size = z - y + 1
        kept = name == "A" and size < 2**levels and y > after and not (left and (y - 1) // size % 2)
        return (0.5 if z <= early else 2.0) if kept else None

    exact = max(
        momentum.cost(range(p, steps + 1, n), steps, alpha, variance) for p in range(1, min(n, steps) + 1)
    )
    assert tree_cost([tree], steps, n, alpha, fixed=True) == pytest.approx(exact, rel=1e-12)
    assert cost_bound(tree, steps, n, alpha, fixed=True) >= exact - 1e-12
    reshuffled = tree_cost([tree], steps, n, alpha, fixed=False)
    for visits in orders(rng, n, steps):
        assert momentum.cost(visits, steps, alpha, variance) <= reshuffled + 1e-12


def test_the_printed_guarantees_hold_with_every_order():
    # Theorem 4 says c <= 1, Theorem 8 c <= 3; Theorem 4's proof is wrong for reshuffled epochs.
    for n in (2, 3, 7, 20, 100, 199):
        for epochs in (1, 2, 5, 39):
            assert tree_cost(single(n, n * epochs), n * epochs, n, 1 / n, fixed=False) <= 0.81
            assert tree_cost(single(n, n * epochs), n * epochs, n, 1 / n, fixed=True) <= 0.5


def test_noise_multipliers():
    assert zcdp_printed_multiplier(1, 1e-5, 2) == pytest.approx(6.7861, abs=5e-5)
    assert zcdp_epsilon(1 / (2 * 6.7861404**2), 1e-5) == pytest.approx(0.7180, abs=5e-5)
    assert zcdp_noise_multiplier(1, 1e-5, 1) == pytest.approx(4.9006, abs=5e-5)
    # The printed condition is the wrong way round: at epsilon = 10, delta = .1 it under-noises.
    sigma = zcdp_printed_multiplier(10, 0.1, 2)
    assert sigma == pytest.approx(0.3035, abs=5e-5)
    assert zcdp_epsilon(1 / (2 * sigma**2), 0.1) == pytest.approx(12.50, abs=5e-3)
