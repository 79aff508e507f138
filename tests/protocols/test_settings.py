"""Settings of protocols: what they refuse, and what they say about themselves."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.protocols import PROTOCOLS
from ldpflow.errors import InputError
from tests.protocols.running import ONE_SHOT, spread_of


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {}) for kind in PROTOCOLS),
        *(("grr", {"range": ends}) for ends in [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)]),
        *((kind, {"range": (0.0, 1.0), "k": k}) for kind, k in [("haar", 12), ("hrr", 6), ("tree", 32)]),
        *((kind, {"range": (0.0, 1.0), "k": k}) for kind, k in [("grr", 3), ("oue", 2000)]),
    ],
)
def test_ranges_and_bins_that_cannot_be(kind, settings):
    with pytest.raises(InputError, match="k" if "k" in settings else "range"):
        PROTOCOLS[kind](**settings)


def test_bits_of_a_report():
    """Of a tree the mean over its levels."""
    bits = {"thresholds": 1, "hrr": 1, "haar": 1, "rounds": 1, "grr": 4, "oue": 16, "tree": (4 + 16) / 2}
    for kind, expected in bits.items():
        settings = {} if kind == "rounds" else {"k": 16}
        assert PROTOCOLS[kind](range=(0.0, 1.0), **settings).bits(1000) == expected


def test_users_of_rounds():
    """Four pilot rounds of 10% to 15% each, the last the rest; every user is asked once."""
    protocol = PROTOCOLS["rounds"](range=(0.0, 1.0), epsilon=1.0)
    assert protocol.shares(10**6, 0.5) == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.6])
    assert protocol.shares(10**3, 0.9) == pytest.approx([0.15, 0.15, 0.15, 0.15, 0.4])
    asked = protocol.asked(10**5, 0.5)
    assert asked == [1250, 3333, 3333, 3333, 30000]
    three = PROTOCOLS["rounds"](range=(0.0, 1.0), rounds=3)
    assert three.shares(10**6, 0.5) == pytest.approx([0.2, 0.2, 0.6])


@pytest.mark.parametrize("rounds", [3, 4, 12])
@pytest.mark.parametrize(("tau", "epsilon"), [(0.01, 1.0), (0.5, 0.01), (0.99, 16.0)])
def test_every_threshold_asks_some_user(rounds, tau, epsilon):
    protocol = PROTOCOLS["rounds"](range=(0.0, 1.0), epsilon=epsilon, rounds=rounds)
    for n in (protocol.least_users(), 1000, 10**12):
        asked = protocol.asked(n, tau)
        assert min(asked) >= 1
        counts = [8, *[3] * (rounds - 2), 2]
        assert n - rounds * 9 <= sum(a * c for a, c in zip(asked, counts, strict=True)) <= n


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_one_answer_is_the_default_and_a_guarantee_is_for_all_of_them(kind):
    protocol = PROTOCOLS[kind](range=(0.0, 1.0), epsilon=2.0, answers=4)
    assert protocol.budget().epsilon == 0.5
    single = PROTOCOLS[kind](range=(0.0, 1.0), epsilon=2.0)
    assert "answers" not in single.key_settings()
    assert protocol.bit_variance(0.5) == single.bit_variance(0.5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ONE_SHOT)
@pytest.mark.parametrize(("k", "epsilon", "answers"), [(16, 0.5, 1), (256, 4.0, 1), (64, 1.0, 3)])
def test_the_rule_s_variance_is_that_at_the_middle_of_a_uniform_law(name, k, epsilon, answers):
    protocol = PROTOCOLS[name](epsilon=epsilon, answers=answers, range=(0.0, 8.0))
    flat = np.arange(k + 1) / k
    expected = spread_of(protocol, flat, 0.5)[k // 2 - 1]
    assert protocol.middle_variance(k) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (10**5, {"haar": 64, "tree": 64, "oue": 32, "hrr": 32, "grr": 32, "thresholds": 32}),
        (10**4, {"haar": 64, "tree": 64, "oue": 32, "hrr": 32, "grr": 16, "thresholds": 32}),
    ],
)
def test_bins_of_the_rule(n, expected):
    found = {name: PROTOCOLS[name](epsilon=1.0, range=(-6.3, 9.7)).bins(n) for name in ONE_SHOT}
    assert found == expected
    assert PROTOCOLS["tree"](range=(-6.3, 9.7), k=16).bins(n) == 16
