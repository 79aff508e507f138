"""``lf.plan(compare=True)`` and ``ldpflow plan --compare``: rows of a study, cautions, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.errors import InputError
from ldpflow.mechanisms.deployed_response import DeployedResponse
from ldpflow.planning import compare_study
from ldpflow.planning.forecast import Steps
from ldpflow.planning.protocols_plan import simulated_sgd
from ldpflow.problems.quantile import Quantile
from ldpflow.study import Study
from ldpflow.theory.private_quantile import repeated_bit_variance

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
    needed = {row["n_needed"] for row in found.rows if row["protocol"] == "sgd"}
    assert needed == {7961}


def test_every_caution_is_said_in_words(compared):
    cautious = [row for row in compared.rows if row["cautions"]]
    assert len(compared.cautions) == len(cautious)
    assert any("range_end" in text and "tau 0.9" in text for text in compared.cautions)


def test_drop_out_is_a_bias_that_no_n_repairs():
    found = plan(range=RANGE, tau=0.5, answer_below=1.0, answer_above=0.5)
    assert all("drop-out: bias -0.319 at every n" in row["cautions"] for row in found.rows)
    (sgd,) = (row for row in found.rows if row["protocol"] == "sgd")
    (full,) = (row for row in plan(range=RANGE, tau=0.5).rows if row["protocol"] == "sgd")
    assert sgd["half_width_formula"] == pytest.approx(full["half_width_formula"] / np.sqrt(0.75), rel=1e-3)


def test_answers_share_the_budget():
    found = plan(range=RANGE, tau=0.5, answers=4)
    (sgd,) = (row for row in found.rows if row["protocol"] == "sgd")
    assert sgd["efficiency_formula"] == pytest.approx(
        1.1706736 / repeated_bit_variance(0.5, 1.0, 4), rel=1e-6
    )
    assert all(row["bits"] % 4 == 0 for row in found.rows)


def test_a_response_rate_scales_the_users():
    found, full = (plan(range=RANGE, tau=0.5, response_rate=rate) for rate in (0.25, 1.0))
    widths = [row["half_width_formula"] for p in (found, full) for row in p.rows if row["protocol"] == "sgd"]
    assert widths[0] == pytest.approx(2 * widths[1], rel=1e-3)


def test_ldp_sgd_is_simulated_where_asked():
    found = plan(range=RANGE, tau=0.5, simulate_sgd=True)
    (sgd,) = (row for row in found.rows if row["protocol"] == "sgd")
    assert 0.7 < sgd["coverage"] <= 1.0
    assert 0.5 < sgd["efficiency"] < 2.0


@pytest.mark.parametrize("answers", [1, 3])
def test_averages_of_ldp_sgd_have_the_predicted_spread(answers):
    """Median of N(0, 1), 20,000 users, 320 replicates: RMSE within 4 Monte Carlo errors and 8%."""
    mechanism = DeployedResponse(epsilon=2.0, answers=answers)
    found = simulated_sgd(Quantile(), mechanism, Steps(), 20_000, 0.9, 320)
    error = np.sqrt(repeated_bit_variance(0.5, 2.0, answers) / 20_000 * 2 * np.pi)
    assert found.rmse(0.0) / error == pytest.approx(1.0, abs=0.08 + 4 / np.sqrt(640))
    assert abs(found.coverage(0.0) - 0.9) < 4 * 0.3 / np.sqrt(320) + 0.02


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


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "which.toml"
    file.write_text(FILE)
    arguments = ["plan", str(file), "--tau", "0.9", "--epsilon", "0.5", "--compare", "--rounds-max", "3"]
    assert main([*arguments, "--range", "-6.3", "9.7"]) == 0
    printed = capsys.readouterr().out
    for word in ("haar (k = 32)", "rounds (T = 5)", "efficiency", "n too small", "rounds > 3"):
        assert word in printed
    assert main(["plan", str(file), "--compare"]) == 2
    assert "--range" in capsys.readouterr().err
    assert main(["plan", str(file), "--liars", "0.1"]) == 2
    assert "--compare" in capsys.readouterr().err
