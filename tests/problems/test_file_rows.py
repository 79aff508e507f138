"""Regressions on the rows of a file: theta*, G, S and draws against literal NumPy, and what is refused."""

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.problems.laws import Variate
from ldpflow.simulators.one_pass import OnePass
from tests import draws
from tests.kernels import uncompiled
from tests.oracles import gaussian_sgd, recursion
from tests.studies import changed

SIZE = 300


def data(seed=1, size=SIZE):
    """Two columns, one of them constant, a skewed response with outliers and a bit."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(size), rng.gamma(2.0, 1.0, size)])
    y = 1.0 - 0.5 * x[:, 1] + rng.standard_t(2, size)
    bit = (rng.random(size) < 1 / (1 + np.exp(1.0 - x[:, 1]))).astype(float)
    return x, y, bit


def written(tmp_path, x, y, bit, name="rows.csv"):
    file = tmp_path / name
    lines = ["one,age,y,yes", *(",".join(map(repr, row)) for row in np.column_stack([x, y, bit]).tolist())]
    file.write_text("\n".join(lines) + "\n")
    return str(file)


LINEAR = {"target": "y", "features": ("one", "age")}
LOGISTIC = {"target": "yes", "features": ("one", "age")}
CASES = {
    "huber": (lf.LinearRegression, {**LINEAR, "huber": 1.0}, (1.0,)),
    "logistic": (lf.LogisticRegression, LOGISTIC, ()),
}


def case(name, tmp_path):
    kind, settings, constants = CASES[name]
    x, y, bit = data()
    problem = kind(file=written(tmp_path, x, y, bit), **settings)
    huber = kind is lf.LinearRegression
    literal = gaussian_sgd.huber_gradient if huber else gaussian_sgd.logistic_gradient
    return problem, x, y if huber else bit, lambda x, y, theta: literal(x, y, theta, *constants)


@pytest.mark.parametrize("name", CASES)
def test_moments_are_those_of_the_rows(tmp_path, name):
    problem, x, y, gradient = case(name, tmp_path)

    def mean_gradient(theta):
        return np.mean([gradient(a, b, theta) for a, b in zip(x, y, strict=True)], axis=0)

    theta = np.array(problem.truth())
    assert np.abs(mean_gradient(theta)).max() < 1e-12
    G, S = np.array(problem.curvature()), np.array(problem.gradient_covariance())
    step = 1e-7
    slopes = [
        (mean_gradient(theta + step * e) - mean_gradient(theta - step * e)) / (2 * step) for e in np.eye(2)
    ]
    np.testing.assert_allclose(G, np.array(slopes).T, rtol=1e-5, atol=1e-7)
    g = np.array([gradient(a, b, theta) for a, b in zip(x, y, strict=True)])
    np.testing.assert_allclose(S, g.T @ g / SIZE, rtol=1e-9, atol=1e-12)
    bound = np.linalg.norm(g, axis=1).max()
    assert bound <= problem.gradient_bound() * (1 + 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_draws_are_rows_with_replacement(tmp_path, name):
    """The literal recursion on row floor(u N) of every user, u the uniforms of the data stream."""
    problem, x, y, gradient = case(name, tmp_path)
    path = OnePass(problem, lf.Laplace(epsilon=2.0), lf.LdpSgd(c=0.3))
    n = 150  # more than a chunk
    record = uncompiled.run_path(path, 7, range(3), [1, 2, 100, n])
    u = draws.planes(7, "data", path.data_key(), 1, [Variate("uniform")], n)[:, 0]
    chosen = [int(v * SIZE) for v in u]
    noise = draws.noise(path, 7, 1, n)
    scale = problem.l1_sensitivity() / 2.0

    def private_gradient(i, row, theta):
        return gradient(x[row], y[row], theta) + scale * noise[i - 1]

    iterates = recursion.ldp_sgd_path(chosen, private_gradient, np.zeros(2), 0.3, 0.51)
    np.testing.assert_allclose(record.iterates[:, :, 1], iterates[[0, 1, 99, n - 1]], rtol=1e-8, atol=1e-9)


def test_a_study_is_read_without_its_file(tmp_path):
    file = written(tmp_path, *data())
    settings = {"kind": "logistic_regression", "file": file, **LOGISTIC, "features": [["one", "age"]]}
    others = {"mechanism": {"kind": "none"}, "method": [{"kind": "oracle"}], "grid": {"n": 200}}
    chosen = lf.Study.from_mapping(changed(problem=settings, algorithm={"kind": "ldp_sgd"}, **others))
    (tmp_path / "rows.csv").unlink()
    assert lf.Study.from_toml(chosen.to_toml()).hash() == chosen.hash()


def test_a_changed_file_is_refused(tmp_path):
    x, y, bit = data()
    file = written(tmp_path, x, y, bit)
    problem = lf.LogisticRegression(file=file, **LOGISTIC)
    known = {"sha256": problem.sha256, "moments": problem.moments}
    written(tmp_path, x, y, 1.0 - bit)
    stored = lf.LogisticRegression(file=file, **LOGISTIC, **known)
    with pytest.raises(lf.InputError, match="has changed"):
        stored.table()


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        (lambda x, y, b: (x[:32], y[:32], b[:32]), {}, "more than 32 records for 2 columns"),
        (lambda x, y, b: (np.column_stack([x[:, 0], 3 * x[:, 0]]), y, b), {}, "none of which follows"),
        (lambda x, y, b: (x, y, (x[:, 1] > 2.0).astype(float)), {}, "one root"),
        (lambda x, y, b: (x, y, np.zeros(len(b))), {}, "two different values"),
        (lambda x, y, b: (x, y, b), {"coefficients": (1.0, 2.0)}, "coefficients of its own|own coefficients"),
        (lambda x, y, b: (x, y, b), {"covariates": "one"}, "no file"),
        (lambda x, y, b: (x, y, b), {"bounding": "clip", "clip": 0.5}, "has no file"),
        (lambda x, y, b: (x, y, b), {"target": None}, "needs target"),
        (lambda x, y, b: (x, y, b), {"moments": "1 2 3", "sha256": "0" * 64}, "not theta*"),
        (lambda x, y, b: (x, y, b), {"moments": "40 1 nan 0x1p0 0x1p0", "sha256": "0" * 64}, "not theta*"),
    ],
)
def test_refused(tmp_path, change, settings, words):
    file = written(tmp_path, *change(*data()))
    with pytest.raises((lf.InputError, ValueError), match=words):
        lf.LogisticRegression(**{"file": file, **LOGISTIC, **settings})


def test_settings_of_a_file_need_one():
    for settings in ({"target": "y"}, {"features": ("a",)}, {"sha256": "0" * 64}, {"moments": "1 1"}):
        with pytest.raises((lf.InputError, ValueError), match="file"):
            lf.LinearRegression(**settings)
