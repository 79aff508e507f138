"""The accountant of random batches, against Google's dp_accounting."""

from __future__ import annotations

import math

import pytest

from ldpflow.privacy.subsampling import (
    ORDERS,
    sampled_epsilon,
    sampled_noise_multiplier,
    sampled_rdp,
)

CASES = [(8.0, 1e-6, 2000, 100, 400), (1.0, 1e-6, 10_000, 100, 2000), (2.0, 1e-5, 1000, 1, 20_000)]


@pytest.mark.parametrize(("epsilon", "delta", "n", "batch", "steps"), CASES)
def test_epsilon_is_that_of_the_library(epsilon, delta, n, batch, steps):
    library = pytest.importorskip("dp_accounting")
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


def test_the_tree_transcript_is_a_composition_of_gaussians():
    """rho z RDP of the trees, against the library's composition of the same Gaussian releases."""
    library = pytest.importorskip("dp_accounting")
    from ldpflow.privacy.rdp import epsilon_of, noise_multiplier
    from ldpflow.privacy.tree import Tree, touched_nodes, tree_cost
    from tests.oracles import momentum

    n, steps, alpha = 8, 64, 1 / 8
    v = 4.0 * touched_nodes(steps, n)
    cost = tree_cost([Tree(v, left=True)], steps, n, alpha, fixed=True)
    sigma = noise_multiplier(2.0, 1e-5, cost)
    worst = 0.0
    for first in range(1, n + 1):
        weights = momentum.node_weights(range(first, steps + 1, n), steps, alpha)
        accountant = library.rdp.RdpAccountant(neighboring_relation=library.NeighboringRelation.REPLACE_ONE)
        for (y, z), w in weights.items():
            if (y - 1) // (z - y + 1) % 2 == 0:  # released; sensitivity 2 alpha G w, noise 2 alpha G
                accountant.compose(library.GaussianDpEvent(sigma * math.sqrt(v) / w))
        worst = max(worst, accountant.get_epsilon(1e-5))
    # The library converts better: ours is a valid, larger, epsilon.
    assert 1.5 < worst <= epsilon_of(cost / (2 * sigma**2), 1e-5) == pytest.approx(2.0)


def test_sampling_everything_is_no_sampling():
    assert sampled_rdp(7, 1.0, 2.0) == 7 / 8
    for order in (2, 5, 40, 100, 400):
        assert sampled_rdp(order, 0.01, 0.5) <= order / (2 * 0.5**2)
        assert sampled_rdp(order, 0.001, 3.0) < sampled_rdp(order, 0.1, 3.0)
