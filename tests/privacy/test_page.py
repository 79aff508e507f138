"""Privacy pages: every bundled mechanism against dp_accounting or an oracle, words, impossible designs."""

import json
import math
import re

import dp_accounting
import pytest
from mpmath import mp, mpf

from ldpflow.components.mechanisms import MECHANISMS, PrivacyStatement
from ldpflow.errors import InputError
from ldpflow.numerics import accounting
from ldpflow.numerics.constants import workdps
from ldpflow.practice.privacy import releases
from ldpflow.practice.privacy.page import CollectionDesign, amplify, privacy_page
from tests.oracles import laplace_losses, nonresponse

BUDGETS = (0.25, 1.0, 3.0)


def page(kind, settings, **design):
    mechanism = MECHANISMS[kind](**settings)
    return privacy_page(kind, settings, mechanism.privacy(), CollectionDesign(**design))


def library_epsilon(kind, budget, reports, delta):
    """epsilon of composed reports by Google's privacy loss distributions (upper bounds)."""
    pld = dp_accounting.pld.privacy_loss_distribution
    step = {"value_discretization_interval": 1e-3 if reports <= 3 else 1e-2}
    # The chance of a fresh report: the own cell is then reported with e^eps/(e^eps + cells - 1).
    cells = 4 if kind == "cells" else 2
    one = pld.from_randomized_response(cells / (math.exp(budget) + cells - 1), cells, **step)
    return one.self_compose(reports).get_epsilon_for_delta(delta)


PURE = ["randomized_response", "deployed_response", "cells"]
CASES = [(0.25, 100, 1e-6), (1.0, 3, 1e-3), (3.0, 1, 1e-6)]


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize(("budget", "reports", "delta"), CASES)
def test_pure_dp_is_the_librarys(kind, budget, reports, delta):
    """The library rounds losses up to a grid. For cells it finds a smaller epsilon."""
    own = page(kind, {"epsilon": budget}, reports=reports, delta=delta)
    epsilon = own.guarantees[-1].epsilon_at_delta
    theirs = library_epsilon(kind, budget, reports, delta)
    grid = (1e-3 if reports <= 3 else 1.1e-2) * reports
    assert theirs - grid <= epsilon <= (1.6 * theirs + grid if kind == "cells" else theirs + 1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "clipped_gaussian"])
def test_gaussian_reports_are_one_of_a_larger_mu(kind):
    guarantee = page(kind, {"mu": 0.25}, reports=100, delta=1e-6).guarantees[-1]
    assert guarantee.epsilon is None and guarantee.mu == pytest.approx(2.5, rel=1e-14)
    assert guarantee.epsilon_at_delta == pytest.approx(accounting.epsilon_of(1e-6, 2.5), rel=1e-12)


@pytest.mark.parametrize(("budget", "reports", "delta"), [(0.25, 3, 1e-6), (1.0, 2, 1e-3), (3.0, 1, 1e-6)])
def test_laplace_is_the_oracles(budget, reports, delta):
    """Never below the exact epsilon, and above it by a thousandth at most."""
    own = page("laplace", {"epsilon": budget}, reports=reports, delta=delta)
    epsilon = own.guarantees[-1].epsilon_at_delta
    shifts = [budget] * reports
    assert laplace_losses.delta(shifts, epsilon) <= delta * (1 + 1e-6)
    assert laplace_losses.delta(shifts, epsilon * (1 - 1e-3)) > delta


@pytest.mark.parametrize("order", [1.25, 2.0, 8.0, 32.0])
@pytest.mark.parametrize("budget", [1e-9, 1e-6, *BUDGETS])
def test_renyi_divergences(budget, order):
    """A small budget loses half of the digits of a literal formula, and integration loses all."""
    laplace = releases.renyi_divergence(budget, order, laplace=True)
    if budget > 0.1:
        assert laplace == pytest.approx(laplace_losses.renyi(budget, order), rel=1e-7)
    with workdps(80):
        a, e = mpf(order), mpf(budget)
        p = 1 / (1 + mp.exp(-e))
        response = mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
        of_noise = (a * mp.exp((a - 1) * e) + (a - 1) * mp.exp(-a * e)) / (2 * a - 1)
        expected = float(response), float(mp.log(of_noise) / (a - 1))
    assert (releases.renyi_divergence(budget, order), laplace) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 0.999, 1.0, 30.0, 1e4])
def test_mu_of_small_and_large_budgets(epsilon):
    """1/(1 + e^eps) = Phi(-mu/2), or e^eps/(1 + e^eps) = 1/2 + erf(mu/sqrt(8))/2."""
    with workdps(60):
        mu = mpf(accounting.mu_of_pure(epsilon))
        difference = mp.erf(mu / mp.sqrt(8)) / mp.tanh(mpf(epsilon) / 2) - 1
        logarithm = mp.log(mp.erfc(mu / mp.sqrt(8)) / 2) + mp.log1p(mp.exp(mpf(epsilon)))
    assert abs(difference) < 1e-15 and abs(logarithm) < 1e-12 * max(1.0, epsilon)


def test_printed_bounds_are_rounded_up_and_limits_down():
    found = [accounting.rounded(x) for x in (3 * 0.1, math.log(2.0), 1.0, 123412.0, 1.0000001e-12)]
    assert found == ["0.3", "0.6932", "1", "1.235e+05", "1.001e-12"]
    assert accounting.rounded(0.69319, up=False) == "0.6931"
    own = page("randomized_response", {"epsilon": math.log(2.0)})
    text = " ".join(own.text().split())
    assert "epsilon = 0.6932" in text and "at most 66.7% sure" in text
    for words in re.findall(r"rho = (\S+);|mu = (\S+)\. ", text):
        (printed,) = filter(None, words)
        assert float(printed) >= (own.guarantees[0].rho if words[0] else own.guarantees[0].mu)
    shown = page("laplace", {"epsilon": 1e4}, reports=3)
    json.dumps(shown.to_dict(), allow_nan=False)
    assert "= inf" not in shown.text()


def test_renyi_divergences_of_gaussian_noise_and_of_a_budget_beyond_floating_point():
    gaussian = page("gaussian", {"mu": 3.0}).guarantees[0].renyi
    assert gaussian == pytest.approx({order: order * 9 / 2 for order in (2.0, 8.0, 32.0)})
    assert releases.renyi_divergence(900.0, 2.0) == 900.0


def test_every_bundled_mechanism_has_a_page():
    for kind in MECHANISMS:
        own = page(kind, {}, reports=2, response_rate=0.5, secret_sample=True, shuffled=True, users=10**6)
        text = own.text()
        assert kind in text and "None" not in text and "nan" not in text
        assert (own.guarantees == ()) == ("protects nothing" in text) == (kind == "none")
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


@pytest.mark.parametrize("at", [0.0, 0.3, 2.99, 3.2])
def test_composed_delta_is_the_sum_over_outcomes(at):
    for epsilon, reports in ((0.5, 6), (1.0, 3), (0.2, 12)):
        expected = literal_delta(epsilon, reports, at)
        assert releases.composed_delta(epsilon, reports, at) == pytest.approx(expected, abs=1e-14)
    if at <= 1.0:
        delta = releases.composed_delta(0.5, 6, at)
        assert releases.composed_epsilon(0.5, 6.0, delta) == pytest.approx(at, abs=1e-9)


def test_a_secret_sample_at_a_budget_beyond_floating_point():
    assert amplify(800.0, 0.1) == pytest.approx(800.0 + math.log(0.1))


RATES = [(1.0, 1.0), (0.4, 0.4), (0.2, 0.9), (0.9, 0.2), (0.98, 0.99), (0.5, 1.0), (1.0, 0.7), (0.0, 0.6)]


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("answers", [1, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_what_silence_adds_is_the_largest_loss_over_outcomes(rates, answers, epsilon):
    """Enumeration over values, thresholds and outcomes; infinite where silence or an answer tells a side."""
    exact = nonresponse.largest_loss(epsilon, answers, *rates)
    assert releases.nonresponse_epsilon(epsilon, *rates) == pytest.approx(exact, rel=1e-12)
    assert math.isinf(exact) == (rates[0] != rates[1] and (max(rates) == 1.0 or min(rates) == 0.0))


UNEVEN = {"epsilon": 1.0, "answer_below": 0.2, "answer_above": 0.9}


@pytest.mark.parametrize(
    ("settings", "reports", "epsilon"),
    [
        (UNEVEN, 1, math.log(12.2322537)),
        (UNEVEN, 2, 2 * math.log(12.2322537)),
        # Silence may tell more than an answer does.
        ({"epsilon": 0.1, "answer_below": 0.98, "answer_above": 0.99}, 1, math.log(2.0)),
        ({"epsilon": 1.0, "answer_below": 0.3, "answer_above": 0.3}, 1, 1.0),
    ],
)
def test_a_page_counts_silence_where_it_depends_on_the_value(settings, reports, epsilon):
    """Answers by 20% and 90% leak a factor of 4.5 e."""
    one, *_, answering = page("deployed_response", settings, reports=reports).guarantees
    assert one.scope == "one" and one.epsilon == settings["epsilon"] and answering.scope == "answering"
    assert answering.epsilon == pytest.approx(epsilon)
    uneven = settings["answer_below"] != settings["answer_above"]
    assert ("counted below" in " ".join(one.conditions)) == uneven


def test_a_page_has_no_number_where_silence_tells_the_side():
    own = page("deployed_response", {"epsilon": 1.0, "answer_below": 0.75})
    answering, text = own.guarantees[-1], " ".join(own.text().split())
    assert answering.epsilon is None and answering.epsilon_at_delta is None and answering.rho is None
    assert "No guarantee: " in text and "= inf" not in text
    assert "so silence (probability 0.25) shows the other" in text


@pytest.mark.parametrize(
    "design", [{"response_rate": 0.5, "secret_sample": True}, {"shuffled": True, "users": 10**6}]
)
def test_silence_that_depends_on_the_value_is_no_random_sample(design):
    own = page("deployed_response", {"epsilon": 0.5, "answer_below": 0.4, "answer_above": 0.5}, **design)
    last = own.guarantees[-1]
    assert last.epsilon is None and last.epsilon_at_delta is None
    assert "depends on the value" in last.unproved


def test_several_answers_share_the_budget():
    settings = {"epsilon": 1.0, "answers": 4}
    one, every = page("deployed_response", settings).guarantees
    assert one.epsilon == 0.25
    assert every.epsilon == 1.0 and "4 reports" in every.release
    assert every.epsilon_at_delta == pytest.approx(releases.composed_epsilon(0.25, 4, 1e-6))
    twice = page("deployed_response", settings, reports=2).guarantees[-1]
    assert twice.epsilon == 2.0 and "8 reports" in twice.release
    shuffled = page("deployed_response", settings, shuffled=True, users=10**6).guarantees[-1]
    assert shuffled.epsilon_at_delta is None and "one report a user" in shuffled.unproved


def test_shuffling_is_refused_where_it_is_not_proved():
    few, many, twice = (
        page("laplace", {"epsilon": 1.0}, shuffled=True, users=users, reports=reports).guarantees[-1]
        for users, reports in ((100, 1), (10**6, 1), (10**6, 2))
    )
    strong = page("laplace", {"epsilon": 3.0}, shuffled=True, users=1000, delta=1e-6).guarantees[-1]
    assert f"up to {math.log(1000 / (16 * math.log(2e6))):.4g} " in strong.unproved
    assert few.epsilon_at_delta is None and few.unproved and many.epsilon_at_delta < 0.1
    assert "one report a user" in twice.unproved
    central = PrivacyStatement("(eps, delta)-DP (central)", epsilon=1.0, delta=1e-7)
    own = privacy_page("dp_gd", {}, central, CollectionDesign(shuffled=True, users=10**6))
    assert own.guarantees[-1].unproved
    assert "not against the curator" in own.text()


@pytest.mark.parametrize(
    ("design", "field"),
    [
        ({"reports": 0}, "reports"), ({"reports": 1.5}, "reports"), ({"delta": 0.0}, "delta"),
        ({"response_rate": 0.0}, "response_rate"), ({"response_rate": 1.5}, "response_rate"),
        ({"shuffled": True}, "users"), ({"users": 1000}, "users"), ({"secret_sample": True}, "secret_sample"),
    ],
)  # fmt: skip
def test_impossible_designs(design, field):
    with pytest.raises(InputError) as caught:
        page("laplace", {}, **design)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "notion", "parameters"),
    [
        ("reports", "mu-GDP (local)", {"mu": 1.0, "reports": 2}),
        ("reports", "eps-LDP", {"epsilon": 1.0, "reports": 0}),
        ("answer_rates", "eps-LDP", {"epsilon": 1.0, "answer_rates": (0.5, 1.5)}),
        ("answer_rates", "mu-GDP (local)", {"mu": 1.0, "answer_rates": (0.5, 0.6)}),
        ("privacy_notion", "f-DP", {}),
    ],
)
def test_impossible_statements(field, notion, parameters):
    with pytest.raises(InputError) as caught:
        privacy_page("own", {}, PrivacyStatement(notion, **parameters))
    assert caught.value.field == field
