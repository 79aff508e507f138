"""Clients: exact probabilities against the protocol classes, exact noise, test vectors in two languages."""

import importlib.util
import itertools
import math
import random
import shutil
import subprocess
from collections import Counter
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy import stats

import ldpflow as lf
from ldpflow import client
from ldpflow.components.problems.transform import forward
from ldpflow.components.protocols import PROTOCOLS
from ldpflow.practice.audit.bundled import CLIENTS, audit, audit_client

FOLDER = Path(__file__).parents[1] / "docs" / "clients"
RANGE = (0.0, 1.0)


class NextDraw(Exception):
    pass


def law_of(function, *arguments):
    """Exact probabilities of all reports, by every sequence of uniform integers."""
    found, waiting = Counter(), [()]
    while waiting:
        path = waiting.pop()
        chosen, chance = iter(path), Fraction(1)

        def draw(limit, chosen=chosen):
            nonlocal chance
            chance /= limit
            for u in chosen:
                return u
            raise NextDraw(limit)

        try:
            found[function(*arguments, draw=draw)] += chance
        except NextDraw as more:
            waiting += [(*path, u) for u in range(more.args[0])]
    assert sum(found.values()) == 1
    return found


@pytest.fixture
def coarse(monkeypatch):
    """Weights of a few units, so that every integer can be tried; the epsilon that they stand for."""
    client.odds.cache_clear()
    monkeypatch.setattr(client, "ONE", 4)
    yield math.log(client.odds(1.0) / 4)
    client.odds.cache_clear()


def same(found, expected):
    assert dict(found) == pytest.approx(expected, rel=1e-12)


def test_bits_and_cells_have_the_probabilities_of_the_mechanisms(coarse):
    keep = lf.RandomizedResponse(epsilon=coarse).kernel_parameters(lf.Quantile())["keep"]
    for value, theta, bit in ((0.3, 0.3, 1), (0.4, 0.3, 0)):
        for function in (client.rr_sgd, client.rounds):
            same(law_of(function, value, theta, 1.0), {bit: keep, 1 - bit: 1 - keep})
    problem = lf.Quantiles(taus=(0.2, 0.5, 0.8))
    keep = lf.Cells(epsilon=coarse).kernel_parameters(problem)["keep"]
    for value, cell in ((-1.0, 0), (0.0, 0), (0.1, 1), (9.0, 3)):
        law = law_of(client.cells, value, [0.0, 1.0, 2.0], 1.0)
        same(law, {j: keep if j == cell else (1 - keep) / 3 for j in range(4)})


def one_shot(name, coarse, k, j):
    protocol = PROTOCOLS[name](epsilon=coarse, range=RANGE, k=k)
    cdf = (np.arange(k + 1) > j).astype(float)
    return protocol.budget(), protocol.design(cdf, 1), (j + 0.5) / k


@pytest.mark.parametrize("j", [0, 3, 6, 7])
def test_bits_of_one_shot_protocols_have_their_probabilities(coarse, j):
    k = 8
    for name in ("thresholds", "hrr", "haar"):
        budget, design, value = one_shot(name, coarse, k, j)
        ones = design.chances if name != "thresholds" else budget.flip + budget.gap * design.cdf
        rows = np.full(k - 1, 1 / (k - 1))
        if name == "haar":  # a level, then a row of it
            rows = np.concatenate([np.full(2**level, 1 / 3 / 2**level) for level in range(3)])
        expected = {(q + 1, bit): rows[q] * abs(1 - bit - ones[q]) for q in range(k - 1) for bit in (0, 1)}
        function = getattr(client, name)
        same(law_of(function, value, 1.0, *RANGE, k), expected)
        law = law_of(function, value, 1.0, *RANGE, k, 5)  # asked by the server
        assert law[5, 1] == pytest.approx(ones[4], rel=1e-12)


@pytest.mark.parametrize("j", [0, 2])
def test_bins_and_unary_encodings_have_their_probabilities(coarse, j):
    _, design, value = one_shot("grr", coarse, 5, j)
    same(law_of(client.grr, value, 1.0, *RANGE, 5), dict(enumerate(design.chances.tolist())))
    budget, _, value = one_shot("oue", coarse, 4, j)

    def chance(bits, node):
        ones = [0.5 if i == node else budget.flip for i in range(len(bits))]
        return math.prod(p if bit == "1" else 1 - p for bit, p in zip(bits, ones, strict=True))

    texts = list(map("".join, itertools.product("01", repeat=4)))
    same(law_of(client.oue, value, 1.0, *RANGE, 4), {bits: chance(bits, j) for bits in texts})
    value = (4 * j + 1.5) / 16
    same(law_of(client.tree, value, 1.0, *RANGE, 16, 1), {(1, bits): chance(bits, j) for bits in texts})
    level, bits = client.tree(value, 30.0, *RANGE, 16, 2, draw=lambda limit: limit - 1)
    assert level == 2 and bits.index("1") == 4 * j + 1 and bits.count("1") == 1


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, Fraction(1, 3), 2.5, 16.0, 30.0])
def test_the_weight_of_the_true_answer_is_exact(epsilon):
    with mpmath.mp.workdps(80):
        exact = Fraction(epsilon)
        x = mpmath.mpf(exact.numerator) / exact.denominator
        assert client.odds(epsilon) == int(mpmath.floor(2**64 * mpmath.exp(x)))
        assert 0 <= x - mpmath.log(mpmath.mpf(client.odds(epsilon)) / 2**64) < mpmath.mpf(2) ** -64


def test_values_outside_the_range_and_at_edges():
    assert [client.find_bin(x, 0.0, 8.0, 8) for x in (-5.0, 0.0, 1.0, 1.1, 7.5, 8.0, math.inf)] == [
        0, 0, 0, 1, 7, 7, 7,
    ]  # fmt: skip
    edges = PROTOCOLS["grr"](epsilon=1.0, range=(-0.3, 1.1), k=37).edges(37)
    bins = [client.find_bin(edge, -0.3, 1.1, 37) for edge in edges.tolist()]
    assert bins[1:] == list(range(37))
    with pytest.raises(ValueError, match="value"):
        client.grr(math.nan, 1.0, 0.0, 1.0, 4)
    for epsilon in (0.0, -1.0, 31.0):
        with pytest.raises(ValueError, match="epsilon"):
            client.rr_sgd(0.0, 0.0, epsilon)


def chi_square(values, probability):
    """p-value of 40,000 whole numbers, the tails pooled."""
    counts, inner = Counter(values), range(-12, 13)
    found = [counts[x] for x in inner]
    expected = [len(values) * probability(x) for x in inner]
    tails = [len(values) - sum(each) for each in (found, expected)]
    return stats.chisquare([*found, tails[0]], [*expected, tails[1]]).pvalue


def test_noise_has_its_law():
    """Chi-square at 1e-4, with fixed seeds; two laws, both with a fraction in their parameter."""
    draw = random.Random(5).randrange
    a = math.exp(-2 / 7)
    found = [client.discrete_laplace(7, 2, draw) for _ in range(40_000)]
    assert chi_square(found, lambda x: (1 - a) / (1 + a) * a ** abs(x)) > 1e-4
    weights = {x: math.exp(-x * x / (2 * 19 / 3)) for x in range(-60, 61)}
    total = sum(weights.values())
    found = [client.discrete_gaussian(19, 3, draw) for _ in range(40_000)]
    assert chi_square(found, lambda x: weights[x] / total) > 1e-4


def test_noise_is_as_large_as_that_of_the_mechanisms(monkeypatch):
    """In steps of the grid of clip/2^20; a quantile's gradient has sensitivity 1 = 2 clip."""
    asked = []
    monkeypatch.setattr(client, "discrete_laplace", lambda t, s, draw: asked.append(Fraction(t, s)) or 0)
    monkeypatch.setattr(client, "discrete_gaussian", lambda n, d, draw: asked.append(Fraction(n, d)) or 0)
    assert client.laplace([0.25, -0.125], 0.7, 0.5) == [0.25, -0.125]
    assert client.gaussian([3.0, -4.0], 1.3, 2.0) == pytest.approx([1.2, -1.6], abs=1e-5)
    scale = lf.Laplace(epsilon=0.7).scale(lf.Quantile(tau=0.5))
    deviation = lf.ClippedGaussian(mu=1.3, clip=2.0).kernel_parameters(lf.Quantile(tau=0.5))["deviation"]
    assert float(asked[0] * Fraction(0.5) / 2**20) == pytest.approx(scale, rel=1e-15)
    assert math.sqrt(asked[2]) * 2.0 / 2**20 == pytest.approx(deviation, rel=1e-15)
    assert client.laplace([math.inf, 0.1], 1.0, 1.0) == [0.0, 0.0]


def test_clipped_gradients_are_within_the_bound_exactly(monkeypatch):
    rng = np.random.default_rng(3)
    kept = []
    monkeypatch.setattr(client, "discrete_laplace", lambda t, s, draw: 0)
    monkeypatch.setattr(client, "discrete_gaussian", lambda n, d, draw: 0)
    for _ in range(300):
        gradient = (rng.normal(size=5) * 10.0 ** rng.integers(-3, 12)).tolist()
        for function, order in ((client.laplace, 1), (client.gaussian, 2)):
            kept = [Fraction(x) * 2**20 for x in function(gradient, 1.0, 1.0)]
            assert all(x.denominator == 1 for x in kept)
            assert sum(abs(x) ** order for x in kept) <= (2**20) ** order


@pytest.mark.parametrize("sigma", [4.0, 50.0])
def test_discrete_gaussian_noise_is_nearly_rounded_gaussian_noise(sigma):
    """Total variation at most 1/(32 sigma^2), which makes the distance that the docstring states."""
    x = np.arange(-int(12 * sigma), int(12 * sigma) + 1)
    discrete = np.exp(-(x**2) / (2 * sigma**2))
    rounded = stats.norm.cdf((x + 0.5) / sigma) - stats.norm.cdf((x - 0.5) / sigma)
    distance = 0.5 * np.abs(discrete / discrete.sum() - rounded).sum()
    assert 0.5 / (32 * sigma**2) < distance < 1 / (32 * sigma**2)


def test_reports_are_drawn_from_the_system(monkeypatch):
    monkeypatch.setattr(random, "random", None)
    assert len({tuple(client.laplace([0.0], 1.0, 1.0)) for _ in range(20)}) > 10
    assert client.SYSTEM.__self__.__class__ is random.SystemRandom


def test_the_vectors_are_those_of_the_functions():
    spec = importlib.util.spec_from_file_location("make_vectors", FOLDER / "make_vectors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.text() == (FOLDER / "vectors.json").read_text()
    assert {name for name, _ in module.cases()} == {"odds", "jitter", "to_scale", *client.REPORTS}


@pytest.mark.parametrize("transform", ["log1p", "log", "sqrt", (0.0, 30.0, 60.0, 3600.0)])
def test_the_scale_of_a_device_is_that_of_the_design(transform):
    values = [1e-9, 0.3, 29.0, 30.0, 61.0, 3600.0, 1e6]
    assert [client.to_scale(v, transform) for v in values] == pytest.approx(
        forward(transform, values), rel=1e-14
    )
    if transform in ("log", "log1p"):
        with pytest.raises(ValueError, match="."):
            client.to_scale(-2.0, transform)


def test_jitter_is_uniform_and_moves_no_value_by_more_than_half_its_width():
    assert client.jitter(5.0, 2.0, draw=lambda limit: 0) == 4.0 + 2.0**-52
    assert client.jitter(5.0, 2.0, draw=lambda limit: limit - 1) == 6.0 - 2.0**-52
    seeded = random.Random(1)
    moved = [client.jitter(7.0, 1.0, seeded.randrange) - 7.0 for _ in range(20_000)]
    assert np.abs(moved).max() <= 0.5 and stats.kstest(np.add(moved, 0.5), "uniform").pvalue > 1e-4


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_client_in_javascript_passes_the_vectors():
    done = subprocess.run(["node", FOLDER / "check_vectors.mjs"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "settings"), CLIENTS)
def test_every_client_keeps_its_claim(name, settings, monkeypatch):
    """At confidence .999 and a fixed seed; with twice the budget the audit fails."""
    samples = 2000 if name in ("tree", "laplace", "gaussian") else 5000
    found = audit_client(name, settings, samples)
    assert found.passed and found.bound > 0.45 * found.claim, found
    function = client.REPORTS[name]
    budget = "mu" if "mu" in settings else "epsilon"

    def eager(*arguments, **named):
        return function(*arguments, **named | {budget: 2.0 * named[budget]})

    monkeypatch.setitem(client.REPORTS, name, eager)
    assert not audit_client(name, settings, samples).passed


def test_all_clients_are_audited():
    assert {name for name, _ in CLIENTS} == client.REPORTS.keys()
    with pytest.raises(lf.InputError, match="client:grr"):
        audit("client:gr", {})
