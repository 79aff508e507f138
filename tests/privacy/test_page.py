"""Privacy pages: every bundled mechanism against dp_accounting, the words, and impossible designs."""

from __future__ import annotations

import json
import math

import pytest

from ldpflow.errors import InputError
from ldpflow.mechanisms import MECHANISMS, PrivacyStatement
from ldpflow.privacy import pure
from ldpflow.privacy.amplification import sampled_pair
from ldpflow.privacy.page import Design, privacy_page

BUDGETS = (0.25, 1.0, 3.0)


def page(kind, settings, **design):
    mechanism = MECHANISMS[kind](**settings)
    return privacy_page(kind, settings, mechanism.privacy(), Design(**design))


def library_epsilon(kind, budget, reports, delta):
    """epsilon of composed reports by Google's privacy loss distributions (upper bounds)."""
    pld = pytest.importorskip("dp_accounting").pld.privacy_loss_distribution
    step = 1e-3 if reports <= 3 else 1e-2
    if kind == "randomized_response":
        # The library's parameter is the chance of a fresh fair coin.
        one = pld.from_randomized_response(
            2.0 / (1.0 + math.exp(budget)), 2, value_discretization_interval=step
        )
    elif kind == "laplace":
        one = pld.from_laplace_mechanism(1.0 / budget, value_discretization_interval=step)
    else:
        one = pld.from_gaussian_mechanism(1.0 / budget, value_discretization_interval=step)
    return one.self_compose(reports).get_epsilon_for_delta(delta)


@pytest.mark.parametrize("kind", ["randomized_response", "deployed_response"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("reports", [1, 3, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_randomised_response_is_the_librarys(kind, budget, reports, delta):
    own = page(kind, {"epsilon": budget}, reports=reports, delta=delta)
    epsilon = own.guarantees[-1].epsilon_at_delta
    theirs = library_epsilon("randomized_response", budget, reports, delta)
    # Their losses are rounded up to a grid; ours are exact.
    assert epsilon <= theirs + 1e-9
    assert epsilon == pytest.approx(theirs, abs=0.011 * reports if reports > 3 else 1e-3 * reports)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("reports", [1, 3, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_laplace_is_at_least_the_librarys(budget, reports, delta):
    own = page("laplace", {"epsilon": budget}, reports=reports, delta=delta)
    epsilon = own.guarantees[-1].epsilon_at_delta
    theirs = library_epsilon("laplace", budget, reports, delta)
    grid = 1e-3 * reports if reports <= 3 else 1e-2 * reports
    assert epsilon >= theirs - grid
    # Randomised response bounds it, and Renyi orders where there are many: never far off.
    assert epsilon <= 1.6 * theirs + grid


@pytest.mark.parametrize("cells", [2, 4])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("reports", [1, 3, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_cells_are_at_least_the_librarys(cells, budget, reports, delta):
    """Of two cells it is randomised response; of more, what the library finds is smaller."""
    pld = pytest.importorskip("dp_accounting").pld.privacy_loss_distribution
    own = page("cells", {"epsilon": budget}, reports=reports, delta=delta)
    epsilon = own.guarantees[-1].epsilon_at_delta
    step = 1e-3 if reports <= 3 else 1e-2
    # The chance of a fresh report: the own cell is then reported with e^eps/(e^eps + cells - 1).
    fresh = cells / (math.exp(budget) + cells - 1)
    one = pld.from_randomized_response(fresh, cells, value_discretization_interval=step)
    theirs = one.self_compose(reports).get_epsilon_for_delta(delta)
    assert epsilon >= theirs - step * reports
    assert epsilon <= (1.0 if cells == 2 else 1.6) * theirs + 1.1 * step * reports


@pytest.mark.parametrize("kind", ["gaussian", "clipped_gaussian"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("reports", [1, 3, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_gaussian_is_the_librarys(kind, budget, reports, delta):
    own = page(kind, {"mu": budget}, reports=reports, delta=delta)
    guarantee = own.guarantees[-1]
    assert guarantee.epsilon is None
    assert guarantee.mu == pytest.approx(math.sqrt(reports) * budget, rel=1e-14)
    theirs = library_epsilon("gaussian", budget, reports, delta)
    # Their losses are cut off at the ends and discretised, here and there by a grid step and more.
    assert guarantee.epsilon_at_delta == pytest.approx(theirs, rel=2e-3, abs=0.01)


@pytest.mark.parametrize("order", [1.25, 2.0, 8.0, 64.0])
@pytest.mark.parametrize("budget", BUDGETS)
def test_renyi_divergences_are_the_librarys(budget, order):
    library = pytest.importorskip("dp_accounting")

    def theirs(event, relation="ADD_OR_REMOVE_ONE"):
        accountant = library.rdp.RdpAccountant(
            orders=[order], neighboring_relation=library.NeighboringRelation[relation]
        )
        accountant.compose(event)
        return accountant._rdp[0]  # the value behind get_epsilon, which has no other name

    assert pure.laplace_renyi(budget, order) == pytest.approx(
        theirs(library.LaplaceDpEvent(1.0 / budget)), rel=1e-9
    )
    (one,) = page("gaussian", {"mu": budget}).guarantees
    assert one.renyi[2.0] == pytest.approx(budget**2)
    response = library.RandomizedResponseDpEvent(2.0 / (1.0 + math.exp(budget)), 2)
    assert pure.renyi(budget, order) == pytest.approx(theirs(response, "REPLACE_ONE"), rel=1e-9)


def test_nothing_is_promised_by_none():
    own = page("none", {})
    assert own.guarantees == ()
    assert "protects nothing" in own.text()


def test_every_bundled_mechanism_was_compared():
    """A new mechanism gets a comparison above, and its name here."""
    compared = {
        "randomized_response",
        "deployed_response",
        "laplace",
        "cells",
        "gaussian",
        "clipped_gaussian",
    }
    assert compared == {kind for kind in MECHANISMS if kind != "none"}


def test_every_bundled_mechanism_has_a_page():
    for kind in MECHANISMS:
        own = page(kind, {}, reports=2, response_rate=0.5, shuffled=True, users=10**6)
        text = own.text()
        assert kind in text and "None" not in text and "nan" not in text
        assert max(map(len, text.splitlines())) <= 78
        again = json.loads(json.dumps(own.to_dict(), allow_nan=False))
        assert again["name"] == kind and again["design"]["reports"] == 2


def literal_delta(epsilon, reports, at):
    """sum over all 2^k outcomes of max(0, P(outcome | 1) - e^at P(outcome | 0))."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    total = 0.0
    for outcome in range(2**reports):
        ones = outcome.bit_count()
        first = p**ones * (1 - p) ** (reports - ones)
        second = (1 - p) ** ones * p ** (reports - ones)
        total += max(0.0, first - math.exp(at) * second)
    return total


@pytest.mark.parametrize("at", [0.0, 0.3, 1.7, 2.99, 3.2])
def test_composed_delta_is_the_sum_over_outcomes(at):
    for epsilon, reports in ((0.5, 6), (1.0, 3), (0.2, 12)):
        expected = literal_delta(epsilon, reports, at)
        assert pure.composed_delta(epsilon, reports, at) == pytest.approx(expected, abs=1e-14)
    if at <= 1.0:
        delta = pure.composed_delta(0.5, 6, at)
        assert pure.composed_epsilon(0.5, 6, delta) == pytest.approx(at, abs=1e-9)


def test_a_secret_sample_by_enumeration():
    """Two invited, one responds: the exact privacy of the mixture is what the formula says."""
    epsilon, rate = 1.3, 0.5
    p = 1 / (1 + math.exp(-epsilon))
    # The other invited person holds 0: a report of 1 from them has probability 1 - p.
    first = rate * p + (1 - rate) * (1 - p)
    second = rate * (1 - p) + (1 - rate) * (1 - p)
    assert math.log(first / second) == pytest.approx(sampled_pair(epsilon, 0.0, rate)[0])
    assert sampled_pair(800.0, 0.0, 0.1)[0] == pytest.approx(800.0 + math.log(0.1))
    assert sampled_pair(1.0, 1e-6, 1.0) == (1.0, 1e-6)


def test_shuffling_is_refused_where_it_is_not_proved():
    few = page("laplace", {"epsilon": 1.0}, shuffled=True, users=100)
    assert few.guarantees[-1].epsilon_at_delta is None and few.guarantees[-1].unproved
    many = page("laplace", {"epsilon": 1.0}, shuffled=True, users=10**6)
    assert many.guarantees[-1].epsilon_at_delta < 0.1
    twice = page("laplace", {"epsilon": 1.0}, shuffled=True, users=10**6, reports=2)
    assert "one report a user" in twice.guarantees[-1].unproved
    central = PrivacyStatement("(eps, delta)-DP (central)", epsilon=1.0, delta=1e-7)
    own = privacy_page("dp_gd", {}, central, Design(shuffled=True, users=10**6))
    assert own.guarantees[-1].unproved
    assert "not against the curator" in own.text()


@pytest.mark.parametrize(
    ("design", "field"),
    [
        ({"reports": 0}, "reports"),
        ({"reports": 1.5}, "reports"),
        ({"delta": 0.0}, "delta"),
        ({"response_rate": 0.0}, "response_rate"),
        ({"response_rate": 1.5}, "response_rate"),
        ({"shuffled": True}, "users"),
    ],
)
def test_impossible_designs(design, field):
    with pytest.raises(InputError) as caught:
        page("laplace", {}, **design)
    assert caught.value.field == field


def test_an_unknown_notion_is_refused():
    with pytest.raises(InputError, match="privacy_notion"):
        privacy_page("own", {}, PrivacyStatement("f-DP"))
