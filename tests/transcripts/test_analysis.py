"""From a transcript to intervals, flags, words and exit codes."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import ldpflow as lf
from ldpflow.errors import InputError
from ldpflow.practice.transcripts import reading
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.collection import read_collection
from ldpflow.practice.transcripts.fold import CollectedPath, Fold, UnknownLaw
from ldpflow.practice.transcripts.methods import Methods
from ldpflow.practice.transcripts.reading import RowError
from ldpflow.practice.transcripts.result import Verdict, arrival_of, interval_words, verdict_of
from ldpflow.report.analysis_page import analysis_html
from tests.oracles.transcript import SETTINGS, cell_demo, demo, folded, values
from tests.transcripts.conftest import as_table, changed, field_of, write

BM = {"method": [{"kind": "BM"}]}
CUBIC = {"kind": "TR", "degree": 3, "burn_in": "0.01n"}


@pytest.fixture(scope="module")
def analysis(rows):
    return analyse(as_table(rows[0]), SETTINGS)


def limits(analysis, method, degree=None):
    (row,) = [r for r in analysis.rows if r["method"] == method and r.get("degree") == degree]
    return row["estimate"], row["lower"], row["upper"]


def test_the_specified_numbers(rows, analysis):
    """Last theta, reports and limits of the demonstration transcript, computed by another program."""
    assert rows[1] == pytest.approx(38.747747760540, abs=1e-12)
    assert sum(report for _, report in rows[0]) == 13_702
    assert limits(analysis, "BM") == pytest.approx((39.205241, 38.083402, 40.327080), abs=1e-6)
    assert limits(analysis, "SN")[1:] == pytest.approx((36.284438, 42.126044), abs=1e-6)
    assert limits(analysis, "TR", 2) == pytest.approx((38.421517, 36.802362, 40.157755), abs=1e-6)
    assert limits(analysis, "TR-BM", 2)[1:] == pytest.approx((37.039593, 39.803442), abs=1e-6)
    (row,) = [r for r in analysis.rows if r["method"] == "TR" and r.get("degree") == 2]
    assert row["relaxation_times"] == pytest.approx(78.05, abs=0.01)
    assert row["lack_of_fit"] == pytest.approx(1.561, abs=0.001)
    kinds = {row["method"] for row in analysis.rows}
    assert kinds == {*"BB BM SN TR TR-BM TRC NOL OBM EBS LUG SUF CHB".split()}


def numbers(analysis):
    names = ("method", "degree", "estimate", "se", "lower", "upper", "relaxation_times", "condition")
    return [[row.get(name) for name in names] for row in analysis.rows]


def test_files_and_tables_of_several_kinds_give_equal_bits(rows, analysis, tmp_path, monkeypatch):
    table = as_table(rows[0])
    columns = table.to_pydict()
    frames = [pytest.importorskip(name).DataFrame(columns) for name in ("pandas", "polars")]
    files = [write(table, tmp_path / f"transcript{kind}") for kind in (".csv", ".parquet")]
    for source in (columns, lf.Transcript.of(table), *frames):
        assert numbers(lf.analyse(source, SETTINGS)) == numbers(analysis)
    monkeypatch.setattr(reading, "CHUNK", 999)
    for file in files:
        assert numbers(analyse(file, SETTINGS)) == numbers(analysis)


def test_the_method_to_report(rows, analysis):
    """The settings' [method] is reported, and alone; [[method]] says which rows there are."""
    found = analyse(as_table(rows[0]), SETTINGS | {"method": CUBIC})
    assert (found.reported()["method"], found.reported()["degree"]) == ("TR", 3)
    assert analysis.reported()["degree"] == 2
    assert [(row["method"], row["degree"]) for row in found.asked] == [("TR", 3)]
    assert "degree 3" in found.methods_paragraph()
    other = analyse(as_table(rows[0]), SETTINGS | {"method": {"kind": "BM", "M": 20}})
    assert other.reported()["method"] == "BM" and other.reported()["M"] == 20


def test_degree_2_is_reported_where_degree_3_has_no_interval():
    """The score set of the cubic has no end here, that of the parabola has one."""
    rows, _ = demo(n=2000, c=20.0)
    settings = SETTINGS | {"algorithm": {"c": 20.0, "gamma": 0.51}}
    found = analyse(as_table(rows), settings | {"method": CUBIC})
    (cubic,) = [row for row in found.asked if row.get("degree") == 3]
    assert cubic["status"] == "undefined"
    assert found.reported()["degree"] == 2 and "undefined_3" in found.flags
    assert found.exit_code() == 0 and found.exit_code(strict=True) == 1
    alone = analyse(as_table(rows), settings | {"method": [CUBIC]})
    assert [row["degree"] for row in alone.asked] == [3, 2] and alone.reported()["degree"] == 2


NO_ROOT = dict.fromkeys(("estimate", "se", "relaxation_times", "lack_of_fit")) | {"status": "undefined"}


@pytest.mark.parametrize(
    ("low", "high", "planned", "flags", "degree", "code"),
    [
        ({}, NO_ROOT, True, ("undefined_3",), 2, 0),
        # Degree 2 does not fit either: the interval that is reported cannot be trusted.
        ({"lack_of_fit": 3.0}, NO_ROOT, False, ("poor_fit", "undefined_3"), 2, 1),
        ({"lack_of_fit": 3.0}, {}, False, ("poor_fit",), 3, 0),
        ({"early_shift": -1.2}, {}, False, ("early_steps",), 2, 0),
        ({"early_shift": 0.9}, {}, False, (), 2, 0),
        ({"early_shift": None}, {}, False, (), 2, 0),
        ({"relaxation_times": 10.0}, {}, False, ("too_short", "not_arrived"), 2, 0),
    ],
)
def test_flags_and_exit_codes_of_fits(low, high, planned, flags, degree, code):
    fit = {"relaxation_times": 60.0, "lack_of_fit": 0.0, "estimate": 1.0, "se": 0.1, "status": "ok"}
    fits = [
        fit | {"method": "TR", "asked": True, "degree": 2 + at} | row for at, row in enumerate((low, high))
    ]
    found = verdict_of(fits, fits, fits[1] if planned else None, 1.0, 0.0, 1.0, 0.51, 10_000, False)
    assert found.reported["degree"] == degree and found.flags == flags
    assert found.exit_code(False, False) == code and found.exit_code(True, False) == bool(flags)
    assert found.exit_code(False, True) == max(code, "not_arrived" in flags)


@pytest.mark.parametrize(
    ("se", "lower", "upper", "words"),
    [
        (0.2044, 18.2425, 18.9372, "18.58, 90% interval [18.24, 18.94]"),
        (None, 18.2, 98.2, "19, 90% interval [18, 98]"),
        (1234.0, 18.2425, 5e6, "18.5752, 90% interval [18.2425, 5e+06]"),
        (None, 18.5752, 18.5752, "18.5752, 90% interval [18.5752, 18.5752]"),
    ],
)
def test_an_interval_has_the_digits_of_its_standard_error(se, lower, upper, words):
    assert interval_words(dict(estimate=18.5752, se=se, lower=lower, upper=upper, level=0.9)) == words


def test_words(rows, analysis):
    assert str(analysis).startswith("report TR (degree 2): 38.42, 90% interval [36.80, 40.16]")
    paragraph = analysis.methods_paragraph()
    for said in ("0.9-quantile", "20,000 reports", "epsilon = 1", "eps-LDP", "without a proof", "ldpflow"):
        assert said in paragraph
    assert "per user too if each reported once" in paragraph and "simulated" not in paragraph
    table = as_table(rows[0], user=np.arange(20_000))
    paragraph = analyse(table, SETTINGS | {"path": "p" + "0" * 16} | BM).methods_paragraph()
    assert "; each user reported once" in paragraph and "simulated reports" in paragraph


def test_steps_that_are_too_large():
    rows, _ = demo(n=20_000, c=2000.0)
    settings = SETTINGS | {"algorithm": {"c": 2000.0, "gamma": 0.51, "theta0": 20.0}}
    found = analyse(as_table(rows), settings)
    assert "poor_fit" in found.flags and found.verdicts[0].arrival == "steps_too_large"
    assert found.exit_code() == (1 if "poor_fit_3" in found.flags else 0)
    assert found.exit_code(strict=True) == 1
    planned = analyse(as_table(rows), settings | {"method": CUBIC})
    assert "poor_fit" not in planned.flags  # which is about degree 2
    assert planned.verdicts[0].relaxation_times == planned.reported(0)["relaxation_times"]
    averages = analyse(as_table(rows), settings | BM)
    assert averages.exit_code() == 1


def test_odd_reports():
    """More ones than randomised response sends, whatever the values: no error, but a flag."""
    reports = (np.random.default_rng(1).random(4000) < 0.8).astype(int)
    step = 40.0 * np.arange(1, 4001) ** -0.51 * np.take(values(0.9, 1.0), reports)
    thetas = np.cumsum([20.0, *-step[:-1]])
    found = analyse({"theta": thetas, "report": reports}, SETTINGS | BM)
    assert any("share of ones" in text for text in found.oddities)
    assert "odd_reports" in found.flags and found.exit_code(strict=True) == 1


def test_laplace_reports_take_the_residual_variance():
    rng = np.random.default_rng(3)
    theta, made = 30.0, []
    for i in range(1, 20_001):
        a = (-0.9 + (30.0 * rng.normal() <= theta)) + rng.laplace()
        made.append((theta, a))
        theta -= 40.0 * i**-0.51 * a
    own = {"mechanism": {"kind": "laplace", "epsilon": 1.0}, "algorithm": {"c": 40.0, "gamma": 0.51}}
    found = analyse(as_table(made), SETTINGS | own)
    assert {row["variance"] for row in found.rows if row["method"] == "TR"} == {"residual"}
    assert "variance residual" in found.methods_paragraph()
    assert found.reported()["lower"] < 38.45 < found.reported()["upper"]


@pytest.mark.parametrize(
    ("k", "distance", "start", "word"),
    [
        (60.0, 0.4, 0.0, "arrived"), (20.0, 0.4, 0.0, "doubtful"), (60.0, 1.4, 0.0, "doubtful"),
        (60.0, 3.0, 0.1, "steps_too_large"), (60.0, -3.0, -2.8, "not_arrived"),
        (10.0, 0.1, 0.0, "not_arrived"), (float("nan"), 0.1, 0.0, "unknown"),
    ],
)  # fmt: skip
def test_arrival(k, distance, start, word):
    """A doubt says whether it is about the length of the run or about the average alone."""
    assert arrival_of(k, distance, start) == word
    meaning = Verdict(word, (), k, distance, start, None).meaning
    if word == "doubtful":
        assert ("the run is short" in meaning) == (k < 25) != ("around the average alone" in meaning)


def test_short_batches_are_pointed_out(rows, analysis):
    """EBS with c = .1 makes batches of 256 steps; the path remembers n/(K (1 - gamma)) = 523, K = 78."""
    (note,) = [note for note in analysis.notes if note.startswith("EBS")]
    (row,) = [row for row in analysis.asked if row["method"] == "EBS"]
    assert "batches of 256 steps" in note and "remembers about 523" in note and row["status"] == "ok"
    long = analyse(as_table(rows[0]), SETTINGS | {"method": [{"kind": "EBS", "block_rule": "3n^0.75"}]})
    assert long.notes == []


def test_the_number_of_reports_that_is_expected(rows):
    settings = SETTINGS | BM | {"n": 20_000}
    assert analyse(as_table(rows[0]), settings).users == 20_000
    for some, said in (
        (rows[0][:-1], "cut off"),
        ([*rows[0], rows[0][0]], "row 20,001, theta"),
        (rows[0][:900], "cut off"),
        ([*rows[0][:99], *rows[0][100:]], "row 100, theta"),  # the row is named, not the number alone
    ):
        with pytest.raises(InputError, match=said):
            analyse(as_table(some), settings)


@pytest.mark.parametrize("kind", ["oracle", "PB", "HULC"])
def test_methods_that_need_more(rows, kind):
    assert field_of(analyse, as_table(rows[0]), SETTINGS | {"method": [{"kind": kind}]}) == "method"


NAMES = ["prefix_total", "self_normalization", "transcript_cubic", "transcript_quartic"]
TIMES = [1, 7, 64, 100, 128, 777, 1000, 1024, 1999, 2000]


@pytest.mark.parametrize(("chunk", "origin"), [(1, 20.0), (3, 38.0), (2**16, 38.0)])
def test_all_sums(rows, chunk, origin):
    thetas = np.array([theta for theta, _ in rows[0][:2001]])
    gradients = np.array([values(0.9, 1.0)[report] for _, report in rows[0][:2000]])
    path = CollectedPath(UnknownLaw(d=1), lf.NoMechanism(), lf.LdpSgd(c=40.0, gamma=0.51))
    fold = Fold(path, TIMES, TIMES, NAMES, np.array([origin]), thetas[:1])
    for start in range(0, 2000, chunk):
        part = slice(start, start + chunk)
        assert fold.add(gradients[part, None], thetas[:-1][part, None]) is None
    record, literal = fold.record(), folded(thetas.tolist(), gradients.tolist(), origin, set(TIMES))
    for at, time in enumerate(TIMES):
        total, theta, weighted, squared, *powers = literal[time]
        assert (record.prefix_sums[at, 0, 0], record.iterates[at, 0, 0]) == (total, theta)
        found = [record.running_sums[name][:, at, 0, 0].tolist() for name in NAMES[1:]]
        assert found == [[weighted, squared], *powers]


# Several quantiles: one report that names a cell, thetas that are kept in order

CELLS = {
    "problem": {"kind": "quantiles", "taus": [0.3, 0.6]},
    "mechanism": {"kind": "cells", "epsilon": 2.0},
    "algorithm": {"c": 3.0, "gamma": 0.6, "theta0": 0.0},
}


@pytest.fixture(scope="module")
def two():
    return cell_demo()


def table(rows):
    thetas, cells = zip(*rows, strict=True)
    return pa.table({f"theta_{j}": [t[j] for t in thetas] for j in (0, 1)} | {"report": cells})


def test_two_quantiles(two):
    rows, last = two
    found = analyse(table(rows), CELLS)
    averages = np.mean([t for t, _ in rows[1:]] + [last], axis=0)
    estimates = [row["estimate"] for row in found.asked if row["method"] == "BM"]
    assert estimates == pytest.approx(averages, rel=1e-12)
    assert found.progress.iterate[-1].tolist() == list(last) and not found.oddities
    paragraph = found.methods_paragraph()
    assert "the quantiles at levels 0.3, 0.6" in paragraph and "cells with epsilon = 2" in paragraph
    assert any(line.startswith("0.6-quantile: report TR") for line in str(found).splitlines())
    *others, last_verdict = found.verdicts
    assert replace(found, verdicts=[*others, replace(last_verdict, flags=("undefined",))]).exit_code() == 1
    known = replace(found, verdicts=[replace(each, arrival="arrived") for each in found.verdicts])
    assert re.search(r"relaxation times of the 0.6-quantile \(arrived", known.methods_paragraph())


def test_each_quantile_is_fitted_by_itself(two):
    """With the sums of A on powers of its own theta, as for one quantile; the variance is the fit's."""
    rows, last = two
    found = analyse(table(rows), CELLS)
    thetas = np.array([t for t, _ in rows] + [last])
    steps = 3.0 * np.arange(1, 4001) ** -0.6
    for j in (0, 1):
        row = found.reported(j)
        assert (row["method"], row["separate"], row["coordinate"]) == ("TR", True, j)
        first = int(np.ceil(4000**0.4)) if row["degree"] == 2 else 40
        # No two thetas change places here, so that A follows from the moves.
        x, a = thetas[first:-1, j], -np.diff(thetas[:, j])[first:] / steps[first:]
        roots = np.roots(np.polyfit(x, a, row["degree"]))
        nearest = min(roots.real, key=lambda root: abs(root - x.mean()))
        assert row["estimate"] == pytest.approx(nearest, rel=1e-6)
    own = CELLS | {"algorithm": CELLS["algorithm"] | {"c": [3.0, 3.0]}}
    page = analysis_html(analyse(table(rows), own))
    assert "4,000, 3 i^-0.6, 3 i^-0.6" in page and "Intervals, 0.6-quantile" in page
    assert "by quantile" in str(found) and "by quantile" in found.methods_paragraph()
    assert {row["degree"] for row in found.asked if row["method"] == "TR"} == {2, 3}


def test_a_method_to_report_is_of_each_quantile():
    """A degree that no vector has may be planned; degree 1 of the vector warns of its bias."""
    problem = UnknownLaw(d=2, taus=(0.3, 0.6), several=True)
    path = CollectedPath(problem, lf.Cells(epsilon=2.0), lf.LdpSgd())
    methods = Methods(path, read_collection(CELLS | {"method": CUBIC}))
    assert methods.planned.degree == 3 and methods.planned.separate and methods.notes((), 1000) == []
    line = read_collection(CELLS | {"method": [{"kind": "TR", "degree": 1}]})
    (note,) = Methods(path, line).notes((), 1000)
    assert "keeps the bias that curvature gives" in note


def test_limits_for_adversaries_are_those_of_each_quantile(two):
    """They move by the share times the values of the quantile's own A, over its slope, or somewhat more."""
    plain, wide = (lf.analyse(table(two[0]), CELLS, adversarial_share=share) for share in (0.0, 0.02))
    gap = (np.exp(2.0) - 1.0) / (np.exp(2.0) + 2.0)
    for j, tau in enumerate((0.3, 0.6)):
        own, moved = plain.reported(j), wide.reported(j)
        scale = own["relaxation_times"] / (3.0 * 4000**0.4 / 0.4) / 0.02
        least = -(j + 1) / (np.exp(2.0) - 1.0) - tau
        assert 1.0 < (own["lower"] - moved["lower"]) * scale / -least < 1.4
        assert 1.0 < (moved["upper"] - own["upper"]) * scale / (least + 1.0 / gap) < 1.4


def test_a_start_for_each_quantile():
    reports = table(cell_demo(theta0=(-1.0, 0.5))[0])
    steps = {"c": 3.0, "gamma": 0.6}
    whole = analyse(reports, CELLS | {"algorithm": steps | {"theta0": [-1.0, 0.5]}})
    assert whole.start == (-1.0, 0.5) and whole.to_dict()["algorithm"]["theta0"] == [-1.0, 0.5]
    for theta0, words in (
        ([-1.0, 0.6], "row 1, theta_1"), ([-1.0, 0.5, 1.0], "2 numbers, or one"), ([0.5, -1.0], "decrease"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            analyse(reports, CELLS | {"algorithm": steps | {"theta0": theta0}})


def test_bad_rows(two):
    without = CELLS | {"algorithm": {"c": 3.0, "gamma": 0.6}}  # the first thetas are those of the file
    for settings, row, column, value in (
        (CELLS, 701, "theta_1", 9.0), (CELLS, 42, "report", 3), (without, 1, "theta_0", 1.0),
    ):  # fmt: skip
        with pytest.raises(RowError) as caught:
            analyse(changed(table(two[0]), row, column, value), settings)
        assert (caught.value.row, caught.value.column) == (row, column)


def test_cells_that_come_too_often():
    """Most values lie in the last cell, which the claimed mechanism would report in 38% of cases."""
    rows, _ = cell_demo(epsilon=0.2, c=1e-4, theta0=-2.0, spent=6.0)
    settings = {"mechanism": {"kind": "cells", "epsilon": 0.2}, "algorithm": {"c": 1e-4, "gamma": 0.6}}
    found = analyse(table(rows), CELLS | settings)
    assert any("share of reports" in text for text in found.oddities) and "odd_reports" in found.flags
