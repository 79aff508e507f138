"""``ldpflow audit``: table, JSON, CSV, exit codes."""

from __future__ import annotations

import csv
import io
import json


def test_table(ldpflow):
    shown = ldpflow("audit", "randomized_response", "--epsilon", 2, "--samples", "2e4")
    assert shown.code == 0
    assert "epsilon = 2" in shown.out and "confidence 0.999" in shown.out


def test_json_and_csv(ldpflow):
    arguments = ("audit", "gaussian", "--mu", 1, "--samples", 20000, "--confidence", 0.99)
    (plain,) = json.loads(ldpflow(*arguments, "--format", "json").out)
    assert plain["parameter"] == "mu" and 0.9 < plain["bound"] <= 1.0 and plain["passed"]
    (row,) = csv.DictReader(io.StringIO(ldpflow(*arguments, "--format", "csv").out))
    assert float(row["bound"]) == plain["bound"] and row["passed"] == "True"


def test_a_claim_that_is_exceeded(ldpflow, monkeypatch):
    from ldpflow.mechanisms import MECHANISMS
    from tests.audit.test_mechanisms import HalfLaplace

    monkeypatch.setitem(MECHANISMS, "laplace", HalfLaplace)
    shown = ldpflow("audit", "laplace", "--samples", 50000)
    assert shown.code == 1 and "EXCEEDED" in shown.out


def test_refused(ldpflow):
    for arguments, said in (
        (("laplas",), "laplace"),
        (("none",), "privacy_notion"),
        (("laplace", "--problem", "quantil"), "quantile"),
        (("laplace", "--samples", "few"), "samples"),
    ):
        shown = ldpflow("audit", *arguments)
        assert shown.code == 2 and said in shown.err
