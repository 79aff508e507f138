"""``ldpflow privacy``: text, JSON, and what is refused."""

from __future__ import annotations

import json

import pytest


def test_text(ldpflow):
    shown = ldpflow("privacy", "randomized_response", "--epsilon", 2, "--reports", 3)
    assert shown.code == 0
    assert "Pure DP with epsilon = 2:" in shown.out
    assert "All 3 reports of one user" in shown.out and "epsilon = 6:" in shown.out
    assert "Kairouz, Oh and Viswanath 2015" in shown.out


def test_json(ldpflow):
    sample = ("--response-rate", 0.2, "--secret-sample", "--format", "json")
    shown = ldpflow("privacy", "clipped_gaussian", "--mu", 0.5, "--set", "clip=3", *sample)
    page = json.loads(shown.out)
    assert page["settings"] == {"clip": 3.0, "mu": 0.5}
    one, sampled = page["guarantees"]
    assert one["epsilon"] is None and one["mu"] == 0.5
    assert 0 < sampled["epsilon_at_delta"] < one["epsilon_at_delta"]
    assert page["design"]["secret_sample"]


def test_a_response_rate_promises_nothing_by_itself(ldpflow):
    """The issue's command claimed 2.619; three people in a known order leak 2.956."""
    shown = ldpflow("privacy", "randomized_response", "--epsilon", 3, "--response-rate", 2 / 3)
    text = " ".join(shown.out.split())
    assert shown.code == 0 and "2.619" not in text and "Balle" not in text
    assert "No guarantee beyond those above" in text and "LDP-SGD" in text


def test_users_who_do_not_answer(ldpflow):
    rates = ("--set", "answer_below=0.2", "--set", "answer_above=0.9")
    shown = ldpflow("privacy", "deployed_response", "--epsilon", 1, *rates, "--set", "answers=4")
    text = " ".join(shown.out.split())
    assert "One report Against" in text and "Pure DP with epsilon = 0.25:" in text
    assert "All 4 reports of one user" in text and "Pure DP with epsilon = 1:" in text
    assert "Whether a user answers" in text and "e^2.504 = 12.23 times" in text


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("laplacian",), "MECHANISM"),
        (("laplace", "--mu", 1), "--mu"),
        (("laplace", "--epsilon", -1), "--epsilon"),
        (("laplace", "--epsilon", 1, "--reports", 0), "--reports"),
        (("laplace", "--epsilon", 1, "--shuffled"), "--users"),
        (("laplace", "--epsilon", 1, "--shuffled", "--users", "some"), "--users"),
        (("laplace", "--set", "clip"), "--set"),
        (("laplace", "--epsilon", 1, "--secret-sample"), "--secret-sample"),
        (("laplace",), "epsilon is missing"),
    ],
)
def test_refused(ldpflow, arguments, field):
    shown = ldpflow("privacy", *arguments)
    assert shown.code == 2 and field in shown.err and "Traceback" not in shown.err


def test_a_protocol(ldpflow):
    """Its guarantee depends on epsilon alone."""
    page = json.loads(ldpflow("privacy", "haar", "--epsilon", "1.5", "--format", "json").out)
    assert page["settings"] == {"epsilon": 1.5} and page["guarantees"][0]["epsilon"] == 1.5
    assert page["local"] and page["collected"] == []
    assert "protocol.epsilon is missing" in ldpflow("privacy", "haar").err


PROTOCOL = "[protocol]\nkind = 'haar'\nepsilon = 1.0\nrange = [0.0, 64.0]\nk = 16\n"
PATH = (
    "[mechanism]\nkind = 'cells'\nepsilon = 1.0\n[algorithm]\nkind = 'minibatch_sgd'\nbatch_size = 200\n"
    "c = 3.0\ntheta0 = 20.0\n"
)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (
            PROTOCOL,
            ("200,000 users", "in one round: a bit", "drawn at random", "range = (0.0, 64.0), k = 16"),
        ),
        (PATH, ("1,000 rounds of 200: the number of a cell", "follows from the reports of earlier rounds")),
    ],
)
def test_a_design(ldpflow, tmp_path, tables, said):
    """Users, rounds and what the collector sees; the pilot's file need not be there and is not named."""
    design = tmp_path / "design.toml"
    design.write_text(
        "name = 'sessions'\n[problem]\nkind = 'quantiles'\ntaus = [0.5, 0.9]\nlaw = 'empirical'\n"
        f"file = 'pilot.csv'\n{tables}[grid]\nn = 200_000\n[[method]]\nkind = 'inversion'\n"
    )
    shown = ldpflow("privacy", design)
    text = " ".join(shown.out.split())
    assert shown.code == 0 and "pilot.csv" not in text and "Pure DP with epsilon = 1:" in text
    for words in (*said, "The value stays on the device", "chosen from a pilot"):
        assert words in text
    shuffled = json.loads(ldpflow("privacy", design, "--shuffled", "--format", "json").out)
    assert shuffled["design"]["users"] == 200_000
    assert ldpflow("privacy", design, "--epsilon", 2).code == 2
    cited = ldpflow("cite", design)
    assert cited.code == 0 and ("cormode2019" in cited.out) == (tables == PROTOCOL)
    assert ldpflow("cite", design, "--text").code == 2
    design.write_text("problem = 3")
    assert [ldpflow(command, design).code for command in ("cite", "privacy")] == [2, 2]


@pytest.mark.parametrize(("epsilon", "most"), [("1", "13.6%"), ("0.1", "5.5%"), ("3", "95.3%")])
def test_power_is_the_smaller_of_both_bounds(ldpflow, epsilon, most):
    """e^eps 5% for eps = 1 and .1; 1 - .95 e^-eps for eps = 3."""
    text = " ".join(ldpflow("privacy", "randomized_response", "--epsilon", epsilon).out.split())
    assert f"finds the second in at most {most} (without" in text
