"""Counts from their exact law against populations simulated user by user."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.protocols import PROTOCOLS
from tests.oracles import protocols as oracle
from tests.protocols.running import keys, one_shot, spread_of
from tests.random.test_counts import holm

ONE_SHOT = [name for name in PROTOCOLS if name != "rounds"]
USERS = 50
POPULATIONS = 50_000
EPSILON = 1.0


def law_of_bins(k):
    pi = np.random.default_rng(5).dirichlet(np.full(k, 2.0))
    cdf = np.concatenate([[0.0], np.cumsum(pi)])
    cdf[-1] = 1.0
    return cdf


def by_user(name, cdf, populations, rng, users=USERS):
    """F^ of populations simulated user by user, in parts to spare memory."""
    k = len(cdf) - 1
    parts = []
    for _ in range(0, populations, 20_000):
        bins = rng.choice(k, size=(min(populations, 20_000), users), p=np.diff(cdf))
        parts.append(oracle.ONE_SHOT[name](rng, bins, k, EPSILON))
    return np.concatenate(parts)


def moments(values):
    """Means, and products of deviations, with the standard errors of both."""
    count = len(values)
    mean = values.mean(axis=0)
    centred = values - mean
    upper = np.triu_indices(values.shape[1])
    products = centred[:, upper[0]] * centred[:, upper[1]]
    found = np.concatenate([mean, products.mean(axis=0)])
    errors = np.concatenate([values.std(axis=0), products.std(axis=0)]) / np.sqrt(count)
    return found, errors


@pytest.mark.parametrize("name", ONE_SHOT)
def test_mean_and_covariance_are_those_of_simulated_users(name):
    """All means, variances and covariances of F^ at the edges together; Holm at 1%."""
    k = 16 if name == "tree" else 8
    cdf = law_of_bins(k)
    protocol = PROTOCOLS[name](epsilon=EPSILON, range=(0.0, 1.0))
    populations = POPULATIONS // 2 if name == "tree" else POPULATIONS
    drawn, _, _ = one_shot(protocol, cdf, USERS, keys(f"users {name}", populations))
    simulated = by_user(name, cdf, populations, np.random.default_rng(11))
    (a, a_error), (b, b_error) = moments(drawn), moments(simulated)
    z = (a - b) / np.hypot(a_error, b_error)
    assert holm(2 * stats.norm.sf(np.abs(z))) == []


def test_the_comparison_would_see_noise_of_another_budget():
    cdf = law_of_bins(8)
    protocol = PROTOCOLS["grr"](epsilon=EPSILON * 1.02, range=(0.0, 1.0))
    drawn, _, _ = one_shot(protocol, cdf, USERS, keys("users grr", 50_000))
    simulated = by_user("grr", cdf, 50_000, np.random.default_rng(11))
    (a, a_error), (b, b_error) = moments(drawn), moments(simulated)
    assert holm(2 * stats.norm.sf(np.abs((a - b) / np.hypot(a_error, b_error)))) != []


@pytest.mark.parametrize("name", ["thresholds", "hrr", "haar", "tree"])
def test_questions_that_no_user_was_asked_are_counted(name):
    k = 16 if name == "tree" else 8
    protocol = PROTOCOLS[name](epsilon=1.0, range=(0.0, 1.0))
    _, received, empty = one_shot(protocol, law_of_bins(k), 3, keys("few", 500))
    assert (received == 3).all()
    questions = {"thresholds": 7, "hrr": 7, "haar": 7, "tree": 2}[name]
    assert (empty >= questions - 3).all()
    assert (empty < questions).all()


@pytest.mark.parametrize("name", ONE_SHOT)
def test_same_counts_for_any_batch(name):
    cdf = law_of_bins(16)
    protocol = PROTOCOLS[name](epsilon=1.0, range=(0.0, 1.0), liars=0.1, answer_above=0.5)
    whole, _, _ = one_shot(protocol, cdf, 10**9, keys("batch", 40))
    parts = [one_shot(protocol, cdf, 10**9, keys("batch", 10, first))[0] for first in (0, 10, 20, 30)]
    assert (np.concatenate(parts) == whole).all()


@pytest.mark.parametrize("name", ONE_SHOT)
def test_unbiased_with_the_stated_variance_at_any_n(name):
    n, k = 10**12, 16
    cdf = law_of_bins(k)
    protocol = PROTOCOLS[name](epsilon=1.0, range=(0.0, 1.0))
    values, _, _ = one_shot(protocol, cdf, n, keys("moments", 4000))
    variance = np.array([spread_of(protocol, cdf, cdf[m])[m - 1] for m in range(1, k)]) / n
    z = (values.mean(axis=0) - cdf[1:-1]) / np.sqrt(variance / len(values))
    assert holm(2 * stats.norm.sf(np.abs(z))) == []
    ratio = values.var(axis=0) / variance
    # Relative standard error sqrt(2/4000) = .022; edges are correlated: Holm over them at 1%.
    assert holm(2 * stats.norm.sf(np.abs(ratio - 1) / np.sqrt(2 / 4000))) == []
