"""``ldpflow privacy``: text, JSON, and what is refused."""

from __future__ import annotations

import json
import math

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
    proved = ldpflow(
        "privacy", "randomized_response", "--epsilon", 3, "--response-rate", 2 / 3, "--secret-sample"
    )
    text = " ".join(proved.out.split())
    assert "epsilon = 2.619" in text and "Balle" in text
    assert "number of responders was fixed beforehand" in text and "random order that stays secret" in text


def test_users_who_do_not_answer(ldpflow):
    rates = ("--set", "answer_below=0.2", "--set", "answer_above=0.9")
    shown = ldpflow("privacy", "deployed_response", "--epsilon", 1, *rates, "--set", "answers=4")
    text = " ".join(shown.out.split())
    assert "One report Against" in text and "Pure DP with epsilon = 0.25:" in text
    assert "All 4 reports of one user" in text and "Pure DP with epsilon = 1:" in text
    assert "Whether a user answers" in text and "e^2.504 = 12.23 times" in text


def test_shuffled(ldpflow):
    arguments = ("--shuffled", "--users", "1e6", "--format", "json")
    page = json.loads(ldpflow("privacy", "laplace", "--epsilon", "1", *arguments).out)
    shuffled = page["guarantees"][-1]
    e = math.e
    rest = 8 * math.sqrt(e * math.log(4e6)) / 1e3 + 8 * e / 1e6
    assert shuffled["epsilon_at_delta"] == pytest.approx(math.log1p((e - 1) / (e + 1) * rest))


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


def test_a_protocol_is_no_mechanism(ldpflow):
    refused = ldpflow("privacy", "haar", "--epsilon", "1")
    assert refused.code == 2 and "haar" in refused.err and "randomized_response" in refused.err


@pytest.mark.parametrize(("epsilon", "most"), [("1", "13.6%"), ("0.1", "5.5%"), ("3", "95.3%")])
def test_power_is_the_smaller_of_both_bounds(ldpflow, epsilon, most):
    """e^eps 5% for eps = 1 and .1; 1 - .95 e^-eps for eps = 3."""
    text = " ".join(ldpflow("privacy", "randomized_response", "--epsilon", epsilon).out.split())
    assert f"finds the second in at most {most} (without" in text
