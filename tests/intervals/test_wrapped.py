"""Suffix averages, cheap bootstrap and confidence sequences, which lean on other methods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldpflow.components.intervals.bootstrap import CheapBootstrap
from ldpflow.components.intervals.nested import (
    ConfidenceSequence,
    SuffixAverage,
    width_factor,
)
from ldpflow.components.intervals.transcript import TranscriptCovariance, TranscriptRegression
from ldpflow.components.intervals.variance import (
    BatchMeans,
    EqualBatches,
    NonoverlappingBlocks,
    Oracle,
    OverlappingBlocks,
)
from ldpflow.components.problems.laws import Variate
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from tests import draws
from tests.intervals.whole_paths import SCALAR, SEED, VECTOR, record_of, walk
from tests.oracles import block_bootstrap, increasing_blocks, sequences

LEVELS = [0.8, 0.9, 0.95, 0.99]
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
BOTH = pytest.mark.parametrize("path", [SCALAR, VECTOR], ids=["scalar", "vector"])


@BOTH
@pytest.mark.parametrize("share", [0.5, 0.3, 1.0, 0.001])
def test_suffix_average_is_the_literal_formula(path, share):
    n = 1111
    iterates = walk(path, n)
    record = record_of(path, iterates)
    method = SuffixAverage(share=share, base="NOL", block_c=0.5)
    result = method.intervals(record, n, LEVELS)
    starts = increasing_blocks.block_starts(n, 0.51, 0.5)
    s = int(n - share * n + 1e-9)
    assert set(method.times(n, path.algorithm)) >= {n, s} - {0}
    for r in range(3):
        centre = iterates[s:, :, r].mean(axis=0)
        V = increasing_blocks.nonoverlapping_variance(iterates[:, :, r], starts)
        np.testing.assert_allclose(result.estimate[:, r], centre, **CLOSE)
        for at, level in enumerate(LEVELS):
            half = stats.norm.ppf(0.5 + level / 2) * np.sqrt(V / (n - s))
            np.testing.assert_allclose(result.lower[at, :, r], centre - half, **CLOSE)
            np.testing.assert_allclose(result.upper[at, :, r], centre + half, **CLOSE)


@pytest.mark.parametrize(
    ("base", "method"),
    [
        ("oracle", Oracle()),
        ("BM", BatchMeans()),
        ("EBS", EqualBatches()),
        ("NOL", NonoverlappingBlocks()),
        ("OBM", OverlappingBlocks()),
    ],
)
def test_the_whole_path_as_its_own_suffix(base, method):
    n = 1000
    record = record_of(VECTOR, walk(VECTOR, n))
    ours = SuffixAverage(share=1.0, base=base).intervals(record, n, LEVELS)
    theirs = method.intervals(record, n, LEVELS)
    for name in ("estimate", "se", "lower", "upper"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps=st.integers(1, 10**9), hundredths=st.integers(1, 100))
def test_the_suffix_begins_where_the_decimal_says(steps, hundredths):
    method = SuffixAverage(share=hundredths / 100)
    assert method.suffix_start(steps) == (100 - hundredths) * steps // 100 < steps


@BOTH
@pytest.mark.parametrize("multiplier", ["uniform", "rademacher"])
@pytest.mark.parametrize("B", [1, 5])
def test_cheap_bootstrap_is_the_literal_formula(path, multiplier, B):
    n = 900
    iterates = walk(path, n)
    method = CheapBootstrap(B=B, multiplier=multiplier)
    result = method.intervals(record_of(path, iterates), n, LEVELS)
    length = block_bootstrap.block_length(n, 0.75)
    m = block_bootstrap.block_count(n, length)
    name, factor = ("rademacher", 1.0) if multiplier == "rademacher" else ("symmetric_uniform", 3**0.5)
    for r in range(3):
        key = f"{path.key}/n={n}/beta=0.75/{multiplier}"
        flat = draws.planes(SEED, "multipliers", key, r, [Variate(name)], B * m)
        eps = factor * flat[:, 0].reshape(B, m)
        whole = iterates[:, :, r]
        star = block_bootstrap.bootstrap_replicates(whole, length, m, eps)
        se = np.sqrt((star**2).sum(axis=0) / B)
        np.testing.assert_allclose(result.se[:, r], se, **CLOSE)
        for at, level in enumerate(LEVELS):
            half = stats.t.ppf(0.5 + level / 2, B) * se
            np.testing.assert_allclose(result.lower[at, :, r], whole.mean(axis=0) - half, **CLOSE)
            np.testing.assert_allclose(result.upper[at, :, r], whole.mean(axis=0) + half, **CLOSE)


def test_cheap_bootstrap_with_one_block_is_undefined():
    record = record_of(SCALAR, walk(SCALAR, 10))
    result = CheapBootstrap(beta=0.9).intervals(record, 10, LEVELS)
    assert np.isnan(result.lower).all() and np.isfinite(result.estimate).all()


@BOTH
@pytest.mark.parametrize(("t_opt", "base"), [(100, "oracle"), (1000, "BM"), (5000, "OBM")])
def test_confidence_sequence_is_the_literal_formula(path, t_opt, base):
    n = 1000
    iterates = walk(path, n)
    record = record_of(path, iterates)
    base_se = ConfidenceSequence(t_opt=t_opt, base=base).base_method().intervals(record, n, [0.9]).se
    result = ConfidenceSequence(t_opt=t_opt, base=base).intervals(record, n, LEVELS)
    for at, level in enumerate(LEVELS):
        V = base_se**2 * n
        half = np.sqrt(V) * sequences.margin(n, 1 - level, t_opt)
        mean = iterates.mean(axis=0)
        np.testing.assert_allclose(result.lower[at], mean - half, rtol=1e-9)
        np.testing.assert_allclose(result.upper[at], mean + half, rtol=1e-9)


def test_confidence_sequence_around_the_root_of_the_transcript():
    from ldpflow.simulators.one_pass import run_path

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
    for level, factor in ((0.8, 1.913378), (0.99, 1.386585)):
        z = constants.normal_quantile(0.5 + level / 2)
        assert width_factor(77, 77, level) / z == pytest.approx(factor, abs=5e-7)
    for level, rho2 in ((0.8, 5.012760), (0.9, 6.638352), (0.95, 8.211968), (0.99, 11.756371)):
        # At t_opt the width is sqrt(rho^2 t_opt + 1).
        assert width_factor(10**6, 10**6, level) ** 2 - 1 == pytest.approx(rho2, abs=5e-7)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 10**9),
    t_opt=st.integers(1, 10**9),
    level=st.floats(0.5, 0.999).map(lambda x: round(x, 3)),
)
def test_widths_are_the_formula_everywhere(n, t_opt, level):
    expected = sequences.margin(n, 1 - level, t_opt) * np.sqrt(n)
    assert width_factor(n, t_opt, level) == pytest.approx(expected, rel=1e-9)


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
        (EqualBatches, {"block_rule": "64", "block_c": 2.0}),
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


@pytest.mark.parametrize(("level", "df"), [(0.5, 1), (0.9, 2), (0.95, 7), (0.999, 40)])
def test_quantiles_of_chi_squared_and_f(level, df):
    expected = stats.chi2.ppf(level, df)
    assert constants.chi_squared_quantile(level, df) == pytest.approx(expected, rel=1e-12)
    for df2 in (1, 3, 13, 200):
        expected = stats.f.ppf(level, df, df2)
        assert constants.f_quantile(level, df, df2) == pytest.approx(expected, rel=1e-9)
    for real in (0.7, df + 0.4802):
        expected = stats.t.ppf(0.5 + level / 2, real)
        assert constants.student_quantile(0.5 + level / 2, real) == pytest.approx(expected, rel=1e-9)
