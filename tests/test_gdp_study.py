"""The protocol of gdp-trajectories at d = 5 against the reference table, bounds and figure facts.

Minutes of Monte Carlo (marked slow); its output is kept in docs/gaussian.md. A11, A16, section 8.
"""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from ldpflow.algorithms.kernels import run_path
from ldpflow.algorithms.ldp_sgd import LdpSgd
from ldpflow.engine import run_study
from ldpflow.mechanisms.gaussian import Gaussian
from ldpflow.path import Path
from ldpflow.problems.linear_regression import LinearRegression
from ldpflow.problems.logistic_regression import LogisticRegression
from ldpflow.study import Study
from ldpflow.theory import strongly_convex
from ldpflow.theory.bounds import Setting
from ldpflow.trajectory import trajectories_of
from tests.oracles import gdp_reference

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["linear_regression", "logistic_regression"])
def curves(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("gdp")
    study = {
        "name": "gdp",
        "seed": 20250711,
        "replicates": 192,
        "problem": {"kind": request.param},
        "mechanism": {"kind": "gaussian", "mu": [0.5, 1.0, 2.0, 3.0]},
        "algorithm": {
            "kind": "ldp_sgd",
            "gamma": [0.3, 0.6, 0.9],
            "c": 0.1 if request.param == "linear_regression" else 0.2,
        },
        "grid": {"n": 1e5},
        "trajectory": {"first": 10, "points": 9},
    }
    run_study(Study.from_mapping(study), out, engine="serial")
    table = pq.read_table(out / "trajectories.parquet").to_pylist()
    return request.param, {(r["mu"], r["gamma"], r["stat"], r["n"]): r for r in table}


def test_reference_table(curves):
    problem, rows = curves
    reference = gdp_reference.LINEAR if problem[:2] == "li" else gdp_reference.LOGISTIC
    for (mu, alpha), values in reference.items():
        for (stat, n), value in zip(gdp_reference.COLUMNS, values, strict=True):
            row = rows[(mu, alpha, stat, n)]
            near = abs(row["mean"] / value - 1) < 0.35 or abs(row["mean"] - value) < 4 * row["mcse"]
            assert near, (mu, alpha, stat, n, row["mean"], value)


def test_below_the_bounds(curves):
    _, rows = curves
    checked = [r for r in rows.values() if r["theory_bound"] is not None]
    assert len(checked) == 12 * 9 * 2
    for row in checked:
        assert row["mean"] + 3 * row["mcse"] <= row["theory_bound"], row


def test_figure_facts(curves):
    _, rows = curves
    n = 100_000
    for mu in (0.5, 1.0, 2.0, 3.0):
        for kind in ("sq", "exc"):
            early, late = (
                rows[(mu, a, f"avg_{kind}", n)]["mean"] - rows[(mu, a, f"last_{kind}", n)]["mean"]
                for a in (0.3, 0.9)
            )
            assert early < 0 < late
    for alpha in (0.3, 0.6, 0.9):
        for stat in ("last_sq", "avg_sq", "last_exc", "avg_exc"):
            errors = [rows[(mu, alpha, stat, n)]["mean"] for mu in (0.5, 1.0, 2.0, 3.0)]
            assert errors == sorted(errors, reverse=True)


def followed(path, n, replicates, seed=20250711):
    records = [run_path(path, seed, range(a, a + 32), n) for a in range(0, replicates, 32)]
    tables = [trajectories_of(record, n) for record in records]
    return lambda stat: np.concatenate([t[stat].to_numpy().reshape(-1, len(n)) for t in tables])


def test_projected_paths_stay_below_the_third_theorem():
    """A10: one-point m = 0.0652 over the ball; observed maximal ratios .97, .93, .90."""
    n = (10, 100, 1000, 5000, 20_000)
    for mu, alpha in ((1.0, 0.6), (2.0, 0.4), (3.0, 0.8)):
        path = Path(LinearRegression(), Gaussian(mu=mu), LdpSgd(gamma=alpha, c=0.4, radius=5.0))
        distance = followed(path, n, 512)("last_sq")
        upper = distance.mean(axis=0) + 3 * distance.std(axis=0) / np.sqrt(len(distance))
        s = Setting(0.4, alpha, path.problem.gradient_bound(), 5, mu, 5.0, 0.0652, 2.0)
        assert (upper <= strongly_convex.distance_bound(s, n)).all()


def test_average_of_logistic_intercept_is_slower_than_print_says():
    """A17: at alpha = .25 n MSE grows (99, 152, 360, 972 at 1e3 ... 1e6); print says 1/n."""
    path = Path(
        LogisticRegression(coefficients=(1.0,), covariates="one"),
        Gaussian(mu=2.0),
        LdpSgd(gamma=0.25, c=1.0),
    )
    n = (1000, 10_000, 100_000)
    scaled = followed(path, n, 512)("avg_sq").mean(axis=0) * n
    assert (np.diff(scaled) > 0).all()
    np.testing.assert_allclose(scaled, [99, 152, 360], rtol=0.25)


def test_variance_of_the_average_at_large_n():
    """A14, A15: Huber d = 5, eta = .4, alpha = .6, n = 2e5; theory's constants within [.85, 1.3]."""
    n = (200_000,)
    last = {}
    for mechanism in (Gaussian(mu=1.0), Gaussian(mu=2.0), Gaussian(mu_min=1.0, mu=2.0)):
        path = Path(LinearRegression(), mechanism, LdpSgd(gamma=0.6, c=0.4))
        found = followed(path, n, 256)
        h = path.problem.curvature()
        covariance = path.algorithm.step_covariance(path.problem, mechanism)
        limit = strongly_convex.leading_term(h, covariance, 0.0) / n[0]
        last[mechanism] = found("last_sq").mean()
        if mechanism.mu > 1.0:
            assert 0.85 < found("avg_sq").mean() / limit < 1.3
        expected = 0.2 * n[0] ** -0.6 * np.trace(np.linalg.solve(h, covariance))
        assert 0.85 < last[mechanism] / expected < 1.3
    assert last[Gaussian(mu=1.0)] / last[Gaussian(mu=2.0)] == pytest.approx(3.89, rel=0.15)
