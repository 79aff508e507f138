"""Intervals move and stretch with the data: users, start and step constant shifted or scaled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.bootstrap import BlockBootstrap, CheapBootstrap
from ldpflow.components.intervals.nested import ConfidenceSequence, SuffixAverage
from ldpflow.components.intervals.parallel_runs import ConvexHull, ParallelRuns
from ldpflow.components.intervals.transcript import (
    TranscriptCovariance,
    TranscriptRegression,
    TranscriptRegressionBatchMeans,
)
from ldpflow.components.intervals.variance import (
    BatchMeans,
    EqualBatches,
    Lugsail,
    NonoverlappingBlocks,
    Oracle,
    OverlappingBlocks,
    SelfNormalization,
)
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.simulators.one_pass import OnePass, run_path

N = 2000
LEVELS = [0.9]
METHODS = [
    BlockBootstrap(B=20),
    BatchMeans(),
    SelfNormalization(),
    Oracle(),
    TranscriptRegression(),
    TranscriptRegression(degree=1, variance="residual"),
    TranscriptRegressionBatchMeans(),
    TranscriptCovariance(),
    TranscriptCovariance(degree=1, variance="residual", small_run=False),
    NonoverlappingBlocks(),
    NonoverlappingBlocks(quantile="t"),
    OverlappingBlocks(),
    EqualBatches(block_rule="n^0.75", quantile="t"),
    Lugsail(block_rule="90"),
    Lugsail(base="BM"),
    SuffixAverage(),
    SuffixAverage(base="OBM", share=0.3),
    CheapBootstrap(),
    ConfidenceSequence(t_opt=500),
    ConfidenceSequence(t_opt=500, base="TR"),
    ParallelRuns(),
    ConvexHull(),
]


class SameStreams(OnePass):
    """A path under the key of another: the same multipliers and coins."""

    key = "shared"


def path_of(shift, scale):
    problem = Quantile(tau=0.9, location=shift, scale=scale)
    return SameStreams(problem, RandomizedResponse(), LdpSgd(c=2.0 * scale, theta0=shift))


def recorded():
    path = path_of(0.0, 1.0)
    every = range(1, N + 1)
    plain = run_path(path, 3, range(10), every, every, ["self_normalization", "transcript_cubic"])
    total = np.cumsum(plain.prefix_sums, axis=0)[None]
    return replace(plain, running_sums=plain.running_sums | {"prefix_total": total})


def moved(record, shift, scale):
    """The record of the path whose users, start and step constant are shifted and scaled."""
    powers = {
        "self_normalization": [1, 2],
        "prefix_total": [1],
        "transcript_cubic": [1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 0],
    }
    sums = {
        name: values * np.array([scale**k for k in powers[name]])[:, None, None, None]
        for name, values in record.running_sums.items()
    }
    return replace(
        record,
        source=path_of(shift, scale),
        origin=shift + scale * record.origin,
        prefix_sums=scale * record.prefix_sums,
        iterates=shift + scale * record.iterates,
        running_sums=sums,
    )


@pytest.fixture(scope="module")
def record():
    return recorded()


@pytest.mark.parametrize(("shift", "scale"), [(3.0, 1.0), (0.0, 0.7), (-20.0, 5.0)])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_every_interval_moves_with_the_data(record, method, shift, scale):
    here = method.intervals(record, N, LEVELS)
    there = method.intervals(moved(record, shift, scale), N, LEVELS)
    close = {"rtol": 1e-9, "atol": 1e-9 * scale}
    np.testing.assert_allclose(there.estimate, shift + scale * here.estimate, **close)
    np.testing.assert_allclose(there.lower, shift + scale * here.lower, **close)
    np.testing.assert_allclose(there.upper, shift + scale * here.upper, **close)
    assert np.isfinite(here.lower).mean() > 0.5
