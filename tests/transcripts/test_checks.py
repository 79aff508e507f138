"""Every fault of a transcript is named with its row, in the order of the checks."""

import math
import os
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from ldpflow.errors import InputError
from ldpflow.practice.transcripts import reading
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.reading import RowError
from tests.oracles.transcript import SETTINGS, values
from tests.transcripts.conftest import as_table, changed, field_of, write
from tests.transcripts.test_analysis import CELLS

BM = {"method": [{"kind": "BM"}]}


def checked(table, chunk=4096, **algorithm):
    """The first fault of a table, or None."""
    settings = SETTINGS | BM | {"algorithm": {"c": 40.0, "gamma": 0.51} | algorithm}
    with mock.patch.object(reading, "CHUNK", chunk):
        try:
            analyse(table, settings)
        except RowError as error:
            return error
    return None


def test_a_sound_transcript(rows):
    for some, chunk in ((rows[0], 4096), (rows[0][:2000], 1)):
        table = as_table(some, round=range(1, len(some) + 1), epsilon=[1.0] * len(some))
        assert checked(table, chunk) is None


@pytest.mark.parametrize("chunk", [1, 2**16])
@pytest.mark.parametrize(
    ("places", "row"),
    [
        ([*range(99), *range(100, 2000)], 100),
        ([*range(100), *range(99, 2000)], 101),
        ([*range(500), 501, 500, *range(502, 2000)], 501),
        ([*range(1000), *range(1000)], 1001),
        ([0, *range(1999, 0, -1)], 2),
    ],
    ids=["missing", "doubled", "swapped", "joined", "sorted"],
)
def test_rows_in_another_order(rows, places, row, chunk):
    """Their theta tells, and the column round where there is one."""
    table = as_table(rows[0][:2000], round=range(1, 2001)).take(places)
    for some, column in ((table, "round"), (table.drop_columns("round"), "theta")):
        fault = checked(some, chunk)
        assert (fault.row, fault.column) == (row, column)


@pytest.mark.parametrize(
    ("column", "value"),
    [("theta", math.inf), ("report", math.nan), ("report", None), ("report", 2), ("epsilon", 2.0)],
)
def test_a_value_that_cannot_be(rows, column, value):
    fault = checked(changed(as_table(rows[0], epsilon=np.ones(20_000)), 7, column, value))
    assert (fault.row, fault.column) == (7, column)


@pytest.mark.parametrize("chunk", [1, 512])
def test_the_first_bad_row_is_named(rows, chunk):
    """Whatever is wrong with later rows; of one row the earlier check wins."""
    table = as_table(rows[0][:1000], round=range(1, 1001))
    for row, column, value in ((151, "report", 3), (91, "round", 5), (50, "theta", rows[0][49][0] + 1e-6)):
        table = changed(table, row, column, value)
        fault = checked(table, chunk)
        assert (fault.row, fault.column) == (row, column)
    assert checked(changed(table, 50, "round", 7), chunk).column == "round"
    fault = checked(changed(table, 1, "theta", None), chunk)
    assert (fault.row, fault.column) == (1, "theta")


def test_hints_about_the_start_digits_and_another_design(rows):
    assert "theta0" in checked(as_table(rows[0]), theta0=21.0).hint
    short = as_table([(float(f"{theta:.7g}"), report) for theta, report in rows[0]])
    hint = checked(short).hint
    assert "17 digits" in hint and "the design is another" in hint


@pytest.mark.parametrize(
    ("line", "column", "value"),
    [
        ('"abc",1', "theta", "abc"),
        ('"1,5",1', "theta", "1,5"),
        ("1.5,NA", "report", "NA"),
        ("1.5,", "report", None),
        ("1.5", "number of values", 1),
        ("1.5,1,7", "number of values", 3),
    ],
)
def test_a_bad_line_of_a_csv_file(rows, tmp_path, line, column, value):
    """Also behind an empty line, and before a theta that does not follow."""
    file = write(as_table(rows[0][:3000]), tmp_path / "t.csv")
    lines = file.read_text().splitlines()
    lines[2000:2002] = [line, "3.0,1"]
    file.write_text("\n".join(lines).replace("\n", "\n\n", 3) + "\n")
    with pytest.raises(RowError) as caught:
        analyse(file, SETTINGS | BM)
    assert (caught.value.row, caught.value.column, caught.value.value) == (2000, column, value)


def test_users_that_reported_twice(rows, tmp_path):
    """Parquet stores them as codes."""
    users = [f"u{i}" for i in range(20_000)]
    sound = write(as_table(rows[0], user=users), tmp_path / "t.parquet")
    assert analyse(sound, SETTINGS | BM).users == 20_000
    users[12_345], users[15_000] = "u17", "u18"
    with pytest.raises(RowError, match="row 18") as caught:
        analyse(write(as_table(rows[0], user=users), sound), SETTINGS | BM)
    assert (caught.value.row, caught.value.column) == (12_346, "user")


LAPLACE = CELLS | {"mechanism": {"kind": "laplace", "epsilon": 1.0}}


@pytest.mark.parametrize(
    ("names", "settings"),
    [
        ("theta", SETTINGS),
        ("report report_0 theta", SETTINGS),
        ("report_0 report_2", SETTINGS),
        ("report_0 report_1 theta", SETTINGS),
        ("report Theta", SETTINGS),
        (" ".join(f"report_{j}" for j in range(65)), SETTINGS),
        ("theta_0 theta_1 report_0 report_1", CELLS),
        ("theta report", CELLS),
        ("theta_0 theta_1 report", LAPLACE),
    ],
)
def test_columns_that_do_not_fit(names, settings):
    table = pa.table({name: [0.0] * 1000 for name in names.split()})
    assert field_of(analyse, table, settings) == "columns"


@pytest.mark.parametrize(("reports", "field"), [(["yes"] * 1000, "columns.report"), ([], "rows")])
def test_reports_that_are_no_numbers_or_none(reports, field):
    assert field_of(analyse, {"report": reports, "theta": [0.0] * len(reports)}, SETTINGS) == field


def test_places_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "odd.parquet").write_text("report,theta\n")
    (tmp_path / "latin.csv").write_bytes("r\xe9port,theta\n".encode("latin-1"))
    for name, words in (("pipe.csv", "file"), ("odd.parquet", "Parquet"), ("latin.csv", "UTF-8")):
        with pytest.raises(InputError, match=words):
            analyse(tmp_path / name, SETTINGS)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.parquet", None, "row groups of at most 1,000 bytes"),
        ("header.csv", "theta,report," + "a" * 1000 + "\n", "a header of at most 1,000 bytes"),
        ("line.csv", "theta,report\n1,1\n1,1" + "\0" * 3000, "lines of at most 1,000 bytes"),
    ],
)
def test_what_is_read_at_once_is_limited(rows, tmp_path, monkeypatch, name, content, words):
    """No file takes more memory, however large its row groups, header or lines."""
    for limit in ("LARGEST_ROW_GROUP", "LARGEST_LINE"):
        monkeypatch.setattr(f"ldpflow.practice.transcripts.reading.{limit}", 1000)
    if content is None:
        write(as_table(rows[0]), tmp_path / name)
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=words):
        analyse(tmp_path / name, SETTINGS)


@pytest.mark.parametrize("chunk", [5, 64])
def test_rounds_of_several_reports(chunk):
    """theta stays for a round of 7 and follows from the mean of its reports."""
    rng = np.random.default_rng(1)
    reports = rng.integers(0, 2, 1400)
    low, high = values(0.9, 1.0)
    theta, thetas = 20.0, []
    for i in range(200):
        thetas += [theta] * 7
        mean = np.where(reports[7 * i : 7 * i + 7] == 1, high, low).mean()
        theta -= 40.0 * (i + 1) ** -0.51 * mean
    rounds = np.repeat(np.arange(1, 201), 7)

    def table(thetas, rounds=rounds):
        return pa.table({"theta": thetas, "report": reports, "round": rounds})

    assert checked(table(thetas), chunk, batch_size=7) is None
    for row in (702, 703, 707):  # 701 is the first of round 101
        broken = list(thetas)
        broken[row - 1] += 1e-6
        assert checked(table(broken), chunk, batch_size=7).row == row
    broken = list(thetas)
    broken[700:707] = [thetas[700] + 1e-6] * 7
    assert checked(table(broken), chunk, batch_size=7).row == 701
    late = rounds.copy()
    late[700] = 100
    assert checked(table(thetas, late), chunk, batch_size=7).row == 701
