"""Counts: the exact law, the rejection method's inequalities, and addresses."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from ldpflow.numerics import counts
from ldpflow.numerics.elementary import U64, jit
from ldpflow.numerics.streams import counter_keys

KEY = tuple(U64(word) for word in counter_keys(20261122, "reports", "tests", 0))
DRAWS = 100_000
ALPHA = 0.01  # of a whole family of chi-squared tests (Holm)

SMALL = [(1, 0.5), (3, 0.2), (7, 0.9), (20, 0.5), (19, 0.499), (1000, 0.005), (10**9, 3e-9)]
LARGE = [
    (20, 0.5), (21, 0.48), (40, 0.75), (100, 0.1), (1000, 0.6), (10**6, 1.1e-5), (10**6, 0.3), (10**9, 2e-7),
    (10**12, 0.37), (10**12, 1e-10), (10**12, 1 - 1e-9),
]  # fmt: skip


@jit
def draw_many(out, key, stage, n, p):
    for i in range(out.shape[0]):
        out[i] = counts.binomial(key[0], key[1], i, stage, 0, n, p)


@jit
def multinomial_many(out, key, n, weights):
    for i in range(out.shape[0]):
        counts.multinomial(out[i], key[0], key[1], i, 0, n, weights)


def drawn(n, p, size=DRAWS, stage=0):
    out = np.empty(size)
    draw_many(out, KEY, stage, float(n), p)
    return out


def chi_squared(n, p):
    """Over about 60 classes of counts; those expected fewer than 20 times are counted with the largest."""
    law = stats.binom(n, p)
    ends = np.unique(law.ppf(np.linspace(0.0, 1.0, 60)[1:-1]))
    expected = DRAWS * np.diff([0.0, *law.cdf(ends), 1.0])
    x = drawn(n, p)
    assert (x == np.floor(x)).all() and x.min() >= 0 and x.max() <= n
    classes = np.where(expected < 20, np.argmax(expected), np.arange(len(expected)))
    found = np.bincount(classes[np.searchsorted(ends, x)], minlength=len(expected))
    expected = np.bincount(classes, expected, minlength=len(expected))
    return stats.chisquare(found[expected > 0], expected[expected > 0]).pvalue


def test_binomial_counts_follow_the_exact_law():
    """Holm: none of the p-values is rejected if the smallest is not."""
    cases = SMALL + LARGE
    assert min(chi_squared(n, p) for n, p in cases) > ALPHA / len(cases)


@pytest.mark.parametrize(
    ("n", "p", "expected"), [(0, 0.5, 0), (10**12, 0.0, 0), (10**12, 1.0, 10**12), (5, 1.5, 5)]
)
def test_certain_counts(n, p, expected):
    assert (drawn(n, p, 10) == expected).all()


@pytest.mark.parametrize(
    ("n", "p"), [(20, 0.5), (1000, 0.5), (1000, 0.01), (10**6, 0.3), (10**12, 0.3), (10**12, 2e-11)]
)
def test_ratio_of_probabilities(n, p):
    """log P(k) - log P(mode) against 60 digits, up to nine standard deviations away."""
    mean = n * p
    rest = float(n * Fraction(p) - Fraction(mean))
    sd = math.sqrt(mean * (1 - p))
    mode = math.floor(mean + p)
    for z in (-9, -3, -1, -0.1, 0.01, 1, 2.5, 6, 9):
        k = mode + math.floor(z * sd)
        if not 0 <= k <= n:
            continue
        with mp.workdps(60):
            chance = mp.mpf(p)

            def exact(k, chance=chance):
                lost = mp.loggamma(k + 1) + mp.loggamma(n - k + 1)
                return k * mp.log(chance) + (n - k) * mp.log1p(-chance) - lost

            difference = float(exact(k) - exact(mode))
        found = counts.log_probability(float(k), float(n), mean, rest)
        found -= counts.log_probability(float(mode), float(n), mean, rest)
        assert found == pytest.approx(difference, abs=1e-12 * (1 + abs(difference)))


def test_factorials():
    with mp.workdps(50):
        for k in [*range(40), 1000, 10**6, 10**12]:
            exact = mp.loggamma(k + 1) - (k * mp.log(k) if k else 0) + k
            assert counts.factorial_excess(float(k)) == pytest.approx(float(exact), abs=4e-15)


@pytest.mark.parametrize("weights", [(0.2, 0.5, 0.3), (2.0, 0.0, 1.0, 1.0), (0.0, 1.0, 0.0), (1.0, 1.0, 1.0)])
def test_counts_of_classes_have_their_law_on_every_outcome(weights):
    n = 4
    out = np.empty((DRAWS, len(weights)))
    multinomial_many(out, KEY, float(n), np.array(weights))
    cases = [c for c in itertools.product(range(n + 1), repeat=len(weights)) if sum(c) == n]
    exact = stats.multinomial(n, np.array(weights) / sum(weights)).pmf(cases)
    index = {case: i for i, case in enumerate(cases)}
    found = np.bincount([index[tuple(row)] for row in out.astype(int)], minlength=len(cases))
    possible = exact > 0
    assert found[~possible].sum() == 0
    if possible.sum() > 1:
        assert stats.chisquare(found[possible], exact[possible] * DRAWS).pvalue > 1e-3


def test_multinomial_counts_of_many_trials_sum_to_them():
    out = np.empty((50, 200))
    weights = np.random.default_rng(1).dirichlet(np.full(200, 0.05))
    multinomial_many(out, KEY, 1e12, weights)
    assert (out.sum(axis=1) == 1e12).all()
    assert out.min() >= 0
    z = (out - 1e12 * weights) / np.sqrt(1e12 * weights * (1 - weights) + 1e-300)
    assert np.abs(z[:, weights > 1e-9]).max() < 6


def test_a_count_depends_on_its_address_alone():
    many = drawn(10**6, 0.3, 1000)
    alone = np.array([counts.binomial(KEY[0], KEY[1], i, 0, 0, 1e6, 0.3) for i in (999, 0, 500)], dtype=float)
    assert (alone == many[[999, 0, 500]]).all()
    assert (drawn(10**6, 0.3, 1000, stage=1) != many).mean() > 0.99
