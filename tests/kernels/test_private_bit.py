"""Private bits drawn directly, from 64 or 32 bits: every report is that of the exact probability."""

import itertools
import math
import struct
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.components.mechanisms.randomized_response import THIRD_DERIVATIVES
from ldpflow.numerics import private_bit
from ldpflow.numerics.streams import CHUNK, LANES
from ldpflow.simulators.one_pass import OnePass, run_path
from tests import draws
from tests.kernels import uncompiled
from tests.kernels.test_one_pass import LEVELS, SEED, compare
from tests.oracles import cells, mechanisms, recursion

LAWS = {
    "normal": stats.norm,
    "logistic": stats.logistic,
    "laplace": stats.laplace,
    "exponential": stats.expon,
    "uniform": stats.uniform,
    "lognormal": partial(stats.lognorm, 1.3),
    "weibull": partial(stats.weibull_min, 1.3),
    "pareto": partial(stats.pareto, 1.3),
}
# With small steps the expansion decides nearly all reports, with large ones hardly any.
STARTS = [(0.0, 0.01), (0.3, 1.0), (3000.0, 2.0), (-1.0, 40.0)]
CASES = [
    # No plain Python of expansions and of bits of words.
    *itertools.product([run_path], THIRD_DERIVATIVES, ("private_bit", "private_bit_32"), STARTS),
    (run_path, "laplace", "private_bit_32", (0.3, 1.0)),
    *(
        (uncompiled.run_path, law, "private_bit", (0.0, 1.0))
        for law in sorted(LAWS.keys() - THIRD_DERIVATIVES)
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("run", "law", "sampling", "start"), CASES)
def test_reports_are_the_literal_recursion(run, law, sampling, start):
    theta0, c = start
    shape = 1.3 if law in ("lognormal", "weibull", "pareto") else None
    problem = lf.Quantile(tau=0.7, law=law, location=0.2, scale=1.5, shape=shape)
    mechanism = lf.RandomizedResponse(epsilon=0.8, sampling=sampling)
    path = OnePass(problem, mechanism, lf.LdpSgd(c=c, theta0=theta0))
    n = 1600 if run is run_path else 300
    times = [1, 2, 200, n - 99, n]
    record = run(path, SEED, range(3), times)
    p = mechanisms.keep_probability(0.8)
    u = draws.noise(path, SEED, 1, n)[:, 0]
    distribution = LAWS[law](0.2, 1.5)
    zero, one = (-0.7 + mechanisms.debias(report, p) for report in (0, 1))

    def private_gradient(i, x, theta):
        return one if u[i - 1] < (1 - p) + (2 * p - 1) * distribution.cdf(theta[0]) else zero

    iterates = recursion.ldp_sgd_path([None] * n, private_gradient, theta0, c, 0.51)
    compare(record, 1, times, iterates, rtol=1e-9)


LOGISTIC = {"law": "logistic", "scale": 0.5}, stats.logistic(scale=0.5), 0.0
WEIBULL = {"law": "weibull", "shape": 0.7, "scale": 2.0}, stats.weibull_min(0.7, scale=2.0), 1.0


@pytest.mark.parametrize(
    ("taus", "settings", "law", "start"),
    [*((taus, *LOGISTIC) for taus in LEVELS.values()), (LEVELS[3], *WEIBULL)],
)
def test_reports_on_several_quantiles_are_the_literal_recursion(taus, settings, law, start):
    problem = lf.Quantiles(taus=taus, **settings)
    path = OnePass(problem, lf.Cells(epsilon=0.8, sampling="private_bit"), lf.LdpSgd(theta0=start))
    record = uncompiled.run_path(path, SEED, range(2), [1, 2, 200])
    uniforms = draws.noise(path, SEED, 1, 200)[:, 0]
    compare(
        record, 1, [1, 2, 200], cells.path_of_reports(law.cdf, uniforms, taus, 0.8, 1.0, 0.51, start), 1e-9
    )


def bits(x):
    return np.uint64(struct.unpack("<Q", struct.pack("<d", x))[0])


def double(word):
    return struct.unpack("<d", struct.pack("<Q", int(word)))[0]


def fraction(half, refined):
    return (half + ((int(bits(refined)) >> 12) + 0.5) * 2.0**-52) * 2.0**-32


@pytest.fixture
def kernel(monkeypatch):
    """Interpreted kernel functions: logistic law, no running sums."""
    interpreted = {"bits_of": bits, "float_of": double, "fraction_of": fraction}
    interpreted |= {"fma": lambda a, b, c: a * b + c, "register_array": np.empty}
    for name, function in interpreted.items():
        monkeypatch.setattr(private_bit, name, function)
    made = SimpleNamespace(SUMS=0, THIRD_DERIVATIVE=0.125, decided=[], judged=[])
    made.cdf = lambda x: 1 / (1 + math.exp(-x))

    def expansion(x):
        f = made.cdf(x)
        return f, f * (1 - f), f * (1 - f) * (1 - 2 * f)

    def stride(*arguments):
        found = private_bit.stride(made, *arguments)
        made.decided.append(found)
        return found

    def judge(*arguments):
        made.judged.append(arguments[6])
        private_bit.judge(made, *arguments)

    made.expansion, made.stride, made.judge = expansion, stride, judge
    made.anchor = partial(private_bit.anchor, made)
    return made


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize(
    "misled", [{}, {(100, 7): "mid"}, {(100, 7): "mid", (127, 8): "mid"}, {(64, 3): "tie"}, {(65, 3): "tie"}]
)
def test_reports_that_the_expansion_would_get_wrong_are_decided_by_the_probability_itself(
    kernel, halves, misled
):
    """U between q and its expansion where ``mid``; with the same 32 bits as q where ``tie``."""
    kernel.HALVES = halves
    p = mechanisms.keep_probability(0.8)
    zero, one = (-0.7 + mechanisms.debias(report, p) for report in (0, 1))
    constants = SimpleNamespace(keep=p, one=one, zero=zero)
    unit = SimpleNamespace(location=0.3, inverse_scale=1.0)
    centre = np.array([0.25])
    start, eta = np.linspace(-1.0, 2.0, LANES), np.full(CHUNK, 2e-3)
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**64, (CHUNK // 2 + 1, LANES), dtype=np.uint64)
    noise = rng.random((CHUNK, LANES))
    theta, total = start, np.zeros(LANES)
    reports = np.empty((CHUNK, LANES), dtype=bool)
    for k in range(CHUNK):
        for lane in range(LANES):
            a, h = start[lane] - 0.3, theta[lane] - start[lane]
            q = (1 - p) + (2 * p - 1) * kernel.cdf(theta[lane] - 0.3)
            f, density, change = kernel.expansion(a)
            expansion = (1 - p) + (2 * p - 1) * (f + h * (density + h * change / 2))
            if (k, lane) in misled:
                assert abs(expansion - q) > 1e-8 or misled[k, lane] == "tie"
                u = (q + expansion) / 2 if misled[k, lane] == "mid" else q
                noise[k, lane] = u if misled[k, lane] == "mid" else np.nextafter(q, 0.0)
                keep, place = (0xFFFFFFFF, 32) if k % 2 == 0 else (0xFFFFFFFF00000000, 0)
                half = int(u * 2**32)
                words[k // 2, lane] = (int(words[k // 2, lane]) & keep) | (half << place)
                # The refining word says on which side of q the uniform lies.
                if misled[k, lane] == "tie":
                    words[-1, lane] = int((u * 2**32 - half) * 0.9 * 2**52) << 12
            if halves:
                half = int(words[k // 2, lane]) >> (32 if k % 2 == 0 else 0) & 0xFFFFFFFF
                noise[k, lane] = fraction(half, double(words[-1, lane]))
            reports[k, lane] = noise[k, lane] < q
        theta = theta - eta[k] * np.where(reports[k], one, zero)
        total += theta - centre[0]
    drawn = words.view(np.float64).reshape(-1) if halves else noise.reshape(-1)
    moved, summed, anchors = start.copy(), np.zeros(LANES), np.empty(4 * LANES)
    left = 0
    for first, last in ((0, 37), (37, 96), (96, CHUNK)):  # where a record is kept
        left = private_bit.walk(
            kernel, moved, summed, np.empty(1), drawn, eta, anchors, left, first, last, centre, unit,
            constants,
        )  # fmt: skip
    np.testing.assert_array_equal(moved, theta)
    np.testing.assert_array_equal(summed, total)
    assert all(k in kernel.judged for k, _ in misled)
    assert any(kernel.decided)


def test_reports_far_from_the_centre_and_of_an_undefined_theta_are_judged(kernel):
    kernel.HALVES = False
    p = mechanisms.keep_probability(0.8)
    constants = SimpleNamespace(keep=p, one=1.0, zero=-1.0)
    unit = SimpleNamespace(location=0.0, inverse_scale=1.0)
    kernel.cdf = lambda x: float(x > 0)
    kernel.expansion = lambda x: (float(x > 0), 0.0, 0.0)
    for place in (300.0, math.nan, math.inf):
        kernel.decided.clear()
        theta = np.zeros(LANES)
        theta[9] = place
        noise, eta = np.full(CHUNK * LANES, 0.4), np.full(CHUNK, 1e-3)
        with np.errstate(invalid="ignore"):
            private_bit.walk(
                kernel, theta, np.zeros(LANES), np.empty(1), noise, eta, np.empty(4 * LANES), 0, 0, 8,
                np.zeros(1), unit, constants,
            )  # fmt: skip
        assert kernel.decided and not any(kernel.decided)
