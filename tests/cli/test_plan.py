"""``ldpflow plan`` as a practitioner types it, and what it claims: nothing that a simulation refutes."""

import math
import re
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.practice.planning import sources
from ldpflow.study import Study
from tests.studies import changed, quantile_path


@pytest.fixture(autouse=True)
def few_resampled_pilots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "RESAMPLES", 20)


TRIAL: dict[str, Any] = {"n": 2e5, "tau": 0.9, "law": "exponential", "scale": 31.4}
VALUES = [round(float(v), 2) for v in np.random.default_rng(11).gamma(2.0, 30.0, 1000)]
ASKED = ("--tau", "0.5", "--epsilon", "1", "--n", "2e5")


@pytest.fixture
def pilot(tmp_path: Path) -> Callable[[dict[str, list[Any]]], str]:
    def write(columns: dict[str, list[Any]]) -> str:
        file = tmp_path / "pilot.csv"
        rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        file.write_text("\n".join([",".join(columns), *rows]) + "\n")
        return str(file)

    return write


def test_a_path_that_does_not_arrive_has_no_length_but_better_steps_have_one(ldpflow, tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(quantile_path(**TRIAL).to_toml())
    shown = ldpflow("plan", file, "--half-width", "2", "--response-rate", "0.3")
    assert shown.code == 1 and shown.err == ""
    line = next(line for line in shown.out.splitlines() if line.lstrip().startswith("2e5"))
    assert re.match(r" *2e5 +- +- +- +2\.57 +-10\.60 SE +0\.00 +not arrived +none +[\d,]+ \(TR\)", line), line
    assert "Lengths" not in shown.out, "there are none"
    file.write_text(quantile_path(c=23.4, theta0=54.0, **TRIAL).to_toml())
    better = ldpflow("plan", file, "--half-width", "1e-2")
    assert better.code == 0
    for words in ("2.322", "doubtful", "none", "half width 0.01", "those of the oracle"):
        assert words in better.out


def test_a_plan_of_many_rows_fits_a_window(ldpflow, monkeypatch):
    for name, value in {"COLUMNS": 80, "LINES": 24, "TTY_COMPATIBLE": 1}.items():
        monkeypatch.setenv(name, str(value))
    many = ("plan", "quickstart", "--tau", ".5", ".9", "--n", "1e3", "1e4", *(f"{k}e5" for k in range(1, 6)))
    shown = ldpflow(*many, "--half-width", ".1")
    shown.out = re.sub(r"\x1b\[\d*m", "", shown.out)
    assert (
        shown.code == 1 and len(shown.out.splitlines()) < 23 and max(map(len, shown.out.splitlines())) <= 80
    )
    first, below = shown.out.split(" of 42 rows, the worst; all: the same with --verbose")
    methods, verdicts = (
        " ".join(first.split()).partition("Method to use in 42 rows: ")[2].split(". Arrival: ")
    )
    for counts in (methods, verdicts.partition(".")[0]):
        assert sum(map(int, re.findall(r" (\d+)", counts))) == 42
    assert "--verbose prints what to change in single rows" in below
    every = ldpflow(*many, "--verbose")
    assert every.out.count(" for an average: ") > 20 and "the worst" not in every.out


@pytest.mark.parametrize(
    ("field", "flags"),
    [
        ("--replicates", ("--replicates", "9")), ("--tau", ("--tau", "0.999")),
        ("STUDY", ("--bounds", "0", "1")), ("--public needs --output", ("--public",)),
        ("--range: [-5.0, 9.0]", ("--compare", "--transform", "log1p", "--range", "-5", "9")),
    ],
)  # fmt: skip
def test_flags_refused(ldpflow, pilot, field, flags):
    refused = ldpflow("plan", "--pilot", pilot({"amount": VALUES}), *ASKED, *flags)
    assert refused.code == 2 and field in refused.err and not re.search("Traceback|`", refused.err)


def test_where_no_method_is_recommended_there_is_the_oracles_n(ldpflow):
    shown = ldpflow("plan", "tr-regression", "--half-width", "0.05")
    text = " ".join(shown.out.split())
    assert "n for half width" not in text and "plan with" not in text and "oracle's n" in text


def test_a_study_of_several_problems(ldpflow, tmp_path):
    """Settings that one problem has and another has not, such as Huber's constant."""
    problems = [{"kind": "linear_regression"}, {"kind": "quantile"}]
    several = Study.from_mapping(changed(problem=problems, mechanism={"kind": "gaussian", "mu": 1.0}))
    (tmp_path / "s.toml").write_text(several.to_toml())
    shown = ldpflow("plan", tmp_path / "s.toml", "--half-width", "0.05", "--n", "1e5")
    assert shown.code in (0, 1) and "Traceback" not in shown.err, shown.err
    for word in ("linear_regression", "quantile"):
        assert word in shown.out
    assert "coefficients" not in shown.out, "settings that others tell apart are left out"


@pytest.mark.slow
def test_a_recommended_method_covers_on_random_paths():
    """24 laws and steps: the recommended method covers .84 or more of 90%, 400 replicates each.

    A method that covers .90 falls below .84 with probability 6e-5, one that covers .88 with 1e-2.
    """
    laws = [
        {"law": "gamma", "shape": 0.8}, {"law": "weibull", "shape": 0.7}, {"law": "exponential"},
        {"law": "laplace"}, {"law": "lognormal", "shape": 1.0}, {"law": "uniform"},
    ]  # fmt: skip
    found = []
    for (k, law), (tau, c) in product(enumerate(laws), ((0.1, 0.3), (0.25, 1.0), (0.5, 4.0), (0.9, 1.0))):
        plan = lf.plan(quantile_path(3e4, c, 0.3, seed=30 + k, tau=tau, **law))
        if plan.rows[0]["recommended"] is not None:
            plan.check()
            degree = {"TR": 2, "TR3": 3}[plan.rows[0]["recommended"]]
            (row,) = (row for row in plan.checked if row["degree"] == degree)
            found.append((row["coverage_failures_as_misses"], law, tau, c))
    assert len(found) >= 8 and min(found, key=lambda each: each[0])[0] >= 0.84, found


def test_bounds_recommend_nothing_that_one_of_the_laws_forbids(ldpflow):
    shown = ldpflow("plan", "--bounds", "0", "1000", "--tau", "0.9", "--epsilon", "1", "--n", "2e4")
    text = " ".join(shown.out.split())
    assert shown.code == 1 and "guessed from the bounds" in text
    assert "No method covers in all of them." in text and "Use TR" not in text


def test_users_answers_and_budget_of_every_row(ldpflow, pilot, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    file = pilot({"amount": VALUES})
    asked = ("--tau", "0.9", "--half-width", "5", "--response-rate", "0.4", "--difference", "1")
    shown = ldpflow("plan", "--pilot", file, *ASKED, *asked)
    source, _, titles, _, *rows = shown.out.splitlines()[:6]
    for words in ("pilot: column 'amount' of", "1,000 values, 0.5-quantile", "scale 1/f ="):
        assert words in source
    assert "(pilot: " in rows[0] and "n per group for 1" in titles
    for title in ("invitations  invitations for half width 5", "answers each", "epsilon a user"):
        assert title in titles
    for row in rows:
        users = int(re.search(r"([\d,]+) \(TR3?\)", row)[1].replace(",", ""))
        assert (
            " 500,000 " in row and f" {math.ceil(users / 0.4):,} " in row and row.split()[-2:] == ["1", "1"]
        )
    assert "users of its own, 400,000 in all (1,000,000 invitations)." in shown.out


def test_codes_for_no_value_are_pointed_out(ldpflow, pilot):
    """-1 in 3% of the records, 9999 in .5%; left out on request they are counted."""
    amounts = [-1.0] * 30 + [9999.0] * 5 + VALUES[35:]
    file = pilot({"amount": amounts})
    shown = ldpflow("plan", "--pilot", file, *ASKED)
    text = " ".join(shown.out.split())
    for words in ("3.0% of its values are -1,", "0.5% of its values are 9999,", "missing_value = -1 leaves"):
        assert words in text
    codes = ("--missing-value", "-1", "--missing-value", "9999")
    clean = " ".join(ldpflow("plan", "--pilot", file, *ASKED, *codes).out.split())
    assert "looks like a code" not in clean and "965 values" in clean
    assert "35 of 1,000 records had no value and were left out" in clean
    for source, said in ((("--pilot", file, *ASKED), "--missing-value"), (("quickstart",), "--pilot")):
        refused = ldpflow("plan", *source, "--missing-value", "-2")
        assert refused.code == 2 and said in refused.err


def test_the_design_file_holds_method_and_unit(ldpflow, pilot, tmp_path):
    file, design = pilot({"amount": VALUES}), tmp_path / "design.toml"
    asked = ("plan", "--pilot", file, "--tau", "0.9", "--epsilon", "1", "--users", "2e4")
    shown = ldpflow(*asked, "--half-width", "4", "--unit", "s", "-o", design)
    row = next(line for line in shown.out.splitlines() if line.startswith("2e4"))
    assert row.endswith("TR3") and f"wrote {design}" in shown.err
    found = tomllib.loads(design.read_text())
    assert found["method"] == [{"kind": "TR", "degree": 3, "burn_in": "0.01n"}]
    assert found["collection"] == {"unit": "s"}
    both = ldpflow(*asked, "--tau", "0.5", "-o", design)  # these files have names of their own
    assert both.err.count("wrote ") == 2 and (tmp_path / "design-0.9.toml").exists()
    for words, flags in (
        ("one epsilon", ("--epsilon", "2", "-o", tmp_path / "y.toml")),
        ("--half-width", ("--half-width", "wide")),
    ):
        refused = ldpflow(*asked, *flags)
        assert refused.code == 2 and words in refused.err


@pytest.mark.thorough
def test_nothing_is_computed_from_undeclared_steps(monkeypatch):
    """An algorithm of a plug-in whose step_constant() is NaN: blank rows that say why, and no method."""
    monkeypatch.setattr(lf.LdpSgd, "step_constant", lambda self: math.nan)
    plan = lf.plan(quantile_path(5e4), half_width=0.05)
    (row,), (text,) = plan.rows, plan.cautions
    assert row["arrival"] == "undeclared_steps" and "ldp_sgd does not declare that step i" in text
    assert {row[name] for name in ("standard_error", "length", "recommended", "n_with_method")} == {None}
    assert not plan.check(), "no method is recommended"
