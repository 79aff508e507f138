"""Measures for people who look before the end, and joint regions, against rows of another program.

The same program as that of reference_rows.csv: every interval literally, from whole paths.
"""

from __future__ import annotations

import csv
from pathlib import Path as File

import numpy as np
import pytest

from ldpflow import constants
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.intervals.nested import ConfidenceSequence, JointRegion
from ldpflow.intervals.transcript import TranscriptCovariance
from ldpflow.intervals.variance import (
    BatchMeans,
    EqualBatches,
    Oracle,
    SelfNormalization,
    asymptotic_variances,
)
from ldpflow.mechanisms.laplace import Laplace
from ldpflow.mechanisms.randomized_response import RandomizedResponse
from ldpflow.problems.quantile import Quantile
from ldpflow.problems.quantile_regression import QuantileRegression
from ldpflow.results.monitoring import Looks, coverage_at_every_n, coverage_at_stop
from ldpflow.simulators.one_pass import OnePass
from tests.intervals.test_reference_rows import LEVEL, LINE, SEED, Linearised

GRID = [10000, 12589, 15849, 19953, 25119, 31623, 39811, 50119, 63096, 79433, 100000]
REPLICATES = 1504
FIRST = 10**4
METHODS = {
    "oracle": Oracle(),
    "BM": BatchMeans(),
    "BM t": BatchMeans(quantile="t"),
    "EBS b=n^.75 t": EqualBatches(block_rule="n^0.75", quantile="t"),
    "SN": SelfNormalization(),
    "TRC degree 1, no factor": TranscriptCovariance(**LINE),
    "TR degree 2, linearised": Linearised(),
    "ACS oracle": ConfidenceSequence(t_opt=FIRST, base="oracle"),
    "ACS, TRC degree 1, no factor": ConfidenceSequence(t_opt=FIRST, **LINE),
    "ACS TR root": ConfidenceSequence(t_opt=FIRST, base="TR"),
    "ACS BM": ConfidenceSequence(t_opt=FIRST, base="BM"),
}


def rows(name):
    with (File(__file__).parent / name).open() as file:
        return list(csv.DictReader(file))


def looked(tau):
    """What is seen of every method at the grid's n."""
    simulator = OnePass(Quantile(tau=tau), RandomizedResponse(), LdpSgd())
    algorithm = simulator.algorithm
    times, marked, sums = set(), set(), set()
    for n in GRID:
        for method in METHODS.values():
            times.update(method.times(n, algorithm).tolist())
            if needed := method.running_sums(1):
                marked.update(method.marked_times(n, algorithm, 1))
                sums.update(needed)
    truth = simulator.truth()[0]
    sigma = asymptotic_variances(simulator)[0]
    goal = 2 * constants.normal_quantile(0.95) * np.sqrt(sigma / 50_000)
    limits = {name: [] for name in METHODS}
    for first in range(0, REPLICATES, 32):
        record = run(simulator, range(first, first + 32), times, marked, sums)
        with np.errstate(all="ignore"):
            for name, method in METHODS.items():
                found = [method.intervals(record, n, [LEVEL]) for n in GRID]
                limits[name].append(np.array([[f.lower[0, 0], f.upper[0, 0]] for f in found]))
    result = {}
    for name, parts in limits.items():
        low, high = np.concatenate(parts, axis=2).transpose(1, 2, 0)
        defined = np.isfinite(low) & np.isfinite(high)
        covered = defined & (low <= truth) & (truth <= high)
        result[name] = Looks(np.array(GRID), covered, defined, defined & (high - low < goal))
    return result


def run(simulator, replicates, times, marked, sums):
    from ldpflow.simulators.one_pass import run_path

    return run_path(simulator, SEED, replicates, sorted(times | marked), sorted(marked), sorted(sums))


def error_of(share, count):
    return np.sqrt(max(share * (1 - share), 0.25 / count) / count)


@pytest.mark.slow
@pytest.mark.parametrize("tau", ["0.5", "0.9"])
def test_looking_before_the_end(tau):
    # Up to five numbers for each of eleven methods, each within four standard errors of the
    # difference; a false alarm in one of 150 runs.
    found = looked(float(tau))
    for row in rows("reference_looks.csv"):
        if row["tau"] != tau:
            continue
        looks = found[row["method"]]
        every, stop = coverage_at_every_n(looks), coverage_at_stop(looks)
        last = looks.since(GRID[-1], GRID[-1])
        ours = {
            "coverage_last": coverage_at_every_n(last)["coverage_all_n"],
            "coverage_all_n": every["coverage_all_n"],
            "stopped_share": stop["stopped_share"],
        }
        for name, value in ours.items():
            theirs = float(row[name])
            spread = np.hypot(error_of(value, REPLICATES), error_of(theirs, 1500))
            assert abs(value - theirs) < 4 * spread, (row["method"], name, value, theirs)
        if row["coverage_at_stop"] and stop["stopped_share"] > 0:
            counts = [max(REPLICATES * stop["stopped_share"], 1), max(1500 * float(row["stopped_share"]), 1)]
            value, theirs = stop["coverage_at_stop"], float(row["coverage_at_stop"])
            spread = np.hypot(error_of(value, counts[0]), error_of(theirs, counts[1]))
            assert abs(value - theirs) < 4 * spread, (row["method"], "at stop", value, theirs)
            short = looks.short & looks.defined
            stopped = short.any(axis=1)
            ends = np.array(GRID)[short.argmax(axis=1)[stopped]]
            # With a handful that stop, their spread is not known: the grid's steps of a quarter.
            spread = max(ends.std(), 0.2 * ends.mean()) * np.hypot(*(1 / np.sqrt(c) for c in counts))
            assert abs(ends.mean() - float(row["stop_n_mean"])) < 4 * spread + 1, row["method"]


JOINT = {
    "oracle": JointRegion(base="oracle"),
    "BM chi2": JointRegion(base="BM"),
    "BM F": JointRegion(base="BM", quantile="F"),
    "TRC residual": JointRegion(burn_in="0.01n", variance="residual"),
}
MARGINAL = {
    "BM marginal 1": BatchMeans(),
    "TRC marginal 1": TranscriptCovariance(burn_in="0.01n", variance="residual", small_run=False),
}


@pytest.mark.slow
def test_joint_regions():
    # Coverage and size of six regions, each within four standard errors of the difference.
    n, count = 10**5, 2016
    simulator = OnePass(QuantileRegression(), Laplace(epsilon=4.0), LdpSgd())
    algorithm = simulator.algorithm
    times, marked, sums = set(), set(), set()
    for method in (*JOINT.values(), *MARGINAL.values()):
        times.update(method.times(n, algorithm).tolist())
        if needed := method.running_sums(4):
            marked.update(method.marked_times(n, algorithm, 4))
            sums.update(needed)
    truth = simulator.truth()[1]
    oracle = 2 * constants.normal_quantile(0.95) * np.sqrt(asymptotic_variances(simulator)[1] / n)
    found = {name: [] for name in (*JOINT, *MARGINAL)}
    for first in range(0, count, 32):
        record = run(simulator, range(first, first + 32), times, marked, sums)
        with np.errstate(all="ignore"):
            for name, method in JOINT.items():
                said = method.intervals(record, n, [LEVEL]).diagnosis
                found[name].append(np.stack([said["joint_covered"][0, 0], said["joint_size"][0, 0]]))
            for name, method in MARGINAL.items():
                result = method.intervals(record, n, [LEVEL])
                low, high = result.lower[0, 1], result.upper[0, 1]
                found[name].append(np.stack([(low <= truth) & (truth <= high), (high - low) / oracle]))
    for row in rows("reference_joint.csv"):
        covered, size = np.concatenate(found[row["region"]], axis=1)
        p = covered.mean()
        spread = np.hypot(error_of(p, count), float(row["coverage_mcse"]))
        assert abs(p - float(row["coverage"])) < 4 * spread, (row["region"], p)
        spread = np.hypot(size.std() / np.sqrt(count), float(row["size_mcse"])) + 5e-5
        assert abs(size.mean() - float(row["size"])) < 4 * spread, (row["region"], size.mean())
