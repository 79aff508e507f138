"""What a secret sample and a secret order add, against dp_accounting as far as it goes.

dp_accounting 0.6 samples Gaussian and Laplace noise only (PLDAccountant refuses other events under
PoissonSampledDpEvent), and has no event for a shuffler. Reports of randomised response and their counts in
a secret order are therefore given to its privacy loss distributions as tables of probabilities.
"""

from __future__ import annotations

import math

import pytest
from scipy import stats

from ldpflow.mechanisms import MECHANISMS
from ldpflow.privacy import shuffling
from ldpflow.privacy.amplification import sampled_pair
from ldpflow.privacy.page import Design, privacy_page

GRID = 1e-3


def losses():
    """The library's privacy loss distributions."""
    return pytest.importorskip("dp_accounting").pld.privacy_loss_distribution


def sampled(kind, settings, rate, delta, reports=1):
    """epsilon at delta of the page, for one of the invited."""
    mechanism = MECHANISMS[kind](**settings)
    design = Design(reports=reports, response_rate=rate, delta=delta)
    return privacy_page(kind, settings, mechanism.privacy(), design).guarantees[-1].epsilon_at_delta


@pytest.mark.parametrize("kind", ["gaussian", "clipped_gaussian"])
@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("rate", [0.02, 0.3])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_a_sample_of_gaussian_reports_is_the_librarys(kind, reports, rate, delta):
    """k reports of a user who answers or does not are one report with sqrt(k) mu."""
    mu = 0.8
    deviation = 1.0 / (math.sqrt(reports) * mu)
    theirs = losses().from_gaussian_mechanism(
        deviation, sampling_prob=rate, value_discretization_interval=GRID
    )
    found = sampled(kind, {"mu": mu}, rate, delta, reports)
    assert found == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=2e-3, abs=2 * GRID)


@pytest.mark.parametrize("rate", [0.02, 0.3])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_a_sample_of_laplace_reports_is_at_least_the_librarys(rate, delta):
    epsilon = 1.5
    theirs = losses().from_laplace_mechanism(
        1.0 / epsilon, sampling_prob=rate, value_discretization_interval=GRID
    )
    least = theirs.get_epsilon_for_delta(delta)
    assert least - 2 * GRID <= sampled("laplace", {"epsilon": epsilon}, rate, delta) <= 1.6 * least + 2 * GRID


@pytest.mark.parametrize("kind", ["randomized_response", "deployed_response", "cells"])
@pytest.mark.parametrize("rate", [0.02, 0.3])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_a_sample_of_randomised_responses_is_the_librarys(kind, rate, delta):
    """One of two invited answers; the other one's value is 0, and so is the value that replaces."""
    epsilon = 1.5
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    ones = {"first": rate * keep + (1 - rate) * (1 - keep), "second": 1 - keep}
    tables = [{0: math.log1p(-p), 1: math.log(p)} for p in ones.values()]
    theirs = losses().from_two_probability_mass_functions(
        tables[1], tables[0], value_discretization_interval=1e-4, symmetric=False
    )
    found = sampled(kind, {"epsilon": epsilon}, rate, delta)
    assert found == pytest.approx(theirs.get_epsilon_for_delta(delta), abs=2e-4)
    assert found <= sampled_pair(epsilon, 0.0, rate)[0] + 1e-12


@pytest.mark.parametrize("n", [1000, 20_000])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("others", [0, 1])
def test_shuffled_reports_promise_no_more_than_the_library_finds(n, epsilon, others):
    """The shuffler gives out how many ones there are: n - 1 users hold ``others``, one holds 1 or 0."""
    delta = 1e-4
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    chance = keep if others else 1.0 - keep
    counts = range(int(n * chance - 12 * math.sqrt(n)), int(n * chance + 12 * math.sqrt(n)))

    def log_table(own):
        table = {}
        for k in counts:
            rest = stats.binom.pmf([k - 1, k], n - 1, chance)
            if rest.min() > 1e-30:
                table[k] = math.log(own * rest[0] + (1.0 - own) * rest[1])
        return table

    theirs = losses().from_two_probability_mass_functions(
        log_table(1.0 - keep), log_table(keep), value_discretization_interval=1e-4, symmetric=False
    )
    exact = theirs.get_epsilon_for_delta(delta)
    bound, _ = shuffling.amplified(epsilon, 0.0, n, delta)
    # The theorem is a bound for every local randomiser: above what is true of this one, and not absurdly.
    assert exact - 2e-4 <= bound <= 40 * exact
