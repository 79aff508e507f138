"""Studies: reading, refusing, expanding, writing."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import time
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpflow.errors import InputError
from ldpflow.study import BUDGET, Study, bundled_studies, load_study

BASE: dict[str, Any] = {
    "name": "base",
    "seed": 7,
    "replicates": 100,
    "problem": {"kind": "quantile", "tau": [0.5, 0.9]},
    "mechanism": {"kind": "randomized_response", "epsilon": [0.5, 1]},
    "algorithm": {"kind": "ldp_sgd", "gamma": 0.6},
    "grid": {"n": [1e3, 1e5], "level": [0.9, 0.95]},
    "method": [{"kind": "BB", "beta": [0.65, 0.75], "B": 200}, {"kind": "BM"}, {"kind": "SN"}],
}


def changed(**paths: Any) -> dict[str, Any]:
    """BASE with ``table__key`` replaced; ``...`` deletes."""
    mapping = copy.deepcopy(BASE)
    for path, value in paths.items():
        *tables, key = path.split("__")
        target = mapping
        for table in tables:
            target = target[table]
        if value is ...:
            del target[key]
        else:
            target[key] = value
    return mapping


def test_full_product() -> None:
    study = Study.from_mapping(BASE)
    plans = study.plans()
    assert len(plans) == 4
    assert len({plan.path.key for plan in plans}) == 4
    assert all(len(plan.cells) == 2 * 4 * 2 for plan in plans)
    assert all(len(set(plan.cells)) == len(plan.cells) for plan in plans)
    assert {cell.n for cell in plans[0].cells} == {1000, 100000}


def test_levels_of_a_method_stand_together() -> None:
    cells = Study.from_mapping(BASE).plans()[0].cells
    for first, second in zip(cells[::2], cells[1::2], strict=True):
        assert (first.n, first.method) == (second.n, second.method)


def test_independent_n_gives_every_n_its_paths() -> None:
    plans = Study.from_mapping(changed(grid__independent_n=True)).plans()
    assert len(plans) == 8
    for plan in plans:
        assert {cell.n for cell in plan.cells} == {plan.path.horizon}


def test_a_setting_goes_to_the_kinds_that_have_it() -> None:
    mapping = changed(mechanism={"kind": ["randomized_response", "none"], "epsilon": [0.5, 1]})
    mapping["method"] = [{"kind": ["BB", "BM"], "beta": [0.7, 0.8]}]
    study = Study.from_mapping(mapping)
    kinds = [plan.path.mechanism.kind for plan in study.plans()]
    assert sorted(kinds) == ["none"] * 2 + ["randomized_response"] * 4
    assert [cell.method.kind for cell in study.plans()[0].cells[::2]] == ["BB", "BB", "BM"] * 2


def test_duplicates_are_merged() -> None:
    once = Study.from_mapping(BASE)
    twice = changed(grid__n=[1e3, 1000, 100_000], problem__tau=[0.5, 0.9, 0.5])
    twice["method"] = [*BASE["method"], {"kind": "BM"}, {"kind": "BB", "beta": 0.75, "B": 200}]
    assert Study.from_mapping(twice).plans() == once.plans()


def test_order_of_n_and_level_does_not_matter() -> None:
    mapping = changed(grid__n=[1e5, 1e3], grid__level=[0.95, 0.9])
    assert Study.from_mapping(mapping) == Study.from_mapping(BASE)


def test_tables_side_by_side() -> None:
    laws = [{"kind": "quantile"}, {"kind": "quantile", "law": "student_t", "df": [3, 5]}]
    assert len(Study.from_mapping(changed(problem=laws)).plans()) == 6


def test_vectors() -> None:
    problem = {"kind": "quantile_regression", "coefficients": [0, 1]}
    mapping = changed(problem=problem, mechanism={"kind": "laplace"})
    assert Study.from_mapping(mapping).plans()[0].path.problem.dimension == 2
    problem["coefficients"] = [[0, 1], [0, 1, 2]]  # type: ignore[assignment]
    plans = Study.from_mapping(mapping).plans()
    assert [plan.path.problem.dimension for plan in plans] == [2, 3]


def test_minus_zero_is_zero() -> None:
    keys = [
        Study.from_mapping(changed(algorithm__theta0=zero)).plans()[0].path.key
        for zero in (0, 0.0, -0.0)
    ]
    assert len(set(keys)) == 1


@pytest.mark.parametrize("source", ["base", *bundled_studies()])
def test_the_resolved_study_reads_back(source: str) -> None:
    study = Study.from_mapping(BASE) if source == "base" else load_study(source)
    again = Study.from_mapping(tomllib.loads(study.to_toml()))
    assert again == study
    assert again.hash() == study.hash()
    assert again.plans() == study.plans()
    assert Study.from_mapping(study.settings()) == study


def test_the_resolved_study_has_every_default() -> None:
    text = load_study("paper-table1").replace({"method": ["BB"], "n": "1e6"}).to_toml()
    for line in ("theta0 = 0.0", "location = 0.0", 'multiplier = "uniform"', "n = 1_000_000"):
        assert line in text


def test_bundled_studies_are_the_papers() -> None:
    assert set(bundled_studies()) >= {"quickstart", "paper-table1", "paper-table2"}
    first = load_study("paper-table1")
    assert [len(plan.cells) for plan in first.plans()] == [12, 12]
    assert first.n == (10**6, 10**7, 10**8)
    assert first.replicates == 500
    second = load_study("paper-table2")
    assert [plan.path.problem.dimension for plan in second.plans()] == [4]
    quick = load_study("quickstart")
    assert sum(len(plan.cells) for plan in quick.plans()) == 30
    assert not quick.warnings()


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"algorithm__gamma": 0.5}, "algorithm.gamma", "(0.5, 1)"),
    ({"algorithm__gamma": 1}, "algorithm.gamma", "(0.5, 1)"),
    ({"algorithm__c": 0}, "algorithm.c", "> 0"),
    ({"algorithm__c": math.inf}, "algorithm.c", "finite"),
    ({"algorithm__theta0": math.nan}, "algorithm.theta0", "finite"),
    ({"algorithm__gama": 0.6}, "algorithm.gama", "'gamma'"),
    ({"mechanism__epsilon": 0}, "mechanism.epsilon", "(0, 30]"),
    ({"mechanism__epsilon": -1.0}, "mechanism.epsilon", "-1.0"),
    ({"mechanism__epsilon": "1"}, "mechanism.epsilon", "a number"),
    ({"mechanism__epsilon": True}, "mechanism.epsilon", "True"),
    ({"mechanism__epsilon": []}, "mechanism.epsilon", "at least one"),
    ({"mechanism__epsilon": [[1.0]]}, "mechanism.epsilon", "a number"),
    ({"mechanism__kind": "randomised_response"}, "mechanism.kind", "'randomized_response'"),
    ({"mechanism__kind": "none"}, "mechanism.epsilon", "none"),
    ({"mechanism__kind": []}, "mechanism.kind", "laplace"),
    ({"mechanism__kind": 3}, "mechanism.kind", "laplace"),
    ({"mechanism": "laplace"}, "mechanism", "table"),
    ({"mechanism": []}, "mechanism", "no mechanism"),
    ({"mechanism": ...}, "mechanism", "table"),
    ({"problem__kind": ...}, "problem.kind", "quantile"),
    ({"problem__law": "nromal"}, "problem.law", "'normal'"),
    ({"problem__law": "student_t"}, "problem", "df must be given"),
    ({"problem__tau": [0.5, 1.0]}, "problem.tau", "(0, 1)"),
    ({"problem": {"kind": "quantile_regression"}}, "mechanism.kind", "scalar gradient"),
    ({"grid__n": 0}, "grid.n", "[1, 1e+12]"),
    ({"grid__n": 1.5}, "grid.n", "integer"),
    ({"grid__n": 1e13}, "grid.n", "1e+12"),
    ({"grid__n": "1e6"}, "grid.n", "integer"),
    ({"grid__n": ...}, "grid", "n"),
    ({"grid__level": 1}, "grid.level", "(0, 1)"),
    ({"grid__levels": 0.9}, "grid.levels", "'level'"),
    ({"grid__independent_n": 1}, "grid.independent_n", "true or false"),
    ({"grid": ...}, "grid", "table"),
    ({"seed": -1}, "seed", "[0, 2^63)"),
    ({"seed": 2**63}, "seed", "2^63"),
    ({"seed": 10**6000}, "seed", "2^63"),
    ({"replicates": 0}, "replicates", "[1, 1e+09]"),
    ({"replicates": [10]}, "replicates", "integer"),
    ({"name": "../evil"}, "name", "file name"),
    ({"name": ".."}, "name", "file name"),
    ({"name": "a\n"}, "name", "file name"),
    ({"name": ...}, "name", "file name"),
    ({"methods": []}, "methods", "'method'"),
    ({"method": []}, "method", "no method"),
    ({"method": [{"kind": "BB", "beta": 1}]}, "method.beta", "(0, 1)"),
    ({"method": [{"kind": "bb"}]}, "method.kind", "'BB'"),
    ({"method": [{"kind": "SN", "beta": 0.7}]}, "method.beta", "SN"),
    ({"method": [{"kind": "BB", "B": 1}]}, "method.B", "[2, 1e+06]"),
]


@pytest.mark.parametrize(("change", "field", "said"), REFUSED)
def test_refused(change: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Study.from_mapping(changed(**change))
    assert caught.value.field == field
    assert said in str(caught.value)


def test_unsuitable_algorithm_and_too_few_users() -> None:
    batch = {"kind": "minibatch_sgd", "batch_size": 5000, "noise": "batch"}
    with pytest.raises(InputError, match="randomised response has none"):
        Study.from_mapping(changed(algorithm=batch))
    batch["noise"] = "record"
    with pytest.raises(InputError, match="at least 5,000") as caught:
        Study.from_mapping(changed(algorithm=batch))
    assert caught.value.field == "grid.n"


def test_gamma_beyond_beta_warns_and_runs() -> None:
    study = Study.from_mapping(changed(algorithm__gamma=[0.7, 0.8]))
    assert len(study.warnings()) == 3
    assert all("gamma < beta" in warning for warning in study.warnings())


def refused_at_once(mapping: dict[str, Any]) -> str:
    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        Study.from_mapping(mapping)
    assert time.perf_counter() - started < 0.5
    return str(caught.value)


def test_large_designs_are_refused_without_expanding() -> None:
    axis = [0.51 + i / 10_000 for i in range(1000)]
    said = refused_at_once(changed(problem__tau=axis, mechanism__epsilon=axis, algorithm__c=axis))
    assert "1,000,000,000 paths" in said or "cells" in said
    assert "1,000 problems x 1,000 mechanisms x 1,000 algorithms" in said
    mapping = changed(problem__tau=axis, mechanism__epsilon=axis[:11], grid__n=1000)
    mapping["grid"]["level"] = 0.9
    mapping["method"] = [{"kind": "SN"}]
    assert "11,000 paths" in refused_at_once(mapping)
    assert "100000 values" in refused_at_once(changed(grid__n=list(range(1, 200_000))))


def test_records_beyond_the_budget_are_refused_with_the_numbers() -> None:
    mapping = changed(grid__n=10**12)
    mapping["method"] = [{"kind": "BB", "beta": [0.05, 0.9]}]
    said = refused_at_once(mapping)
    for part in ("beta = 0.05", "blocks", "1,000,000,000,000 steps", "512 MiB", "beta >= 0.50"):
        assert part in said
    mapping["method"][0]["beta"] = [0.5, 0.9]
    assert max(Study.from_mapping(mapping).memory_per_batch()) <= BUDGET


def test_what_would_fit_does_fit() -> None:
    mapping = changed(
        problem={"kind": "quantile_regression"},
        mechanism={"kind": "laplace"},
        grid__n=10**8,
        method=[{"kind": "BB", "beta": 0.3}],
    )
    said = refused_at_once(mapping)
    beta = float(said.partition("beta >= ")[2].split()[0])
    mapping["method"][0]["beta"] = beta
    Study.from_mapping(mapping)
    mapping["method"][0]["beta"] = beta - 0.02
    refused_at_once(mapping)


def test_memory_bounds_the_times_recorded() -> None:
    study = load_study("quickstart")
    plan = study.plans()[0]
    algorithm = plan.path.algorithm
    times = {
        time
        for cell in plan.cells
        for time in cell.method.times(algorithm.steps(cell.n), algorithm).tolist()
    }
    bound = study.memory_per_batch()[0] / (16 * 32)
    assert len(times) <= bound <= 1.2 * len(times)
    more = study.replace({"B": [500, 1000]})
    assert more.memory_per_batch() == study.memory_per_batch()


def test_flags_replace() -> None:
    study = Study.from_mapping(BASE).replace(
        {
            "n": ["1e4", "2_000"],
            "epsilon": ["0.25"],
            "beta": 0.8,
            "B": "1e3",
            "replicates": "1e3",
            "seed": "11",
            "tau": None,
            "level": [],
        }
    )
    assert study.n == (2000, 10_000)
    assert (study.seed, study.replicates) == (11, 1000)
    assert [plan.path.mechanism.epsilon for plan in study.plans()] == [0.25, 0.25]  # type: ignore[attr-defined]
    assert study.method[0].axes["beta"] == (0.8,)
    assert study.method[0].axes["B"] == (1000,)
    assert study.level == (0.9, 0.95)


def test_method_flag_keeps_settings_and_adds_defaults() -> None:
    study = Study.from_mapping(BASE).replace({"method": ["oracle", "BB"]})
    assert [entry.kind for entry in study.method] == ["oracle", "BB"]
    assert study.method[1].axes["B"] == (200,)
    added = Study.from_mapping(changed(method={"kind": "SN"})).replace(
        {"beta": "0.9", "method": "BB"}
    )
    assert added.method[0].axes["beta"] == (0.9,)


@pytest.mark.parametrize(
    ("flags", "field", "said"),
    [
        ({"epsilon": "x"}, "--epsilon", "'x'"),
        ({"epsilon": ["1", "nan"]}, "--epsilon", "nan"),
        ({"gamma": "0.4"}, "--gamma", "(0.5, 1)"),
        ({"n": "1e13"}, "--n", "1e+12"),
        ({"n": "9" * 5000}, "--n", "integer"),
        ({"method": "bb"}, "--method", "'BB'"),
        ({"method": "SN", "beta": 0.7}, "--beta", "SN"),
        ({"seed": "1.5"}, "--seed", "integer"),
        ({"epsilno": 1}, "--epsilno", "'epsilon'"),
    ],
)
def test_refused_flags(flags: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Study.from_mapping(BASE).replace(flags)
    assert caught.value.field == field
    assert said in str(caught.value)


def test_epsilon_without_a_private_mechanism() -> None:
    study = Study.from_mapping(changed(mechanism={"kind": "none"}))
    with pytest.raises(InputError, match="--epsilon.*mechanism none"):
        study.replace({"epsilon": 1})


def test_reading_files(tmp_path: Any) -> None:
    file = tmp_path / "mine.toml"
    text = load_study("quickstart").to_toml().replace('name = "quickstart"\n', "")
    file.write_text(text)
    assert load_study(str(file)).name == "mine"
    for bad in ("a = ", "seed = 99999999999999999999", "x = " + "[" * 5000, "d = 2020-01-01"):
        file.write_text(bad)
        with pytest.raises(InputError):
            load_study(str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError):
        load_study(str(file))
    for absent in (str(tmp_path / "no.toml"), str(tmp_path) + "/", "a\0.toml"):
        with pytest.raises(InputError):
            load_study(absent)
    with pytest.raises(InputError, match="'quickstart'"):
        load_study("quikstart")


def test_studies_load_no_heavy_room() -> None:
    code = (
        "import sys, ldpflow.study; ldpflow.study.load_study('paper-table2'); "
        "print(sorted({'numba', 'ray', 'typer', 'rich', 'scipy', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 10**13),
    st.floats(),
    st.floats(0, 1),
    st.text(max_size=8),
    st.sampled_from(["quantile", "laplace", "none", "minibatch_sgd", "BB", "BM", "student_t"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
TARGETS = st.sampled_from(
    [
        (table, key)
        for table, keys in {
            "": ("name", "seed", "replicates", "problem", "mechanism", "grid", "method", "x"),
            "problem": ("kind", "tau", "law", "df", "scale", "coefficients", "bound"),
            "mechanism": ("kind", "epsilon", "delta"),
            "algorithm": ("kind", "gamma", "c", "theta0", "batch_size", "noise"),
            "grid": ("n", "level", "independent_n"),
            "method": ("kind", "beta", "B", "M", "multiplier"),
        }.items()
        for key in keys
    ]
)


@settings(max_examples=300, deadline=2000, derandomize=True)
@given(st.lists(st.tuples(TARGETS, VALUES), min_size=1, max_size=3))
def test_no_mapping_raises_anything_else(mutations: list[tuple[tuple[str, str], Any]]) -> None:
    mapping = copy.deepcopy(BASE)
    for (table, key), value in mutations:
        target = mapping if not table else mapping.get(table)
        if table == "method" and isinstance(target, list) and target:
            target = target[0]
        if isinstance(target, dict):
            target[key] = value
    try:
        study = Study.from_mapping(mapping)
    except InputError as error:
        assert str(error)
    else:
        assert Study.from_mapping(tomllib.loads(study.to_toml())) == study
        assert len({plan.path.key for plan in study.plans()}) == len(study.plans())


@settings(max_examples=300, deadline=2000, derandomize=True)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "n",
                "epsilon",
                "tau",
                "gamma",
                "c",
                "beta",
                "B",
                "level",
                "method",
                "seed",
                "replicates",
            ]
        ),
        st.one_of(
            SCALARS,
            st.lists(SCALARS, max_size=3),
            st.from_regex(r"[0-9._e+-]{0,6}", fullmatch=True),
            st.sampled_from(["BB", "oracle", "1e6", "0.7", "1_0"]),
        ),
        max_size=3,
    )
)
def test_no_flags_raise_anything_else(flags: dict[str, Any]) -> None:
    try:
        study = Study.from_mapping(BASE).replace(flags)
    except InputError as error:
        assert str(error)
    else:
        assert Study.from_mapping(study.settings()) == study
