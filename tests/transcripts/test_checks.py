"""Every fault of a transcript is named with its row, in the order of the checks."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from ldpflow.errors import InputError
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.checks import Checks, Meaning
from ldpflow.practice.transcripts.reading import Transcript
from ldpflow.practice.transcripts.values import RowError
from tests.oracles.transcript import SETTINGS, first_bad_row, moved, values
from tests.transcripts.conftest import as_table, write


def checked(table, chunk=4096, **settings):
    """The first fault of a table, or None: the checks alone, without the fold."""
    steps = {"c": 40.0, "gamma": 0.51}
    checks = Checks(Meaning(tuple((a,) for a in values(0.9, 1.0))), epsilon=1.0, **(steps | settings))
    source = Transcript.of(table)
    try:
        for part in source.chunks(chunk):
            checks.look(part)
        checks.finish(source.rows, np.array([math.nan]))
    except RowError as error:
        return error
    return None


CHUNKS = pytest.mark.parametrize("chunk", [1, 100, 4096, 2**16])


@CHUNKS
def test_a_sound_transcript(rows, chunk):
    some = rows[0] if chunk > 1 else rows[0][:2000]
    table = as_table(some, round=range(1, len(some) + 1), epsilon=[1.0] * len(some))
    assert checked(table, chunk) is None
    assert checked(as_table(rows[0]), final=(rows[1],)) is None


@CHUNKS
def test_a_theta_that_was_moved(rows, chunk):
    broken = moved(rows[0], 4712, 1e-6)
    if chunk == 1:
        broken = broken[:5000]
    fault = checked(as_table(broken), chunk)
    assert (fault.row, fault.column) == (4712, "theta")
    assert first_bad_row(moved(rows[0], 4712, 1e-6), rows[1], 0.9, 1.0, 40.0, 0.51) == 4712
    assert repr(rows[0][4711][0])[:9] in str(fault)


@CHUNKS
def test_a_row_that_is_missing(rows, chunk):
    gone = [*rows[0][:99], *rows[0][100:3000]]
    assert (fault := checked(as_table(gone), chunk)).row == 100 and fault.column == "theta"
    rounds = [*range(1, 100), *range(101, 3001)]
    fault = checked(as_table(gone, round=rounds), chunk)
    assert (fault.row, fault.column, fault.value) == (100, "round", 101)
    assert fault.hint == "Round 100 is missing."


def test_a_row_that_was_counted_twice(rows):
    twice = [*rows[0][:100], rows[0][99], *rows[0][100:3000]]
    assert checked(as_table(twice)).row == 101
    rounds = [*range(1, 101), 100, *range(101, 3001)]
    fault = checked(as_table(twice, round=rounds))
    assert (fault.row, fault.column) == (101, "round") and "twice" in fault.hint


@pytest.mark.parametrize("named", [True, False])
def test_swapped_rows(rows, named):
    swapped = list(rows[0])
    swapped[500], swapped[501] = swapped[501], swapped[500]
    rounds = [*range(1, 501), 502, 501, *range(503, 20_001)]
    fault = checked(as_table(swapped, round=rounds) if named else as_table(swapped))
    assert fault.row == 501
    assert "Row 502 has" in fault.hint and "another order" in fault.hint and "missing" not in fault.hint


def test_sorted_and_shuffled_rows(rows):
    fault = checked(as_table(sorted(rows[0])))
    assert fault.row == 2 and "sorted" in fault.hint
    order = np.random.default_rng(1).permutation(20_000)
    shuffled = [rows[0][i] for i in order]
    fault = checked(as_table(shuffled))
    assert fault.row == 2 and "shuffled" in fault.hint
    fault = checked(as_table(shuffled, round=(1 + order).tolist()), 2**16)
    at = order.tolist().index(0) + 1
    assert (fault.row, fault.column) == (1, "round") and f"Row {at:,} has it" in fault.hint


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("theta0", [20.0, 35.0])
def test_files_that_were_joined(rows, named, theta0):
    """The second file begins at row 3,001, from its own theta0."""
    from tests.oracles.transcript import demo

    further = demo(1000, theta0=theta0)[0]
    together = [*rows[0][:3000], *further]
    rounds = [*range(1, 3001), *range(1, 1001)]
    fault = checked(as_table(together, round=rounds) if named else as_table(together))
    assert fault.row == 3001 and "joined" in fault.hint and "sorted" not in fault.hint


def test_the_last_rows_are_missing(rows):
    fault = checked(as_table(rows[0][:-1]), final=(rows[1],))
    assert (fault.row, fault.column) == (19_999, "final_theta") and "last rows missing" in fault.hint


@pytest.mark.parametrize("name", ["theta", "report"])
@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_values_that_are_none(rows, name, value):
    columns = {"theta": [r[0] for r in rows[0]], "report": [float(r[1]) for r in rows[0]]}
    columns[name][6] = value
    fault = checked(pa.table(columns))
    assert (fault.row, fault.column) == (7, name)


def test_a_report_of_two(rows):
    broken = list(rows[0])
    broken[41] = (broken[41][0], 2)
    fault = checked(as_table(broken))
    assert (fault.row, fault.column, fault.value) == (42, "report", 2.0)


def test_a_budget_that_changes(rows):
    fault = checked(as_table(rows[0], epsilon=[1.0] * 6 + [2.0] + [1.0] * 19_993))
    assert (fault.row, fault.column) == (7, "epsilon")
    assert "2.0" in str(fault) and "1.0" in str(fault)


def test_a_step_of_another_size(rows):
    steps = 40.0 * np.arange(1, 20_001) ** -0.51
    assert checked(as_table(rows[0], step=steps)) is None
    steps[10] *= 1 + 1e-8
    fault = checked(as_table(rows[0], step=steps))
    assert (fault.row, fault.column) == (11, "step")


@CHUNKS
def test_the_first_bad_row_is_named(rows, chunk):
    """Whatever is wrong with later rows; of one row the earlier check wins."""
    some = rows[0] if chunk > 1 else rows[0][:200]
    broken = moved(some, 50, 1.0)
    broken[150] = (broken[150][0], 3)
    rounds = list(range(1, len(some) + 1))
    rounds[90] = 5
    fault = checked(as_table(broken, round=rounds), chunk)
    assert (fault.row, fault.column) == (50, "theta")
    rounds[49] = 7
    assert checked(as_table(broken, round=rounds), chunk).column == "round"
    thetas = [None, *(theta for theta, _ in broken[1:])]
    table = pa.table({"theta": thetas, "report": [report for _, report in broken]})
    fault = checked(table, chunk)
    assert (fault.row, fault.column) == (1, "theta")


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_the_first_bad_row_of_a_file(rows, tmp_path, kind):
    """A missing value and a text in later rows of one block do not hide an earlier theta."""
    broken = moved(rows[0][:3000], 700, 1e-6)
    thetas = [theta for theta, _ in broken]
    columns = {"theta": [*thetas[:900], None, *thetas[901:]], "report": [report for _, report in broken]}
    file = write(pa.table(columns), tmp_path / f"t{kind}")
    if kind == ".csv":
        lines = file.read_text().splitlines()
        lines[901] = lines[901].replace("None", "")
        lines[1000] = "abc,1"
        lines[1100] += ",7"
        file.write_text("\n".join(lines) + "\n")
    with pytest.raises(RowError) as caught:
        analyse(file, SETTINGS)
    assert (caught.value.row, caught.value.column) == (700, "theta")
    if kind == ".csv":
        file.write_text("\n".join([lines[0], *(f"{t!r},{r}" for t, r in rows[0][:800]), *lines[801:]]))
        with pytest.raises(RowError) as caught:
            analyse(file, SETTINGS)
        assert (caught.value.row, caught.value.column, caught.value.value) == (901, "theta", None)
        assert str(caught.value) == "row 901, theta is missing; expected a value."


def test_a_wrong_start_and_end(rows):
    fault = checked(as_table(rows[0]), start=(21.0,))
    assert fault.row == 1 and "theta0" in fault.hint
    fault = checked(as_table(rows[0]), final=(rows[1] + 1e-6,))
    assert fault.column == "final_theta"


@pytest.mark.parametrize(
    ("lines", "row", "said"),
    [
        (lambda rows: rows[:99] + rows[100:], 100, "if one row is missing before it"),
        (lambda rows: rows[:299] + rows[301:], 300, "if 2 rows are missing before it"),
        (lambda rows: rows[:300] + rows[299:], 301, "if one row is too many before it"),
        (lambda rows: sorted(rows), 1, "Row 18 has this theta: rows are in another order"),
        (lambda rows: moved(rows, 4712, 1e-6), 4712, "missing, doubled or changed there"),
    ],
)
def test_what_may_have_happened(rows, lines, row, said):
    fault = checked(as_table(lines(rows[0])), start=(20.0,))
    assert fault.row == row and said in fault.hint


def test_too_few_digits(rows, tmp_path):
    short = [(float(f"{theta:.7g}"), report) for theta, report in rows[0]]
    fault = checked(as_table(short))
    assert fault.hint == "7 digits are too few: write 17."
    assert checked(as_table(rows[0]), final=(38.75,)).hint == "4 digits are too few: write 17."
    other = [(float(round(theta)), report) for theta, report in moved(rows[0], 1, 50.0)]
    assert "digits" not in checked(as_table(other), start=(20.0,)).hint  # 50 is no rounding


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_files(rows, tmp_path, kind):
    """The same faults in files, by the whole program."""
    file = write(as_table(moved(rows[0], 4712, 1e-6)), tmp_path / f"t{kind}")
    with pytest.raises(RowError) as caught:
        analyse(file, SETTINGS)
    assert caught.value.row == 4712
    assert "row 4,712, theta" in str(caught.value)


@pytest.mark.parametrize("value", ["abc", "NA", "1,5"])
def test_texts_in_a_csv_file(rows, tmp_path, value):
    file = write(as_table(rows[0][:3000]), tmp_path / "t.csv")
    lines = file.read_text().splitlines()
    lines[2000] = f'"{value}",{lines[2000].partition(",")[2]}'
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(RowError) as caught:
        analyse(file, SETTINGS)
    assert (caught.value.row, caught.value.column, caught.value.value) == (2000, "theta", value)


def test_a_missing_value_in_a_csv_file(rows, tmp_path):
    file = write(as_table(rows[0][:3000]), tmp_path / "t.csv")
    lines = file.read_text().splitlines()
    lines[1500] = lines[1500].partition(",")[0] + ","
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(RowError) as caught:
        analyse(file, SETTINGS)
    assert (caught.value.row, caught.value.column) == (1500, "report")


def test_a_ragged_csv_file(rows, tmp_path):
    file = write(as_table(rows[0][:3000]), tmp_path / "t.csv")
    file.write_text(file.read_text() + "1.0\n")
    with pytest.raises(RowError) as caught:
        analyse(file, SETTINGS)
    assert caught.value.row == 3001 and "number of values: 1 is not allowed; expected 2" in str(caught.value)


def test_users_that_reported_twice(rows, tmp_path):
    users = [f"u{i}" for i in range(20_000)]
    sound = as_table(rows[0], user=users)
    assert analyse(sound, SETTINGS).users == 20_000
    users[12_345] = "u17"
    with pytest.raises(RowError) as caught:
        analyse(as_table(rows[0], user=users), SETTINGS)
    assert (caught.value.row, caught.value.column, caught.value.value) == (12_346, "user", "u17")
    assert "Row 18" in str(caught.value)


def test_equal_hashes_of_different_users_are_no_fault(rows, monkeypatch):
    from ldpflow.practice.transcripts import analysis as users

    def all_alike(self, chunk):
        self.hashes[chunk.first - 1 : chunk.first - 1 + len(chunk)] = 7

    monkeypatch.setattr(users.Users, "add", all_alike)
    table = as_table(rows[0], user=[f"u{i}" for i in range(20_000)])
    assert analyse(table, SETTINGS).users == 20_000


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"theta": [1.0]}, "columns"),
        ({"report": [1], "report_0": [1]}, "columns"),
        ({"report_0": [1.0], "report_2": [1.0]}, "columns"),
        ({"report_0": [1.0], "report_1": [1.0], "theta": [1.0]}, "columns"),
        ({"report": ["yes"], "theta": [1.0]}, "columns.report"),
        ({"report": [1], "theta": [1.0]}, "rows"),
    ],
)
def test_tables_that_are_no_transcripts(columns, field):
    with pytest.raises(InputError) as caught:
        analyse(pa.table(columns), SETTINGS)
    assert caught.value.field == field


def test_places_that_are_no_files(tmp_path):
    with pytest.raises(InputError, match="file"):
        analyse(tmp_path / "none.csv", SETTINGS)
    (tmp_path / "odd.parquet").write_text("report,theta\n")
    with pytest.raises(InputError, match="Parquet"):
        analyse(tmp_path / "odd.parquet", SETTINGS)
    (tmp_path / "latin.csv").write_bytes("r\xe9port,theta\n".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        analyse(tmp_path / "latin.csv", SETTINGS)


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_rounds_of_several_reports(chunk):
    """theta stays for a round of 7 and follows from the mean of its reports."""
    rng = np.random.default_rng(1)
    reports = rng.integers(0, 2, 2100)
    low, high = values(0.9, 1.0)
    theta, thetas = 20.0, []
    for i in range(300):
        thetas += [theta] * 7
        mean = np.where(reports[7 * i : 7 * i + 7] == 1, high, low).mean()
        theta -= 40.0 * (i + 1) ** -0.51 * mean
    rounds = np.repeat(np.arange(1, 301), 7)

    def table(thetas, rounds=rounds):
        return pa.table({"theta": thetas, "report": reports, "round": rounds})

    assert checked(table(thetas), chunk, batch_size=7, final=(theta,)) is None
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
