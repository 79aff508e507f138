"""``units`` of a problem: a study in multiples of a unit has the paths of one in the unit of the data."""

from __future__ import annotations

import pytest

import ldpflow as lf
from ldpflow.study import Study
from tests.studies import changed

PLAIN = changed(
    seed=1, replicates=8, mechanism__epsilon=1.0, grid={"n": 20_000}, method={"kind": "SN"},
    problem={"kind": "quantile", "tau": 0.9, "law": "exponential", "scale": 31.4},
    algorithm={"kind": "ldp_sgd", "c": 32.0, "theta0": 48.5, "radius": 640.0},
)  # fmt: skip


def study(units=None, **tables):
    """PLAIN with some tables replaced, its problem with units."""
    given = PLAIN | tables
    if units is not None:
        given["problem"] = given["problem"] | {"units": units}
    return Study.from_mapping(given)


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
    problem = lf.Quantile(tau=[0.5, 0.9], units=lf.Units(scale=4.0))
    paths = lf.Study(
        problem, lf.RandomizedResponse(epsilon=1.0), lf.LdpSgd(c=2.0), lf.SelfNormalization(), n=1e4
    ).simulators()
    assert [path.algorithm.c for path in paths] == [8.0, 8.0]


def test_several_units_are_an_axis_but_no_path_comes_twice():
    algorithm = {"kind": "ldp_sgd", "c": [1.0, 2.0]}
    both = study([{"scale": 1.0}, {"scale": 4.0}], algorithm=algorithm).simulators()
    assert [path.algorithm.c for path in both] == [1.0, 2.0, 4.0, 8.0]
    with pytest.raises(lf.InputError, match="simulated twice"):
        study([{"scale": 1.0}, {"scale": 2.0}], algorithm=algorithm)


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
def test_refused(units, tables, field):
    with pytest.raises(lf.InputError) as caught:
        study(units, **tables)
    assert caught.value.field == field
