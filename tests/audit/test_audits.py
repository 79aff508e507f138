"""Audits of mechanisms, algorithms and protocols: bundled ones pass, broken ones are caught.

Confidence .999: a sound and tight mechanism fails one audit in a thousand; seeds are fixed.
"""

import dataclasses
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.algorithms.finite_sum import FiniteSumAlgorithm
from ldpflow.components.mechanisms import MECHANISMS
from ldpflow.components.problems import PROBLEMS
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.protocol import budget
from ldpflow.practice.audit import bundled
from ldpflow.practice.audit.bundled import BUNDLED, audit, audit_mechanism, audit_protocol, extreme_pairs
from ldpflow.practice.audit.paths import audit_data_set, audit_path
from tests.audit.unclipped import Unclipped
from tests.kernels import uncompiled

MEDIAN = lf.Quantile(tau=0.5)
SLOW, THOROUGH = pytest.mark.slow, pytest.mark.thorough
REACHED = {"dp_ssgd": 0.0, "sufficient_statistics": 0.5, "rule": 0.15}
"""Least bound over claim of algorithms: .75 for others, .05 over a fixed data set."""


def marked(cases):
    """Cases that begin with their marks."""
    return [pytest.param(*case, marks=marks) for marks, *case in cases]


def marks_of(name, problem):
    large = ("gaussian", "logistic_regression"), ("clipped_gaussian", "linear_regression")
    return SLOW if name in ALGORITHMS or (name, problem) in large else THOROUGH


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    marked((marks_of(one[0], one[2]), *one) for one in BUNDLED if one[0] not in PROTOCOLS),
)
def test_bundled_ones_pass(name, settings, problem):
    """If outputs have one dimension, the bound is near the claim."""
    if name in ALGORITHMS:
        found = audit(name, settings, samples=40_000)
        reached = REACHED.get("rule" if "rule" in settings else name, 0.75)
        reached = 0.05 if issubclass(ALGORITHMS[name], FiniteSumAlgorithm) else reached
    else:
        scalar = problem in ("quantile", "quantiles")
        found = audit(name, settings, problem, samples=100_000 if scalar else 30_000)
        reached = 0.9 if scalar else 0.0
    assert found.passed and found.bound >= reached * found.claim, found


def changed(kind, change):
    """A mechanism or algorithm whose kernel has other parameters than its claim rests on."""

    class Changed(kind):
        def kernel_parameters(self, case):
            return change(dict(super().kernel_parameters(case)))

    return Changed


HalfLaplace = changed(lf.Laplace, lambda right: {name: 0.5 * value for name, value in right.items()})
HalfGaussian = changed(lf.Gaussian, lambda right: {"scales": tuple(0.5 * one for one in right["scales"])})


def eager(right):
    """The bit or cell of the user is replaced 10% less often than it should be."""
    return right | {"keep": 1.0 - 0.9 * (1.0 - right["keep"])}


class Insensitive(lf.LinearRegression):
    """A problem that claims half of its gradient's sensitivity."""

    def l2_sensitivity(self):
        return 0.5 * super().l2_sensitivity()


BROKEN = [
    # A thousand outputs suffice, since continuous outputs do not repeat and have no frequencies.
    ((), HalfLaplace(epsilon=1.0), MEDIAN, 1000, 1.0),
    (THOROUGH, HalfGaussian(mu=1.0), MEDIAN, 1000, 1.0),
    (THOROUGH, changed(lf.RandomizedResponse, eager)(epsilon=1.0), MEDIAN, 300_000, 1.0),
    (THOROUGH, changed(lf.Cells, eager)(epsilon=1.0), lf.Quantiles(), 300_000, 1.0),
    (SLOW, changed(lf.RandomizedResponse, eager)(epsilon=3.0), MEDIAN, 300_000, 3.0),
    (SLOW, changed(lf.Cells, eager)(epsilon=3.0), lf.Quantiles(), 300_000, 3.0),
    (THOROUGH, Unclipped(mu=1.0), MEDIAN, 30_000, 4.0),
    (SLOW, Unclipped(mu=1.0), lf.LinearRegression(), 30_000, 4.0),
    (THOROUGH, lf.Gaussian(mu=1.0), Insensitive(), 30_000, 1.5),
]


@pytest.mark.parametrize(("mechanism", "problem", "samples", "least"), marked(BROKEN))
def test_a_broken_mechanism_is_caught(mechanism, problem, samples, least):
    """Half of the noise, a flip that is off by a tenth, no clip, a sensitivity claimed too small."""
    for seed in (1, 2, 3) if samples == 1000 else (1,):
        found = audit_mechanism(mechanism, problem, samples, 0.999, seed)
        assert found.bound > least and not found.passed, found


def test_a_thousand_outputs_accuse_a_sound_mechanism_no_oftener_than_stated():
    """At confidence .9 at most one audit in ten is wrong: 15 or more of 60 have probability below 1e-3."""
    sound = lf.Laplace(epsilon=1.0)
    bounds = [audit_mechanism(sound, MEDIAN, 1000, 0.9, seed).bound for seed in range(60)]
    assert stats.binom.sf(14, 60, 0.1) < 1e-3
    assert sum(bound > 1.0 for bound in bounds) <= 14
    assert min(bounds) > 0.0


@pytest.mark.thorough
def test_gradients_at_different_points_are_no_neighbours():
    """The gradient H (theta - theta*) - x is unbounded in theta; two records at one theta are 2 b apart."""
    found = audit_mechanism(lf.Laplace(epsilon=1.0), lf.Quadratic(), 20_000)
    assert found.passed and found.bound > 0.8, found


def weak(kind, factor):
    """An algorithm with less noise than it accounts for."""

    class Weak(kind):
        def kernel_settings(self, plan):
            return super().kernel_settings(dataclasses.replace(plan, sigma=factor * plan.sigma))

    return Weak


# Trees in a fixed order: there the accounting is exact at the worst record, for dp_nsgd. In reshuffled orders
# it is an upper bound over all of them, and half of the noise need not break the claim. dp_nsgd_reduced also
# accounts for two trees that do not move where the gradient does not change along the run.
WEAK = [
    (THOROUGH, lf.DpGd, 0.4, {"epochs": 1.0, "delta": 0.01}, 10_000),
    (SLOW, lf.DpGd, 0.5, {"epochs": 2.0}, 60_000),
    (SLOW, lf.DpSgd, 0.25, {"epochs": 1.0, "batch_size": 2}, 60_000),
    (SLOW, lf.DpNsgd, 0.5, {"epochs": 1.0, "order": "fixed"}, 60_000),
    (SLOW, lf.DpNsgd, 0.5, {"epochs": 2.0, "order": "fixed"}, 60_000),
    (SLOW, lf.DpNsgdReduced, 0.25, {"epochs": 1.0, "order": "fixed"}, 60_000),
]


@pytest.mark.parametrize(("kind", "factor", "settings", "samples"), marked(WEAK))
def test_algorithms_with_too_little_noise_are_caught(kind, factor, settings, samples):
    settings = {"epsilon": 2.0, "delta": 1e-3, "eta": 0.01} | settings
    assert audit_data_set(kind(**settings), 4, samples).passed
    assert not audit_data_set(weak(kind, factor)(**settings), 4, samples).passed


def test_extreme_pairs_are_the_farthest():
    rng = np.random.default_rng(1)
    cloud = rng.uniform(-1, 1, (2000, 3))
    cloud[17], cloud[1200] = (2.0, 2.0, 2.0), (-2.0, -2.0, -2.0)
    pairs = extreme_pairs([rng.uniform(9, 11, (100, 3)), cloud], 1)
    assert any({tuple(a), tuple(b)} == {(2.0, 2.0, 2.0), (-2.0, -2.0, -2.0)} for a, b in pairs)
    assert all((a.max() < 5) == (b.max() < 5) for a, b in pairs), "gradients at one point"


@pytest.mark.parametrize(
    ("field", "name", "settings", "options"),
    [
        ("privacy_notion", "none", {}, {}),
        ("privacy_notion", "ols", {}, {}),
        ("privacy_notion", "ldp_sgd", {"mechanism": "none"}, {}),
        ("algorithm.kind", "budget_split", {"epsilon": 1.0, "sampling": "private_bit"}, {}),
        ("algorithm.epsilon", "dp_ssgd", {"epsilon": 1.0, "delta": 1e-3}, {}),
        ("mechanism.sampling", "randomized_response", {"sampling": "private_bit"}, {}),
        ("mechanism", "randomized_response", {}, {"problem": "linear_regression"}),
        ("name", "laplas", {}, {}),
        ("problem", "laplace", {}, {"problem": "quantil"}),
        ("problem", "laplace", {}, {"problem": "robust_regression"}),
        ("confidence", "laplace", {}, {"confidence": 1.0, "samples": 1000}),
        ("samples", "laplace", {}, {"samples": 10}),
    ],
)
def test_what_cannot_be_audited(field, name, settings, options):
    if name in MECHANISMS and name != "none":
        settings = {"epsilon": 1.0, **settings}
    with pytest.raises(lf.InputError) as error:
        audit(name, settings, **options)
    assert error.value.field == field


class Pairs(lf.LdpSgd):
    """Two records a step, in a recursion that audits do not know."""

    kind: Literal["pairs"] = "pairs"

    def records_per_step(self):
        return 2


def test_an_algorithm_that_audits_do_not_know(monkeypatch):
    """Of an installed package, which an audit loads by itself."""
    monkeypatch.setattr(bundled, "load_plugins", lambda: lf.register(Pairs))
    with pytest.raises(lf.InputError, match="an algorithm whose reports an audit knows"):
        audit("pairs", {"mu": 1.0}, samples=1000)


def test_everything_that_claims_something_is_audited():
    audited = {name for name, _, _ in BUNDLED}
    # deployed_response simulates reports without values: its devices run randomised response.
    assert audited >= MECHANISMS.keys() - {"none", "deployed_response"} | PROTOCOLS.keys()
    assert audited >= {kind for kind, made in ALGORITHMS.items() if issubclass(made, FiniteSumAlgorithm)}
    assert all(problem in PROBLEMS for _, _, problem in BUNDLED if problem)


def test_the_documentation_has_a_line_for_every_audit():
    page = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
    table = page.partition("<!-- audit:begin -->")[2].partition("<!-- audit:end -->")[0]
    lines = [line.split("|")[1:-1] for line in table.splitlines() if line.startswith("| `")]
    assert [line[0].strip(" `") for line in lines] == [name for name, _, _ in BUNDLED]


BUDGET = {"epsilon": 2.0, "delta": 1e-3}


def weaker(kind, name, factor, **settings):
    return changed(kind, lambda right: right | {name: factor * right[name]})(**BUDGET, **settings)


class Whole(lf.BudgetSplit):
    """Every path gets the whole budget."""

    def randomiser(self, mechanism):
        return mechanism


class Quiet(lf.DpSsgd):
    """A secret order, and hardly any noise."""

    def randomiser(self, mechanism):
        right = super().randomiser(mechanism)
        noisy = right.kind == "clipped_gaussian"
        return right.model_copy(update={"mu": 1000.0 * right.mu}) if noisy else right


PARTS = {"doublings": 1, "part": 2}
ALGORITHMS_BROKEN = [
    ((), lf.LdpSgd(), Unclipped(mu=1.0), 1000, 2.5),
    (THOROUGH, weaker(lf.DpMbssgd, "noise", 0.5), None, 10_000, 0.55),
    (THOROUGH, Quiet(epsilon=0.3, delta=0.01), None, 2000, 1.0),
    (SLOW, weaker(lf.DpAmbssgd, "noise", 0.5, **PARTS), None, 10_000, 0.55),
    (SLOW, weaker(lf.DpAmbssgd, "spread", 0.5, **PARTS), None, 10_000, 0.55),
    (SLOW, weaker(lf.SufficientStatistics, "cross_noise", 0.25), None, 10_000, 0.55),
    (SLOW, Whole(perturbations=2), lf.RandomizedResponse(epsilon=1.0), 10_000, 2.0),
    (SLOW, lf.TailSgd(eta=0.01), Unclipped(mu=1.0), 2000, 3.0),
    (SLOW, lf.MinibatchSgd(noise="batch", batch_size=2), HalfLaplace(epsilon=1.0), 20_000, 1.0),
]


@pytest.mark.parametrize(("algorithm", "mechanism", "samples", "least"), marked(ALGORITHMS_BROKEN))
def test_a_broken_algorithm_is_caught(algorithm, mechanism, samples, least, monkeypatch):
    if samples <= 1000:
        uncompiled.use(monkeypatch)
    found = audit_path(algorithm, mechanism, samples, 0.999, 1)
    assert found.bound > least and not found.passed, found


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "settings"), [(n, s) for n, s, _ in BUNDLED if n in PROTOCOLS])
def test_a_report_of_every_protocol_keeps_its_claim(name, settings):
    sound = PROTOCOLS[name](range=(0.0, 1.0), **settings)

    class Eager(type(sound)):
        """Answers with twice its budget."""

        def budget(self):
            return budget(2.0 * self.epsilon, self.answers)

    found = audit_protocol(sound, 5000, 0.999, 1)
    assert found.passed and found.bound > 0.5 * found.claim, found
    assert not audit_protocol(Eager(range=(0.0, 1.0), **settings), 5000, 0.999, 1).passed
