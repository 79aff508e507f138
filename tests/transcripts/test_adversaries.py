"""Intervals widened for a share of adversarial users: simulated attacks, and literal worst shifts."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.components.protocols.collections import (
    Histograms,
    fold_one_shot,
    report_range,
    run_one_shot,
)
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.simulator import Cell
from tests.oracles import protocols as oracle
from tests.oracles.transcript import SETTINGS, values
from tests.protocols.running import ONE_SHOT, Z90, keys
from tests.transcripts.conftest import as_table, field_of
from tests.transcripts.test_designs import SAME
from tests.transcripts.test_protocols import RANGE as ENDS
from tests.transcripts.test_protocols import ROUNDS, protocol, reports_of

RANGE = (-4.0, 4.0)
LAW = lf.Quantile(tau=0.5).data_law()


@pytest.mark.parametrize("kind", ONE_SHOT)
def test_the_least_and_largest_distribution_function_by_enumeration(kind):
    """All combinations of two reports to each question: 2^4 or 2^7 strategies; of grr all bins."""
    k = 4 if kind in ("oue", "tree") else 8
    protocol = PROTOCOLS[kind](epsilon=1.3, range=RANGE, k=k)
    count, reports = protocol.questions(k), (-1.0 if protocol.signs else 0.0, 1.0)
    strategies = np.eye(k) if kind == "grr" else np.array(list(itertools.product(reports, repeat=count)))
    every = [fold_one_shot(protocol, k, np.ones(count), one, 1).values[0] for one in strategies]
    least, largest, *_ = report_range(protocol, k)
    assert np.min(every, axis=0) == pytest.approx(least, abs=1e-12)
    assert np.max(every, axis=0) == pytest.approx(largest, abs=1e-12)


def coverage(lower, upper):
    """Share of intervals with the true median, 0."""
    return float(np.mean((lower <= 0.0) & (upper >= 0.0)))


def widened_runs(run, share, count):
    """Lower limits, upper limits and whether one is an end of the range, of some replicates."""
    parts = (slice(r, r + 1) for r in range(count))
    singles = (replace(run, values=run.values[r], received=run.received[r]) for r in parts)
    return np.array([one.widened(0.5, Z90, "line", share) for one in singles]).T


@pytest.mark.parametrize(("kind", "z"), [*((kind, 0.0) for kind in ONE_SHOT), ("thresholds", Z90)])
def test_the_shift_of_limits(kind, z):
    """Limits of the test of F less the worst shift of F(x) = tau; each side has its own.

    Thresholds have a known variance, and the number of adversarial users at an edge varies too.
    """
    tau, share, n, protocol = 0.3, 0.02, 30_000, PROTOCOLS[kind](epsilon=1.0, range=RANGE, k=16)
    edges, cdf, b = protocol.edges(16), np.linspace(0.0, 1.0, 17), protocol.budget()
    asked = np.full(protocol.questions(16), n / 15.0)
    run = Histograms(protocol, edges, cdf[None, 1:-1], np.array([float(n)]), np.zeros(1), asked, asked)
    found = run.widened(tau, z, "line", share)
    variance = 15 * (tau * (1 - tau) + b.noise / 4) + share * (1 - share) * 14 / b.gap**2
    for side, worst in enumerate(report_range(protocol, 16)[:2]):
        moved = cdf[1:-1] - share * (worst - tau)
        expected = oracle.inversion(moved, np.full(15, variance), n, edges, tau, z)
        assert found[side] == pytest.approx(expected[side], abs=1e-9)
    assert found[0] < oracle.crossing(cdf, edges, tau) < found[1]


@pytest.mark.parametrize(("kind", "push"), list(zip(ONE_SHOT, ["down", "up"] * 3, strict=True)))
def test_the_worst_attack_on_a_histogram(kind, push):
    """300 collections whose liars aim at the median: a limit is wrong in 5%, as planned.

    Correct code fails with probability below 3e-4: of 300 intervals 15 miss on average.
    """
    protocol = PROTOCOLS[kind](epsilon=1.0, range=RANGE, k=16, liars=0.01, liars_push=push)
    run = run_one_shot(protocol, LAW, 0.5, 50_000, keys(kind + push, 300, seed=1))
    plain = run.intervals([0.5], [Z90], "line")
    wide = widened_runs(run, 0.01, 300)
    assert coverage(plain.lower[0, 0], plain.upper[0, 0]) < 0.88
    assert 0.9 <= coverage(*wide[:2]) <= 0.99
    none = widened_runs(run, 0.0, 20)
    for found, usual in zip(none, (plain.lower, plain.upper, plain.diagnosis["range_end"]), strict=True):
        assert np.array_equal(found, usual[..., 0, :20].reshape(-1))


@pytest.mark.thorough
@pytest.mark.parametrize("push", ["down", "up"])
def test_the_worst_attack_on_a_path(push):
    """320 paths of LDP-SGD whose liars always send one bit: the level holds, no limit is far too wide.

    The absolute weights of the fit add up to at most sqrt(N h), about a fifth more than what liars who send
    one bit can use: coverage near .965. Correct code fails with probability below 1e-3.
    """
    tau, n, share, p = 0.5, 20_000, 0.01, 1 / (1 + math.exp(-1.0))
    mechanism = lf.DeployedResponse(epsilon=1.0, liars=share, liars_push=push)
    path = OnePass(lf.Quantile(tau=tau), mechanism, lf.LdpSgd(c=2.0, gamma=0.51, theta0=0.0))
    method = INTERVAL_METHODS["TR"](kind="TR", degree=2)
    record = path.run(1, range(320), path.needs((Cell(n, method, 0.9),), ()))
    usual = method.intervals(record, n, [0.9])
    ends = [share * (report - (1 - p)) / (2 * p - 1) - share * tau for report in (0, 1)]
    lower, upper = method.limits_under_shift(record, n, [0.9], 0, *ends)
    assert coverage(usual.lower[0, 0], usual.upper[0, 0]) < 0.8
    assert 0.93 <= coverage(lower[0], upper[0]) <= 0.997
    none = method.limits_under_shift(record, n, [0.9], 0, 0.0, 0.0)
    assert np.allclose(none[0], usual.lower[0]) and np.allclose(none[1], usual.upper[0])


@pytest.mark.parametrize(("degree", "region", "beyond"), [(2, 1.25, 1.50), (3, 0.7, 1.22)])
def test_reports_that_depend_on_theta(degree, region, beyond):
    """Absolute weights of A_i in the fit at u, for normal thetas, against sqrt(N h) at their mean."""
    x = np.linspace(-9.0, 9.0, 20_001)
    p = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
    hermite = [lambda t: 1.0, lambda t: t, lambda t: t * t - 1, lambda t: t**3 - 3 * t]

    def weights(u):
        return sum(h(u) * h(x) / math.factorial(k) for k, h in enumerate(hermite[: degree + 1]))

    bound = np.sqrt(p @ weights(0.0) ** 2)
    largest = max(p @ abs(weights(u)) for u in np.linspace(0.0, region, 30))
    assert largest < 1.225 and bound == pytest.approx(1.225, abs=1e-3)
    assert p @ abs(weights(2.0)) / bound == pytest.approx(beyond, abs=0.01)


def test_reports_of_protocols_are_widened_by_the_whole_share():
    """The limits of an analysis are those that its counts have for the share."""
    table, share = reports_of("grr"), 0.03
    found = np.bincount(table["report"], minlength=16) * 1.0
    made = PROTOCOLS["grr"](epsilon=2.0, range=tuple(ENDS), k=16)
    histogram = fold_one_shot(made, 16, np.full(16, 2e4), found, 20_000)
    rows = lf.analyse(table, protocol("grr"), adversarial_share=share).rows
    for row, tau in zip(rows, (0.25, 0.5, 0.9), strict=True):
        limits = histogram.widened(tau, Z90, "outer", share)
        assert (row["lower"], row["upper"]) == pytest.approx(limits[:2])


def test_every_interval_is_widened_and_says_so(rows):
    table = as_table(rows[0])
    plain = lf.analyse(table, SETTINGS)
    wide = lf.analyse(table, SETTINGS, adversarial_share=0.02)
    for one, other in zip(plain.rows, wide.rows, strict=True):
        if one["status"] == other["status"] == "ok":
            assert other["lower"] < one["lower"] < one["upper"] < other["upper"]
            assert other["estimate"] == one["estimate"]
    # Liars move the mean of A by the share times its values, and the root by this over the slope or somewhat
    # more: up where all send 0, down where all send 1.
    own, moved = plain.reported(), wide.reported()
    scale = own["relaxation_times"] / (40.0 * 20_000**0.49 / 0.49) / 0.02
    zero, one = values(0.9, 1.0)
    assert 1.0 < (own["lower"] - moved["lower"]) * scale / -zero < 1.3
    assert 1.0 < (moved["upper"] - own["upper"]) * scale / one < 1.3
    words = wide.methods_paragraph()
    assert "2% of users who send any report" in words and wide.to_dict()["adversarial_share"] == 0.02
    assert "adversar" not in plain.methods_paragraph() and "any report" not in str(plain)


def test_no_bounded_interval_is_a_flag(rows):
    found = lf.analyse(as_table(rows[0]), SETTINGS, adversarial_share=0.3)
    assert found.reported() is None and "undefined" in found.flags and found.exit_code() == 1


@pytest.mark.parametrize("share", [-0.1, 0.5, math.nan, True, "a"])
def test_shares_that_cannot_be(share):
    assert field_of(lf.analyse, {"report": [0] * 2000}, SAME, adversarial_share=share) == "adversarial_share"


@pytest.mark.parametrize("settings", [SETTINGS | {"mechanism": {"kind": "laplace", "epsilon": 1.0}}, ROUNDS])
def test_reports_without_a_bound(rows, settings):
    table = as_table(rows[0], round=[1] * 20_000, question=[0] * 20_000)
    assert field_of(lf.analyse, table, settings, adversarial_share=0.01) == "adversarial_share"
