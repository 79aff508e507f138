"""``ldpflow privacy``: text, JSON, and what is refused."""

import json

import pytest

UNEVEN = "deployed_response --epsilon 1 --set answer_below=0.2 --set answer_above=0.9 --set answers=4"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--reports 3 --epsilon 2", "epsilon = 2:|All 3 reports of one user|epsilon = 6:|Viswanath 2015"),
        # A formula gives 2.619, but three people in a known order leak 2.956.
        ("--response-rate 0.6667 --epsilon 3", "No guarantee beyond those above"),
        (UNEVEN, "One report Against|epsilon = 0.25:|All 4 reports|epsilon = 1:|e^2.505 = 12.24 times"),
        # Of pure DP e^eps 5% for eps = 1 and 1 - .95 e^-eps for eps = 3, of Gaussian DP Phi(mu - 1.645).
        ("--epsilon 1", "afterwards. Let a test|at most 13.6% of|mu = 1.233. Let a test|most 34.0%"),
        ("--epsilon 3", "it in at most 95.3% of|mu = 3.341. Let a test|it in at most 95.6% of"),
    ],
)
def test_text(ldpflow, arguments, said):
    kind = [] if arguments == UNEVEN else ["randomized_response"]
    shown = ldpflow("privacy", *kind, *arguments.split())
    text = " ".join(shown.out.split())
    assert shown.code == 0 and all(words in text for words in said.split("|"))
    assert "2.619" not in text and "Balle" not in text


def test_json(ldpflow):
    sample = ("--response-rate", 0.2, "--secret-sample", "--format", "json")
    shown = ldpflow("privacy", "clipped_gaussian", "--mu", 0.5, "--set", "clip=3", *sample)
    page = json.loads(shown.out)
    assert page["settings"] == {"clip": 3.0, "mu": 0.5}
    one, sampled = page["guarantees"]
    assert one["epsilon"] is None and one["mu"] == 0.5
    assert 0 < sampled["epsilon_at_delta"] < one["epsilon_at_delta"]
    assert page["design"]["secret_sample"]
    page = json.loads(ldpflow("privacy", "haar", "--epsilon", "1.5", "--format", "json").out)
    assert page["settings"] == {"epsilon": 1.5} and page["guarantees"][0]["epsilon"] == 1.5
    assert page["local"] and page["collected"] == [], "of a protocol"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("laplacian",), "MECHANISM"),
        (("laplace", "--mu", 1), "--mu"),
        (("laplace", "--epsilon", 1, "--shuffled", "--users", "some"), "--users"),
        (("laplace", "--set", "clip"), "--set"),
        (("laplace",), "epsilon is missing"),
        (("haar",), "protocol.epsilon is missing"),
    ],
)
def test_refused(ldpflow, arguments, field):
    shown = ldpflow("privacy", *arguments)
    assert shown.code == 2 and field in shown.err and "Traceback" not in shown.err


PROTOCOL = "[protocol]\nkind = 'haar'\nepsilon = 1.0\nrange = [0.0, 64.0]\nk = 16\n"
PATH = (
    "[mechanism]\nkind = 'cells'\nepsilon = 1.0\n[algorithm]\nkind = 'minibatch_sgd'\nbatch_size = 200\n"
    "c = 3.0\ntheta0 = 20.0\n"
)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (PROTOCOL, "200,000 users|in one round: a bit|drawn at random|range = (0.0, 64.0), k = 16"),
        (PATH, "1,000 rounds of 200: the number of a cell|follows from the reports of earlier rounds"),
    ],
)
def test_a_design(ldpflow, tmp_path, tables, said):
    """Users, rounds and what the collector sees; the pilot's file need not be there and is not named."""
    design = tmp_path / "design.toml"
    design.write_text(
        "name = 'sessions'\n[problem]\nkind = 'quantiles'\ntaus = [0.5, 0.9]\nlaw = 'empirical'\n"
        f"file = 'pilot.csv'\n{tables}[grid]\nn = 200_000\n[[method]]\nkind = 'inversion'\n"
        "[collection]\nreports = 2\n"
    )
    shown = ldpflow("privacy", design)
    text = " ".join(shown.out.split())
    assert shown.code == 0 and "pilot.csv" not in text and "Pure DP with epsilon = 1:" in text
    said += "|The value stays on the device|chosen from a pilot|2 reports of each in all|All 2 reports"
    for words in said.split("|"):
        assert words in text
    shuffled = json.loads(ldpflow("privacy", design, "--shuffled", "--format", "json").out)
    assert shuffled["design"]["users"] == 200_000
    assert ldpflow("privacy", design, "--epsilon", 2).code == 2
    cited = ldpflow("cite", design)
    assert cited.code == 0 and ("cormode2019" in cited.out) == (tables == PROTOCOL)
    assert ldpflow("cite", design, "--text").code == 2
    design.write_text("problem = 3")
    assert [ldpflow(command, design).code for command in ("cite", "privacy")] == [2, 2]
