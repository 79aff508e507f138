"""Kernels on skewed laws, mixtures and the law of a column, against the literal recursion."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.variance import BatchMeans
from ldpflow.components.mechanisms.laplace import Laplace
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.quantile import MixturePart, Quantile
from ldpflow.numerics import distributions
from ldpflow.simulators import one_pass as running
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.simulator import Cell
from tests import draws
from tests.kernels import uncompiled
from tests.kernels.test_one_pass import SEED, literal_path
from tests.oracles.column_law import example_column

TABLE = column_law(example_column()).text()
MIXTURE = (
    MixturePart(weight=3.0, law="normal", location=-1.0, scale=0.5),
    MixturePart(law="gamma", shape=2.5),
    MixturePart(law="lognormal", shape=0.5, scale=2.0),
)
PROBLEMS = {
    "lognormal": Quantile(tau=0.9, law="lognormal", shape=0.6, scale=3.0),
    "weibull": Quantile(tau=0.3, law="weibull", shape=0.7, location=1.0),
    "pareto": Quantile(tau=0.7, law="pareto", shape=3.0),
    "gamma": Quantile(tau=0.7, law="gamma", shape=2.5),
    "mixture": Quantile(tau=0.7, law="mixture", components=MIXTURE, scale=2.0),
    "empirical": Quantile(tau=0.9, law="empirical", law_table=TABLE),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("run", "name"),
    [
        *((uncompiled.run_path, name) for name in PROBLEMS),
        # A table, and several laws of which one is chosen.
        *((run_path, name) for name in ("gamma", "mixture")),
    ],
)
def test_kernel_is_the_literal_recursion(run, name):
    n = 700 if run is run_path else 300
    problem = PROBLEMS[name]
    scale = 1000.0 if name == "empirical" else 2.0
    path = OnePass(problem, RandomizedResponse(), LdpSgd(c=scale, theta0=scale))
    times = [1, 2, 127, 128, 129, n]
    record = run(path, SEED, range(3, 9), times)
    iterates = literal_path(path, 5, n)
    at = np.array(times) - 1
    np.testing.assert_allclose(record.iterates[:, :, 2], iterates[at], rtol=1e-10)
    S = np.cumsum(iterates - np.array(problem.truth()), axis=0)
    np.testing.assert_allclose(record.prefix_sums[:, :, 2], S[at], rtol=1e-10, atol=1e-9 * scale)


def test_records_of_a_mixture_have_its_law():
    """Kolmogorov and Smirnov on 20,000 records; fails with probability 1e-4 if all is well."""
    problem = PROBLEMS["mixture"]
    path = OnePass(problem, Laplace(), LdpSgd())
    x = problem.location + problem.scale * draws.data(path, SEED, 1, 20_000)[:, 0]
    assert stats.kstest(problem.data_law().cdf_values(x), "uniform").pvalue > 1e-4


def test_a_gamma_table_is_kept_and_a_damaged_one_made_again(folder, monkeypatch):
    made = []
    monkeypatch.setattr(
        distributions, "compute_gamma_table", lambda shape: np.array([made.append(shape) or shape] * 9)
    )
    load = distributions.gamma_table.__wrapped__
    assert load(2.5).tolist() == load(2.5).tolist() == [2.5] * 9 and made == [2.5]
    (file,) = (folder / "kernels").glob("gamma-*.bin")
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    assert load(2.5).tolist() == [2.5] * 9 and made == [2.5, 2.5]


@pytest.mark.parametrize(
    "sampling", ["data", "private_bit", pytest.param("private_bit_32", marks=pytest.mark.thorough)]
)
def test_a_power_of_two_as_unit_scales_every_bit(monkeypatch, sampling):
    """Scale, c and theta0 times a, at equal streams: iterates, sums and limits times a, bit for bit."""
    unit, states = 1 / 8, {}

    def same_states(make):
        def kept(path, *arguments):
            return states.setdefault(make.__name__, make(path, *arguments)).copy()

        return kept

    for name in ("noise_states", "data_states"):
        monkeypatch.setattr(running, name, same_states(getattr(running, name)))

    def run(a):
        problem = Quantile(tau=0.9, location=0.5 * a, scale=2.0 * a)
        mechanism = RandomizedResponse(sampling=sampling)
        path = OnePass(problem, mechanism, LdpSgd(c=1.5 * a, theta0=0.25 * a))
        record = path.run(SEED, range(8), path.needs([Cell(3000, BatchMeans(), 0.9)]))
        return record, BatchMeans().intervals(record, 3000, [0.9])

    (one, plain), (other, scaled) = run(1.0), run(unit)
    assert (other.iterates == unit * one.iterates).all()
    assert (other.prefix_sums == unit * one.prefix_sums).all()
    for limit in ("estimate", "lower", "upper"):
        ours, theirs = (np.asarray(getattr(found, limit)) for found in (scaled, plain))
        assert np.isfinite(theirs).all() and (ours == unit * theirs).all()
