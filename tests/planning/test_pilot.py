"""Steps and start from a pilot or from bounds; what a resampled pilot says about its own law."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Law
from ldpflow.numerics.counts import multinomial
from ldpflow.numerics.streams import counter_keys
from ldpflow.practice.planning.sources import (
    Guess,
    badness,
    codes_among,
    design,
    resampled_laws,
    worst_arrival,
)
from ldpflow.results.arrival import predict_arrivals
from ldpflow.simulators.approach import Approach
from tests.oracles.column_law import example_column, table

NOISE = math.e / (math.e - 1) ** 2


@pytest.mark.parametrize("law", [Law("normal"), Law("exponential", scale=5.0)])
def test_the_rules_step_size(law):
    found = design(law, 0.9, 100_000)
    assert found.theta0 == pytest.approx(law.quantile(0.82), rel=1e-12)
    total = sum(i**-0.51 for i in range(1, 100_001))
    assert found.c * law.density_at_quantile(0.9) * total == pytest.approx(60.0, rel=1e-9)


@pytest.mark.parametrize(
    ("tau", "start"), [(0.5, 50.0), (0.25, 50.0), (0.76, 25.0), (0.99, 25.0), (0.1, 75.0)]
)
def test_bounds(tau, start):
    rule = design(Law("normal", 50.0, 12.5), tau, 10**5)
    assert Guess(0.0, 100.0).design(tau, 10**5) == rule._replace(theta0=start)


@pytest.mark.thorough
def test_a_resampled_pilot_is_a_column_of_drawn_values():
    """Every law is that of N values, each a value of the column; the literal table of the same counts."""
    values = example_column(400)
    laws = resampled_laws(values, seed=5, count=3)
    assert laws == resampled_laws(values, seed=5, count=4)[:3]
    assert laws != resampled_laws(values, seed=6, count=3)
    assert {law.size for law in laws} == {400}
    # The same draws by hand.
    counts = np.empty(400)
    first, second = (np.uint64(word) for word in counter_keys(5, "pilot", "", 1))
    multinomial(counts, first, second, 0, 0, 400.0, np.ones(400))
    drawn = np.repeat(np.sort(values), counts.astype(int))
    assert laws[1].s == pytest.approx(np.array(table(drawn)[1]), rel=1e-9)


def test_large_columns_are_resampled_by_blocks():
    """The spread of 1/f among resampled pilots is that of resampling values one by one (to a third)."""
    rng = np.random.default_rng(3)
    values = rng.exponential(10.0, 40_001)
    by_blocks = [law.sparsity(0.9) for law in resampled_laws(values, 1, 60)]
    one_by_one = [column_law(rng.choice(values, len(values))).sparsity(0.9) for _ in range(60)]
    assert np.mean(by_blocks) == pytest.approx(np.mean(one_by_one), rel=0.01)
    assert np.std(by_blocks) == pytest.approx(np.std(one_by_one), rel=1 / 3)


def test_values_are_not_taken_for_codes():
    """Zeros, ties at the largest value, negative numbers among others."""
    x = np.random.default_rng(11).gamma(2.0, 30.0, 1000)
    for values in ([0.0] * 200 + [*x[200:]], [*x[5:], *[max(x)] * 5], x - 40):
        assert codes_among(np.array(values)) == []


def test_worst_arrival():
    values = example_column(1000)
    law = Law("empirical", table=column_law(values))
    rule = design(law, 0.5, 10**6)
    case = Approach(law, 0.5, NOISE, rule.c, rule.gamma, rule.theta0, 10**6)
    cases = [replace(case, law=replace(law, table=t)) for t in resampled_laws(values, 1, 40)]
    worst = worst_arrival(cases, 0.9, 0.9)
    worse = [badness(each, 0.9) > badness(worst, 0.9) for each in predict_arrivals(cases)]
    assert sum(worse) == 2, "one in twenty"
