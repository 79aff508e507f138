"""Steps, starts and ``units`` of quantiles: what a study may give, and what it means.

A study in multiples of a unit has the paths of one in the unit of the data.
"""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.simulators import one_pass
from ldpflow.simulators.approach import approach
from ldpflow.study import Study
from tests.kernels import uncompiled
from tests.studies import changed

PLAIN = changed(
    seed=1, replicates=8, mechanism__epsilon=1.0, grid={"n": 20_000}, method={"kind": "SN"},
    problem={"kind": "quantile", "tau": 0.9, "law": "exponential", "scale": 31.4},
    algorithm={"kind": "ldp_sgd", "c": 32.0, "theta0": 48.5, "radius": 640.0},
)  # fmt: skip


def study(units=None, **tables):
    given = PLAIN | tables
    if units is not None:
        given["problem"] = given["problem"] | {"units": units}
    return Study.from_mapping(given)


def quartiles(units=None, **algorithm):
    tables = {"problem": {"kind": "quantiles", "taus": [0.1, 0.5, 0.9]}, "mechanism": {"kind": "cells"}}
    tables["mechanism"]["epsilon"] = 1.0
    return study(units, **tables, algorithm={"kind": "ldp_sgd"} | algorithm)


def test_paths_are_those_of_the_same_numbers_in_the_unit_of_the_data():
    given = {"kind": "ldp_sgd", "c": 0.5, "theta0": 0.75, "radius": 10.0}
    (own,) = study({"location": 0.5, "scale": 64.0}, algorithm=given).simulators()
    (plain,) = study().simulators()
    assert own.algorithm == plain.algorithm and own.problem == plain.problem
    assert own.key == plain.key and own.data_key() == plain.data_key()
    assert own.columns() == plain.columns()


@pytest.mark.parametrize(
    ("kind", "algorithm", "expected"),
    [
        ("quantile", {"kind": "minibatch_sgd", "c": 0.5}, {"c": 2.0, "theta0": 1.0}),
        ("quantile", {"kind": "budget_split", "theta0": 2.0}, {"c": 4.0, "theta0": 9.0}),
        ("quantiles", {"kind": "ldp_sgd", "c": 3.0}, {"c": 12.0, "theta0": 1.0, "radius": None}),
    ],
)
def test_every_algorithm_of_quantiles(kind, algorithm, expected):
    tables = {"problem": {"kind": kind}, "algorithm": algorithm, "mechanism": {"kind": "none"}}
    (found,) = study({"location": 1.0, "scale": 4.0}, **tables).simulators()
    assert {name: getattr(found.algorithm, name) for name in expected} == expected


def test_a_study_with_units_reads_back():
    whole = study({"scale": 4.0})
    assert "units = { location = 0.0, scale = 4.0 }" in whole.to_toml()
    again = Study.from_toml(whole.to_toml())
    assert again == whole and again.hash() == whole.hash() != study().hash()


def test_several_units_are_an_axis_but_no_path_comes_twice():
    algorithm = {"kind": "ldp_sgd", "c": [1.0, 2.0]}
    both = study([{"scale": 1.0}, {"scale": 4.0}], algorithm=algorithm).simulators()
    assert [path.algorithm.c for path in both] == [1.0, 2.0, 4.0, 8.0]
    with pytest.raises(lf.InputError, match="simulated twice"):
        study([{"scale": 1.0}, {"scale": 2.0}], algorithm=algorithm)


def test_a_list_in_a_list_is_one_value_for_each_quantile():
    found = quartiles(c=[[0.5, 1.0, 2.0]], theta0=[[-1.0, 0.0, 1.0]])
    (simulator,) = found.simulators()
    assert simulator.algorithm == lf.LdpSgd(c=(0.5, 1.0, 2.0), theta0=(-1.0, 0.0, 1.0))
    assert simulator.algorithm.step_factors() == (0.5, 1.0, 2.0)
    assert simulator.algorithm.start(3) == (-1.0, 0.0, 1.0)
    assert Study.from_mapping(found.settings()).simulators() == [simulator]
    assert [path.algorithm.c for path in quartiles(c=[0.5, 1.0, 2.0]).simulators()] == [0.5, 1.0, 2.0]
    several = quartiles(c=[[0.5, 1.0, 2.0], [1.0, 1.0, 1.5]], theta0=0.5).simulators()
    assert [s.algorithm.step_factors() for s in several] == [(0.5, 1.0, 2.0), (1.0, 1.0, 1.5)]
    assert several[0].algorithm.start(3) == (0.5, 0.5, 0.5)
    (own,) = quartiles(
        {"location": 10.0, "scale": 3.0}, c=[[0.5, 1.0, 2.0]], theta0=[[-1.0, 0.0, 1.0]]
    ).simulators()
    assert own.algorithm.start(3) == (7.0, 10.0, 13.0) and own.algorithm.c == 3.0
    # Keys of paths without them stay.
    (plain,) = quartiles(c=2.0).simulators()
    assert plain.algorithm.key_settings() == {"kind": "ldp_sgd", "c": 2.0}


def test_relaxation_times_follow_the_coordinate():
    once, twice = (
        quartiles(c=[[1.0, 1.0, factor]], theta0=[[-1.0, 0.0, 1.0]]).simulators()[0] for factor in (1.0, 2.0)
    )
    method = lf.TranscriptRegression(degree=1)
    with mock.patch.object(one_pass, "one_pass_kernel", uncompiled.one_pass_kernel):
        record = lf.simulate(twice, 1, range(2), [100], [method])
    found = method.intervals(record, 100, [0.9]).diagnosis["relaxation_times"]
    other = method.intervals(replace(record, source=once), 100, [0.9]).diagnosis["relaxation_times"]
    np.testing.assert_allclose(found, other * np.array([1.0, 1.0, 2.0])[:, None], rtol=1e-12)
    own, plain = (approach(path, 400, 2) for path in (twice, once))
    assert (own.c, own.theta0) == (2.0, 1.0) and replace(own, c=plain.c) == plain


@pytest.mark.parametrize(
    ("units", "tables", "field"),
    [
        ({"scale": 0.0}, {}, "problem.units"),
        ({"size": 1.0}, {}, "problem.units"),
        (4.0, {}, "problem.units"),
        ({"scale": 1e-100}, {"algorithm": {"kind": "ldp_sgd", "c": 1e-300}}, "algorithm.c"),
        ({"scale": 2.0}, {"problem": {"kind": "linear_regression"}}, "problem.units"),
        # Protocols have no steps.
        (
            {"scale": 2.0},
            {"protocol": {"kind": "rounds", "epsilon": 1.0, "range": [0.0, 9.0]}},
            "problem.units",
        ),
    ],
)
def test_units_that_are_refused(units, tables, field):
    with pytest.raises(lf.InputError) as caught:
        study(units, **tables)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"c": [[1.0, 2.0]]}, "c has 2 values, but the problem does not have as many quantiles"),
        ({"theta0": [[0.0, 1.0, 2.0, 3.0]]}, "theta0 has 4 values"),
        ({"theta0": [[1.0, 0.0, 2.0]]}, "the starts of several quantiles must not decrease"),
        ({"c": [[1.0, -2.0, 1.0]]}, "algorithm.c: [1.0, -2.0, 1.0] is not allowed"),
        ({"c": [1.0, [1.0, 2.0, 1.0]]}, "algorithm.c: [1.0, 2.0, 1.0] is not allowed"),
        ({"c": [[1.0, 2.0, 1.0]], "c_factors": [1.0, 1.0, 1.0]}, "given once, as c or as c_factors"),
    ],
)
def test_lists_that_are_refused(settings, said):
    with pytest.raises(lf.InputError) as caught:
        quartiles(**settings).simulators()
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300
