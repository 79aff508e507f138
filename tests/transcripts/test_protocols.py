"""Reports of protocols without a path: intervals, and damage that is named."""

import math
import random
from functools import cache
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import ldpflow as lf
from ldpflow import client
from ldpflow.components.protocols.collections import fold_rounds
from ldpflow.practice.transcripts import reading
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.reading import RowError
from tests.protocols.running import ONE_SHOT
from tests.transcripts.conftest import changed, field_of

RANGE = [-6.3, 9.7]
HAAR = {
    "problem": {"kind": "quantiles", "taus": [0.25, 0.5, 0.9]},
    "protocol": {"kind": "haar", "epsilon": 2.0, "range": RANGE, "k": 16},
    "method": [{"kind": "inversion", "limits": "outer"}],
}
ROUNDS = {
    "problem": {"kind": "quantile", "tau": 0.5},
    "protocol": {"kind": "rounds", "epsilon": 2.0, "range": RANGE},
}


def protocol(kind, epsilon=2.0, **others):
    return HAAR | {"protocol": HAAR["protocol"] | {"kind": kind, "epsilon": epsilon}} | others


@cache
def reports_of(kind, n=20_000):
    """Reports of ldpflow.client on values from N(0, 1)."""
    draw = random.Random(8)
    values = [draw.gauss(0.0, 1.0) for _ in range(n)]
    reports = [getattr(client, kind)(x, 2.0, *RANGE, 16, draw=draw.randrange) for x in values]
    if kind in ("grr", "oue"):
        return pa.table({"report": reports})
    return pa.table({"question": [q for q, _ in reports], "report": [r for _, r in reports]})


@pytest.mark.parametrize("kind", ONE_SHOT)
def test_three_quantiles_from_reports_of_the_client(kind):
    """Limits at edges are valid for every law; the level is so high that a miss has probability 1e-5."""
    found = analyse(reports_of(kind), protocol(kind, level=0.99999))
    for j, exact in enumerate((-0.6745, 0.0, 1.2816)):
        row = found.reported(j)
        assert row["lower"] <= exact <= row["upper"] and row["upper"] - row["lower"] < 6.0
    assert found.flags == [] and len(found.verdicts) == 3


@cache
def rounds_table(n=6000):
    """A collection of rounds by ldpflow.client, the server's thresholds from the counts so far."""
    made = lf.Rounds(epsilon=2.0, range=tuple(RANGE))
    draw = random.Random(4)
    counts = np.zeros((made.rounds, 8, 2))
    rows = []
    for turn, asked in enumerate(made.asked(n, 0.5)):
        x = fold_rounds(made, 0.5, counts).last[turn, :, 0]
        for question in range(made.thresholds()[turn]):
            for _ in range(asked):
                report = client.rounds(draw.gauss(0.0, 1.0), float(x[question]), 2.0, draw.randrange)
                counts[turn, question] += (1, report)
                rows.append((turn + 1, question, float(x[question]), report))
    names = ("round", "question", "theta", "report")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_rounds_of_the_client():
    searched = rounds_table()
    found = analyse(searched, ROUNDS | {"level": 0.9999})
    row = found.reported()
    assert row["method"] == "fieller" and row["lower"] < 0.0 < row["upper"] < row["lower"] + 1.0
    assert analyse(searched.drop_columns("theta"), ROUNDS).rows[0]["estimate"] == row["estimate"]


def fault(table, settings):
    with mock.patch.object(reading, "CHUNK", 512), pytest.raises(RowError) as caught:
        analyse(table, settings)
    return caught.value.row, caught.value.column


@pytest.mark.parametrize(
    ("kind", "column", "value"),
    [
        ("thresholds", "report", 2),
        ("thresholds", "question", 0),
        ("hrr", "question", 16),
        ("haar", "question", 1.5),
        ("haar", "report", None),
        ("grr", "report", 16),
        ("grr", "report", -1),
        ("oue", "report", "0" * 15),
        ("oue", "report", "0" * 15 + "2"),
        ("oue", "report", None),
        ("tree", "report", "01010"),
        ("tree", "question", 3),
        ("tree", "question", math.nan),
    ],
)
def test_a_row_that_cannot_be_right_is_named(kind, column, value):
    assert fault(changed(reports_of(kind), 1234, column, value), protocol(kind)) == (1234, column)


def test_rounds_that_cannot_be_right_are_named():
    searched = rounds_table()
    last = searched.num_rows
    first_of_third = searched["round"].to_pylist().index(3) + 1
    for row, column, value in (
        (700, "report", 2),
        (700, "question", 8),
        (700, "theta", 0.123),
        (1, "round", 2),
        (700, "round", 5),
        (last, "round", 1),
        (last, "question", 2),
        (last, "round", 6),
    ):
        assert fault(changed(searched, row, column, value), ROUNDS) == (row, column)
    # A lost, doubled or edited report moves the thresholds of later rounds.
    lost = pa.concat_tables([searched.slice(0, 99), searched.slice(100)])
    assert fault(lost, ROUNDS)[1] == "theta"
    doubled = pa.concat_tables([searched.slice(0, 100), searched.slice(99)])
    assert fault(doubled, ROUNDS)[1] == "theta"
    second = searched["round"].to_pylist().index(2)
    edited = changed(searched, second + 5, "report", 1 - searched["report"][second + 4].as_py())
    assert fault(edited, ROUNDS) == (first_of_third, "theta")
    fifth = searched["round"].to_pylist().index(5)
    for table, field in ((searched.slice(0, fifth), "round"), (searched.slice(0, last - 1), "n")):
        assert field_of(analyse, table, ROUNDS | {"n": table.num_rows + (field == "n")}) == field


@pytest.mark.parametrize(
    ("field", "kind", "settings"),
    [
        ("method", "haar", HAAR | {"method": [{"kind": "TR"}]}),
        ("columns", "oue", protocol("tree")),
        ("n", "haar", HAAR | {"n": 19_999}),
    ],
)
def test_settings_that_do_not_fit_the_file(field, kind, settings):
    assert field_of(analyse, reports_of(kind), settings) == field


def test_texts_of_data_frames():
    def lowers(source):
        return [row["lower"] for row in analyse(source, protocol("tree")).rows]

    table = reports_of("tree")
    frame = pd.DataFrame(table.to_pydict())
    for other in (frame, frame.astype({"report": "category"}), pl.DataFrame(table.to_pydict())):
        assert lowers(other) == lowers(table)
    assert field_of(analyse, {"report": [101] * 2000}, protocol("oue")) == "columns.report"


@pytest.mark.parametrize("kind", ONE_SHOT)
def test_reports_of_devices_with_a_larger_budget(kind):
    found = analyse(reports_of(kind), protocol(kind, epsilon=0.2))
    assert found.oddities and "odd_reports" in found.flags


def test_a_question_whose_reports_were_made_up():
    questions, reports = (np.array(reports_of("hrr")[name]) for name in ("question", "report"))
    table = {"question": questions, "report": np.where(questions == 3, 1, reports)}
    assert any("question 3" in text for text in analyse(table, protocol("hrr")).oddities)
