"""Randomisers as matrices, and the variances that follow from them by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ldpflow.components.protocols import PROTOCOLS
from tests.oracles import protocols as oracle
from tests.protocols.running import ONE_SHOT, spread_of

RANGE = (0.0, 8.0)


def channel(name, k, eps):
    """Probability of every answer (columns) given every bin (rows), public coins with it."""
    p = oracle.keep(eps)
    bins = np.arange(k)
    if name == "grr":
        return np.where(np.eye(k) > 0, np.exp(eps), 1.0) / (np.exp(eps) + k - 1)
    if name == "oue":
        return unary_channel(k, p)
    if name == "tree":
        levels = round(np.log(k) / np.log(4))
        return np.hstack([unary_channel(4**l, p)[bins // (k // 4**l)] / levels for l in range(1, levels + 1)])
    if name == "thresholds":
        return sign_channel(bins[:, None] < np.arange(1, k), p) / (k - 1)
    if name == "hrr":
        return sign_channel(oracle.hadamard(k)[1:].T, p) / (k - 1)
    levels = int(np.log2(k))
    columns = []
    for level in range(levels):
        size = k >> level
        side = np.where(bins % size < size // 2, 1.0, -1.0)
        signs = side[:, None] * oracle.hadamard(2**level)[:, bins // size].T
        columns.append(sign_channel(signs, p) / (levels * 2**level))
    return np.hstack(columns)


def sign_channel(signs, p):
    plus = np.where(signs > 0, p, 1 - p)
    return np.hstack([plus, 1 - plus])


def unary_channel(k, p):
    """Given the bin, a product over the 2^k reports' bits."""
    ones = unary_reports(k)
    chance = np.where(np.eye(k) > 0, 0.5, 1 - p)[:, None]
    return np.prod(np.where(ones > 0, chance, 1 - chance), axis=2)


def influence(name, k, eps, cdf):
    """Every report's contribution to n (F^ - F) at the inner edges, shape (reports, edges).

    The estimator is linear in the reports once the number of users at each question is what it is on
    average; questions come with their probability, as in the channel's columns.
    """
    pi = np.diff(cdf)
    inner = cdf[1:-1]
    c = 1 / np.tanh(eps / 2)
    if name == "thresholds":
        one, zero = oracle.debiased(1.0, eps), oracle.debiased(0.0, eps)
        rows = [
            np.where(np.arange(k - 1) == m, (k - 1) * (value - inner[m]), 0.0)
            for value, m in itertools.product((one, zero), range(k - 1))
        ]
        return np.array(rows)
    if name == "grr":
        q = 1 / (np.exp(eps) + k - 1)
        return oracle.prefix((np.eye(k) - q) / (np.exp(eps) * q - q)) - inner
    if name == "oue":
        q = 1 / (1 + np.exp(eps))
        found = (unary_reports(k) - q) / (0.5 - q)
        return oracle.prefix(found - (found.sum(axis=1, keepdims=True) - 1) / k) - inner
    if name == "tree":
        rows = []
        levels = round(np.log(k) / np.log(4))
        a = oracle.tree_matrix(k)
        q = 1 / (1 + np.exp(eps))
        at = 0
        for level in range(1, levels + 1):
            found = np.zeros((2 ** (4**level), len(a)))
            nodes = slice(at, at + 4**level)
            found[:, nodes] = levels * ((unary_reports(4**level) - q) / (0.5 - q) - (a @ pi)[nodes])
            rows.append(oracle.consistent(found, k) - oracle.consistent(np.zeros((1, len(a))), k))
            at += 4**level
        return np.vstack(rows)
    if name == "hrr":
        h = oracle.hadamard(k)[1:]
        rows = [
            (k - 1) * (sign * c - h[r] @ pi) * oracle.prefix(h[r]) / k
            for sign, r in itertools.product((1, -1), range(k - 1))
        ]
        return np.array(rows)
    assert name == "haar"
    return haar_influence(k, c, pi)


def unary_reports(k):
    return ((np.arange(2**k)[:, None] >> np.arange(k)) & 1).astype(float)


def haar_influence(k, c, pi):
    levels = int(np.log2(k))
    rows = []
    for level in range(levels):
        nodes, size = 2**level, k >> level
        h = oracle.hadamard(nodes)
        side = np.where(np.arange(k) % size < size // 2, 1.0, -1.0)
        d = np.array([(side * pi)[node * size : (node + 1) * size].sum() for node in range(nodes)])
        # F^ moves with d of a node like the tent over its bins, whose height is 1/2 in the middle.
        edge = np.arange(1, k)
        tent = np.zeros((nodes, k - 1))
        within = edge % size
        tent[np.minimum(edge // size, nodes - 1), edge - 1] = np.minimum(within, size - within) / size
        for sign, r in itertools.product((1, -1), range(nodes)):
            rows.append(levels * (sign * c - h[r] @ d) * (h[r] @ tent))
    return np.array(rows)


@pytest.mark.parametrize("name", ONE_SHOT)
@pytest.mark.parametrize("epsilon", (0.5, 4.0))
def test_variance_is_that_of_the_channel(name, epsilon):
    """n Var F^(t_m), and unbiasedness, from all pairs of a bin and a report."""
    k = 16 if name == "tree" else 8
    pi = np.random.default_rng(3).dirichlet(np.full(k, 1.5))
    cdf = np.concatenate([[0.0], np.cumsum(pi)])
    cdf[-1] = 1.0
    protocol = PROTOCOLS[name](epsilon=epsilon, range=RANGE)
    matrix = channel(name, k, epsilon)
    assert matrix.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert (matrix.max(axis=0) / matrix.min(axis=0)).max() == pytest.approx(np.exp(epsilon), rel=1e-12)
    reports = pi @ matrix
    z = influence(name, k, epsilon, cdf)
    assert reports @ z == pytest.approx(0.0, abs=1e-10)
    variance = reports @ z**2
    found = [spread_of(protocol, cdf, cdf[m])[m - 1] for m in range(1, k)]
    assert found == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize("name", ONE_SHOT)
@pytest.mark.parametrize(("k", "epsilon", "answers"), [(16, 0.5, 1), (256, 4.0, 1), (64, 1.0, 3)])
def test_the_rule_s_variance_is_that_at_the_middle_of_a_uniform_law(name, k, epsilon, answers):
    protocol = PROTOCOLS[name](epsilon=epsilon, answers=answers, range=RANGE)
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


def test_a_scale_guess_changes_the_rule_and_k_overrules_it():
    rule = PROTOCOLS["haar"](range=(0.0, 1.0))
    assert rule.model_copy(update={"scale_guess": 0.005}).bins(10**6) > rule.bins(10**6)
    assert PROTOCOLS["haar"](range=(0.0, 1.0), k=8).bins(10**6) == 8
