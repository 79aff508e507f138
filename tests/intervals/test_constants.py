"""Block starts, batch lengths and critical values against exact arithmetic and printed figures."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ldpflow as lf
from ldpflow.components.intervals.variance import batch_size, block_starts
from ldpflow.numerics import constants
from tests.oracles import equal_batches, increasing_blocks, safe_floor, self_normalization

GAMMAS = st.floats(0.501, 0.95).map(lambda x: round(x, 3))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(n=st.integers(1, 10**12), exponent=st.floats(0.01, 0.99).map(lambda x: round(x, 4)))
@example(n=10**12 - 1, exponent=0.5)  # short of 10^6 by 5e-13 relative: 10^6
@example(n=10**8 - 1, exponent=0.5)  # short of 10^4 by 5e-9 relative: 9999
@example(n=10**8, exponent=0.75)
def test_safe_floor_everywhere(n, exponent):
    assert constants.floor_power(n, exponent) == safe_floor.floor_power(n, exponent)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(n=st.integers(1, 10**6), gamma=GAMMAS, c=st.floats(0.01, 100.0).map(lambda x: round(x, 3)))
@example(n=10**6, gamma=0.75, c=1.0)  # k^8
@example(n=3200, gamma=0.6, c=1.0)  # k^5, which floating point may miss
def test_starts_are_exact(n, gamma, c):
    assert list(block_starts(n, gamma, c)) == increasing_blocks.block_starts(n, gamma, c)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 10**9),
    gamma=GAMMAS,
    rule=st.sampled_from(["half", "third"]),
    c=st.floats(0.001, 10.0).map(lambda x: round(x, 4)),
)
@example(n=4096, gamma=0.5, rule="half", c=1.0)  # c n^beta is a power of two: taken, not doubled
def test_lengths_of_equal_batches_are_exact(n, gamma, rule, c):
    assert batch_size(n, gamma, rule, c) == equal_batches.batch_size(n, gamma, rule, c)
    assert batch_size(n, gamma, rule, None) == batch_size(n, gamma, rule, 0.1)
    power = constants.floor_power(n, 0.75)
    assert [batch_size(n, gamma, f"{k}n^0.75", None) for k in ("", 3)] == [power, 3 * power]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps=st.integers(1, 10**9), hundredths=st.integers(1, 100))
def test_the_suffix_begins_where_the_decimal_says(steps, hundredths):
    method = lf.SuffixAverage(share=hundredths / 100)
    assert method.suffix_start(steps) == (100 - hundredths) * steps // 100 < steps


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (lf.SuffixAverage, {"base": "oracle", "M": 5}),
        (lf.SuffixAverage, {"base": "TR"}),
        (lf.ConfidenceSequence, {"t_opt": 5, "base": "EBS", "block_rule": "64", "block_c": 2.0}),
        (lf.ConfidenceSequence, {"t_opt": 5, "base": "TRC", "degree": 3}),
        (lf.JointRegion, {"base": "TRC", "quantile": "F"}),
        (lf.JointRegion, {"small_run": True}),
        (lf.EqualBatches, {"block_rule": "n^1.5"}),
        (lf.EqualBatches, {"block_rule": "0"}),
        (lf.TranscriptRegression, {"burn_in": "some"}),
    ],
)
def test_settings_that_do_not_go_together(kind, given):
    with pytest.raises(lf.InputError):
        kind(**given)


def test_settings_are_passed_on():
    assert lf.SuffixAverage(base="BM", M=7).base_method() == lf.BatchMeans(M=7)
    method = lf.ConfidenceSequence(t_opt=9, base="TRC", degree=1, small_run=False)
    assert method.base_method() == lf.TranscriptCovariance(degree=1, small_run=False)
    changed = method.model_copy(update={"variance": "residual"})
    assert changed.base_method() == lf.TranscriptCovariance(degree=1, small_run=False, variance="residual")


def test_critical_value_of_self_normalization():
    for level, printed in ((0.9, 5.322680), (0.99, 10.017267)):
        found = constants.self_normalization_critical_value(level)
        assert found == pytest.approx(printed, abs=5e-7)
        assert found == pytest.approx(self_normalization.critical_value(level), rel=1e-12)


@pytest.mark.parametrize(
    ("first", "last", "gamma"), [(1, 50, 0.51), (17, 4000, 0.75), (40, 900, 1.02), (5, 99, 1.0)]
)
def test_sum_of_powers(first, last, gamma):
    i = np.arange(first, last + 1.0)
    assert constants.sum_of_powers(first, last, gamma) == pytest.approx((i**-gamma).sum(), rel=1e-13)
