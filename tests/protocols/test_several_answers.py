"""Users who answer the same question several times, the budget split: exact laws, variances, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.results.protocol_curves import repeated_bit_variance
from tests.oracles import protocols as oracle
from tests.protocols.running import keys, one_shot, searched, spread_of
from tests.protocols.test_counts_of_users import law_of_bins, moments
from tests.random.test_counts import holm

ONE_SHOT = [name for name in PROTOCOLS if name != "rounds"]
EPSILON = 3.0


class SameQuestions:
    """A generator whose integers, the public coins, come again in every answer; its noise does not."""

    def __init__(self, coins, noise):
        self.coins, self.noise = np.random.default_rng(coins), noise

    def integers(self, *args, **kwargs):
        return self.coins.integers(*args, **kwargs)

    def random(self, *args, **kwargs):
        return self.noise.random(*args, **kwargs)


def by_user(name, cdf, populations, users, answers, rng):
    """F^ of populations, user by user: the mean over the answers, each with a share of the budget."""
    k = len(cdf) - 1
    bins = rng.choice(k, size=(populations, users), p=np.diff(cdf))
    found = []
    for _ in range(answers):
        # GRR's integers are its noise.
        source = rng if name in ("grr", "oue") else SameQuestions(7, rng)
        found.append(oracle.ONE_SHOT[name](source, bins, k, EPSILON / answers))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("name", ONE_SHOT)
def test_mean_and_covariance_are_those_of_simulated_users(name):
    """Two answers of 40 users each: all means and covariances of F^ at the edges; Holm at 1%."""
    k = 16 if name == "tree" else 8
    cdf = law_of_bins(k)
    protocol = PROTOCOLS[name](epsilon=EPSILON, answers=2, range=(0.0, 1.0))
    populations = 20_000
    drawn, received, _ = one_shot(protocol, cdf, 40, keys(f"two answers {name}", populations))
    assert (received == 40).all()
    simulated = by_user(name, cdf, populations, 40, 2, np.random.default_rng(3))
    (a, a_error), (b, b_error) = moments(drawn), moments(simulated)
    assert holm(2 * stats.norm.sf(np.abs((a - b) / np.hypot(a_error, b_error)))) == []


@pytest.mark.parametrize("name", ONE_SHOT)
def test_variance_of_the_interval_is_that_of_the_counts(name):
    """``spread`` at F itself, against the variance of 4,000 replicates; Holm over the edges at 1%."""
    k, n = 16, 10**7
    cdf = law_of_bins(k)
    protocol = PROTOCOLS[name](epsilon=EPSILON, answers=5, range=(0.0, 1.0))
    values, _, _ = one_shot(protocol, cdf, n, keys(f"answers {name}", 4000))
    expected = np.array([spread_of(protocol, cdf, cdf[m])[m - 1] for m in range(1, k)]) / n
    z = (values.mean(axis=0) - cdf[1:-1]) / np.sqrt(expected / len(values))
    assert holm(2 * stats.norm.sf(np.abs(z))) == []
    ratio = values.var(axis=0) / expected
    assert holm(2 * stats.norm.sf(np.abs(ratio - 1) / np.sqrt(2 / 4000))) == []


def test_rounds_know_of_several_answers():
    """Four answers with eps = 4 in all: RMSE near its own bound, coverage as with one answer."""
    protocol = PROTOCOLS["rounds"](epsilon=4.0, answers=4, range=(-6.3, 9.7))
    n = 10**5
    estimates, limits, received = searched(protocol, Law("normal"), n, keys("several", 1000), 0.5)
    error = np.sqrt(repeated_bit_variance(0.5, 4.0, 4) / n) * np.sqrt(2 * np.pi)
    assert 1.1 < np.sqrt(np.mean(estimates**2)) / error < 1.5
    covered = (limits[0, :, 0] <= 0) & (limits[0, :, 1] >= 0)
    assert 0.88 < covered.mean() < 0.95
    assert (received <= n).all()
    assert (received > 0.55 * n).all()


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_one_answer_is_the_default_and_a_guarantee_is_for_all_of_them(kind):
    protocol = PROTOCOLS[kind](range=(0.0, 1.0), epsilon=2.0, answers=4)
    assert protocol.privacy().epsilon == 2.0
    assert protocol.budget().epsilon == 0.5
    single = PROTOCOLS[kind](range=(0.0, 1.0), epsilon=2.0)
    assert "answers" not in single.key_settings()
    assert protocol.bit_variance(0.5) == single.bit_variance(0.5)
