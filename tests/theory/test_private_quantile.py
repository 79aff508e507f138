"""The bound of private quantiles by linear programmes, what moves the estimated level, and the page on it."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from ldpflow.components.problems.laws import Law
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import run_one_shot, run_rounds
from ldpflow.results import protocol_curves as theory
from tests.oracles.cells import step_covariance
from tests.protocols.running import keys

PAGE = (Path(__file__).parents[2] / "docs" / "which_protocol.md").read_text()


def best_information(weights, score, epsilon):
    """Largest Fisher information about a score among all eps-LDP channels of a discrete value.

    A linear programme over the extreme channels, whose columns take two values in ratio e^eps.
    """
    columns = np.array(list(itertools.product([1.0, np.exp(epsilon)], repeat=len(weights))))
    value = (columns @ (weights * score)) ** 2 / (columns @ weights)
    solved = optimize.linprog(-value, A_eq=columns.T, b_eq=np.ones(len(weights)), method="highs")
    return -solved.fun


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.5, 0.75, 0.9, 0.99])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
def test_no_channel_says_more_than_randomised_response_of_the_bit(tau, epsilon):
    """Values on nine points, five below, score b - tau: the programme's optimum is RR's information."""
    rng = np.random.default_rng(1)
    weights = np.concatenate([tau * rng.dirichlet([3.0] * 5), (1 - tau) * rng.dirichlet([3.0] * 4)])
    best = best_information(weights, (np.arange(9) < 5) - tau, epsilon)
    assert best * theory.bit_variance(tau, epsilon) / (tau * (1 - tau)) ** 2 == pytest.approx(1, abs=1e-9)


def test_answering_twice_costs_about_twice():
    found = [theory.bit_variance(0.5, 1.0, answers) for answers in (1, 2, 4)]
    assert found == pytest.approx([1.17, 2.21, 4.23], abs=0.005)
    for tau, shown, rounding in ((0.5, [1.9, 1.65, 1.27], 0.015), (0.9, [2.0, 2.0, 1.66], 0.035)):
        once, twice = ([theory.bit_variance(tau, e, a) for e in (1.0, 2.0, 4.0)] for a in (1, 2))
        assert np.divide(twice, once) == pytest.approx(shown, abs=rounding)
        assert "{}, {} and {} times".format(*shown) in PAGE


@pytest.mark.parametrize("push", ["down", "up"])
def test_rounds_find_the_level_that_liars_leave(push):
    """The mean estimate is within four standard errors of the exact root."""
    protocol = PROTOCOLS["rounds"](epsilon=1.0, range=(-6.3, 9.7), liars=0.05, liars_push=push)
    estimates = run_rounds(protocol, Law("normal"), 0.5, 10**7, keys(f"liars {push}", 400)).estimate
    root = stats.norm.ppf(theory.level_with_liars(0.5, 1.0, 0.05, push))
    # The median: the run has rare wild replicates. Its standard error is 1.25 times the mean's.
    error = 1.25 * estimates.std() / np.sqrt(len(estimates))
    assert abs(np.median(estimates) - root) < 4 * error + 2e-3


@pytest.mark.parametrize(
    ("kind", "influence"),
    [
        ("thresholds", 1 / np.tanh(0.5) / 2),
        ("grr", (np.e - 1 + 64) / (np.e - 1) / 2),
        ("oue", 2 / np.tanh(0.5) * 32 * 32 / 64),
    ],
)
@pytest.mark.parametrize(("push", "sign"), [("down", 1), ("up", -1)])
def test_liars_move_a_histogram_in_the_direction_that_they_push(kind, influence, push, sign):
    """By half the range of one report's influence, times the share of those who lie."""
    protocol = PROTOCOLS[kind](epsilon=1.0, range=(-8.0, 8.0), k=64, liars=0.02, liars_push=push)
    values = run_one_shot(protocol, Law("normal"), 0.5, 10**8, keys(f"push {kind}", 200)).values
    assert values.mean(axis=0)[31] - 0.5 == pytest.approx(sign * 0.02 * influence, rel=0.02)


@pytest.mark.parametrize(("below", "above", "tau"), [(1.0, 0.5, 0.5), (0.4, 0.8, 0.8)])
def test_dropout_that_depends_on_the_value_moves_the_level(below, above, tau):
    level = theory.level_with_dropout(tau, below, above)
    protocol = PROTOCOLS["haar"](epsilon=4.0, range=(0.0, 1.0), k=64, answer_below=below, answer_above=above)
    run = run_one_shot(protocol, Law("uniform"), tau, 10**9, keys("dropout", 200))
    estimates = run.intervals([tau], [], "outer").estimate
    assert abs(estimates.mean() - level) < 4 * estimates.std() / np.sqrt(200) + 1e-6
    share = below * tau + above * (1 - tau)
    assert run.received.mean() / 1e9 == pytest.approx(share, abs=1e-5)


def best_mean_variance(taus, epsilon):
    """Least mean of Var F_q over S among all eps-LDP channels of the cell, from below and from above.

    A convex programme over the extreme channels; a linear programme at its solution gives the lower bound.
    """
    cells = len(taus) + 1
    columns = np.array(list(itertools.product([1.0, np.exp(epsilon)], repeat=cells)))
    slopes = columns[:, :-1] - columns[:, 1:]
    chances = columns @ np.diff([0.0, *taus, 1.0])
    scale = np.diag([1 / theory.bit_variance(tau, epsilon) / len(taus) for tau in taus])

    def value(weights):
        information = (slopes.T * (weights / chances)) @ slopes
        inverse = np.linalg.inv(information)
        gradient = -np.einsum("yq,qr,yr->y", slopes, inverse @ scale @ inverse, slopes) / chances
        return np.trace(scale @ inverse), gradient

    start = np.where((columns > 1).sum(axis=1) == 1, 1 / (np.exp(epsilon) + cells - 1), 0.0)
    even = np.full(len(columns), 1 / columns.sum(axis=0)[0])
    solved = optimize.minimize(
        value,
        0.9 * start + 0.1 * even,
        jac=True,
        bounds=[(0, None)] * len(columns),
        constraints={"type": "eq", "fun": lambda w: columns.T @ w - 1, "jac": lambda w: columns.T},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-10},
    )
    now, gradient = value(solved.x)
    least = optimize.linprog(gradient, A_eq=columns.T, b_eq=np.ones(cells), method="highs").fun
    return now + least - gradient @ solved.x, now


@pytest.mark.parametrize(
    ("count", "epsilon", "expected"),
    [(2, 0.5, 1.69), (2, 4.0, 1.03), (3, 1.0, 1.96), (3, 2.0, 1.41), (4, 1.0, 2.34), (4, 4.0, 1.09)],
)
def test_the_best_channel_of_several_quantiles(count, epsilon, expected):
    """The last column of the table in docs/which_protocol.md, whose gap is at most 2%."""
    taus = [(q + 1) / (count + 1) for q in range(count)]
    below, above = best_mean_variance(taus, epsilon)
    assert above - below <= 0.02 * above
    assert below <= expected * 1.02
    assert above >= expected * 0.98
    assert below <= mean_variance_of_cells(taus, epsilon) * (1 + 1e-9)


def mean_variance_of_cells(taus, epsilon):
    return np.mean(np.diag(step_covariance(taus, epsilon)) / [theory.bit_variance(t, epsilon) for t in taus])


def test_variances_of_cells():
    """The column of ``cells`` in the page's table over Q and eps, to its last digit."""
    rows = re.findall(r"^\| (\d) \| ([\d./ ]+) \| \d \| ([\d./ ]+) \| ([\d./ ]+) \|$", PAGE, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [2, 3, 4, 9]
    for count, *columns in rows:
        taus = [(q + 1) / (int(count) + 1) for q in range(int(count))]
        for epsilon, shown, least in zip(*(map(float, text.split("/")) for text in columns), strict=True):
            assert shown == pytest.approx(mean_variance_of_cells(taus, epsilon), abs=0.0051)
            assert least <= shown, "a report of cells is one of the channels"
