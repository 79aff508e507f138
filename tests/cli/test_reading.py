"""explain, compare, plan, the best rows and the targets of sweep, as a user types them."""

import csv
import io
import json
import re
import shlex
from decimal import Decimal

import pytest

SWEEP = ("sweep", "quickstart", "--n", "300", "--epsilon", "1", "--epsilon", "2", "--B", "50",
         "--engine", "serial")  # fmt: skip


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    from ldpflow.cli import main

    out = tmp_path_factory.mktemp("reading") / "run"
    assert main([*SWEEP, "--replicates", "64", "--quiet", "--out", str(out)]) == 0
    return out


def joined(text):
    return " ".join(text.split())


def test_explain_is_a_table_whose_terms_add_up(ldpflow, run_directory):
    shown = joined(ldpflow("explain", run_directory).out)
    assert "main cause" in shown and "MCSEs of effects: up to 0." in shown
    assert "Level 0.9 + effects + rest = coverage" in shown and "level=0.9" in shown
    written = ldpflow("explain", run_directory, "--format", "md").out.splitlines()
    head, _, *cells = (
        [word.strip() for word in line.split("|")[1:-1]] for line in written if line[:1] == "|"
    )
    assert len(cells) == 12
    for row in (dict(zip(head, cell, strict=True)) for cell in cells):
        names = head[head.index("length") : head.index("coverage") + 1]
        assert all(" ± 0." in row[name] or row[name] == "-" for name in names)
        texts = ("0" if row[name] == "-" else row[name].partition(" ±")[0] for name in names)
        *terms, coverage = map(Decimal, texts)
        assert sum(terms) + Decimal("0.9") == coverage


def test_explain_verbose_has_sentences(ldpflow, run_directory, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    lines = ldpflow("explain", run_directory, "--verbose", "--where", "method == 'BB'").out.splitlines()
    cells = [line for line in lines if ": Coverage 0." in line]
    assert len(cells) == 6 and cells[0].startswith("epsilon 1, beta 0.65: ")
    assert all("at level 0.9" in line and ": 0.900 (level) " in line for line in cells)
    assert "± is one Monte Carlo standard error" in " ".join(lines) and "6 of 12 rows" in " ".join(lines)


def test_compare(ldpflow, run_directory):
    shown = ldpflow("compare", run_directory, "--baseline", "SN").out
    assert shown.startswith("Differences from SN, and ratios to it:")
    assert "smallest comparison has 64 pairs" in joined(shown)
    shown = joined(ldpflow("compare", run_directory, "--where", "method == 'SN'").out)
    assert "2 of 10 rows: those with method == 'SN'" in shown and "method=SN" in shown
    shown = joined(ldpflow("compare", run_directory, "--by", "beta", "--baseline", "0.75").out)
    assert "6 cells (BM, SN, TR) are not compared" in shown and "Differences from beta=0.75," in shown


def test_a_window_of_80_columns_has_all_terms_of_the_sums(ldpflow, run_directory, monkeypatch):
    """The worst rows of a long table; a level that all rows share is no column."""
    monkeypatch.setattr("ldpflow.cli.tables.MOST_ROWS", 4)
    monkeypatch.chdir(run_directory.parent)
    for name, value in {"COLUMNS": "80", "LINES": "28", "TTY_COMPATIBLE": "1"}.items():
        monkeypatch.setenv(name, value)
    assert len(ldpflow("compare", "run").out.splitlines()) <= 26
    text = re.sub(r"\x1b\[\d*m", "", ldpflow("explain", "run").out)
    above, _, below = text.partition(" of 12 rows, the worst")
    count, lines = int(above.split()[-1]), below.splitlines()[1:]
    first, second = (at for at, line in enumerate(lines) if line.startswith("#"))
    assert count == 3
    assert {"epsilon", "method", "beta", "cause"} <= {*lines[first].split()}
    assert {"length", "rest", "coverage"} <= {*lines[second].split()} and "level" not in lines[second]
    assert all(" ± 0." in line for line in lines[second + 1 :][:count])


@pytest.mark.parametrize("command", ["summary", "explain", "compare"])
def test_every_format_has_every_row(ldpflow, run_directory, command):
    forms = ("csv", "json", "md", "latex")
    shown = {form: ldpflow(command, run_directory, "--format", form).out for form in forms}
    methods = [row["method"] for row in json.loads(shown["json"])]
    assert [row["method"] for row in csv.DictReader(io.StringIO(shown["csv"]))] == methods
    assert shown["md"].count("\n| ") == len(methods) + 1
    head, body = shown["latex"].split("\\midrule\n")
    body, notes = body.split("\\bottomrule\n\\end{tabular}\n")
    assert head.startswith("\\begin{tabular}{") and body.count(" \\\\\n") == len(methods)
    assert {line.count("&") for line in body.splitlines()} == {head.splitlines()[2].count("&")}
    assert "SN" in body and all(line.startswith("% ") for line in notes.splitlines())


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["summary", "--where", "n == 300"], "holds"),
        (["explain", "--where", "n == 300"], "length"),
        (["compare", "--by", "epsilon", "--baseline", "2"], "higher"),
    ],
)
def test_a_long_table_begins_with_the_methods(ldpflow, run_directory, monkeypatch, words, title):
    monkeypatch.setattr("ldpflow.cli.tables.MOST_ROWS", 4)
    monkeypatch.setattr("ldpflow.cli.tables.WORST", 3)
    command, *options = words
    shown = ldpflow(command, run_directory, *options)
    methods, _, rest = shown.out.partition("3 of ")
    assert shown.code == 0 and title in methods
    lines = [line.split()[0] for line in methods.splitlines() if line.strip()][-6:]
    assert lines == ["BB", "BB", "BB", "BM", "SN", "TR"]
    typed = joined(rest).partition("all: ")[2].partition(" --all")[0]
    assert typed == shlex.join(["ldpflow", command, str(run_directory), *options])
    whole = ldpflow(*shlex.split(typed)[1:], "--all")
    assert whole.code == 0 and "all: ldpflow" not in whole.out
    if command == "explain":
        some, every = (ldpflow(command, run_directory, "--verbose", *more).out for more in ((), ("--all",)))
        assert [joined(text).count(" MCSE at level 0.9") for text in (some, every)] == [3, 12]
        assert "--all --verbose" in joined(some)


def test_the_best_rows(ldpflow, run_directory, monkeypatch):
    rows = json.loads(ldpflow("summary", run_directory, "--best", "--format", "json").out)
    assert [(row["epsilon"], row["candidates"]) for row in rows] == [(1.0, 6), (2.0, 6)]
    monkeypatch.setenv("COLUMNS", "80")
    shown = ldpflow("summary", run_directory, "--best", "--where", "method == 'BB'").out
    assert "method=BB" in shown or " BB " in shown
    assert "chosen from 6 of 12 rows" in joined(shown) and "another seed" in joined(shown)
    assert {"epsilon", "coverage", "state", "length"} <= {*shown.splitlines()[0].split()}
    shown = ldpflow("summary", run_directory, "--null", "10").out
    assert "power" in shown and "1 ± 0" in shown


def test_the_best_of_a_sweep_over_step_sizes(ldpflow, tmp_path):
    sweep = ("sweep", "quickstart", "--n", "2000", "--epsilon", "2", "--epsilon", "4", "--replicates", "300",
             "--c", "1000", "--c", "2", "--method", "BB", "--method", "oracle", "--beta", "0.7",
             "--beta", "0.98", "--B", "50", "--engine", "serial", "--quiet", "--out", tmp_path)  # fmt: skip
    assert ldpflow(*sweep).code == 0
    rows = json.loads(ldpflow("summary", tmp_path, "--best", "--format", "json").out)
    found = [(row["epsilon"], row["c"], row["beta"], row["method"], row["candidates"]) for row in rows]
    assert found == [(2.0, 2.0, 0.7, "BB", 4), (4.0, 2.0, 0.7, "BB", 4)]


def test_explain_and_compare_show_the_columns_asked_for(ldpflow, run_directory):
    shown = ldpflow("explain", run_directory, "--columns", "n,method", "--where", "method == 'SN'").out
    lines = [line.split() for line in shown.splitlines()]
    assert lines[:1] + lines[2:4] == [["epsilon", "n", "method"], ["1", "300", "SN"], ["2", "300", "SN"]]
    assert "level=0.9" in shown and "2 of 12 rows: those with" in joined(shown)
    shown = ldpflow("summary", run_directory, "--columns", "epsilon,method,beta", "--format", "latex").out
    assert "% problem=quantile" in shown and "epsilon" not in shown.partition("varepsilon")[2][:30]
    words = ("--columns", "state", "--sort", "state", "--where", "state != 'x'", "--format", "csv")
    head, *states = ldpflow("explain", run_directory, *words).out.split()
    assert head == "state" and len(states) == 12 and states == sorted(states)
    shown = ldpflow("summary", run_directory, "--columns", "method,length_mean,state", "--format", "md").out
    assert " ± " in shown and shown.count("clear |") + shown.count("s |\n") >= 12
    for flag, name, hint in (("columns", "-pairs", "pairs"), ("sort", "lenght_ratio", "length_ratio")):
        refused = ldpflow("compare", run_directory, f"--{flag}={name}")
        assert refused.code == 2 and f"--{flag}: '{name}'" in refused.err and f"'{hint}'" in refused.err


def test_the_last_line_of_a_sweep_says_what_is_there_and_what_was_computed(ldpflow, tmp_path):
    flags = ["--epsilon", "1", "--n", "300", "--method", "SN", "--engine", "serial", "--no-progress"]

    def last(*more):
        shown = ldpflow("sweep", *flags, "--out", tmp_path, *more)
        assert shown.code == 0 and "Next: ldpflow report" in shown.out, shown.err
        assert ("--out gives a run" in shown.err) == ("--level" in more)
        return shown.out.splitlines()[-1].partition("; rows in ")[0]

    assert last("--replicates", 40).startswith("40 replicates; computed in ")
    assert last("--replicates", 10) == "40 replicates; nothing was computed"
    assert last("--replicates", 50, "--level", "0.8").startswith("50 replicates; computed in ")
    assert last("--target-mcse", "0.2", "--max-replicates", "256").startswith("at least 256 replicates; ")
    refused = ldpflow("sweep", "--target-mcse", "0.2", "--replicates", "500")
    assert refused.err.startswith("ldpflow: --replicates")
