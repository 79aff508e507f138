"""Transcripts of several quantiles: one report that names a cell, thetas that are kept in order."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import ldpflow as lf
from ldpflow.errors import InputError
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.collection import read_collection
from ldpflow.practice.transcripts.fold import CollectedPath, UnknownLaw
from ldpflow.practice.transcripts.methods import Methods
from ldpflow.practice.transcripts.reading import RowError
from ldpflow.report.analysis_page import analysis_html
from tests.oracles.transcript import cell_demo

SETTINGS = {
    "problem": {"kind": "quantiles", "taus": [0.3, 0.6]},
    "mechanism": {"kind": "cells", "epsilon": 2.0},
    "algorithm": {"c": 3.0, "gamma": 0.6, "theta0": 0.0},
}


@pytest.fixture(scope="module")
def demo():
    return cell_demo()


def table(rows, **changed):
    columns = {"theta_0": [t[0] for t, _ in rows], "theta_1": [t[1] for t, _ in rows]}
    return pa.table(columns | {"report": [cell for _, cell in rows]} | changed)


def test_two_quantiles(demo):
    rows, last = demo
    found = analyse(table(rows), SETTINGS)
    averages = np.mean([t for t, _ in rows[1:]] + [last], axis=0)
    estimates = [row["estimate"] for row in found.asked if row["method"] == "BM"]
    assert estimates == pytest.approx(averages, rel=1e-12)
    assert found.progress.iterate[-1].tolist() == list(last) and not found.oddities
    paragraph = found.methods_paragraph()
    assert "the quantiles at levels 0.3, 0.6" in paragraph and "cells with epsilon = 2" in paragraph
    assert any(line.startswith("0.6-quantile: report TR") for line in str(found).splitlines())
    known = replace(found, verdicts=[replace(each, arrival="arrived") for each in found.verdicts])
    assert re.search(r"relaxation times of the 0.6-quantile \(arrived", known.methods_paragraph())


def test_each_quantile_is_fitted_by_itself(demo):
    """With the sums of A on powers of its own theta, as for one quantile; the variance is the fit's."""
    rows, last = demo
    found = analyse(table(rows), SETTINGS)
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
    own = SETTINGS | {"algorithm": SETTINGS["algorithm"] | {"c": [3.0, 3.0]}}
    page = analysis_html(analyse(table(rows), own))
    assert "4,000, 3 i^-0.6, 3 i^-0.6" in page and "Intervals, 0.6-quantile" in page
    assert "by quantile" in str(found) and "by quantile" in found.methods_paragraph()
    assert {row["degree"] for row in found.asked if row["method"] == "TR"} == {2, 3}


def test_a_method_to_report_is_of_each_quantile():
    """A degree that no vector has may be planned; degree 1 of the vector warns of its bias."""
    problem = UnknownLaw(d=2, taus=(0.3, 0.6), several=True)
    path = CollectedPath(problem, lf.Cells(epsilon=2.0), lf.LdpSgd())
    planned, joint = {"kind": "TR", "degree": 3, "burn_in": "0.01n"}, [{"kind": "TR", "degree": 1}]
    methods = Methods(path, read_collection(SETTINGS | {"method": planned}))
    assert methods.planned.degree == 3 and methods.planned.separate and methods.notes() == []
    (note,) = Methods(path, read_collection(SETTINGS | {"method": joint})).notes()
    assert "keeps the bias that curvature gives" in note


def test_limits_for_adversaries_are_those_of_each_quantile(demo):
    """They move by the share times the values of the quantile's own A, over its slope, or somewhat more."""
    plain, wide = (lf.analyse(table(demo[0]), SETTINGS, adversarial_share=share) for share in (0.0, 0.02))
    gap = (np.exp(2.0) - 1.0) / (np.exp(2.0) + 2.0)
    for j, tau in enumerate((0.3, 0.6)):
        own, moved = plain.reported(j), wide.reported(j)
        scale = own["relaxation_times"] / (3.0 * 4000**0.4 / 0.4) / 0.02
        least = -(j + 1) / (np.exp(2.0) - 1.0) - tau
        assert 1.0 < (own["lower"] - moved["lower"]) * scale / -least < 1.4
        assert 1.0 < (moved["upper"] - own["upper"]) * scale / (least + 1.0 / gap) < 1.4


def test_a_start_for_each_quantile():
    rows, _ = cell_demo(theta0=(-1.0, 0.5))

    def settings(*theta0):
        algorithm = {"c": 3.0, "gamma": 0.6, "theta0": list(theta0)}
        return SETTINGS | {"algorithm": algorithm}

    whole = analyse(table(rows), settings(-1.0, 0.5))
    assert whole.start == (-1.0, 0.5) and whole.to_dict()["algorithm"]["theta0"] == [-1.0, 0.5]
    for theta0, words in (
        ((-1.0, 0.6), "row 1, theta_1"), ((-1.0, 0.5, 1.0), "2 numbers, or one"), ((0.5, -1.0), "decrease"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            analyse(table(rows), settings(*theta0))


def fault(rows, settings=SETTINGS, **changed):
    with pytest.raises(RowError) as caught:
        analyse(table(rows, **changed), settings)
    return caught.value


def test_bad_rows(demo):
    rows, _ = demo
    (first, second), cell = rows[700]
    for at, row, column in (
        (700, ((first, second + 1e-6), cell), "theta_1"),
        (700, ((second, first), cell), "theta_0"),
        (41, (rows[41][0], 3), "report"),
    ):
        found = fault([*rows[:at], row, *rows[at + 1 :]])
        assert (found.row, found.column) == (at + 1, column)
    without = SETTINGS | {"algorithm": {"c": 3.0, "gamma": 0.6}}
    assert fault([((1.0, 0.0), rows[0][1]), *rows[1:]], without).row == 1


def test_cells_that_come_too_often():
    """Most values lie in the last cell, which the claimed mechanism would report in 38% of cases."""
    rows, _ = cell_demo(epsilon=0.2, c=1e-4, theta0=-2.0, spent=6.0)
    settings = {"mechanism": {"kind": "cells", "epsilon": 0.2}, "algorithm": {"c": 1e-4, "gamma": 0.6}}
    found = analyse(table(rows), SETTINGS | settings)
    assert any("share of reports" in text for text in found.oddities) and "odd_reports" in found.flags
