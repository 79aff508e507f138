"""Block starts, batch lengths, widths and critical values against exact arithmetic and printed figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldpflow.components.intervals.nested import ConfidenceSequence, JointRegion, SuffixAverage, width_factor
from ldpflow.components.intervals.transcript import TranscriptCovariance, TranscriptRegression
from ldpflow.components.intervals.variance import (
    BatchMeans,
    EqualBatches,
    batch_size,
    block_starts,
    effective_blocks,
    lengths_and_squares,
)
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.simulators.one_pass import run_path
from tests.intervals.whole_paths import SCALAR, SEED
from tests.oracles import equal_batches, increasing_blocks, safe_floor, self_normalization

GAMMAS = st.floats(0.501, 0.95).map(lambda x: round(x, 3))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(n=st.integers(1, 10**12), exponent=st.floats(0.01, 0.99).map(lambda x: round(x, 4)))
def test_safe_floor_everywhere(n, exponent):
    assert constants.floor_power(n, exponent) == safe_floor.floor_power(n, exponent)


def test_starts_of_the_papers_studies():
    assert block_starts(10**5, 0.51, 1.0) == (
        1, 16, 88, 286, 712, 1500, 2814, 4853, 7849, 12067, 17806, 25399, 35213, 47651, 63149, 82181,
    )  # fmt: skip
    for n, nu in ((10**4, 4.9168), (10**5, 7.7216), (10**6, 13.4802)):
        lengths = np.diff([*block_starts(n, 0.51, 1.0), n + 1])
        assert effective_blocks(lengths) == pytest.approx(nu, abs=5e-5)
    # gamma = 0.75: k^8, exactly; gamma = 0.6: k^5, which floating point may miss.
    assert block_starts(10**6, 0.75, 1.0) == (1, 256, 6561, 65536, 390625)
    assert block_starts(3200, 0.6, 1.0) == (1, 32, 243, 1024, 3125)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(n=st.integers(1, 10**6), gamma=GAMMAS, c=st.floats(0.01, 100.0).map(lambda x: round(x, 3)))
def test_starts_are_exact(n, gamma, c):
    starts = block_starts(n, gamma, c)
    assert list(starts) == increasing_blocks.block_starts(n, gamma, c)
    lengths = np.diff([*starts, n + 1])
    small = lengths[lengths < 5000]
    assert lengths_and_squares(small) == (
        sum(sum(l * l for l in range(1, int(L) + 1)) for L in small),
        sum(sum(range(1, int(L) + 1)) for L in small),
    )


def test_lengths_of_equal_batches():
    def lengths(n):
        return tuple(batch_size(n, 0.51, rule, None) for rule in ("half", "third"))

    assert [lengths(10**k) for k in (4, 5, 6, 7)] == [
        (128, 64), (1024, 256), (4096, 2048), (32768, 8192),
    ]  # fmt: skip
    assert batch_size(10**5, 0.51, "3n^0.75", None) == 3 * 5623
    assert batch_size(10**8, 0.51, "n^0.75", None) == 10**6
    # c n^beta an integer that is a power of two: it is taken, not doubled.
    assert batch_size(4096, 0.5, "half", 1.0) == 512
    assert batch_size(1, 0.6, "half", 0.1) == 2


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 10**9),
    gamma=GAMMAS,
    rule=st.sampled_from(["half", "third"]),
    c=st.floats(0.001, 10.0).map(lambda x: round(x, 4)),
)
def test_lengths_of_equal_batches_are_exact(n, gamma, rule, c):
    assert batch_size(n, gamma, rule, c) == equal_batches.batch_size(n, gamma, rule, c)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps=st.integers(1, 10**9), hundredths=st.integers(1, 100))
def test_the_suffix_begins_where_the_decimal_says(steps, hundredths):
    method = SuffixAverage(share=hundredths / 100)
    assert method.suffix_start(steps) == (100 - hundredths) * steps // 100 < steps


def test_widths_of_the_confidence_sequence():
    # Against the printed factors over z, at t/t_opt = .01, .1, 1, 10, 100.
    printed = {
        0.9: (5.265406, 2.176660, 1.680245, 1.818631, 2.027464),
        0.95: (4.563248, 1.950657, 1.548560, 1.656311, 1.819604),
    }
    for level, row in printed.items():
        z = constants.normal_quantile(0.5 + level / 2)
        ours = [width_factor(n, 1000, level) / z for n in (10, 100, 1000, 10**4, 10**5)]
        assert ours == pytest.approx(row, abs=5e-7)


def test_confidence_sequence_around_the_root_of_the_transcript():
    n = 1500
    every = range(1, n + 1)
    record = run_path(SCALAR, SEED, range(4), every, every, ["transcript_cubic"])
    for base, theirs in (("TR", TranscriptRegression(degree=1)), ("TRC", TranscriptCovariance(degree=1))):
        ours = ConfidenceSequence(t_opt=n, base=base, degree=1).intervals(record, n, [0.9])
        inner = theirs.intervals(record, n, [0.9])
        np.testing.assert_array_equal(ours.estimate, inner.estimate)
        np.testing.assert_array_equal(ours.diagnosis["relaxation_times"], inner.diagnosis["relaxation_times"])
        half = 0.5 * (ours.upper[0] - ours.lower[0])
        factor = 1.680245 * constants.normal_quantile(0.95)
        np.testing.assert_allclose(half / inner.se, factor, rtol=1e-6)
        np.testing.assert_array_equal(np.isnan(ours.lower), np.isnan(inner.lower))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (SuffixAverage, {"base": "oracle", "M": 5}),
        (SuffixAverage, {"base": "TR"}),
        (SuffixAverage, {"base": "BM", "degree": 2}),
        (ConfidenceSequence, {"t_opt": 5, "base": "EBS", "block_rule": "third", "burn_in": "n^0.4"}),
        (ConfidenceSequence, {"t_opt": 5, "base": "EBS", "block_rule": "64", "block_c": 2.0}),
        (ConfidenceSequence, {"t_opt": 5, "base": "TRC", "degree": 3}),
        (ConfidenceSequence, {"base": "SN", "t_opt": 5}),
        (JointRegion, {"base": "TRC", "quantile": "F"}),
        (JointRegion, {"base": "oracle", "quantile": "F"}),
        (JointRegion, {"small_run": True}),
        (JointRegion, {"base": "EBS"}),
        (JointRegion, {"base": "oracle", "M": 5}),
        (EqualBatches, {"block_rule": "n^1.5"}),
        (EqualBatches, {"block_rule": "0"}),
    ],
)
def test_settings_that_do_not_go_together(kind, given):
    with pytest.raises(InputError):
        kind(**given)


def test_settings_are_passed_on():
    assert SuffixAverage(base="BM", M=7).base_method() == BatchMeans(M=7)
    assert SuffixAverage().base_method() == TranscriptCovariance()
    method = ConfidenceSequence(t_opt=9, base="TRC", degree=1, small_run=False)
    assert method.base_method() == TranscriptCovariance(degree=1, small_run=False)


@pytest.mark.parametrize("level", [0.5, 0.999])
def test_critical_values_of_self_normalization(level):
    ours = constants.self_normalization_critical_value(level)
    assert ours == pytest.approx(self_normalization.critical_value(level), rel=1e-12)


@pytest.mark.parametrize(("level", "df"), [(0.5, 1), (0.9, 2), (0.95, 7), (0.999, 40)])
def test_quantiles_of_chi_squared_f_and_t(level, df):
    assert constants.chi_squared_quantile(level, df) == pytest.approx(stats.chi2.ppf(level, df), rel=1e-12)
    for df2 in (1, 3, 13, 200):
        assert constants.f_quantile(level, df, df2) == pytest.approx(stats.f.ppf(level, df, df2), rel=1e-9)
    for real in (0.7, df + 0.4802):
        expected = stats.t.ppf(0.5 + level / 2, real)
        assert constants.student_quantile(0.5 + level / 2, real) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("first", "last", "gamma"), [(1, 50, 0.51), (17, 4000, 0.75), (40, 900, 1.02), (5, 99, 1.0)]
)
def test_sum_of_powers(first, last, gamma):
    i = np.arange(first, last + 1.0)
    assert constants.sum_of_powers(first, last, gamma) == pytest.approx((i**-gamma).sum(), rel=1e-13)
