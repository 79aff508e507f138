"""Tables on a terminal: settings are whole at every width, and columns say something."""

from itertools import pairwise

import pyarrow as pa
import pytest

from ldpflow.cli.sheets import mean_effects, summary_sheet
from ldpflow.cli.tables import Sheet, latex, plain, write_csv
from tests.cli.conftest import cell, without


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    for name in ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


SETTINGS = ["tau", "epsilon", "n", "method", "beta"]


def shown(rows, capsys, **columns):
    summary_sheet(pa.Table.from_pylist([row | columns for row in rows])).show()
    return capsys.readouterr().out.splitlines()


def design(**columns):
    """A factorial design in which everything varies that people vary."""
    settings = [(tau, e, n) for tau in (0.25, 0.75) for e in (0.25, 0.5) for n in (1234, 10**6)]
    rows = [cell(tau=t, epsilon=e, n=n, beta=b, **columns) for t, e, n in settings for b in (0.65, 0.85)]
    return rows + [without(tau=t, epsilon=e, n=n, method="BM", **columns) for t, e, n in settings]


def header(lines):
    return next(i for i, line in enumerate(lines) if {"tau", "epsilon"} <= {*line.split()})


@pytest.mark.parametrize("width", [10, 60, 200])
@pytest.mark.parametrize("failures", [0, 40])
def test_settings_are_never_cut_and_results_are_left_out_by_name(capsys, monkeypatch, width, failures):
    monkeypatch.setenv("COLUMNS", str(width))
    rows = design() + design(replicates=640, failures=failures, coverage_failures_as_misses=0.825, gamma=0.7)
    lines = shown(rows, capsys)
    assert not any("…" in line for line in lines)
    start = header(lines)
    names = lines[start].split()
    assert set(names) >= {*SETTINGS, "gamma"} and ("coverage" in names) == (width > 10)
    table = lines[start + 2 :][:48]
    assert sum(" 0.880 ± 0.015" in line for line in lines) == 48
    assert {line.split()["#" in names] for line in table} == {"0.25", "0.75"}, "tau"
    assert {"1234", "1e6"} <= {word for line in table for word in line.split()}
    assert max(map(len, table)) <= max(width, 60)
    left = " ".join(" ".join(lines).split())
    for result in ("bias", "emp. SE", "length", "replicates"):
        assert result in " ".join(lines[start : start + 2]) or result in left.partition("too narrow for")[2]


def test_the_first_to_go_are_the_least_important(capsys, monkeypatch):
    rows = [*design(failures=40, coverage_failures_as_misses=0.8), cell(replicates=640)]
    names, kept = ["emp. SE", "bias", "replicates", "length", "misses"], []
    for width in range(160, 20, -12):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = shown(rows, capsys)
        whole, _, left = " ".join(" ".join(lines).split()).partition("(too narrow for")
        assert ("± 5.2e-5" in whole) == ("MCSE of length" not in left)
        kept.append([name for name in names if name in " ".join(lines[header(lines) : header(lines) + 2])])
    assert kept[0] == names and kept[-1] == []
    assert all(wide[len(wide) - len(narrow) :] == narrow for wide, narrow in pairwise(kept))


def test_failures_that_change_a_coverage_are_a_column_and_others_a_line(capsys):
    rows = design()
    rows[3] |= {"failures": 1, "coverage_failures_as_misses": 0.878}
    lines = shown(rows, capsys)
    assert "misses" not in " ".join(lines[header(lines) : header(lines) + 2])
    said = "1 of 12,000 intervals failed, at most 1 of 500 in a cell"
    assert f"{said}. Coverage is over the others; failures as misses lower it by up to 0.0020" in lines
    rows[3] |= {"failures": 175, "coverage_failures_as_misses": 0.57}
    lines = shown(rows, capsys)
    assert "misses" in " ".join(lines) and any("0.570 ± 0.015" in line for line in lines)
    assert sum(line.count("0.880 ± 0.015") == 2 for line in lines) == len(rows) - 1, "without failures too"


def test_what_one_kind_alone_has_is_no_constant(capsys):
    rows = [{"shape": 1.5 if law == "gamma" else None} | cell(law=law, n=n)
            for law in ("gamma", "normal") for n in (10, 20)]  # fmt: skip
    rows += [{"shape": None} | without(law="normal", n=n, method="BM") for n in (10, 20)]
    lines = shown(rows, capsys)
    (constants,) = (line for line in lines if "problem=quantile" in line)
    shared, *owned = constants.partition("(unclear). ")[2].split("; ")
    assert {"gamma: shape=1.5", "BB: beta=0.75  B=500  multiplier=uniform"} <= {*owned}
    assert "shape" not in shared and "level=0.9" in shared


def test_a_setting_of_some_rows_alone_is_a_column_and_a_list_that_varies_no_constant(capsys):
    """The number of coefficients tells the rows apart; the coefficients of one row are not those of all."""
    rows = [{"jitter": 0.5 if n == 10 else None} | cell(n=n) for n in (10, 20)]
    lines = shown(rows, capsys)
    assert "jitter" in next(line for line in lines if "coverage" in line).split()
    rows = [{"dimension": d, "coefficients": str([1.0] * d)} | cell() for d in (10, 20)]
    assert not any("[1.0" in line for line in shown(rows, capsys))


def test_the_terms_of_a_sum_are_side_by_side_below_where_a_window_is_narrow(capsys, monkeypatch):
    """In rows with the numbers of the rows above. No term is left out, of the lines of methods neither."""
    terms = {"level": "0.900", "length": "-0.253", "bias": "+0.060", "rest": "+0.093", "coverage": "0.800"}
    rows = [{"law": f"law {name}", **terms, "cause": "dependence"} for name in "ab"]
    methods = [{"method": "BM", "cells": 1, **terms}]
    law, level, *results = map(plain, rows[0])
    sheet = Sheet(rows, [law, level], results, together=[*terms], methods=methods, command="it")
    monkeypatch.setattr("ldpflow.cli.tables.MOST_ROWS", 1)
    for width in (80, 42):
        monkeypatch.setenv("COLUMNS", str(width))
        sheet.show(every=False)
        above, below = capsys.readouterr().out.split("2 rows, the first; all: it\n")
        heads = [line.split() for line in below.splitlines() if "level" in line]
        whole = [["#", "law", "level", "cause"], ["#", *terms]] if width < 80 else [[*rows[0]]]
        assert heads == whole
        assert {*terms} <= {*above.split()} and "too narrow" not in above + below
    assert below.splitlines()[-1].split() == ["2", *terms.values()]


def test_a_column_that_does_not_fit_beside_the_settings_stands_below(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    row = {"law": "lognormal", "cause": "dependence of error and length"}
    Sheet([row] * 2, [plain("law")], [plain("cause")]).show()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert [line.split() for line in lines if line.split()[-1] in row] == [["#", "law"], ["#", "cause"]]


def test_the_line_of_a_method_has_the_means_of_all_effects():
    """Of effects within two MCSE too. A cell without effects has a coverage with failures as misses."""
    one = {"level": 0.9, "coverage": 0.88, "coverage_failures_as_misses": 0.88, "length_effect": -0.008}
    one |= {"bias_effect": -0.004, "variability_effect": None, "rest_effect": -0.02}
    other = one | {"coverage": 0.874, "length_effect": -0.018, "bias_effect": 0.002}
    lost = {**dict.fromkeys(one), "level": 0.9, "coverage_failures_as_misses": 0.0}
    found = mean_effects([one, other, lost], ["length", "variability", "bias"])
    assert {name: found[name] for name in found if name.endswith(" term")} == {
        "length term": -0.013, "bias term": -0.001, "rest term": -0.009,
    }  # fmt: skip
    assert found["coverage"] == pytest.approx(0.877) and found["level"] == 0.9
    assert found["coverage_failures_as_misses"] == pytest.approx(1.76 / 3)
    assert "coverage" not in mean_effects([lost], ["length"])


def long_table():
    """48 cells; at epsilon 0.25 they cover less, least of all for BM at n = 1234."""
    rows = design() + design(gamma=0.7)
    for at, row in enumerate(rows):
        low = 0.5 if row["method"] == "BM" and row["n"] == 1234 else 0.75
        if row["epsilon"] == 0.25:
            row |= {"coverage": low + at / 1000, "coverage_failures_as_misses": low + at / 1000}
    return pa.Table.from_pylist(rows)


def test_a_long_table_has_a_line_for_each_method_and_the_ten_worst_cells(capsys):
    sheet = summary_sheet(long_table(), "ldpflow summary RUN --all")
    sheet.show(every=False)
    line = "10 of 48 rows, the worst; all: ldpflow summary RUN --all\n"
    methods, worst = capsys.readouterr().out.split(line)
    lines = [line.split() for line in methods.splitlines()]
    assert lines[0][:5] == ["method", "cells", "holds", "fails", "unclear"]
    assert [line[:2] for line in lines[1:]] == [["BB", "beta=0.65"], ["BB", "beta=0.85"], ["BM", "16"]]
    shown = [line.split() for line in worst.splitlines()[1:11]]
    coverages = [float(words[words.index("±") - 1]) for words in shown]
    assert coverages == sorted(coverages) and coverages[0] < 0.6 and {words[1] for words in shown} == {"0.25"}
    assert "± is one Monte Carlo standard error" in worst and "B=500" in worst
    summary_sheet(long_table(), ordered=True).show(every=False)
    assert "10 of 48 rows, the first" in capsys.readouterr().out
    sheet.show()
    whole = capsys.readouterr().out
    assert whole.count(" ± ") == 192 and "B=500" in whole and "of 48 rows" not in whole


def test_no_column_of_the_worst_rows_is_all_zeros(capsys):
    rows = long_table().to_pylist()
    best = max(range(48), key=lambda at: rows[at]["coverage"])
    rows[best] |= {"failures": 175, "coverage_failures_as_misses": 0.86}
    summary_sheet(pa.Table.from_pylist(rows)).show(every=False)
    methods, worst = capsys.readouterr().out.split("10 of 48 rows, the worst")
    assert "failures" in methods.splitlines()[0]
    assert worst.partition("± is")[0].count("failures") == 1 and "175 of 500" in worst


@pytest.mark.parametrize(("height", "count"), [(40, 10), (30, 10), (21, 8), (5, 3)])
def test_a_long_table_has_the_rows_that_its_window_has_lines_for(capsys, monkeypatch, height, count):
    for name, value in {"COLUMNS": "80", "LINES": height, "TTY_COMPATIBLE": 1}.items():
        monkeypatch.setenv(name, str(value))
    summary_sheet(long_table(), "ldpflow summary runs/quickstart --all").show(every=False)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if " of 48 rows" in line] == [str(count)]
    assert ("B=500" in " ".join(lines)) == (height > 21), "the shared settings make place for rows"
    assert height < 20 or len(lines) <= height - 2
    summary_sheet(long_table().slice(0, 28)).show(every=False)
    assert ("of 28 rows" in capsys.readouterr().out) == (height < 40), "28 rows and the lines around them"


def test_latex_is_for_booktabs_with_symbols_and_a_long_table_breaks_into_pages():
    titles = ["a_b", "length", "epsilon"]
    cells = [["x & y", "-8.4e-5 ± 1e-6", "1e5"], ["50%", "none", "12,345"]]
    head = [r"\toprule", r"a\_b & length & $\varepsilon$ \\", r"\midrule"]
    body = [r"x \& y & $-8.4 \times 10^{-5} \pm 10^{-6}$ & $10^{5}$ \\", r"50\% & none & $12{,}345$ \\"]
    lines = latex(titles, cells).splitlines()
    assert lines == [r"\begin{tabular}{lrr}", *head, *body, r"\bottomrule", r"\end{tabular}"]
    long = latex(titles, cells * 21).splitlines()
    assert long[:5] == [r"\begin{longtable}{lrr}", *head, r"\endhead"] and long[-1] == r"\end{longtable}"


@pytest.mark.parametrize("formula", ["=1+1", "@SUM(A1)"])
def test_csv_of_any_command_has_no_formula(formula, capsys):
    write_csv(["name", formula], [{"name": formula, formula: -1.5}, {"name": "BB"}])
    assert capsys.readouterr().out == f"name,'{formula}\n'{formula},-1.5\nBB,\n"


def test_a_coordinate_is_named_by_its_quantile_and_no_digest_is_printed(capsys):
    rows = [cell(coordinate=j, taus="[0.5, 0.9]", sha256="04254d") for j in (0, 1)]
    rows = [{name: row[name] for name in ("taus", "sha256")} | row for row in rows]  # settings stand first
    lines = shown(rows, capsys)
    assert [line.split()[:3] for line in lines if "(tau" in line] == [
        ["0", "(tau", "0.5)"],
        ["1", "(tau", "0.9)"],
    ]
    assert "04254d" not in " ".join(lines) and "taus=[0.5, 0.9]" in " ".join(lines)
