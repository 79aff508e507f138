"""``lf.plan(compare=True)`` and ``ldpflow plan --compare``: rows of a study, cautions, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.errors import InputError
from ldpflow.practice.planning import compare_study
from ldpflow.results.protocol_curves import repeated_bit_variance
from ldpflow.study import Study

RANGE = (-6.3, 9.7)
FILE = """
name = "which"
seed = 1
[problem]
kind = "quantile"
tau = [0.5, 0.9]
[mechanism]
kind = "randomized_response"
epsilon = 1.0
[algorithm]
kind = "ldp_sgd"
c = 2.0
[grid]
n = [10_000]
[[method]]
kind = "oracle"
"""
STUDY = Study.from_toml(FILE)


def plan(**settings):
    return lf.plan(STUDY, compare=True, replicates=60, **settings)


@pytest.fixture(scope="module")
def compared():
    return plan(range=RANGE)


def test_a_row_per_quantile_and_protocol(compared):
    names = {"sgd", "rounds", "thresholds", "grr", "oue", "hrr", "haar", "tree"}
    assert {(row["tau"], row["protocol"]) for row in compared.rows} == {
        (t, p) for t in (0.5, 0.9) for p in names
    }
    assert not compared.refused
    assert compared.table().num_rows == 16
    assert all(row["epsilon"] == 1.0 and row["n"] == 10_000 for row in compared.rows)


def test_range_and_scale_of_the_study_s_own_protocols():
    mapping = STUDY.settings() | {
        "protocol": {"kind": "haar", "epsilon": 1.0, "range": [-6.3, 9.7], "scale_guess": 0.2},
        "method": [{"kind": "oracle"}, {"kind": "inversion"}],
    }
    found = compare_study(Study.from_mapping(mapping), replicates=20)
    given = compare_study(STUDY, range=RANGE, scale_guess=0.2, replicates=20)
    assert [row.bins for row in found] == [row.bins for row in given]
    assert [row.bins for row in found] != [
        row.bins for row in compare_study(STUDY, range=RANGE, replicates=20)
    ]


def test_axes_may_be_replaced_and_a_half_width_wanted():
    found = plan(range=RANGE, tau=0.5, n=[1e4, 1e5], length=0.1)
    assert [row["n"] for row in found.rows].count(10**5) == 8
    needed = [row["n_needed"] for row in found.rows if row["protocol"] == "sgd"]
    assert all(7961 * 1.05 < n < 7961 * 2 for n in needed), "the oracle's interval takes 7,961"


def test_every_caution_is_said_in_words(compared):
    cautious = [row for row in compared.rows if row["cautions"]]
    assert len(compared.cautions) == len(cautious)
    assert any("range_end" in text and "tau 0.9" in text for text in compared.cautions)


def test_drop_out_is_a_bias_that_no_n_repairs():
    found = plan(range=RANGE, tau=0.5, answer_below=1.0, answer_above=0.5)
    assert all("drop-out: bias -0.319 at every n" in row["cautions"] for row in found.rows)
    assert {row["users"] for row in found.rows} == {7500}


def test_every_quantile_has_its_own_steps_and_start():
    """c and theta0 given for each of several quantiles: those of sgd, and of cells, are the quantile's."""
    mapping = STUDY.settings() | {
        "problem": {"kind": "quantiles", "taus": [0.5, 0.9]},
        "mechanism": {"kind": "cells", "epsilon": 1.0},
        "algorithm": {"kind": "ldp_sgd", "c": [[1.0, 0.001]], "theta0": [[0.1, 1.0]]},
        "method": [{"kind": "TR", "degree": 1}],
    }
    found = compare_study(Study.from_mapping(mapping), range=RANGE, replicates=20)
    rows = {(row.protocol, row.tau): row for row in found}
    for protocol in ("sgd", "cells"):
        assert rows[protocol, 0.5].interval == "TR" and rows[protocol, 0.9].interval is None
        (caution, *_) = rows[protocol, 0.9].cautions
        assert "not arrived" in caution, "c = .001 is too small"


def test_answers_share_the_budget():
    found = plan(range=RANGE, tau=0.5, answers=4)
    (sgd,) = (row for row in found.rows if row["protocol"] == "sgd")
    assert sgd["efficiency_formula"] == pytest.approx(
        1.1706736 / repeated_bit_variance(0.5, 1.0, 4), rel=1e-6
    )
    assert all(row["bits"] % 4 == 0 and row["answers"] == 4 for row in found.rows)
    assert {row["epsilon"] for row in found.rows} == {1.0}, "of a user, for all answers together"


def test_a_response_rate_scales_the_users():
    found, full = (plan(range=RANGE, tau=0.5, response_rate=rate) for rate in (0.25, 1.0))
    assert {row["users"] for row in found.rows} == {2500}
    assert {row["users"] for row in full.rows} == {10_000} == {row["n"] for row in found.rows}


@pytest.mark.parametrize("answers", [1, 3])
def test_ldp_sgd_is_simulated_with_its_answers(answers):
    """Median of N(0, 1): TR's half width over that of the efficiency bound, 1.0 to 1.5; it covers."""
    found = lf.plan(
        STUDY.replace(tau=0.5, n=20_000, epsilon=2.0),
        compare=True,
        range=RANGE,
        replicates=320,
        answers=answers,
    )
    (sgd,) = (row for row in found.rows if row["protocol"] == "sgd")
    bound = 1.645 * (repeated_bit_variance(0.5, 2.0, answers) / 20_000 * 2 * 3.14159) ** 0.5
    assert 1.0 < sgd["half_width"] / bound < 1.5
    assert sgd["interval"] == "TR" and abs(sgd["coverage"] - 0.9) < 4 * 0.3 / 320**0.5 + 0.02


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("range", {}),
        ("range", {"range": (1.0, -1.0)}),
        ("scale_guess", {"range": RANGE, "scale_guess": 0.0}),
        ("answers", {"range": RANGE, "answers": 0}),
        ("answer_below", {"range": RANGE, "answer_below": 0.0}),
        ("liars", {"range": RANGE, "liars": -0.1}),
        ("pilot", {"range": RANGE, "pilot": "file.csv"}),
        ("difference", {"range": RANGE, "difference": 0.1}),
        ("bins", {"range": RANGE, "bins": 3}),
    ],
)
def test_what_is_refused(field, settings):
    with pytest.raises(InputError) as error:
        plan(**settings)
    assert error.value.field == field


def test_settings_of_a_comparison_need_one():
    with pytest.raises(InputError, match="compare") as error:
        lf.plan(STUDY, range=RANGE)
    assert error.value.field == "range"
    with pytest.raises(InputError) as error:
        plan(range=RANGE, tau=0.5).check()
    assert error.value.field == "check"


def test_a_problem_without_a_quantile_is_refused():
    mapping = STUDY.settings() | {
        "problem": {"kind": "mean"},
        "mechanism": {"kind": "laplace", "epsilon": 1.0},
    }
    with pytest.raises(InputError) as error:
        compare_study(Study.from_mapping(mapping), range=RANGE)
    assert error.value.field == "problem.kind"


def test_a_law_of_a_plug_in_is_refused():
    """The protocols of counts know no distribution function of its own."""
    lf.load_plugin(str(Path(__file__).parents[1] / "api" / "plugin_law.py"))
    mapping = STUDY.settings() | {"problem": {"kind": "quantile", "tau": 0.5, "law": "ramp"}}
    with pytest.raises(InputError, match="or a mixture") as error:
        compare_study(Study.from_mapping(mapping), range=(0.0, 1.0))
    assert error.value.field == "problem.law"


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "which.toml"
    file.write_text(FILE)
    arguments = ["plan", str(file), "--tau", "0.9", "--epsilon", "0.5", "--compare", "--rounds-max", "3"]
    assert main([*arguments, "--range", "-6.3", "9.7"]) == 0
    printed = capsys.readouterr().out
    for word in ("haar (k = 32)", "rounds (T = 5)", "coverage", "n too small", "rounds > 3"):
        assert word in printed
    assert main(["plan", str(file), "--compare"]) == 2
    assert "--range" in capsys.readouterr().err
    assert main(["plan", str(file), "--liars", "0.1"]) == 2
    assert "--compare" in capsys.readouterr().err
