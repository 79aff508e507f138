"""Mean risks of private least squares: closed forms against literal ones, and simulation against both."""

import math

import numpy as np
import pytest

from ldpflow.components.algorithms.dp_ambssgd import DpAmbssgd, DpMbssgd
from ldpflow.components.algorithms.ldp_sgd import TailSgd
from ldpflow.components.algorithms.sufficient_statistics import OrdinaryLeastSquares, SufficientStatistics
from ldpflow.components.intervals.variance import asymptotic_variances
from ldpflow.components.mechanisms.clipped_gaussian import ClippedGaussian
from ldpflow.components.problems.least_squares import LeastSquares
from ldpflow.errors import InputError
from ldpflow.results import curves as theory
from ldpflow.results.curves import theory_curves
from ldpflow.simulators.one_pass import run_path
from tests.algorithms.test_private_regression import path_of
from tests.kernels import uncompiled
from tests.oracles import private_regression as literal

# lambda, b, T, eta, sigma, tau, then the exact risks of the last iterate and the tail average; ||w*|| = 1.
VECTORS = [
    ((1.0,) * 5, 20, 40, 20 / 26, 1.0, 0.1, 0.1153846, 0.00900577),
    ((1.0,) * 8, 1, 400, 0.05, 0.5, 0.05, 0.0336667, 0.00592536),
    ((1.0, 0.5, 0.25, 0.1), 16, 100, 16 / 18.85, 0.7, 0.05, 0.0230951, 0.00161163),
]
KAPPA_10 = (1.0, 0.8, 0.6, 0.5, 0.5, 0.4, 0.4, 0.3, 0.2, 0.1)


def simulated(path, users, replicates, seed=1):
    """Columns of the trajectories at the last checkpoint, arrays over replicates."""
    steps = path.steps(users)
    times = sorted({max(1, steps // 2), steps})
    found = [
        path.trajectories(run_path(path, seed, range(a, min(a + 32, replicates)), times), (users,))
        for a in range(0, replicates, 32)
    ]
    return {
        name: np.concatenate([table[name].to_numpy(zero_copy_only=False) for table in found])
        for name in ("last_exc", "tail_exc", "threshold", "clipped")
        if found[0][name].null_count == 0
    }


def agrees(values, expected, errors=4.0, slack=0.0):
    se = values.std(ddof=1) / math.sqrt(len(values))
    return abs(values.mean() - expected) < errors * se + slack * expected


@pytest.mark.parametrize("vector", VECTORS)
def test_mean_risks_are_the_tabled_ones(vector):
    lam, b, T, eta, sigma, tau, last, tail = vector
    start = np.full(len(lam), 1 / len(lam))
    c = theory.second_moments(lam, start, b, eta, sigma**2, tau**2, T)
    found = theory.mean_risks(c, lam, eta, T)
    assert found == pytest.approx((last, tail), rel=2e-6)
    assert found == pytest.approx(literal.mean_risks(lam, start, b, eta, sigma, [tau] * T, T), rel=1e-12)


def test_second_moments_of_steps_that_are_too_large():
    """They grow by a constant if eta = 2/3 with one coordinate, and beyond all numbers if it is larger."""
    found = theory.second_moments([1.0], [0.5], 1, 2 / 3, 0.25, 0.0, 3)
    np.testing.assert_allclose(found[:, 0], 0.5 + np.arange(4) / 9, rtol=1e-12)
    assert np.isposinf(theory.second_moments(KAPPA_10, np.full(10, 0.1), 1, 2.0, 0.25, 0.0, 2000)[-1]).all()


@pytest.mark.thorough
def test_simulation_has_the_exact_means():
    """dp_mbssgd without clipping, 1024 replicates: each |z| < 4.5 (fails for 1 in 10^5 seeds)."""
    lam, b, T, eta, sigma, tau = (1.0, 0.5, 0.2), 16, 60, 0.8, 0.7, 0.05
    last, tail = literal.mean_risks(lam, [1 / 3] * 3, b, eta, sigma, [tau] * T, T)
    noise = {"clip": 1e4, "noise_multiplier": tau * b / 2e4}
    algorithm = DpMbssgd(iterations=T, eta=eta, infeasible_is="warned", **noise)
    path = path_of(LeastSquares(eigenvalues=lam, sigma=sigma), algorithm, b * T)
    found = simulated(path, b * T, 1024)
    assert found["clipped"].max() == 0.0
    assert agrees(found["last_exc"], last, 4.5)
    assert agrees(found["tail_exc"], tail, 4.5)
    limits = theory_curves(path, [T])["limit"]
    assert limits["last_exc"][0] == pytest.approx(last, rel=1e-5)
    assert limits["tail_exc"][0] == pytest.approx(tail, rel=1e-5)


@pytest.mark.slow
def test_heavier_tails_enter_by_their_kurtosis():
    """Laplace x with unequal eigenvalues under the local mechanism, tail average; |z| < 4.5."""
    problem = LeastSquares(eigenvalues=(2.0, 1.0, 0.5), sigma=0.7, design="laplace", errors="laplace")
    path = path_of(problem, TailSgd(eta=0.1), 400, ClippedGaussian(clip=1e4, mu=1e5))
    found = simulated(path, 400, 4096)
    limits = theory_curves(path, [400])["limit"]
    assert agrees(found["tail_exc"], limits["tail_exc"][0], 4.5)
    assert agrees(found["last_exc"], limits["last_exc"][0], 4.5)
    # A normal design would be off by more than that.
    normal = path_of(problem.model_copy(update={"design": "normal"}), TailSgd(eta=0.1), 400, path.mechanism)
    assert not agrees(found["last_exc"], theory_curves(normal, [400])["limit"]["last_exc"][0], 4.5)


def test_the_risk_of_small_steps_and_that_large_ones_diverge():
    """DP-SSGD: (d/N)(sigma^2 + 4 alpha^2 zeta^2); no limit beyond 2 b/(R^2 + b - 1)."""
    d, b, n, eta, noise = 6, 50, 200_000, 1e-3, 144.0
    c = theory.second_moments(np.ones(d), np.zeros(d), 1, eta, 0.64, noise, n)
    _, tail = theory.mean_risks(c, np.ones(d), eta, n)
    assert tail == pytest.approx(d / n * (0.64 + noise), rel=0.03)
    for factor, grows in ((0.99, False), (1.01, True)):
        c = theory.second_moments(np.ones(d), np.ones(d), b, factor * 2 * b / (b + d + 1), 0.0, 0.0, 2000)
        assert (c[-1].sum() > d) == grows


def test_clip_share_of_a_run():
    """At w* with a fixed threshold, the first step's share is the exact one; |z| < 4.5."""
    assert literal.clip_share(10, 2) == pytest.approx(3.4e-2, rel=0.03)
    d, c, n = 3, 1.0, 160
    problem = LeastSquares(d=d, norm=0.0, sigma=1.0)
    path = path_of(problem, DpMbssgd(iterations=2, clip=c * math.sqrt(d + 2), epsilon=1.0), n)
    found = [
        uncompiled.run_path(path, 1, range(a, a + 32), [1]).extras["clipped"][0] for a in range(0, 128, 32)
    ]
    assert agrees(np.concatenate(found), literal.clip_share(d, c), 4.5)


@pytest.mark.thorough
def test_least_squares_baselines():
    """Ordinary, 512 replicates: |z| < 4.5; perturbed, 128: within 10% and 4 SE, to first order."""
    problem = LeastSquares(d=3, sigma=0.5)
    ols = path_of(problem, OrdinaryLeastSquares(), 200)
    assert agrees(simulated(ols, 200, 512)["tail_exc"], theory.ols_risk(0.5, 3, 200), 4.5)
    assert theory.ols_risk(0.5, 10, 200_000) == pytest.approx(6.25e-6, rel=1e-3)
    private = path_of(problem, SufficientStatistics(epsilon=1.0), 20_000)
    expected = theory_curves(private, [1])["limit"]["tail_exc"][0]
    assert agrees(simulated(private, 20_000, 128)["tail_exc"], expected, 4.0, 0.1)


def test_long_run_variance_of_constant_steps():
    """Steps times twice the mean risk of a long tail average from w* are the asymptotic variances' sum."""
    lam, steps = (1.0, 0.7, 0.4), 40_000
    problem = LeastSquares(eigenvalues=lam, sigma=1.0, norm=0.0)
    path = path_of(problem, TailSgd(eta=0.2), None, ClippedGaussian(clip=100.0, mu=200.0))
    c = theory.second_moments(lam, np.zeros(3), 1, 0.2, 1.0, theory.squared_noise(path), steps)
    _, risk = theory.mean_risks(c, lam, 0.2, steps)
    assert risk * steps == pytest.approx(np.dot(lam, asymptotic_variances(path)), rel=1e-3)
    unstable = path_of(problem, TailSgd(eta=1.5), None)
    assert math.isnan(asymptotic_variances(unstable)[0])


@pytest.mark.slow
def test_thresholds_fall_to_the_scale_of_sigma():
    """sigma = 0.1: the median gamma goes from about 2 to 0.25, on the grid; print's does not settle."""
    problem = LeastSquares(d=10, sigma=0.1)
    settings = {"noise_multiplier": 10.51, "iterations": 20, "c_zeta": 2.0, "domain": 64.0}
    path = path_of(problem, DpAmbssgd(**settings), 200_000)
    scale = 2.0 * math.sqrt(10.0)
    gamma = run_path(path, 1, range(32), range(1, 21)).extras["threshold"] / scale
    assert np.median(gamma[0]) == 2.0 and (np.median(gamma[5:], axis=1) <= 0.25).all()
    predicted, _ = theory.expected_thresholds(path.algorithm, problem, 200_000)
    measured = (gamma**2).mean(axis=1) * scale**2
    np.testing.assert_allclose(np.sqrt(measured), np.sqrt(predicted), rtol=0.2)
    path = path_of(problem, DpAmbssgd(**settings, rule="printed"), 200_000)
    assert run_path(path, 1, range(32), range(1, 21)).extras["threshold"][5:].max() >= 4.0 * scale


def test_batches_that_need_not_contract_are_warned_of():
    """Below 1 + R^2/mu records they need not for kappa >> 1, above they do."""
    skew = LeastSquares(eigenvalues=(1.0,) * 9 + (0.1,), sigma=0.5)
    for b, contracts in ((50, False), (113, True)):
        eta = b / (skew.radius_square() + (b - 1) * skew.largest())
        algorithm = DpMbssgd(iterations=2, eta=eta, infeasible_is="warned").resolved(skew, 2 * b)
        found = algorithm.infeasible(skew, 2 * b)
        assert bool(found) != contracts
        assert ["b =" in text for text in algorithm.cautions(skew, 2 * b)] == [True] * len(found)


def test_too_few_records_for_the_thresholds_are_refused():
    with pytest.raises(InputError, match="4 Gamma"):
        path_of(LeastSquares(d=10, sigma=0.5), DpAmbssgd(iterations=100), 10**5)
