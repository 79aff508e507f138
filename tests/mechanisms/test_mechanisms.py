"""The local randomisers: guarantee, mean and variance; liars and drop-out, by the exact law and root."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.mechanisms.deployed_response import randomise_probability
from ldpflow.results.protocol_curves import bit_variance, level_with_dropout, level_with_liars
from ldpflow.results.published import holm
from ldpflow.simulators.one_pass import OnePass
from tests.kernels import uncompiled
from tests.oracles import cells
from tests.oracles import mechanisms as literal
from tests.studies import changed


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 4.0, 20.0])
def test_randomised_response_keeps_its_promise(epsilon):
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


class Approximate(lf.Laplace):
    """A mechanism with another notion of local privacy."""

    def privacy(self):
        return PrivacyStatement("(eps, delta)-LDP", epsilon=self.epsilon, delta=0.1)


@pytest.mark.parametrize(
    "mechanism",
    [
        Approximate(),
        lf.RandomizedResponse(),
        lf.Cells(),
        lf.DeployedResponse(),
        lf.Gaussian(budgets=(1.0, 2.0)),
        lf.ClippedGaussian(),
    ],
)
def test_a_batch_is_refused_to_what_has_no_central_notion(mechanism):
    algorithm = lf.MinibatchSgd(noise="batch")
    assert "adds one noise to a sum" in algorithm.unsuitable(lf.Quantile(), mechanism)
    assert lf.MinibatchSgd().unsuitable(lf.Quantile(), mechanism) is None


SEED = 11


def reports(mechanism, problem, level):
    """What the algorithm sees at F(theta) = level, for 10,000 midpoints as uniforms."""
    parameters = SimpleNamespace(**mechanism.kernel_parameters(problem))
    found = []
    for u in (np.arange(10_000) + 0.5) / 10_000:
        g = [level]
        randomise_probability(g, [u], 0, 0, parameters, [])
        found.append(g[0])
    return found


def test_without_liars_and_dropout_it_is_randomised_response():
    problem = lf.Quantile(tau=0.7)
    algorithm = lf.MinibatchSgd(batch_size=3)
    paths = [
        OnePass(problem, lf.RandomizedResponse(epsilon=0.9, sampling="private_bit"), algorithm),
        OnePass(problem, lf.DeployedResponse(epsilon=0.9), algorithm),
    ]
    for path in paths:
        path.__dict__["key"] = "the same"
    first, second = (uncompiled.run_path(path, SEED, range(32), [1, 2, 300]) for path in paths)
    np.testing.assert_allclose(first.iterates, second.iterates, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("answers", [1, 2, 5])
@pytest.mark.parametrize("push", ["down", "up"])
def test_the_law_of_a_report_by_users(answers, push):
    """Users one by one, who answer or not, lie or not, several times; against uniforms through the kernel."""
    settings = {"liars": 0.1, "liars_push": push, "answer_below": 0.9, "answer_above": 0.3}
    mechanism = lf.DeployedResponse(epsilon=1.5, answers=answers, **settings)
    rng = np.random.default_rng(answers)
    p = 1 / (1 + np.exp(-1.5 / answers))
    users = 100_000
    p_values = []
    for level in (0.1, 0.6, 0.95):
        value = rng.random(users)
        answering = rng.random(users) < np.where(value <= 0.6, 0.9, 0.3)
        bit = value[answering] <= level
        shape = (answers, len(bit))
        sent = np.where(rng.random(shape) < p, bit, ~bit).sum(axis=0)
        sent = np.where(rng.random(len(bit)) < 0.1, answers if push == "down" else 0, sent)
        literal = (sent / answers - (1 - p)) / (2 * p - 1) - 0.6
        drawn = reports(mechanism, lf.Quantile(tau=0.6), level)
        # What the algorithm sees is one of a + 1 numbers, with the frequencies of the users.
        numbers = sorted(set(np.round(literal, 10)))
        assert numbers == sorted(set(np.round(drawn, 10)))
        counts = np.array([(np.round(literal, 10) == number).sum() for number in numbers])
        chances = np.array([(np.round(drawn, 10) == number).mean() for number in numbers])
        p_values.append(stats.chisquare(counts, chances / chances.sum() * len(literal)).pvalue)
    assert min(holm(p_values)) > 0.01


def test_several_answers_cost_about_as_many_times():
    for answers in (1, 2, 4):
        covariance = lf.LdpSgd().step_covariance(lf.Quantile(), lf.DeployedResponse(answers=answers))
        assert covariance[0][0] == pytest.approx(bit_variance(0.5, 1.0, answers), rel=1e-12)


@pytest.mark.parametrize(
    ("tau", "settings", "level"),
    [
        (0.5, {"liars": 0.05}, level_with_liars(0.5, 1.0, 0.05, "down")),
        (0.9, {"liars": 0.02, "liars_push": "up"}, level_with_liars(0.9, 1.0, 0.02, "up")),
        (0.5, {"answer_above": 0.4}, level_with_dropout(0.5, 1.0, 0.4)),
        (0.5, {"answer_below": 0.4}, level_with_dropout(0.5, 0.4, 1.0)),
    ],
)
def test_steps_have_mean_0_at_the_computed_level(tau, settings, level):
    """Over 10,000 midpoints as uniforms; the largest report over 10,000 is below 2e-4."""
    assert abs(level - tau) > 0.01
    found = reports(lf.DeployedResponse(**settings), lf.Quantile(tau=tau), level)
    assert np.mean(found) == pytest.approx(0, abs=4e-4)


def test_it_asks_for_one_quantile():
    two, deployed = {"kind": "quantiles", "taus": [0.2, 0.8]}, {"kind": "deployed_response", "epsilon": 1.0}
    with pytest.raises(lf.InputError, match="one quantile"):
        lf.Study.from_mapping(changed(problem=two, mechanism=deployed))
