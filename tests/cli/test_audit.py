"""``ldpflow audit``: table, JSON, CSV, exit codes."""

import csv
import io
import json


def test_table_json_and_csv(ldpflow):
    arguments = ("audit", "gaussian", "--mu", 1, "--samples", "2e4", "--confidence", 0.99, "--format")
    shown = ldpflow(*arguments, "table")
    assert shown.code == 0 and "mu = 1" in shown.out and "confidence 0.99" in shown.out
    (plain,) = json.loads(ldpflow(*arguments, "json").out)
    assert plain["parameter"] == "mu" and 0.9 < plain["bound"] <= 1.0 and plain["passed"]
    (row,) = csv.DictReader(io.StringIO(ldpflow(*arguments, "csv").out))
    assert float(row["bound"]) == plain["bound"] and row["passed"] == "True"


PLUGIN = """
import ldpflow as lf
from typing import Literal
from ldpflow.components.mechanisms.laplace import Laplace


@lf.register
class Halved(Laplace):
    \"\"\"Laplace noise of half the scale that it claims.\"\"\"

    kind: Literal["halved"] = "halved"

    def kernel_parameters(self, problem):
        return {name: value / 2 for name, value in super().kernel_parameters(problem).items()}
"""


def test_a_mechanism_of_ones_own(tmp_path, ldpflow):
    file = tmp_path / "halved.py"
    file.write_text(PLUGIN)
    arguments = ["halved", "--epsilon", "1", "--plugin", file]
    audited = ldpflow("audit", *arguments, "--samples", "2e4")
    assert audited.code == 1 and "EXCEEDED" in audited.out, audited.err
    page = ldpflow("privacy", *arguments)
    assert page.code == 0 and "Pure DP with epsilon = 1" in page.out, page.err
