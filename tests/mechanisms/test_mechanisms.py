"""The local randomisers: their guarantee, their mean and their variance, at stated error rates."""

import math

import numpy as np
import pytest

import ldpflow as lf
from tests.oracles import cells
from tests.oracles import mechanisms as literal


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0, 20.0])
def test_randomised_response_keeps_its_promise(epsilon):
    """The likelihood ratio of the two reports is e^eps, no more."""
    mechanism = lf.RandomizedResponse(epsilon=epsilon)
    p, rel = mechanism.kernel_parameters(lf.Quantile())["keep"], 1e-6 if epsilon > 10 else 1e-13
    assert math.log(p / (1.0 - p)) == pytest.approx(epsilon, rel=rel)
    assert p == pytest.approx(literal.keep_probability(epsilon), rel=1e-15)
    variance = mechanism.noise_covariance(lf.Quantile(tau=0.3))[0][0]
    assert variance == pytest.approx(literal.randomized_response_variance(epsilon), rel=rel)


def test_the_covariance_of_cells_is_that_of_the_reports():
    problem = lf.Quantiles(taus=(0.25, 0.5, 0.75))
    step = lf.LdpSgd().step_covariance(problem, lf.Cells(epsilon=0.3))
    np.testing.assert_allclose(step, cells.step_covariance(problem.taus, 0.3), rtol=1e-12)


def test_a_record_cannot_move_the_gradient_by_more_than_the_sensitivity():
    rng = np.random.default_rng(3)
    for tau in (0.1, 0.5, 0.9):
        for bound in (0.3, 1.0, 2.0):
            problem = lf.QuantileRegression(tau=tau, bound=bound)
            x = np.hstack([np.ones((4000, 1)), rng.choice([-bound, bound], size=(4000, 3))])
            g = x * rng.choice([1.0 - tau, -tau], size=(4000, 1))
            moved = np.abs(g[:2000] - g[2000:]).sum(axis=1)
            assert moved.max() <= problem.l1_sensitivity() * (1 + 1e-12)


@pytest.mark.parametrize(
    ("noise", "mechanism", "said"),
    [
        ("record", lf.Laplace(epsilon=2.0), ("eps-LDP", 2.0, None)),
        ("batch", lf.Laplace(epsilon=2.0), ("eps-DP (central)", 2.0, None)),
        ("batch", lf.Gaussian(mu=2.0), ("mu-GDP (central)", None, 2.0)),
        ("batch", lf.NoMechanism(), ("none", None, None)),
    ],
)
def test_the_notion_of_a_batch_is_central_where_its_mean_gets_the_noise(noise, mechanism, said):
    found = lf.MinibatchSgd(batch_size=10, noise=noise).privacy(mechanism)
    assert (found.notion, found.epsilon, found.mu) == said


@pytest.mark.parametrize(
    "mechanism", [lf.RandomizedResponse(), lf.Cells(), lf.DeployedResponse(), lf.Gaussian(budgets=(1.0, 2.0))]
)
def test_a_batch_is_refused_to_bits_and_to_budgets_that_differ(mechanism):
    algorithm = lf.MinibatchSgd(noise="batch")
    assert "adds one noise to a sum" in algorithm.unsuitable(lf.Quantile(), mechanism)
    assert lf.MinibatchSgd().unsuitable(lf.Quantile(), mechanism) is None
