"""Studies that must be refused, and nothing but a refusal whatever is typed."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldpflow.errors import InputError
from ldpflow.simulators.one_pass import BUDGET
from ldpflow.study import Study, load_study
from ldpflow.study.study import line_of
from tests.studies import BASE, changed

BATCHES = {"kind": "minibatch_sgd", "batch_size": 5000}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"algorithm__gamma": [0.7, 0.3]}, "algorithm.gamma", "(1/2, 1)"),
    ({"algorithm__theta0": math.nan}, "algorithm.theta0", "finite"),
    ({"algorithm__gama": 0.6}, "algorithm.gama", "'gamma'"),
    ({"mechanism__epsilon": 0}, "mechanism.epsilon", "[1e-06, 30]"),
    ({"mechanism__epsilon": True}, "mechanism.epsilon", "True"),
    ({"mechanism__epsilon": []}, "mechanism.epsilon", "at least one"),
    ({"mechanism__kind": "randomised_response"}, "mechanism.kind", "'randomized_response'"),
    ({"mechanism": "laplace"}, "mechanism", "table"),
    ({"mechanism": []}, "mechanism", "no mechanism"),
    ({"problem__kind": ...}, "problem.kind", "quantile"),
    ({"problem__law": "nromal"}, "problem.law", "'normal'"),
    ({"problem__law": "student_t"}, "problem", "df must be given"),
    ({"problem": {"kind": "quantile_regression"}}, "mechanism.kind", "scalar gradient"),
    ({"algorithm": BATCHES | {"noise": "batch"}}, "algorithm.kind", "use none, laplace or gaussian"),
    ({"algorithm": BATCHES}, "grid.n", "at least 5,000"),
    ({"grid__n": 1e13}, "grid.n", "1e+12"),
    ({"grid__n": ...}, "grid.n", "is missing; expected an integer"),
    ({"grid__independent_n": 1}, "grid.independent_n", "true or false"),
    ({"seed": -1}, "seed", "[0, 2^63)"),
    ({"seed": 10**6000}, "seed", "2^63"),
    ({"replicates": [10]}, "replicates", "integer"),
    ({"name": "../evil"}, "name", "file name"),
    ({"name": "a\n"}, "name", "file name"),
    ({"methods": []}, "methods", "'method'"),
    ({"method": []}, "method", "no method"),
    ({"method": [{"kind": "mine"}]}, "method.kind", "A kind of your own needs its file"),
    ({"method": [{"kind": "SN", "beta": 0.7}]}, "method.beta", "a setting of SN. There is none."),
]


@pytest.mark.parametrize(("change", "field", "said"), REFUSED)
def test_refused(change: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        Study.from_mapping(changed(**change))
    assert caught.value.field == field
    assert said in str(caught.value)


def refused_at_once(mapping: dict[str, Any]) -> str:
    started = time.process_time()
    with pytest.raises(InputError) as caught:
        Study.from_mapping(mapping)
    assert time.process_time() - started < 0.5
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
    assert " recorded times" in said and "128 MiB" in said
    mapping["method"][0]["beta"] = [0.55, 0.9]
    plans = Study.from_mapping(mapping).plans()
    assert max(plan.simulator.cost(plan.simulator.needs(plan.cells), 1).bytes for plan in plans) <= BUDGET


NUMBERS = st.integers() | st.integers(0, 10**13) | st.floats() | st.floats(0, 1)
KINDS = st.sampled_from(["quantile", "laplace", "none", "minibatch_sgd", "BB", "BM", "student_t"])
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=8) | KINDS
NAMES = st.sampled_from("n epsilon tau gamma c beta B level method seed replicates".split())
TEXTS = st.from_regex(r"[0-9._e+-]{0,6}", fullmatch=True) | st.sampled_from(["oracle", "1e6", "0.7", "1_0"])


@settings(max_examples=60, deadline=2000, derandomize=True)
@given(st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=3) | TEXTS, max_size=3))
def test_no_flags_raise_anything_else(flags: dict[str, Any]) -> None:
    try:
        study = Study.from_mapping(BASE).replace(flags)
    except InputError as error:
        assert str(error)
    else:
        assert Study.from_mapping(study.settings()) == study


NUMBERED = """# a study
name = "mine"
seed = 1

[problem]
kind = "quantile"
tau = 1.5

[mechanism]
kind = "laplace"
epsilon = 1.0

[[method]]
kind = "SN"

[grid]
n = 100
"""
TEXT = Study.from_mapping(BASE).to_toml()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (TEXT.replace("seed = 7", "seed = 7\nseed = 8"), "TOML"),
        ("name = mine\n", r"\(at line 1, column 8\)\. A text stands in quotes\."),
        (TEXT.replace('name = "base"', 'name = "\u00e9tude"'), "name"),
        (TEXT.replace("seed = 7", '"s\u00e9ed" = 7'), "s\u00e9ed"),
        (NUMBERED, r"^problem\.tau: 1\.5 is not allowed.* In .*study\.toml, line 7\.$"),
    ],
)
def test_a_file_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "study.toml").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        load_study(str(tmp_path / "study.toml"))


def test_the_line_of_a_setting_or_of_its_table() -> None:
    fields = {"problem.tau": 7, "seed": 3, "mechanism.mu": 9, "method.kind": 14, "grid.n": 17, "x": None}
    assert {field: line_of(NUMBERED, field) for field in fields} == fields
    assert line_of('seed = 1\nproblem = { kind = "quantile", tau = 2 }\n', "problem.tau") == 2


@pytest.mark.parametrize(("bad", "line"), [("tau = 0.9\ndf = 3.0", 9), ("tau = 2", 10)])
def test_of_several_tables_the_faulty_one_is_named(tmp_path: Path, bad: str, line: int) -> None:
    """Also where settings do not go together."""
    file = tmp_path / "mine.toml"
    several = NUMBERED.replace("tau = 1.5", "tau = 0.5").replace("[problem]", "[[problem]]")
    second = f'[[problem]]\n{bad}\nkind = "quantile"\n\n[algorithm]\nkind = "ldp_sgd"\n\n[mechanism]'
    file.write_text(several.replace("[mechanism]", second))
    with pytest.raises(InputError, match=rf"mine\.toml, line {line}\.$"):
        load_study(str(file))
