"""What ``ldpflow plan`` claims: nothing that a simulation refutes, nothing that it does not know."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.study import Study
from tests.studies import changed


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., str]:
    """A study file of a quantile under randomised response."""

    def write(c: float = 1.0, n: float = 5e4, **problem: Any) -> str:
        mapping = changed(
            problem={"kind": "quantile", "tau": 0.5, "law": "normal"} | problem,
            mechanism={"kind": "randomized_response", "epsilon": 1},
            algorithm={"kind": "ldp_sgd", "gamma": 0.51, "c": c},
            grid={"n": n, "level": 0.9},
            method=[{"kind": "oracle"}],
        )
        file = tmp_path / "claims.toml"
        file.write_text(Study.from_mapping(mapping).to_toml())
        return str(file)

    return write


@pytest.mark.parametrize(("shape", "tau"), [(0.8, 0.25), (0.7, 0.3)])
def test_tr_is_not_recommended_where_its_degree_does_not_fit(ldpflow, study, shape, tau):
    """Gamma laws where TR of degree 2 covers .837 and .843 of 90% at n = 5e4, and TR3 .90."""
    shown = ldpflow("plan", study(law="gamma", shape=shape, tau=tau))
    row = next(line for line in shown.out.splitlines() if line.startswith("5e4"))
    assert shown.code == 1 and row.split()[-1] == "TR3"


@pytest.mark.slow
def test_a_recommended_method_covers_on_random_paths():
    """24 laws and steps: the recommended method covers .84 or more of 90%, 400 replicates each.

    A method that covers .90 falls below .84 with probability 6e-5, one that covers .88 with 1e-2.
    """
    laws = [
        {"law": "gamma", "shape": 0.8}, {"law": "weibull", "shape": 0.7}, {"law": "exponential"},
        {"law": "laplace"}, {"law": "lognormal", "shape": 1.0}, {"law": "uniform"},
    ]  # fmt: skip
    recommended, low = 0, []
    for k, law in enumerate(laws):
        for tau, c in ((0.1, 0.3), (0.25, 1.0), (0.5, 4.0), (0.9, 1.0)):
            mapping = changed(
                seed=30 + k,
                problem={"kind": "quantile", "tau": tau, **law},
                mechanism={"kind": "randomized_response", "epsilon": 1.0},
                algorithm={"kind": "ldp_sgd", "gamma": 0.51, "c": c, "theta0": 0.3},
                grid={"n": [3e4], "level": 0.9},
                method=[{"kind": "oracle"}],
            )
            plan = lf.plan(Study.from_mapping(mapping))
            (row,) = plan.rows
            if row["recommended"] is None:
                continue
            recommended += 1
            plan.check()
            degree = {"TR": 2, "TR3": 3}[row["recommended"]]
            (found,) = (r for r in plan.checked if r["degree"] == degree)
            if found["coverage_failures_as_misses"] < 0.84:
                low.append((law, tau, c, found["coverage_failures_as_misses"]))
    assert recommended >= 8 and low == []


def test_bounds_recommend_nothing_that_one_of_the_laws_forbids(ldpflow):
    shown = ldpflow("plan", "--bounds", "0", "1000", "--tau", "0.9", "--epsilon", "1", "--n", "2e4")
    text = " ".join(shown.out.split())
    assert shown.code == 1 and "no method covers in all, the worst is" in text and "use TR" not in text


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_the_check_of_bounds_simulates_every_law(tau):
    """512 replicates under each of five laws: the recommended method is good under all."""
    plan = lf.plan(bounds=(0, 1000), tau=tau, epsilon=1, n=2e5)
    assert plan.rows[0]["recommended"] == "TR" and plan.check()
    # At the median a law and its mirror image are one path.
    assert len({row["path"] for row in plan.checked}) == (3 if tau == 0.5 else 5)


@pytest.fixture
def pilot(tmp_path: Path) -> Callable[[dict[str, list[Any]]], str]:
    """A CSV file of some columns."""

    def write(columns: dict[str, list[Any]]) -> str:
        file = tmp_path / "pilot.csv"
        rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        file.write_text("\n".join([",".join(columns), *rows]) + "\n")
        return str(file)

    return write


VALUES = [round(float(v), 2) for v in np.random.default_rng(11).gamma(2.0, 30.0, 1000)]
ASKED = ("--tau", "0.5", "--epsilon", "1", "--n", "2e5")


def test_users_answers_and_budget_of_every_row(ldpflow, pilot):
    """Two quantiles are two surveys: twice the invitations, or two answers and twice the budget."""
    file = pilot({"amount": VALUES})
    shown = ldpflow("plan", "--pilot", file, *ASKED, "--tau", "0.9", "--response-rate", "0.4")
    text = " ".join(shown.out.split())
    for tau in ("0.5", "0.9"):
        assert f"tau {tau}, 200,000 users, 1 answer each, epsilon 1 a user, 500,000 invitations" in text
    assert "400,000 in all (1,000,000 invitations)" in text and "2 answers each and spend epsilon 2" in text
    alone = ldpflow("plan", "--pilot", file, *ASKED, "--response-rate", "0.4")
    text = " ".join(alone.out.split())
    assert alone.code == 0 and "pilot: column 'amount' of" in text and "in all" not in text
    assert "200,000 users, 1 answer each, epsilon 1 a user, 500,000 invitations" in text


@pytest.mark.parametrize("word", ["refused", "1 234,50 EUR"])
def test_an_identifier_is_not_planned_silently(ldpflow, pilot, word):
    """One text among the amounts makes the identifier the only numeric column."""
    amounts: list[Any] = [*VALUES[:-1], f'"{word}"']
    file = pilot({"id": list(range(1000)), "amount": amounts, "town": ["Bochum"] * 1000})
    refused = ldpflow("plan", "--pilot", file, *ASKED)
    assert refused.code == 2 and "--column" in refused.err
    assert "'id' is numeric" in refused.err and "'amount'" in refused.err and "'town'" not in refused.err
    assert ldpflow("plan", "--pilot", file, "--column", "id", *ASKED).code == 0


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


def test_values_are_not_called_codes(ldpflow, pilot):
    """Zeros, ties at the largest value, negative numbers among others."""
    for values in ([0.0] * 200 + VALUES[200:], [*VALUES[5:], *[max(VALUES)] * 5], [v - 40 for v in VALUES]):
        shown = ldpflow("plan", "--pilot", pilot({"amount": values}), *ASKED)
        assert "looks like a code" not in shown.out


@pytest.mark.thorough
def test_the_design_file_holds_the_method(ldpflow, pilot, tmp_path):
    """TR3 is recommended: what the plan hands over says so, with steps at full precision."""
    file, design = pilot({"amount": VALUES}), tmp_path / "design.toml"
    asked = ("--tau", "0.9", "--epsilon", "1", "--n", "2e4")
    shown = ldpflow("plan", "--pilot", file, *asked, "-o", design)
    row = next(line for line in shown.out.splitlines() if line.startswith("2e4"))
    assert row.split()[-1] == "TR3" and f"wrote {design}" in shown.err
    found = tomllib.loads(design.read_text())
    assert found["method"] == [{"kind": "TR", "degree": 3, "burn_in": "0.01n"}]
    alone = ldpflow("plan", "--pilot", file, *asked, "--public")
    assert alone.code == 2 and "--public" in alone.err and "--output" in alone.err
    several = ldpflow("plan", "--pilot", file, *asked, "--epsilon", "2", "-o", tmp_path / "x.toml")
    assert several.code == 2 and "one epsilon" in several.err
    both = ldpflow("plan", "--pilot", file, *ASKED, "--tau", "0.9", "-o", tmp_path / "x.toml")
    assert both.err.count("wrote ") == 2 and (tmp_path / "x-0.9.toml").exists()


@pytest.mark.thorough
def test_the_route_as_it_is_typed(ldpflow, tmp_path, monkeypatch):
    """Values after one flag, users, half widths with a unit; the best design is written and can be swept."""
    monkeypatch.setenv("COLUMNS", "250")
    (tmp_path / "pilot.csv").write_text("session_s\n" + "".join(f"{v!r}\n" for v in VALUES))
    asked = ["--pilot", tmp_path / "pilot.csv", "--tau", ".5", ".75", "--epsilon", "1", "--users", "20000"]
    design = tmp_path / "design.toml"
    shown = ldpflow("plan", *asked, "--half-width", "4s", "9s", "--compare", "-o", design)
    assert shown.code == 0, shown.err
    text = " ".join(shown.out.split())
    for words in ("0.75-quantile", "take ", "worst ratio of half width to the wanted one", "no public range"):
        assert words in text
    (starred,) = {line.split()[1] for line in shown.out.splitlines() if " * " in line}
    written = sorted(tmp_path.glob("design*.toml"))
    assert all(tomllib.loads(file.read_text())["collection"] == {"unit": "s"} for file in written)
    assert starred in ("cells", "sgd") and len(written) == {"cells": 1, "sgd": 2}[starred]
    for field, widths in (("--half-width", ["wide"]), ("--unit", ["4s", "9min"])):
        refused = ldpflow("plan", *asked, "--half-width", *widths, "--compare")
        assert refused.code == 2 and field in refused.err and "Traceback" not in refused.err


@pytest.mark.thorough
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict"])
def test_a_pilot_in_memory(library):
    columns = {"name": ["x"] * 1000, "amount": VALUES}
    frame: Any = columns if library == "dict" else None
    if frame is None:
        module = pytest.importorskip(library)
        frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    plan = lf.plan(pilot=frame, column="amount", tau=0.5, epsilon=1, n=2e5)
    assert plan.rows[0]["pilot"] == "column 'amount'" and plan.rows[0]["pilot_values"] == 1000
    assert plan.rows[0]["quantile"] == pytest.approx(float(np.median(VALUES)), rel=0.02)


@pytest.mark.thorough
def test_nothing_is_computed_from_undeclared_steps(ldpflow, study, monkeypatch):
    """An algorithm of a plug-in whose step_constant() is NaN: blank rows that say why, and no method."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(lf.LdpSgd, "step_constant", lambda self: math.nan)
    shown = ldpflow("plan", study(), "--length", "0.1")
    line = next(line for line in shown.out.splitlines() if line.startswith("5e4"))
    assert "undeclared steps" in line and not re.search(r"\bTR", shown.out)
    assert "ldp_sgd does not declare that step i has size c i^-gamma" in shown.out
    plan = lf.plan(Path(study()).read_text())
    (row,) = plan.rows
    assert {row[name] for name in ("standard_error", "length", "recommended", "n_with_method")} == {None}
    assert not plan.check(), "no method is recommended"
