"""Columns whose ties are kept: records drawn with replacement, and a law that jumps."""

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.problems.column_law import Records, add_jitter
from ldpflow.components.protocols.collections import edge_cdf
from ldpflow.simulators.counts import Counts
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell
from tests import draws
from tests.kernels import uncompiled
from tests.problems.files import column_file

VALUES = np.repeat([0.0, 1.0, 2.5, 7.0], [30, 25, 40, 105])


def tied(folder, **settings):
    return lf.Quantile(law="empirical", file=column_file(folder, VALUES), ties="keep", **settings)


def test_the_law_is_that_of_the_records(tmp_path):
    for tau, value in ((0.1, 0.0), (0.15, 0.0), (0.16, 1.0), (0.475, 2.5), (0.5, 7.0), (0.99, 7.0)):
        assert tied(tmp_path, tau=tau).truth() == (value,)
    law = tied(tmp_path).data_law()
    found = law.cdf_values(np.array([-1.0, 0.0, 2.4, 2.5, 7.0]))
    assert found.tolist() == [0.0, 0.15, 0.275, 0.475, 1.0]
    assert np.isnan(tied(tmp_path).curvature()).all() and tied(tmp_path).quantile_target() is None
    edges = np.array([0.0, 2.5, 5.0, 10.0])
    assert edge_cdf(law, edges).tolist() == [0.0, 0.475, 0.475, 1.0]


def test_a_stored_law_is_the_law(tmp_path):
    """The run has the values and counts, not the file; noise and scale are made from them again."""
    for settings in ({}, {"jitter": 1.0}, {"jitter": 0.5, "transform": "log1p"}):
        problem = tied(tmp_path, **settings)
        again = lf.Quantile.model_validate(problem.key_settings())
        assert again.data_law() == problem.data_law() and again.truth() == problem.truth()
    noisy = tied(tmp_path, jitter=1.0).data_law()
    assert noisy.variate.law.table.sampling_table().tolist() == np.sort(add_jitter(VALUES, 1.0)).tolist()
    with pytest.raises(ValueError, match="not those of the values"):
        Records.of_text("0 0x1.0p+0 5 0x0.0p+0 3", None, None)


@pytest.mark.thorough
def test_records_are_drawn_with_replacement_in_equal_bits(tmp_path):
    problem = tied(tmp_path, tau=0.4)
    path = OnePass(problem, lf.RandomizedResponse(), lf.LdpSgd(theta0=2.0))
    times, sums = [1, 2, 300], ["self_normalization"]
    plain, compiled = (run(path, 3, range(4), times, times, sums) for run in (uncompiled.run_path, run_path))
    assert plain.iterates.tobytes() == compiled.iterates.tobytes()
    drawn = draws.data(path, 3, 0, 20_000)[:, 0]
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [0.0, 1.0, 2.5, 7.0]
    shares = np.array([30, 25, 40, 105]) / 200
    # Chi-squared with 3 degrees of freedom: above 21 with probability 1e-4.
    assert ((counts - 20_000 * shares) ** 2 / (20_000 * shares)).sum() < 21


def test_rows_and_counts_at_an_atom(tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    problem = tied(tmp_path, tau=0.4)
    cells = (Cell(400, lf.SelfNormalization(), 0.9), Cell(400, lf.Oracle(), 0.9))
    path = OnePass(problem, lf.RandomizedResponse(), lf.LdpSgd(theta0=2.0))
    rows = simulate(Batch(path, 1, 0, 2, cells)).rows
    assert rows["truth"].to_pylist() == [2.5] * 4
    assert rows["status"].to_pylist() == ["ok", "undefined"] * 2
    several = lf.Quantiles(taus=(0.2, 0.4), law="empirical", law_table=problem.law_table, ties="keep")
    other = OnePass(several, lf.Cells(), lf.LdpSgd())
    assert other.run(1, range(2), other.needs(cells[:1])).truth.tolist() == [1.0, 2.5]
    counts = Counts(problem, lf.Grr(epsilon=2.0, range=(0.0, 8.0), k=4), 5000)
    assert counts.derived()["efficient_se"] is None
    parts = {"problem": problem, "protocol": lf.Rounds(epsilon=1.0, range=(0.0, 8.0))}
    with pytest.raises(lf.InputError, match="a smooth law, for rounds"):
        next(Counts.of_study(parts, (5000,), False))


def test_what_is_no_column_with_ties_is_refused(tmp_path):
    with pytest.raises(lf.InputError, match="go with law = 'empirical'"):
        lf.Quantile(ties="keep")
    file = column_file(tmp_path, np.arange(5000) / 7)
    with pytest.raises(lf.InputError, match="It has 5,000 values in 5,000 records") as caught:
        lf.Quantile(law="empirical", file=file, ties="keep")
    assert caught.value.field == "problem.ties"


@pytest.mark.thorough
def test_the_bias_of_the_average_at_an_atom(tmp_path):
    """F jumps from .3 to .7 over tau = .45: the formula of docs/ties.md, and SN's interval misses the atom.

    A bias has a standard error of 2%; the formula is that of small gaps.
    """
    file = column_file(tmp_path, np.repeat([-1000, 0, 1000], [60, 80, 60]))
    problem = lf.Quantile(tau=0.45, law="empirical", file=file, ties="keep")
    path = OnePass(problem, lf.RandomizedResponse(epsilon=1.0), lf.LdpSgd(c=30.0))
    n, c, gamma = 100_000, 30.0, path.algorithm.gamma
    rows = simulate(Batch(path, 1, 0, 320, (Cell(n, lf.SelfNormalization(), 0.9),))).rows.to_pandas()
    step = c * n**-gamma / (1.0 - gamma)
    below, above, noise = 0.45 - 0.3, 0.7 - 0.45, np.exp(1) / (np.exp(1) - 1) ** 2
    side = {below: 0.3 * 0.7 + noise, above: 0.7 * 0.3 + noise}
    size = side[above] / above**2 - side[below] / below**2
    expected = step / 2 * size / (1 / above + 1 / below)
    assert rows["estimate"].mean() == pytest.approx(expected, rel=0.15) and expected < 0
    assert rows["covered"].mean() < 0.7
