"""The accountant of random batches, against Google's dp_accounting."""

from __future__ import annotations

import math

import dp_accounting as library
import pytest
from mpmath import mp, mpf

from ldpflow.numerics.accounting import (
    ORDERS,
    sampled_epsilon,
    sampled_noise_multiplier,
    sampled_rdp,
    zcdp_epsilon,
    zcdp_noise_multiplier,
)
from ldpflow.numerics.constants import workdps
from ldpflow.numerics.tree import NoiseTree, touched_nodes, tree_cost
from tests.oracles import momentum

CASES = [(8.0, 1e-6, 2000, 100, 400), (2.0, 1e-5, 1000, 1, 20_000)]


@pytest.mark.parametrize(("epsilon", "delta", "n", "batch", "steps"), CASES)
def test_epsilon_is_that_of_the_library(epsilon, delta, n, batch, steps):
    sigma = sampled_noise_multiplier(epsilon, delta, batch / n, steps)
    own = sampled_epsilon(batch / n, sigma, steps, delta)
    accountant = library.rdp.RdpAccountant(
        orders=list(ORDERS), neighboring_relation=library.NeighboringRelation.REPLACE_ONE
    )
    step = library.SampledWithoutReplacementDpEvent(n, batch, library.GaussianDpEvent(sigma))
    accountant.compose(step, steps)
    assert own == pytest.approx(accountant.get_epsilon(delta), rel=1e-9)
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


@pytest.mark.parametrize(("order", "rate", "sigma"), [(5, 0.3, 1.0), (40, 0.001, 20.0), (72, 0.01, 5.0)])
def test_the_bound_is_the_literal_one(order, rate, sigma):
    """Above order 64 the differences of high orders are left out, which costs nothing that shows here."""
    expected = min(literal_rdp(order, rate, sigma), order / (2 * sigma**2))
    assert sampled_rdp(order, rate, sigma) == pytest.approx(expected, rel=1e-9)


def test_orders_in_the_hundreds_are_tighter_than_the_librarys():
    accountant = library.rdp.RdpAccountant(list(ORDERS), library.NeighboringRelation.REPLACE_ONE)
    accountant.compose(library.SampledWithoutReplacementDpEvent(1000, 1, library.GaussianDpEvent(20.0)), 100)
    assert accountant.get_epsilon(1e-5) == pytest.approx(0.01736, abs=1e-5)
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
