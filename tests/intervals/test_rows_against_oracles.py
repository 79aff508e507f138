"""Rows of one run of all the arena's methods, each against its literal form on the literal path.

The paths are made user by user from the draws that the kernel consumes; nothing of the package but its
random numbers enters what the rows are compared with.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ldpflow.intervals.bootstrap import CheapBootstrap
from ldpflow.intervals.variance import asymptotic_variances
from ldpflow.problems.laws import Variate
from ldpflow.simulators.batch import Batch, simulate
from ldpflow.simulators.cell import by_runs
from ldpflow.simulators.rows import rows_of
from ldpflow.study import Study
from tests import draws
from tests.oracles import (
    batch_means,
    block_bootstrap,
    equal_batches,
    increasing_blocks,
    joint_region,
    mechanisms,
    recursion,
    sequences,
    transcript_covariance,
)

SEED, N, LEVEL, GAMMA = 8, 900, 0.9, 0.51
Z = stats.norm.ppf(0.95)
TAU, EPSILON = 0.9, 2.0

SCALAR = {
    "name": "rows",
    "seed": SEED,
    "replicates": 10,
    "problem": {"kind": "quantile", "tau": TAU},
    "mechanism": {"kind": "randomized_response", "epsilon": EPSILON},
    "algorithm": {"kind": "ldp_sgd", "theta0": 1.0},
    "grid": {"n": N, "level": LEVEL},
    "method": [
        {"kind": "TRC", "degree": [1, 2], "variance": ["known", "residual"], "small_run": [True, False]},
        {"kind": "NOL", "quantile": ["normal", "t"]},
        {"kind": "OBM", "block_c": [1.0, 0.5]},
        {"kind": "EBS", "block_rule": ["half", "third"]},
        {"kind": "EBS", "block_rule": "n^0.75", "quantile": "t"},
        {"kind": "LUG", "block_rule": "n^0.75"},
        {"kind": "LUG", "base": "BM"},
        {"kind": "BM", "quantile": "t"},
        {"kind": "SUF"},
        {"kind": "SUF", "base": "oracle", "share": 0.3},
        {"kind": "CHB", "B": [2, 5]},
        {"kind": "ACS", "t_opt": 400, "base": ["TRC", "oracle"]},
        {"kind": ["PAR", "HULC"]},
    ],
}
VECTOR = SCALAR | {
    "replicates": 3,
    "problem": {"kind": "quantile_regression"},
    "mechanism": {"kind": "laplace", "epsilon": 4.0},
    "algorithm": {"kind": "ldp_sgd"},
    "method": [{"kind": "joint", "base": "BM", "quantile": ["chi2", "F"], "M": 7}],
}


def made(mapping):
    """The simulator of a study of one path, and its rows by method, settings and row number."""
    (plan,) = Study.from_mapping(mapping).plans()
    rows = []
    for runs, cells in by_runs(plan.cells).items():
        rows += simulate(
            Batch(plan.simulator, SEED, 0, mapping["replicates"] // runs, cells)
        ).rows.to_pylist()
    return plan.simulator, rows


@pytest.fixture(scope="module")
def run():
    simulator, rows = made(SCALAR)
    paths = []
    for replicate in range(10):
        users = draws.data(simulator, SEED, replicate, N)[:, 0]
        noise = draws.noise(simulator, SEED, replicate, N)[:, 0]
        private = recursion.private_quantile_gradient(TAU, EPSILON, noise)
        paths.append(recursion.ldp_sgd_path(users, private, 1.0, 1.0, GAMMA))
    return simulator, rows, paths


def chosen(rows, method, **settings):
    found = [row for row in rows if row["method"] == method]
    found = [row for row in found if all(row.get(name) == value for name, value in settings.items())]
    assert found
    return found


def check(row, estimate, se, half):
    """A row against estimate, standard error and half width; undefined where they are."""
    if not math.isfinite(half):
        assert row["status"] == "undefined"
        return
    assert row["status"] == "ok"
    assert row["estimate"] == pytest.approx(estimate, rel=1e-9, abs=1e-11)
    assert row["se"] == pytest.approx(se, rel=1e-7)
    assert row["upper"] - estimate == pytest.approx(half, rel=1e-7)
    assert estimate - row["lower"] == pytest.approx(half, rel=1e-7)
    truth = stats.norm.ppf(TAU)
    assert row["covered"] == (abs(estimate - truth) <= half)


def variance_known(simulator):
    """S = tau (1 - tau) + e^eps/(e^eps - 1)^2."""
    e = math.exp(EPSILON)
    return TAU * (1 - TAU) + e / (e - 1) ** 2


def trc(simulator, path, degree, known, factor):
    S = variance_known(simulator) if known else None
    V, K = transcript_covariance.scalar(np.ones(1), path, 1.0, GAMMA, degree, "n^0.4", S, factor)
    return V if K > 0 else math.nan


def oracle(simulator):
    return variance_known(simulator) / stats.norm.pdf(stats.norm.ppf(TAU)) ** 2


def test_methods_with_a_variance(run):
    simulator, rows, paths = run
    assert asymptotic_variances(simulator)[0] == pytest.approx(oracle(simulator), rel=1e-12)
    starts = {c: increasing_blocks.block_starts(N, GAMMA, c) for c in (1.0, 0.5)}
    nu = increasing_blocks.effective_blocks(N, starts[1.0])
    three_quarters = int(N**0.75)
    M = batch_means.batch_count(N)
    cases = {
        ("NOL", "normal"): lambda p: (increasing_blocks.nonoverlapping_variance(p, starts[1.0])[0], Z),
        ("NOL", "t"): lambda p: (
            increasing_blocks.nonoverlapping_variance(p, starts[1.0])[0] * nu / (nu - 1),
            stats.t.ppf(0.95, nu - 1),
        ),
        ("OBM", 1.0): lambda p: (increasing_blocks.overlapping_variance(p, starts[1.0])[0], Z),
        ("OBM", 0.5): lambda p: (increasing_blocks.overlapping_variance(p, starts[0.5])[0], Z),
        ("EBS", "half"): lambda p: (
            equal_batches.variance(p, equal_batches.batch_size(N, GAMMA, "half", 0.1))[0], Z,
        ),
        ("EBS", "third"): lambda p: (
            equal_batches.variance(p, equal_batches.batch_size(N, GAMMA, "third", 0.1))[0], Z,
        ),
        ("EBS", "n^0.75"): lambda p: (
            equal_batches.variance(p, three_quarters)[0], stats.t.ppf(0.95, N // three_quarters - 1),
        ),
        ("LUG", "EBS"): lambda p: (equal_batches.lugsail_equal(p, three_quarters, 3, 0.5)[0], Z),
        ("LUG", "BM"): lambda p: (equal_batches.lugsail_increasing(p, M, GAMMA, 3, 0.5)[0], Z),
        ("BM", "t"): lambda p: (
            batch_means.variance(p, M, GAMMA)[0] * M / (M - 1), stats.t.ppf(0.95, M - 1),
        ),
    }  # fmt: skip
    settings = {"NOL": "quantile", "OBM": "block_c", "EBS": "block_rule", "LUG": "base", "BM": "quantile"}
    for (method, value), literal in cases.items():
        found = chosen(rows, method, **{settings[method]: value})
        assert [row["replicate"] for row in found] == list(range(10))
        for row, path in zip(found, paths, strict=True):
            V, q = literal(path)
            se = math.sqrt(V / N) if V > 0 else math.nan
            check(row, path.mean(), se, q * se)


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("variance", ["known", "residual"])
@pytest.mark.parametrize("factor", [True, False])
def test_the_transcripts_slope(run, degree, variance, factor):
    simulator, rows, paths = run
    found = chosen(rows, "TRC", degree=degree, variance=variance, small_run=factor)
    for row, path in zip(found, paths, strict=True):
        V = trc(simulator, path, degree, variance == "known", factor)
        se = math.sqrt(V / N) if V > 0 else math.nan
        check(row, path.mean(), se, Z * se)


def test_methods_that_lean_on_others(run):
    simulator, rows, paths = run
    V = {"TRC": lambda p: trc(simulator, p, 2, True, True), "oracle": lambda p: oracle(simulator)}
    for base in V:
        factor = math.sqrt(N) * sequences.margin(N, 0.1, 400)
        for row, path in zip(chosen(rows, "ACS", base=base), paths, strict=True):
            se = math.sqrt(V[base](path) / N)
            check(row, path.mean(), se, factor * se)
    for base, share in (("TRC", 0.5), ("oracle", 0.3)):
        for row, path in zip(chosen(rows, "SUF", base=base, share=share), paths, strict=True):
            # SUF takes the base's standard error, TRC's with its factor for short runs.
            last = path[int((1 - share) * N + 1e-9) :]
            se = math.sqrt(V[base](path) / len(last))
            check(row, last.mean(), se, Z * se)


@pytest.mark.parametrize("B", [2, 5])
def test_cheap_bootstrap(run, B):
    simulator, rows, paths = run
    length = block_bootstrap.block_length(N, 0.75)
    m = block_bootstrap.block_count(N, length)
    key = f"{simulator.key}/n={N}/beta={CheapBootstrap().beta!r}/uniform"
    for row, path in zip(chosen(rows, "CHB", B=B), paths, strict=True):
        plane = draws.planes(
            SEED, "multipliers", key, row["replicate"], [Variate("symmetric_uniform")], B * m
        )
        eps = math.sqrt(3) * plane[:, 0].reshape(B, m)
        deviations = block_bootstrap.bootstrap_replicates(path, length, m, eps)
        se = math.sqrt(np.mean(deviations**2))
        check(row, path.mean(), se, stats.t.ppf(0.95, B) * se)


def test_rows_of_several_replicates(run):
    simulator, rows, paths = run
    assert [row["replicate"] for row in chosen(rows, "PAR")] == [0, 1]
    for number, row in enumerate(chosen(rows, "PAR")):
        members = [path[: N // 5].mean() for path in paths[5 * number : 5 * number + 5]]
        lower, upper = sequences.student(np.array(members), LEVEL)
        check(row, np.mean(members), np.std(members, ddof=1) / math.sqrt(5), (upper - lower) / 2)
    B, p = sequences.hull_size(LEVEL)
    for number, row in enumerate(chosen(rows, "HULC")):
        key = f"{simulator.key}/level={LEVEL!r}"
        coin = draws.planes(SEED, "hull", key, number, [Variate("uniform")], 1)[0, 0]
        used = B - 1 if coin <= p else B
        members = [path[: N // used].mean() for path in paths[B * number : B * number + used]]
        found = [row[name] for name in ("lower", "estimate", "upper")]
        assert found == pytest.approx(sequences.hull(np.array(members)), rel=1e-9)
        assert row["se"] is None


def test_every_new_method_is_compared(run):
    _, rows, _ = run
    compared = {"TRC", "NOL", "OBM", "EBS", "LUG", "BM", "SUF", "CHB", "ACS", "PAR", "HULC"}
    assert {row["method"] for row in rows} == compared


def test_joint_regions():
    simulator, rows = made(VECTOR)
    d = 4
    for replicate in range(VECTOR["replicates"]):
        data = draws.data(simulator, SEED, replicate, N)
        noise = draws.noise(simulator, SEED, replicate, N)
        problem = simulator.problem
        delta = mechanisms.quantile_regression_sensitivity(problem.tau, d, problem.bound)
        x, y = regression_records(problem, data)

        def private(i, record, theta, noise=noise, delta=delta, tau=problem.tau):
            g = recursion.quantile_regression_gradient(*record, theta, tau)
            return mechanisms.add_laplace(g, delta, 4.0, noise[i - 1])

        path = recursion.ldp_sgd_path(list(zip(x, y, strict=True)), private, np.zeros(d), 1.0, GAMMA)
        for quantile in ("chi2", "F"):
            V = joint_region.batch_means_matrix(path, 7, GAMMA, 7 if quantile == "chi2" else 6)
            q = joint_region.chi2(0.9, d) if quantile == "chi2" else joint_region.hotelling(0.9, d, 7)
            own = [r for r in chosen(rows, "joint", quantile=quantile) if r["replicate"] == replicate]
            truth = np.array(problem.truth())
            inside = joint_region.statistic(path.mean(axis=0), truth, V, N) <= q
            assert own[0]["joint_covered"] == float(inside)
            half = np.sqrt(q * np.diag(V) / N)
            for row in own:
                j = row["coordinate"]
                assert row["estimate"] == pytest.approx(path[:, j].mean(), rel=1e-9, abs=1e-10)
                assert row["upper"] - row["estimate"] == pytest.approx(half[j], rel=1e-6)


def regression_records(problem, data):
    """Covariates (1, b Z_1, ..., b Z_(d-1)) and x' beta + e with the tau-quantile of e at 0."""
    law = problem.error_law()
    x = np.column_stack([np.ones(len(data)), problem.bound * data[:, :-1]])
    return x, x @ np.array(problem.coefficients) + law.location + law.scale * data[:, -1]


def test_methods_of_one_record_do_not_change_each_other():
    """What methods compute together on a record is what each computes alone."""
    (plan,) = Study.from_mapping(SCALAR).plans()
    cells = by_runs(plan.cells)[1]
    record = plan.simulator.run(SEED, range(5), plan.simulator.needs(cells))
    together = rows_of(record, cells).to_pylist()
    again = rows_of(record, cells[::-1]).to_pylist()
    alone = []
    for cell in cells:
        own = plan.simulator.run(SEED, range(5), plan.simulator.needs([cell]))
        alone += rows_of(own, [cell]).to_pylist()

    def sortable(rows):
        return sorted(repr(sorted((k, v) for k, v in row.items() if v is not None)) for row in rows)

    assert sortable(together) == sortable(alone) == sortable(again)
