"""Monotone scales: T and its inverse against mpmath, and rows that come back in the unit of the data."""

import numpy as np
import pytest
from mpmath import mp, mpf

import ldpflow as lf
from ldpflow.components.problems.column_law import add_jitter, column_law
from ldpflow.components.problems.transform import forward, inverse, slope
from ldpflow.practice.planning.sources import design
from ldpflow.results.arrival import predict_arrivals
from ldpflow.simulators.approach import approach, limit_law
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import Batch, rows_of, simulate
from ldpflow.simulators.simulator import Cell
from tests.kernels import uncompiled
from tests.problems.files import column_file

EDGES = (0.0, 30.0, 60.0, 300.0, 3600.0)
VALUES = np.array([1e-12, 0.3, 1.0, 29.9, 30.0, 31.0, 100.0, 5000.0, 7e8])
LITERAL = {
    "log1p": (mp.log1p, mp.expm1, lambda y: mp.exp(y)),
    "log": (mp.log, mp.exp, lambda y: mp.exp(y)),
    "sqrt": (mp.sqrt, lambda y: y * y, lambda y: 2 * y),
}


@pytest.mark.parametrize("name", LITERAL)
def test_scales_are_those_of_forty_digits(name):
    there, back, derivative = LITERAL[name]
    with mp.workdps(40):
        y = [float(there(mpf(x))) for x in VALUES]
        assert forward(name, VALUES) == pytest.approx(y, rel=2e-15, abs=0)
        assert inverse(name, y) == pytest.approx([float(back(mpf(v))) for v in y], rel=2e-15, abs=0)
        assert slope(name, y) == pytest.approx([float(derivative(mpf(v))) for v in y], rel=2e-15, abs=0)
    assert forward(name, VALUES.reshape(3, 3)).shape == (3, 3) and inverse(name, 0.5).shape == ()


def test_edges_are_a_piecewise_linear_map_that_goes_on_beyond_its_ends():
    inside = np.linspace(0.0, 3600.0, 1001)
    y = forward(EDGES, inside)
    np.testing.assert_allclose(y, np.interp(inside, EDGES, np.linspace(0, 1, 5)), rtol=0, atol=1e-15)
    assert forward(EDGES, [-30.0, 6900.0]) == pytest.approx([-0.25, 1.25])
    x = np.concatenate([[-100.0, 9000.0], inside])
    np.testing.assert_allclose(inverse(EDGES, forward(EDGES, x)), x, rtol=0, atol=1e-11)
    h = 1e-6
    rise = (inverse(EDGES, [0.1 + h, 0.9 + h, 2 + h]) - inverse(EDGES, [0.1 - h, 0.9 - h, 2 - h])) / (2 * h)
    assert slope(EDGES, [0.1, 0.9, 2.0]) == pytest.approx(rise, rel=1e-6)


@pytest.mark.parametrize(("transform", "low"), [("log1p", np.expm1(-3.0)), (EDGES, -360.0)])
def test_what_is_not_finite_stays_and_the_ends_are_known(transform, low):
    y = np.array([np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(inverse(transform, y), y)
    assert inverse(transform, -3.0) == pytest.approx(low) and forward(transform, low) == pytest.approx(-3.0)
    assert transform == EDGES or inverse(transform, 701.0) == np.inf


@pytest.mark.parametrize(("name", "x", "words"), [("log", 0.0, "> 0"), ("log1p", -1.0, "> -1")])
def test_a_value_without_an_image_is_refused(name, x, words, tmp_path):
    with pytest.raises(lf.InputError, match=f"2 of 3 values are not {words}") as caught:
        forward(name, [5.0, x, x], "pilot")
    assert caught.value.field == "pilot"
    with pytest.raises(lf.InputError, match="1 of 200 values are not") as caught:
        lf.Quantile(law="empirical", file=column_file(tmp_path, [x, *range(1, 200)]), transform=name)
    assert caught.value.field == "problem.transform"


@pytest.mark.parametrize("transform", ["log1p", EDGES])
def test_rows_are_those_of_the_scale_taken_back(tmp_path, monkeypatch, transform):
    """The law is that of T(X + noise); truth and limits come back, the standard error by the derivative."""
    uncompiled.use(monkeypatch)
    values = np.round(np.random.default_rng(3).lognormal(4.0, 1.2, 1000))
    file = column_file(tmp_path, values)
    setting = {"transform": transform} if isinstance(transform, str) else {"edges": transform}
    problem = lf.Quantiles(taus=(0.5, 0.9), law="empirical", file=file, jitter=1.0, **setting)
    law = column_law(forward(transform, add_jitter(values, 1.0)))
    assert problem.law_table == law.text()
    path = OnePass(problem, lf.Cells(epsilon=2.0), lf.LdpSgd(c=law.sparsity(0.5), theta0=law.median))
    cell = Cell(400, lf.SelfNormalization(), 0.9)
    rows = simulate(Batch(path, 1, 0, 3, (cell,)))
    found = rows.rows.to_pandas()
    record = path.run(1, range(3), path.needs((cell,)))
    plain = rows_of(record, (cell,)).to_pandas()
    for name in ("truth", "estimate", "lower", "upper"):
        np.testing.assert_array_equal(found[name], inverse(transform, plain[name]))
    np.testing.assert_allclose(found["length"], found["upper"] - found["lower"])
    assert (found["covered"] == plain["covered"]).all()
    np.testing.assert_allclose(
        found["se"].astype(float), plain["se"].astype(float) * slope(transform, plain["estimate"])
    )
    # The quantile of the values themselves, but for the smoothing of the law and the noise of the users.
    assert found["truth"][0] == pytest.approx(np.quantile(values, 0.5), rel=0.06)
    unscaled = problem.model_copy(update={"transform": None, "edges": None})
    plain_variance = limit_law(OnePass(unscaled, path.mechanism, path.algorithm)).variances[0]
    factor = float(slope(transform, path.truth()[0]))
    assert limit_law(path).variances[0] == pytest.approx(plain_variance * factor**2)


def test_a_skewed_law_has_less_bias_on_a_log_scale(tmp_path):
    """Session lengths of docs/study_files.md, with the steps of a plan at n = 200,000."""
    rng = np.random.default_rng(34)
    tail = np.round(np.exp(rng.normal(np.log(120), 1.2, 2520)))
    file = column_file(tmp_path, np.concatenate([np.zeros(210), np.full(270, 30.0), tail]))
    cases = []
    for transform in (None, "log1p"):
        problem = lf.Quantile(tau=0.9, law="empirical", file=file, jitter=1.0, transform=transform)
        steps = design(problem.data_law(), 0.9, 200_000)
        algorithm = lf.LdpSgd(c=steps.c, gamma=steps.gamma, theta0=steps.theta0)
        cases.append(approach(OnePass(problem, lf.RandomizedResponse(epsilon=1.0), algorithm), 200_000))
    assert [found.bias for found in predict_arrivals(cases)] == pytest.approx((0.67, 0.39), abs=0.006)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"law": "lognormal", "shape": 2.0, "transform": "log"}, "go with law = 'empirical'"),
        ({"law": "empirical", "transform": "log", "edges": (0.0, 1.0)}, "not both"),
        ({"law": "empirical", "edges": (0.0, 1.0, 1.0)}, "edges must increase"),
    ],
)
def test_a_scale_that_does_not_go_with_the_law_is_refused(settings, words):
    with pytest.raises(lf.InputError, match=words):
        lf.Quantile(**settings)
