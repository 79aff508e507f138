"""Accounting of the one-pass private regressions, and amplification by shuffling: tabled values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ldpflow.components.algorithms.dp_ambssgd import DpAmbssgd
from ldpflow.components.algorithms.ldp_sgd import DpSsgd
from ldpflow.components.algorithms.sufficient_statistics import SufficientStatistics
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.errors import InputError
from ldpflow.numerics import accounting

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
        accounting.zcdp_printed_multiplier(epsilon, 1e-6, math.sqrt(8.0)),
    ]
    np.testing.assert_allclose(found, [exact, disjoint, paper, eight], atol=6e-5)
    assert found == sorted(found)
    for alpha, kind in zip(found, ("gdp", "disjoint", "paper"), strict=False):
        back = accounting.run_epsilon(alpha, 1e-6, kind, False, 16)
        assert back == pytest.approx(epsilon, rel=1e-9)
    # The conversion is the closed form of the best order.
    L = math.log(1e6)
    assert found[2] == pytest.approx((math.sqrt(L + epsilon) + math.sqrt(L)) / epsilon)
    assert accounting.delta_of(epsilon, 1.0 / found[0]) == pytest.approx(1e-6, rel=1e-8)


def test_statements_say_what_is_promised():
    corrected = DpAmbssgd(epsilon=0.5).privacy(NONE)
    assert (corrected.notion, corrected.unit) == (
        "(eps, delta)-DP (central)",
        "record (replacement)",
    )
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
    if epsilon0 == 0.5:
        implied = multiplier * found * math.sqrt(n) / math.log(n / 1e-6)
        assert 5.5 <= implied <= 5.9


def test_shuffling_is_refused_beyond_its_range():
    with pytest.raises(InputError) as refused:
        accounting.shuffled_guarantee(4.0, 0.0, 10**4, 5e-7)
    assert refused.value.field == "epsilon0"
    with pytest.raises(InputError) as refused:
        DpSsgd(epsilon=0.03).resolved(LeastSquares(), 10**6)
    assert refused.value.field == "algorithm.epsilon"
    assert "at most 0.02402" in str(refused.value)
    with pytest.raises(InputError) as refused:
        DpSsgd().resolved(LeastSquares(), 100)
    assert refused.value.field == "grid.n"
