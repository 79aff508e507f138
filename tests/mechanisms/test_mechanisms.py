"""The local randomisers: their guarantee, their mean and their variance, at stated error rates."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
from ldpflow.components.mechanisms import laplace, randomized_response
from ldpflow.components.mechanisms.laplace import Laplace
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.quantile_regression import QuantileRegression
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.simulators.one_pass import OnePass
from tests import draws
from tests.oracles import mechanisms as literal

ALPHA = 1e-4
EPSILONS = [0.1, 0.5, 1.0, 4.0, 20.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomised_response_keeps_its_promise(epsilon):
    # The likelihood ratio of the two reports is e^eps, no more.
    p = RandomizedResponse(epsilon=epsilon).kernel_parameters(Quantile())["keep"]
    assert math.log(p / (1.0 - p)) == pytest.approx(epsilon, rel=1e-6 if epsilon > 10 else 1e-13)
    assert p == pytest.approx(literal.keep_probability(epsilon), rel=1e-15)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("bit", [0, 1])
def test_randomised_response_has_its_law(epsilon, bit):
    # The kernel function is plain Python: run on the mechanism's own draws, one lane at a time.
    problem, mechanism = Quantile(tau=0.3), RandomizedResponse(epsilon=epsilon)
    path = OnePass(problem, mechanism, LdpSgd())
    parameters = SimpleNamespace(**mechanism.kernel_parameters(problem))
    u = draws.noise(path, 1, bit, 20_000)[:, 0]
    low, high = problem.gradient_values()
    reported = []
    for x in u:
        g = np.array([high if bit else low])
        randomized_response.randomise(g, [x], 0, 0, parameters, [])
        reported.append(g[0])
    values = np.array(reported)
    one, zero = parameters.one, parameters.zero
    assert set(values) == {one, zero}
    kept = int((values == (one if bit else zero)).sum())
    assert stats.binomtest(kept, len(u), parameters.keep).pvalue > ALPHA
    # Unbiased, with the variance that the asymptotics use.
    variance = mechanism.noise_covariance(problem)[0][0]
    z = (values.mean() - (high if bit else low)) / math.sqrt(variance / len(u))
    assert abs(z) < stats.norm.isf(ALPHA / 2)
    assert variance == pytest.approx(literal.randomized_response_variance(epsilon), rel=1e-13)


@pytest.mark.parametrize("problem", [Quantile(tau=0.9), QuantileRegression(tau=0.2)], ids=repr)
def test_laplace_noise_is_scaled_to_the_whole_gradients_sensitivity(problem):
    mechanism = Laplace(epsilon=0.8)
    d = problem.dimension
    scale = problem.l1_sensitivity() / 0.8
    assert mechanism.noise_covariance(problem)[d - 1][d - 1] == pytest.approx(2 * scale**2)
    # What the kernel adds in lane 0.
    g = np.zeros(d * LANES)
    planes = np.arange(1.0, d * STRIDE + 1)
    parameters = SimpleNamespace(**mechanism.kernel_parameters(problem))
    laplace.randomise(SimpleNamespace(D=d), g, planes, 0, 0, parameters, [])
    assert (g.reshape(d, LANES)[:, 0] == scale * planes[::STRIDE]).all()


def test_a_record_cannot_move_the_gradient_by_more_than_the_sensitivity():
    rng = np.random.default_rng(3)
    for tau in (0.1, 0.5, 0.9):
        for bound in (0.3, 1.0, 2.0):
            problem = QuantileRegression(tau=tau, bound=bound)
            x = np.hstack([np.ones((4000, 1)), rng.choice([-bound, bound], size=(4000, 3))])
            g = x * rng.choice([1.0 - tau, -tau], size=(4000, 1))
            moved = np.abs(g[:2000] - g[2000:]).sum(axis=1)
            assert moved.max() <= problem.l1_sensitivity() * (1 + 1e-12)


def test_privacy_statements_name_notion_and_unit():
    local = LdpSgd().privacy(Laplace(epsilon=2.0))
    assert (local.notion, local.unit, local.epsilon) == ("eps-LDP", "record", 2.0)
    batch = MinibatchSgd(batch_size=10, noise="record").privacy(Laplace(epsilon=2.0))
    assert batch.notion == "eps-LDP"
    central = MinibatchSgd(batch_size=10, noise="batch").privacy(Laplace(epsilon=2.0))
    assert central.notion == "eps-DP (central)"
    nothing = MinibatchSgd(noise="batch").privacy(NoMechanism())
    assert (nothing.notion, nothing.epsilon) == ("none", None)
