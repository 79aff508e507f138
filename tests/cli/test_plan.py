"""``ldpflow plan`` as a practitioner types it: refusals, pilots, bounds, goals and exit codes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ldpflow.study import Study, load_study
from tests.studies import changed


@pytest.fixture
def trial(tmp_path: Path) -> Callable[..., str]:
    """A study file of the trial's case with some steps."""

    def write(c: float = 1.0, theta0: float = 0.0) -> str:
        mapping = changed(
            problem={"kind": "quantile", "tau": 0.9, "law": "exponential", "scale": 31.4},
            mechanism={"kind": "randomized_response", "epsilon": 1},
            algorithm={"kind": "ldp_sgd", "gamma": 0.51, "c": c, "theta0": theta0},
            grid={"n": 2e5, "level": 0.9},
            method=[{"kind": "BM"}],
        )
        file = tmp_path / f"trial-{c:g}.toml"
        file.write_text(Study.from_mapping(mapping).to_toml())
        return str(file)

    return write


@pytest.fixture
def pilot(tmp_path: Path) -> str:
    """2,500 values of N(50, 10^2)."""
    file = tmp_path / "pilot.csv"
    np.savetxt(file, np.random.default_rng(4).normal(50.0, 10.0, 2500), header="amount", comments="")
    return str(file)


def test_a_path_that_does_not_arrive_has_no_length(ldpflow, trial):
    shown = ldpflow("plan", trial(), "--length", "4", "--response-rate", "0.3")
    assert shown.code == 1 and shown.err == ""
    line = next(line for line in shown.out.splitlines() if line.lstrip().startswith("2e5"))
    assert re.fullmatch(
        r" *2e5 +- +- +(- +)?(2\.57 +)?-10\.60 SE +0\.00 +not arrived +none( +-| +[\d,]+ \(TR3?\))* *", line
    ), line
    assert "Lengths" not in shown.out, "there are none"
    for words in ("c = 23", "theta0 = 54", "Below n = 4.0e5", "666,667"):
        assert words in " ".join(shown.out.split())


def test_the_advice_prints_a_length_and_no_budget_may_be_enough(ldpflow, trial):
    shown = ldpflow("plan", trial(23.4, 54.0), "--half-width", "1e-2")
    assert shown.code == 0 and "2.322" in shown.out and "doubtful" in shown.out and "none" in shown.out
    assert "half width 0.01" in shown.out and "those of the oracle" in shown.out


SETTINGS = ("--tau", "0.5", "--epsilon", "1", "--n", "2e5")


def test_a_plan_of_many_rows_fits_a_window(ldpflow, monkeypatch):
    for name, value in {"COLUMNS": 80, "LINES": 24, "TTY_COMPATIBLE": 1}.items():
        monkeypatch.setenv(name, str(value))
    many = ("plan", "quickstart", "--tau", ".5", ".9", "--n", "1e3", "1e4", *(f"{k}e5" for k in range(1, 6)))
    shown = ldpflow(*many, "--half-width", ".1")
    shown.out = re.sub(r"\x1b\[\d*m", "", shown.out)
    first, head, *lines = shown.out.splitlines()
    assert shown.code == 1 and len(lines) < 21 and max(map(len, lines)) <= 80
    assert first.startswith("Method to use in 42 rows: ") and {"rows", "method", "covers"} <= {*head.split()}
    groups = shown.out.partition(" of 42 rows, the worst; all: the same with --verbose")[0].splitlines()[2:-1]
    assert sum(int(re.search(r"  (\d+)  ", line)[1]) for line in groups) == 42
    assert "--verbose prints what to change in single rows" in shown.out
    assert "n per group for 0.1" in ldpflow(*many, "--difference", ".1").out.partition(" of 42 rows")[0]
    fewer = ldpflow(*many[:6], "1e3", "1e4", "1e5", "2e5", "--half-width", ".1")  # two windows of sentences
    assert " of 24 rows, the worst" in fewer.out and fewer.out.count("\n") <= 24
    every = ldpflow(*many, "--verbose")
    assert every.out.count(" for an average: ") > 20 and "the worst" not in every.out


@pytest.mark.parametrize(
    ("field", "flags"),
    [
        ("--column", ("--column", "spent")), ("--missing", ("--missing", "keep")),
        ("--tau", ("--tau", "0.999")), ("STUDY", ("--bounds", "0", "1")),
        ("--half-width", ("--length", "4", "--half-width", "2")),
        ("--half-width", ("--half-width", "1e-200")),
        ("--half-width", ("--compare", "--half-width", "1e200")),
        ("--transform", ("--transform", "exp")), ("--edges", ("--edges", "1", "0")),
        ("--range: [-5.0, 9.0]", ("--compare", "--transform", "log1p", "--range", "-5", "9")),
    ],
)  # fmt: skip
def test_flags_refused(ldpflow, pilot, field, flags):
    refused = ldpflow("plan", "--pilot", pilot, *SETTINGS, *flags)
    assert refused.code == 2 and field in refused.err and not re.search("Traceback|`", refused.err)


def test_the_source_of_a_plan_is_named(ldpflow, pilot):
    shown = ldpflow("plan", "--pilot", pilot, *SETTINGS, "--difference", "1")
    words = ("pilot: column 'amount' of", "2,500 values, 0.5-quantile", "scale 1/f =", "(pilot: ")
    assert all(word in " ".join(shown.out.split()) for word in (*words, "n per group for 1"))
    guessed = ldpflow("plan", "--bounds", "0", "1000", *SETTINGS)
    assert guessed.code == 1 and "guessed from the bounds" in " ".join(guessed.out.split())


@pytest.mark.thorough
def test_the_last_lines_answer_the_question(ldpflow, pilot):
    """A line per budget: users, method, range over resampled pilots, invitations."""
    more = ("--epsilon", "2", "--n", "4e5", "--half-width", "0.1", "--response-rate", "0.25")
    shown = ldpflow("plan", "--pilot", pilot, *SETTINGS, *more)
    lines = " ".join(shown.out.split()).split("half width 0.1 at level 0.9, ")[1:]
    pattern = r"epsilon (.): plan with ([\d,]+) answers and TR3? \(([\d,]+) to ([\d,]+) over 90% of "
    pattern += r"resampled pilots\), ([\d,]+) invitations\.( |$)"
    found = [re.match(pattern, line) for line in lines]
    assert len(found) == 2 and all(found), shown.out
    assert [match[1] for match in found if match] == ["1", "2"]
    for match in found:
        assert match
        users, low, high, invited = (int(match[k].replace(",", "")) for k in range(2, 6))
        assert low < users < high and invited == 4 * users


def test_where_no_method_is_recommended_there_is_the_oracles_n(ldpflow):
    shown = ldpflow("plan", "tr-regression", "--length", "0.1")
    text = " ".join(shown.out.split())
    assert "n for length" not in text and "plan with" not in text and "oracle's n" in text


def test_a_study_of_several_problems(ldpflow, tmp_path):
    """Settings that one problem has and another has not, such as Huber's constant."""
    one = {"mu": [1.0], "gamma": [0.6], "c": [0.4], "n": [1e5], "method": ["BM"]}
    (tmp_path / "s.toml").write_text(load_study("gdp-coverage").replace(one).to_toml())
    shown = ldpflow("plan", tmp_path / "s.toml", "--length", "0.1")
    assert shown.code in (0, 1) and "Traceback" not in shown.err, shown.err
    for word in ("linear_regression", "logistic_regression"):
        assert word in shown.out
    assert "coefficients" not in shown.out, "settings that others tell apart are left out"
