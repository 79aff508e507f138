"""Variances from blocks (NOL, OBM, EBS, LUG, BM with t) against literal sums over whole paths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.variance import (
    BatchMeans,
    EqualBatches,
    Lugsail,
    NonoverlappingBlocks,
    OverlappingBlocks,
    batch_size,
    block_starts,
    effective_blocks,
    lengths_and_squares,
)
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.simulators.one_pass import OnePass, run_path
from tests.intervals.whole_paths import SCALAR, SEED, VECTOR, noisy, record_of, walk
from tests.oracles import batch_means, equal_batches, increasing_blocks

LEVELS = [0.8, 0.9, 0.95]
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def compare(method, path, n):
    """Limits, se and estimate of every replicate."""
    iterates = walk(path, n)
    result = method.intervals(record_of(path, iterates), n, LEVELS)
    assert result.se is not None
    times = method.times(n, path.algorithm)
    assert times[-1] == n and (np.diff(times) > 0).all() and times[0] >= 1
    assert len(times) <= method.count_times(n, path.algorithm)
    variance, degrees = literal_of(method, n, path.algorithm.gamma)
    for r in range(iterates.shape[2]):
        whole = iterates[:, :, r]
        v, mean = variance(whole), whole.mean(axis=0)
        se = np.sqrt(np.where(v > 0, v, np.nan) / n)
        for at, level in enumerate(LEVELS):
            half = stats.t.ppf(0.5 + level / 2, degrees) * se
            np.testing.assert_allclose(result.lower[at, :, r], mean - half, **CLOSE)
            np.testing.assert_allclose(result.upper[at, :, r], mean + half, **CLOSE)
        np.testing.assert_allclose(result.se[:, r], se, **CLOSE)
        np.testing.assert_allclose(result.estimate[:, r], mean, rtol=1e-12)


def literal_of(method, n, gamma):
    """V as a function of a whole path, and the degrees of freedom, by the method's literal form."""
    with_t = getattr(method, "quantile", None) == "t"
    if isinstance(method, BatchMeans):
        M = batch_means.batch_count(n) if method.M is None else method.M
        factor = M / (M - 1) if with_t else 1.0
        return lambda x: factor * batch_means.variance(x, M, gamma), M - 1 if with_t else np.inf
    if isinstance(method, Lugsail):
        r, kappa = method.pieces, method.weight
        if method.base == "BM":
            return lambda x: equal_batches.lugsail_increasing(x, method.M, gamma, r, kappa), np.inf
        return lambda x: equal_batches.lugsail_equal(x, int(method.block_rule), r, kappa), np.inf
    if isinstance(method, EqualBatches):
        rule = method.block_rule
        b = (
            equal_batches.batch_size(n, gamma, rule, method.block_c or 0.1)
            if rule in ("half", "third")
            else batch_size(n, gamma, rule, None)
        )
        return lambda x: equal_batches.variance(x, b), n // b - 1 if with_t else np.inf
    starts = increasing_blocks.block_starts(n, gamma, method.block_c)
    if isinstance(method, OverlappingBlocks):
        return lambda x: increasing_blocks.overlapping_variance(x, starts), np.inf
    nu = increasing_blocks.effective_blocks(n, starts)
    factor = (nu / (nu - 1) if nu >= 2 else np.nan) if with_t else 1.0
    return (
        lambda x: factor * increasing_blocks.nonoverlapping_variance(x, starts),
        nu - 1 if with_t else np.inf,
    )


RULES = ("100", "101", "333", "999", "n^0.75", "3n^0.5", "half", "third")  # rests of 0, 81, 2, 2, ...
CASES = [
    *(
        (method, n)
        for n in (1499, 1500)  # a block starts at 1500
        for c in (0.5, 3.0)
        for method in (
            NonoverlappingBlocks(block_c=c),
            NonoverlappingBlocks(block_c=c, quantile="t"),
            OverlappingBlocks(block_c=c),
        )
    ),
    *((EqualBatches(block_rule=rule, quantile="t"), 2000) for rule in RULES),
    *((EqualBatches(block_rule="100"), n) for n in (1001, 1000, 1002, 200)),
    *(
        (Lugsail(pieces=r, weight=kappa, **base), 2000)
        for r, kappa in ((3, 0.5), (2, 0.25), (7, 0.0))
        for base in ({"block_rule": "150"}, {"base": "BM", "M": 6})
    ),
    (BatchMeans(), 1000),
    (BatchMeans(M=7), 1000),
    (BatchMeans(M=5, quantile="t"), 1000),
]


@pytest.mark.parametrize("path", [SCALAR, VECTOR], ids=["scalar", "vector"])
@pytest.mark.parametrize(("method", "n"), CASES, ids=str)
def test_method_is_the_literal_formula(method, n, path):
    compare(method, path, n)


@pytest.mark.parametrize(("n", "c"), [(1499, 0.5), (1500, 1.0), (5000, 3.0)])
@pytest.mark.parametrize(("origin", "tolerance"), [(None, 1e-12), ([0.0], 1e-9)])
def test_overlapping_blocks_need_no_restart(n, c, origin, tolerance):
    # The recursion with restarts, differences of three running sums, and the definition.
    iterates = walk(SCALAR, n)
    starts = increasing_blocks.block_starts(n, 0.51, c)
    se = OverlappingBlocks(block_c=c).intervals(record_of(SCALAR, iterates, origin), n, [0.9]).se
    centre = SCALAR.problem.truth() if origin is None else origin
    for r in range(iterates.shape[2]):
        literal = increasing_blocks.overlapping_variance(iterates[:, :, r], starts)
        recursive = increasing_blocks.overlapping_recursion(iterates[:, :, r], starts, np.array(centre))
        np.testing.assert_allclose(recursive, literal, rtol=tolerance)
        np.testing.assert_allclose(se[:, r] ** 2 * n, literal, rtol=tolerance)


@pytest.mark.parametrize("path", [SCALAR, VECTOR], ids=["scalar", "vector"])
def test_overlapping_blocks_from_the_kernels_own_sums(path):
    n = 1600
    every = range(1, n + 1)
    method = OverlappingBlocks(block_c=0.5)
    whole = run_path(path, SEED, range(4), every, every, method.running_sums(path.problem.dimension))
    # What the method asks for is enough, and gives the same bits.
    times = method.times(n, path.algorithm).tolist()
    marked = method.marked_times(n, path.algorithm, path.problem.dimension)
    few = run_path(path, SEED, range(4), times, marked, method.running_sums(path.problem.dimension))
    found = method.intervals(few, n, LEVELS)
    np.testing.assert_array_equal(found.lower, method.intervals(whole, n, LEVELS).lower)
    starts = increasing_blocks.block_starts(n, 0.51, 0.5)
    for r in range(4):
        literal = increasing_blocks.overlapping_variance(whole.iterates[:, :, r], starts)
        np.testing.assert_allclose(found.se[:, r] ** 2 * n, literal, rtol=1e-10)


def test_starts_of_the_papers_studies():
    starts = block_starts(10**5, 0.51, 1.0)
    assert starts == (
        1, 16, 88, 286, 712, 1500, 2814, 4853, 7849, 12067, 17806, 25399, 35213, 47651, 63149, 82181,
    )  # fmt: skip
    assert len(block_starts(10**6, 0.51, 1.0)) == 29
    for n, nu in ((10**4, 4.9168), (10**5, 7.7216), (10**6, 13.4802)):
        lengths = np.diff([*block_starts(n, 0.51, 1.0), n + 1])
        assert effective_blocks(lengths) == pytest.approx(nu, abs=5e-5)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 10**6),
    gamma=st.floats(0.501, 0.95).map(lambda x: round(x, 3)),
    c=st.floats(0.01, 100.0).map(lambda x: round(x, 3)),
)
def test_starts_are_exact(n, gamma, c):
    starts = block_starts(n, gamma, c)
    assert list(starts) == increasing_blocks.block_starts(n, gamma, c)
    lengths = np.diff([*starts, n + 1])
    q, v = lengths_and_squares(lengths)
    small = lengths[lengths < 5000]
    assert lengths_and_squares(small) == (
        sum(sum(l * l for l in range(1, int(L) + 1)) for L in small),
        sum(sum(range(1, int(L) + 1)) for L in small),
    )
    assert isinstance(q, int) and isinstance(v, int)


def test_starts_round_powers_that_are_integers():
    # gamma = 0.75: k^8, exactly; gamma = 0.6: k^5, which floating point may miss.
    assert block_starts(10**6, 0.75, 1.0) == (1, 256, 6561, 65536, 390625)
    assert block_starts(3200, 0.6, 1.0) == (1, 32, 243, 1024, 3125)


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
    gamma=st.floats(0.501, 0.99).map(lambda x: round(x, 3)),
    rule=st.sampled_from(["half", "third"]),
    c=st.floats(0.001, 10.0).map(lambda x: round(x, 4)),
)
def test_lengths_of_equal_batches_are_exact(n, gamma, rule, c):
    assert batch_size(n, gamma, rule, c) == equal_batches.batch_size(n, gamma, rule, c)


def test_a_negative_lugsail_variance_is_undefined():
    # Batches of 10 whose thirds alternate: long batches vary less than short ones.
    n = 300
    thirds = np.tile([3.0, -3.0, 0.0, -3.0, 3.0, 0.0], n // 6)
    iterates = (SCALAR.problem.truth()[0] + thirds + 0.01 * np.arange(n) / n)[:, None, None]
    record = record_of(SCALAR, iterates)
    method = Lugsail(block_rule="6", pieces=6)
    assert np.isnan(equal_batches.lugsail_equal(iterates[:, :, 0], 6, 6, 0.5)).all()
    result = method.intervals(record, n, LEVELS)
    assert np.isnan(result.lower).all() and np.isnan(result.upper).all() and np.isnan(result.se).all()
    assert np.isfinite(result.estimate).all()
    assert np.isfinite(EqualBatches(block_rule="6").intervals(record, n, LEVELS).lower).all()


@pytest.mark.parametrize(
    ("method", "n"),
    [
        (NonoverlappingBlocks(), 10),  # one block
        (OverlappingBlocks(), 10),
        (NonoverlappingBlocks(quantile="t", block_c=0.5), 9),  # nu < 2
        (EqualBatches(block_rule="51"), 100),  # b > n/2
        (EqualBatches(block_rule="101"), 100),
        (Lugsail(block_rule="2"), 100),  # b < r
        (Lugsail(block_rule="60"), 100),
        (Lugsail(base="BM", M=9), 20),  # a batch of fewer than r steps
        (NonoverlappingBlocks(), 1),
        (OverlappingBlocks(), 1),
        (EqualBatches(), 1),
        (Lugsail(), 1),
        (BatchMeans(), 1),
    ],
)
def test_undefined_is_not_a_miss(method, n):
    iterates = noisy(SCALAR, n)
    record = record_of(SCALAR, iterates)
    times = method.times(n, SCALAR.algorithm)
    assert len(times) and times.min() >= 1 and times.max() == n
    result = method.intervals(record, n, LEVELS)
    assert np.isnan(result.lower).all() and np.isnan(result.upper).all()
    np.testing.assert_allclose(result.estimate, iterates.mean(axis=0), rtol=1e-12)


def test_bits_do_not_depend_on_the_number_of_replicates():
    n = 1500
    iterates = walk(SCALAR, n, replicates=32)
    for method in (NonoverlappingBlocks(), OverlappingBlocks(), EqualBatches(block_rule="20"), Lugsail()):
        whole = method.intervals(record_of(SCALAR, iterates), n, [0.9]).lower
        alone = method.intervals(record_of(SCALAR, iterates[:, :, 7:8]), n, [0.9]).lower
        np.testing.assert_array_equal(whole[:, :, 7:8], alone)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    n=st.integers(2, 400),
    gamma=st.floats(0.501, 0.95).map(lambda x: round(x, 3)),
    c=st.floats(0.05, 5.0).map(lambda x: round(x, 2)),
    M=st.none() | st.integers(2, 12),
)
def test_block_variances_at_the_edges(n, gamma, c, M):
    path = OnePass(Quantile(), RandomizedResponse(), LdpSgd(gamma=gamma))
    for method in (
        NonoverlappingBlocks(block_c=c),
        OverlappingBlocks(block_c=c),
        EqualBatches(block_rule="third", block_c=c),
        BatchMeans(M=M),
    ):
        compare(method, path, n)
