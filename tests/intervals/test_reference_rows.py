"""Coverage and length of every method against rows that an independent program gave.

The program computed every interval literally from whole paths, one replicate at a time, with another
generator: N(0, 1), randomised response, eps = 1, gamma = .51, c = 1, theta_0 = 0, level .9.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.bootstrap import BlockBootstrap, CheapBootstrap
from ldpflow.components.intervals.interval import normal_intervals
from ldpflow.components.intervals.nested import ConfidenceSequence, SuffixAverage
from ldpflow.components.intervals.parallel_runs import ConvexHull, ParallelRuns, hull_size
from ldpflow.components.intervals.record import PathRecord
from ldpflow.components.intervals.transcript import TranscriptCovariance, TranscriptRegression
from ldpflow.components.intervals.variance import (
    BatchMeans,
    EqualBatches,
    Lugsail,
    NonoverlappingBlocks,
    Oracle,
    OverlappingBlocks,
    SelfNormalization,
    asymptotic_variances,
)
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.numerics import constants
from ldpflow.simulators.one_pass import OnePass, run_path

SEED = 2026
REPLICATES = 4000
LEVEL = 0.9
LINE = {"degree": 1, "small_run": False}


class Linearised(TranscriptRegression):
    """TR's root with the interval that is linear in the error, as the rows have it."""

    def intervals(self, record, n, levels):
        result = super().intervals(record, n, levels)
        return normal_intervals(result.estimate, result.se, levels)


def methods(n):
    """By the name of the row; those of independent runs apart."""
    found = {
        "oracle": Oracle(),
        "BB": BlockBootstrap(),
        "BM": BatchMeans(),
        "SN": SelfNormalization(),
        "TR degree 2, linearised": Linearised(),
        "BM, t": BatchMeans(quantile="t"),
        "LUG BM": Lugsail(base="BM"),
        "NOL": NonoverlappingBlocks(),
        "NOL, t": NonoverlappingBlocks(quantile="t"),
        "OBM": OverlappingBlocks(),
        "EBS b = n^.75": EqualBatches(block_rule="n^0.75"),
        "EBS b = n^.75, t": EqualBatches(block_rule="n^0.75", quantile="t"),
        "LUG EBS b = n^.75": Lugsail(block_rule="n^0.75"),
        "EBS 3b, t": EqualBatches(block_rule="3n^0.75", quantile="t"),
        "TRC degree 1, no factor": TranscriptCovariance(**LINE),
        "TRC degree 1, no factor, residual": TranscriptCovariance(**LINE, variance="residual"),
        "TRC degree 1": TranscriptCovariance(degree=1),
        "TRC degree 2, no factor": TranscriptCovariance(small_run=False),
        "TRC degree 2": TranscriptCovariance(),
        "SUF k = .5 oracle": SuffixAverage(base="oracle"),
        "SUF k = .5 TRC degree 1, no factor": SuffixAverage(**LINE),
        **{f"CHB B = {B}": CheapBootstrap(B=B) for B in (2, 5, 10)},
    }
    for rule in ("half", "third"):
        found[f"EBS {rule}, c = .1"] = EqualBatches(block_rule=rule)
        found[f"EBS {rule}, c = .1 t"] = EqualBatches(block_rule=rule, quantile="t")
        found[f"LUG EBS {rule}, c = .1"] = Lugsail(block_rule=rule)
    for t_opt, name in ((n, "n"), (n // 10, "n/10")):
        found[f"ACS t_opt = {name} oracle"] = ConfidenceSequence(t_opt=t_opt, base="oracle")
        found[f"ACS t_opt = {name} TRC degree 1, no factor"] = ConfidenceSequence(t_opt=t_opt, **LINE)
        found[f"ACS t_opt = {name} TR root"] = ConfidenceSequence(t_opt=t_opt, base="TR")
    return found


def rows_of_runs(path, n):
    """PAR and HULC: 20,000 runs of at most n/4 users make 4,000 rows, or 2,000 with K = 10."""
    times = [n // 10, n // 5, n // 4]
    parts = [run_path(path, SEED, range(first, first + 32), times) for first in range(0, 5 * REPLICATES, 32)]
    record = PathRecord(
        path,
        SEED,
        np.arange(5 * REPLICATES),
        np.array(times),
        parts[0].origin,
        np.concatenate([part.prefix_sums for part in parts], axis=2),
        np.concatenate([part.iterates for part in parts], axis=2),
    )
    found = {f"PAR K = {K}": ParallelRuns(K=K).intervals(record, n, [LEVEL]) for K in (5, 10)}
    hull = ConvexHull()
    found["HULC"] = hull.intervals(record, n, [LEVEL])
    for B in (4, 5):
        low, high, middle = hull.limits(record, n, hull_size(LEVEL)[0], B)
        found[f"HULC B = {B}"] = replace(
            found["HULC"], estimate=middle[None], lower=low[None], upper=high[None]
        )
    return {name: limits(result) for name, result in found.items()}


def limits(result):
    return np.stack([result.lower[0, 0], result.upper[0, 0]])


def measured(tau, n):
    """(coverage, MCSE, mean length over the oracle's, MCSE, share undefined) by name."""
    path = OnePass(Quantile(tau=tau), RandomizedResponse(), LdpSgd())
    algorithm, chosen = path.algorithm, methods(n)
    times, marked, sums = set(), set(), set()
    for method in chosen.values():
        times.update(method.times(n, algorithm).tolist())
        if needed := method.running_sums(1):
            marked.update(method.marked_times(n, algorithm, 1))
            sums.update(needed)
    found = {name: [] for name in chosen}
    for first in range(0, REPLICATES, 32):
        record = run_path(
            path, SEED, range(first, first + 32), sorted(times | marked), sorted(marked), sorted(sums)
        )
        with np.errstate(all="ignore"):
            for name, method in chosen.items():
                found[name].append(limits(method.intervals(record, n, [LEVEL])))
    both = {name: np.concatenate(parts, axis=1) for name, parts in found.items()}
    both |= rows_of_runs(path, n)
    truth = path.problem.truth()[0]
    oracle = 2 * constants.normal_quantile(0.95) * np.sqrt(asymptotic_variances(path)[0] / n)
    return {name: measures(low, high, truth, oracle) for name, (low, high) in both.items()}


def measures(low, high, truth, oracle):
    fine = np.isfinite(low) & np.isfinite(high)
    covered = ((low <= truth) & (truth <= high))[fine]
    length = (high - low)[fine] / oracle
    p, count = covered.mean(), fine.sum()
    return p, np.sqrt(p * (1 - p) / count), length.mean(), length.std() / np.sqrt(count), 1 - fine.mean()


def published():
    with (File(__file__).parent / "reference_rows.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_reference_rows():
    # Two comparisons per row (coverage, length), normal limits: every one within 4 standard errors of
    # the difference, and all together by Holm's test at 1%.
    ours = {(tau, n): measured(tau, n) for tau in (0.5, 0.9) for n in (10**4, 10**5)}
    differences, failed = [], []
    for row in published():
        p, p_error, length, length_error, undefined = ours[float(row["tau"]), int(row["n"])][row["method"]]
        assert abs(undefined - float(row["undefined"])) < 0.012, row
        for name, value, error in (("coverage", p, p_error), ("length_relative", length, length_error)):
            # Rows are rounded to four decimals.
            spread = np.sqrt(error**2 + float(row[f"{name}_mcse"]) ** 2 + 5e-5**2 / 3)
            z = (value - float(row[name])) / spread
            differences.append((abs(z), row["method"], row["tau"], row["n"], name, value, row[name]))
            if abs(z) > 4:
                failed.append(differences[-1])
    assert not failed
    differences.sort(reverse=True)
    assert len(differences) == 2 * len(published()) == 328
    for k, (z, *_) in enumerate(differences):
        if 2 * stats.norm.sf(z) * (len(differences) - k) > 0.01:
            break
    else:
        k = len(differences)
    assert k == 0, differences[:5]
