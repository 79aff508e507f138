"""What a secret sample and a secret order add, against enumeration and dp_accounting as far as it goes.

dp_accounting 0.6 samples Gaussian and Laplace noise only (PLDAccountant refuses other events under
PoissonSampledDpEvent), and has no event for a shuffler. Reports of randomised response and their counts in
a secret order are therefore given to its privacy loss distributions as tables of probabilities.
"""

import itertools
import math

import dp_accounting
import pytest
from scipy import stats

from ldpflow.numerics import accounting
from tests.oracles import secret_sample
from tests.privacy.test_page import page

GRID = 1e-3
losses = dp_accounting.pld.privacy_loss_distribution


@pytest.mark.parametrize(
    ("kind", "reports", "rate", "delta"),
    [("gaussian", 1, 0.02, 1e-6), ("gaussian", 3, 0.3, 1e-3), ("clipped_gaussian", 3, 0.02, 1e-6)],
)
def test_a_sample_of_gaussian_reports_is_the_librarys(kind, reports, rate, delta):
    """k reports of a user who answers or does not are one report with sqrt(k) mu."""
    mu = 0.8
    deviation = 1.0 / (math.sqrt(reports) * mu)
    theirs = losses.from_gaussian_mechanism(deviation, sampling_prob=rate, value_discretization_interval=GRID)
    sample = {"reports": reports, "response_rate": rate, "secret_sample": True, "delta": delta}
    found = page(kind, {"mu": mu}, **sample).guarantees[-1].epsilon_at_delta
    assert found == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=2e-3, abs=2 * GRID)


def second_threshold(earlier):
    return 2 if earlier and earlier[-1][0] == 0 else 1


def claimed(epsilon, rate, reports=1):
    """epsilon of the page for a secret sample."""
    sample = {"reports": reports, "response_rate": rate, "secret_sample": True}
    return page("randomized_response", {"epsilon": epsilon}, **sample).guarantees[-1].epsilon


def test_a_known_order_breaks_the_amplification():
    """Three people invited in a known order, a uniform two of them respond: 2.956 > 2.619 at epsilon 3."""
    p = secret_sample.keep(3.0)
    q = 1.0 - p
    exact = math.log((p * p + p * q + q * q) / (p * q + 2 * q * q))
    found = secret_sample.largest_loss([0, 0, 1], 0, (0, 1), {2: 1.0}, 3.0, secret_order=False)
    assert found == pytest.approx(exact) and exact == pytest.approx(2.956, abs=5e-4)
    assert claimed(3.0, 2 / 3) == pytest.approx(2.619, abs=5e-4)


SIZES = {m: math.comb(3, m) * (2 / 3) ** m * (1 / 3) ** (3 - m) for m in range(4)}


@pytest.mark.parametrize(
    ("values", "sizes", "epsilon", "options", "expected"),
    [
        ((0, 1), {2: 1.0}, 3.0, {}, claimed(3.0, 2 / 3)),
        # Reports of a responder may be linked.
        ((0, 1), {2: 1.0}, 1.5, {"reports": 2}, claimed(1.5, 2 / 3, 2)),
        # Questions may depend on earlier reports.
        ((0, 1, 2), {2: 1.0}, 3.0, {"threshold": second_threshold}, claimed(3.0, 2 / 3)),
        # A random number of responders: where all respond, the order hides the sample no more.
        ((0, 1), SIZES, 3.0, {}, 3.0),
    ],
)
def test_a_secret_order_and_a_fixed_number_make_it_exact(values, sizes, epsilon, options, expected):
    """The worst people make the formula an equation."""
    worst = max(
        secret_sample.largest_loss(list(people), 0, values, sizes, epsilon, secret_order=True, **options)
        for people in itertools.product(values, repeat=3)
    )
    assert worst == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "settings"), [("gaussian", {"mu": 1.0}), ("randomized_response", {"epsilon": 1.0})]
)
@pytest.mark.parametrize("order", [{}, {"shuffled": True, "users": 10**6}])
def test_a_response_rate_alone_gives_no_number(kind, settings, order):
    found = {each.scope: each for each in page(kind, settings, response_rate=0.3, **order).guarantees}
    sampled = found["sampled"]
    assert (sampled.epsilon, sampled.epsilon_at_delta, sampled.mu) == (None, None, None)
    assert "secret_sample" in sampled.unproved and "order" in sampled.unproved


@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_a_sample_of_whom_delta_hides_all(rate):
    """A person is drawn with probability at most delta: epsilon is 0."""
    design = {"response_rate": rate, "secret_sample": True, "delta": 0.3}
    assert page("laplace", {"epsilon": 1.0}, **design).guarantees[-1].epsilon_at_delta == 0.0


@pytest.mark.parametrize(("n", "epsilon", "others"), [(1000, 1.0, 1), (20_000, 0.3, 0)])
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

    theirs = losses.from_two_probability_mass_functions(
        log_table(1.0 - keep), log_table(keep), value_discretization_interval=1e-4, symmetric=False
    )
    exact = theirs.get_epsilon_for_delta(delta)
    bound, _ = accounting.shuffled_guarantee(epsilon, 0.0, n, delta)
    # The theorem is a bound for every local randomiser.
    assert exact - 2e-4 <= bound <= 40 * exact
