"""Notions, private regressions, shuffling and random batches, by tabled values and dp_accounting; trees.

Node counts, weights and costs of trees: Tran and Cutkosky (2022).
"""

import math
import random

import dp_accounting as library
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special

from ldpflow.components.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.components.algorithms.ldp_sgd import DpSsgd
from ldpflow.components.algorithms.sufficient_statistics import SufficientStatistics
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.errors import InputError
from ldpflow.numerics import accounting
from ldpflow.numerics.accounting import (
    ORDERS,
    sampled_epsilon,
    sampled_noise_multiplier,
    sampled_rdp,
    zcdp_epsilon,
    zcdp_noise_multiplier,
    zcdp_printed_multiplier,
)
from ldpflow.numerics.constants import workdps
from ldpflow.numerics.tree import NoiseTree, compose, cost_bound, touched_nodes, tree_cost
from tests.oracles import momentum

TABLE = {  # mu: eps at delta 1e-3, 1e-5, 1e-6, total variation
    0.5: (1.352276, 1.993091, 2.254085, 0.19741),
    1.0: (3.138671, 4.377178, 4.886554, 0.38292),
    2.0: (7.581280, 9.997256, 10.997151, 0.68269),
    3.0: (13.088179, 16.675494, 18.163446, 0.86639),
}


@pytest.mark.parametrize("mu", TABLE)
def test_table(mu):
    *epsilons, variation = TABLE[mu]
    for delta, epsilon in zip((1e-3, 1e-5, 1e-6), epsilons, strict=True):
        assert accounting.epsilon_of(delta, mu) == pytest.approx(epsilon, abs=1e-6)
        assert accounting.delta_of(accounting.epsilon_of(delta, mu), mu) == pytest.approx(delta, rel=1e-9)
    assert accounting.delta_of(0.0, mu) == pytest.approx(variation, abs=1e-5)
    assert accounting.epsilon_of(variation + 0.01, mu) == 0.0


def test_the_bridge_is_valid_and_tight():
    """min over t of f_eps(t) - G_mu(t) is 0, where f_eps is randomised response's own trade-off."""
    assert accounting.mu_of_pure(1.0) == pytest.approx(1.23204, abs=1e-5)
    for epsilon in (0.3, 1.0, 4.0):
        mu = accounting.mu_of_pure(epsilon)
        t = np.linspace(1e-6, 1 - 1e-6, 20_001)
        pure = np.maximum.reduce([0 * t, 1 - np.exp(epsilon) * t, np.exp(-epsilon) * (1 - t)])
        gaussian = special.ndtr(special.ndtri(1 - t) - mu)
        assert (pure - gaussian).min() > -1e-9
        assert (pure - gaussian).min() < 1e-4


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: accounting.delta_of(1.0, 0.0), "mu: 0.0"),
        (lambda: accounting.mu_of_pure(-1.0), "epsilon: -1.0"),
        (lambda: accounting.epsilon_of(1.0, 1.0), "delta: 1.0"),
        (lambda: accounting.shuffled_guarantee(4.0, 0.0, 10**4, 5e-7), "epsilon0: 4.0"),
        (lambda: DpSsgd(epsilon=0.03).resolved(LeastSquares(), 10**6), "algorithm.epsilon.* at most 0.02401"),
        (lambda: DpSsgd().resolved(LeastSquares(), 100), "grid.n: 100"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(InputError, match=words):
        call()


NONE = NoMechanism()


@pytest.mark.parametrize(
    ("epsilon", "paper", "eight", "disjoint", "exact"),
    [
        (0.5, 15.0010, 21.0261, 10.6073, 8.0576),
        (1.0, 7.5660, 10.5130, 5.3500, 4.2247),
        (2.0, 3.8469, 5.2565, 2.7202, 2.2305),
    ],
)
def test_noise_multipliers(epsilon, paper, eight, disjoint, exact):
    """At delta = 1e-6; in the order that proofs of different care must have."""
    found = [
        accounting.clipping_noise_multiplier(epsilon, 1e-6, "gdp"),
        accounting.clipping_noise_multiplier(epsilon, 1e-6, "disjoint"),
        accounting.clipping_noise_multiplier(epsilon, 1e-6, "paper"),
        zcdp_printed_multiplier(epsilon, 1e-6, math.sqrt(8.0)),
    ]
    np.testing.assert_allclose(found, [exact, disjoint, paper, eight], atol=6e-5)
    assert found == sorted(found)
    for alpha, kind in zip(found, ("gdp", "disjoint", "paper"), strict=False):
        back = accounting.run_epsilon(alpha, 1e-6, kind, False, 16)
        assert back == pytest.approx(epsilon, rel=1e-9)


def test_statements_say_what_is_promised():
    corrected = DpAmbssgd(epsilon=0.5).privacy(NONE)
    assert (corrected.notion, corrected.unit) == ("(eps, delta)-DP (central)", "record (replacement)")
    assert (corrected.epsilon, corrected.delta) == (0.5, 1e-6)
    assert corrected.mu == pytest.approx(1 / 10.6073, rel=1e-5)
    # As printed, and with the paper's alpha, the budget is exceeded: the label says by how much.
    printed = DpAmbssgd(epsilon=1.0, accounting="paper", rule="printed").privacy(NONE)
    assert printed.epsilon == pytest.approx(1.01578, abs=1e-5)
    assert printed.mu is None
    given = DpAmbssgd(noise_multiplier=5.35, epsilon=3.0).privacy(NONE)
    assert given.epsilon == pytest.approx(1.0, abs=1e-4)
    assert SufficientStatistics(epsilon=2.0, accounting="gdp").privacy(NONE).epsilon == 2.0
    assert SufficientStatistics(noise_multiplier=5.35).privacy(NONE).epsilon == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize(
    ("n", "epsilon0", "epsilon", "alpha"),
    [
        (10**4, 0.5, 0.0959, 14.128),
        (10**5, 0.5, 0.0313, 14.756),
        (10**6, 0.5, 0.0100, 15.365),
        (10**6, 1.0, 0.0240, 7.671),
    ],
)
def test_shuffling(n, epsilon0, epsilon, alpha):
    """delta = 1e-6, half of it for delta'."""
    found, _ = accounting.shuffled_guarantee(epsilon0, 0.0, n, 5e-7)
    assert found == pytest.approx(epsilon, rel=5e-3)
    multiplier, back = accounting.shuffled_noise_multiplier(found * (1 - 1e-12), 1e-6, n)
    assert multiplier == pytest.approx(alpha, abs=1e-3)
    assert back == pytest.approx(epsilon0, rel=1e-9)
    # The implied delta_0 uses up delta.
    delta0 = 1.25 * math.exp(-0.5 * (multiplier * back) ** 2)
    assert accounting.shuffled_guarantee(back, delta0, n, 5e-7)[1] == pytest.approx(1e-6, rel=1e-6)


def library_epsilon(n, batch, sigma, steps, delta):
    accountant = library.rdp.RdpAccountant(list(ORDERS), library.NeighboringRelation.REPLACE_ONE)
    step = library.SampledWithoutReplacementDpEvent(n, batch, library.GaussianDpEvent(sigma))
    return accountant.compose(step, steps).get_epsilon(delta)


def test_epsilon_is_that_of_the_library():
    epsilon, delta, n, batch, steps = 8.0, 1e-6, 2000, 100, 400
    sigma = sampled_noise_multiplier(epsilon, delta, batch / n, steps)
    own = sampled_epsilon(batch / n, sigma, steps, delta)
    assert own == pytest.approx(library_epsilon(n, batch, sigma, steps, delta), rel=1e-9)
    # sigma is the least on its grid.
    assert own <= epsilon < sampled_epsilon(batch / n, sigma - 1 / 1024, steps, delta)
    assert sigma * 1024 == round(sigma * 1024)


def literal_rdp(order, rate, sigma):
    """Wang, Balle and Kasiviswanathan (2019), Theorem 27, in 300 digits."""
    with workdps(300):
        g, unit = mpf(rate), 1 / (2 * mpf(sigma) ** 2)

        def b(l):
            return mp.fsum((-1) ** i * mp.binomial(l, i) * mp.exp((i - 1) * i * unit) for i in range(l + 1))

        second = mp.exp(2 * unit)
        total = 1 + g**2 * mp.binomial(order, 2) * min(4 * (second - 1), 2 * second)
        for j in range(3, order + 1):
            most = min(2 * mp.exp((j - 1) * j * unit), 4 * mp.sqrt(b(2 * (j // 2)) * b(2 * -(-j // 2))))
            total += g**j * mp.binomial(order, j) * most
        return float(mp.log(total) / (order - 1))


@pytest.mark.parametrize(("order", "rate", "sigma"), [(5, 0.3, 1.0), (72, 0.01, 5.0)])
def test_the_bound_is_the_literal_one(order, rate, sigma):
    """Above order 64 the differences of high orders are left out, which costs nothing that shows here."""
    expected = min(literal_rdp(order, rate, sigma), order / (2 * sigma**2))
    assert sampled_rdp(order, rate, sigma) == pytest.approx(expected, rel=1e-9)


def test_orders_in_the_hundreds_are_tighter_than_the_librarys():
    assert library_epsilon(1000, 1, 20.0, 100, 1e-5) == pytest.approx(0.01736, abs=1e-5)
    assert sampled_epsilon(0.001, 20.0, 100, 1e-5) == pytest.approx(0.00863, abs=1e-5)


def test_the_tree_transcript_is_a_composition_of_gaussians():
    """rho z RDP of the trees, against the library's composition of the same Gaussian releases."""
    n, steps, alpha = 8, 64, 1 / 8
    v = 4.0 * touched_nodes(steps, n)
    cost = tree_cost([NoiseTree(v, left=True)], steps, n, alpha, fixed=True)
    sigma = zcdp_noise_multiplier(2.0, 1e-5, cost)
    worst = 0.0
    for first in range(1, n + 1):
        weights = momentum.node_weights(range(first, steps + 1, n), steps, alpha)
        accountant = library.rdp.RdpAccountant(neighboring_relation=library.NeighboringRelation.REPLACE_ONE)
        for (y, z), w in weights.items():
            if (y - 1) // (z - y + 1) % 2 == 0:  # released; sensitivity 2 alpha G w, noise 2 alpha G
                accountant.compose(library.GaussianDpEvent(sigma * math.sqrt(v) / w))
        worst = max(worst, accountant.get_epsilon(1e-5))
    # The library converts better: ours is a valid, larger, epsilon.
    assert 1.5 < worst <= zcdp_epsilon(cost / (2 * sigma**2), 1e-5) == pytest.approx(2.0)


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


def test_printed_noise_multipliers():
    assert zcdp_printed_multiplier(1, 1e-5, 2) == pytest.approx(6.7861, abs=5e-5)
    assert zcdp_epsilon(1 / (2 * 6.7861404**2), 1e-5) == pytest.approx(0.7180, abs=5e-5)
    assert zcdp_noise_multiplier(1, 1e-5, 1) == pytest.approx(4.9006, abs=5e-5)
    # The printed condition is the wrong way round: at epsilon = 10, delta = .1 it under-noises.
    sigma = zcdp_printed_multiplier(10, 0.1, 2)
    assert sigma == pytest.approx(0.3035, abs=5e-5)
    assert zcdp_epsilon(1 / (2 * sigma**2), 0.1) == pytest.approx(12.50, abs=5e-3)
