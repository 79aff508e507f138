"""Counts from their exact law against populations simulated user by user, and against stated variances."""

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.problems.laws import Component, Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import edge_cdf, run_one_shot
from ldpflow.results.published import holm
from tests.oracles import protocols as oracle
from tests.protocols.running import ONE_SHOT, keys, spread_of

REPLICATES = 20_000


def law_of_bins(k):
    """A law that is uniform in each of k bins of (0, 1), and its distribution function at their edges."""
    weights = np.random.default_rng(5).dirichlet(np.full(k, 2.0)).tolist()
    uniform = (Law("uniform", location=j / k, scale=1 / k) for j in range(k))
    law = Law("mixture", components=tuple(map(Component, weights, uniform)))
    return law, edge_cdf(law, np.arange(k + 1) / k)


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


@pytest.mark.thorough
@pytest.mark.parametrize("name", ONE_SHOT)
def test_mean_and_covariance_are_those_of_simulated_users(name):
    """All means, variances and covariances of F^ at the edges of 40 users together; Holm at 1%."""
    k = 16 if name == "tree" else 8
    law, cdf = law_of_bins(k)
    protocol = PROTOCOLS[name](epsilon=1.0, range=(0.0, 1.0), k=k)
    run = run_one_shot(protocol, law, 0.5, 40, keys(f"users {name} 1", 20_000))
    assert (run.received == 40).all()
    rng = np.random.default_rng(11)
    bins = rng.choice(k, size=(20_000, 40), p=np.diff(cdf))
    simulated = oracle.ONE_SHOT[name](rng, bins, k, 1.0)
    (a, a_error), (b, b_error) = moments(run.values), moments(simulated)
    assert min(holm(2 * stats.norm.sf(np.abs(a - b) / np.hypot(a_error, b_error)))) > 0.01


@pytest.mark.parametrize(("n", "epsilon", "answers"), [(10**12, 4.0, 1), (10**7, 3.0, 5)])
@pytest.mark.parametrize("name", ONE_SHOT)
def test_unbiased_with_the_stated_variance_at_any_n(name, n, epsilon, answers):
    """Mean of F^ and ``spread`` at F itself against the replicates' variance; Holm over the edges at 1%."""
    k = 16
    law, cdf = law_of_bins(k)
    protocol = PROTOCOLS[name](epsilon=epsilon, answers=answers, range=(0.0, 1.0), k=k)
    values = run_one_shot(protocol, law, 0.5, n, keys(f"moments {name} {answers}", REPLICATES)).values
    variance = np.array([spread_of(protocol, cdf, cdf[m])[m - 1] for m in range(1, k)]) / n
    z = (values.mean(axis=0) - cdf[1:-1]) / np.sqrt(variance / REPLICATES)
    assert min(holm(2 * stats.norm.sf(np.abs(z)))) > 0.01
    ratio = values.var(axis=0) / variance
    assert min(holm(2 * stats.norm.sf(np.abs(ratio - 1) / np.sqrt(2 / REPLICATES)))) > 0.01


@pytest.mark.parametrize("name", ["thresholds", "hrr", "haar", "tree"])
def test_questions_that_no_user_was_asked_are_counted(name):
    k = 16 if name == "tree" else 8
    protocol = PROTOCOLS[name](epsilon=1.0, range=(0.0, 1.0), k=k)
    run = run_one_shot(protocol, Law("uniform"), 0.5, 3, keys("few", 500))
    questions = {"thresholds": 7, "hrr": 7, "haar": 7, "tree": 2}[name]
    assert (run.received == 3).all()
    assert (run.empty >= questions - 3).all() and (run.empty < questions).all()
