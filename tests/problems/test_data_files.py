"""Reading a column, or the records of a regression, and the message of every fault. None shows a value."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldpflow as lf
from ldpflow.components.problems.tables import UserTable, read_column


def written(tmp_path, content, name="data"):
    if isinstance(content, dict):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(content), file)
    else:
        file = tmp_path / f"{name}.csv"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(file)


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,x\n2.5,y\n-3e0,z\n",
        "\ufeffa,b\n1,x\n2.5,y\n-3,z\n",
        'a,b\r\n1,"x, y"\r\n 2.5 ,y\r\n-3,z\r\n',
        "a\n1\n2.5\n-3\n",
        {"a": [1.0, 2.5, -3.0], "b": ["x", "y", "z"]},
        {"a": pa.array([1.0, 2.5, -3.0], pa.float32())},
        {"a": pa.array([Decimal("1.0"), Decimal("2.5"), Decimal("-3.0")], pa.decimal128(9, 1))},
    ],
)
def test_read(tmp_path, content):
    file = written(tmp_path, content)
    found = read_column(file, "a")
    assert (found.name, found.dropped, found.values.tolist()) == ("a", 0, [1.0, 2.5, -3.0])


def test_integers_stay_exact(tmp_path):
    values = [1, 2, 2**53 - 1, 1 - 2**53]
    assert read_column(written(tmp_path, {"a": values})).values.tolist() == values
    text = "a\n" + "\n".join(map(str, values)) + "\n"
    assert read_column(written(tmp_path, text)).values.tolist() == values


MISSING = "a,b\n1,1\n,1\n2,2\nNA,3\n3,3\ninf,4\n"


def test_missing_values_are_dropped_on_request(tmp_path):
    for content in (MISSING, {"a": [1.0, None, 2.0, float("nan"), 3.0, float("inf")]}):
        found = read_column(written(tmp_path, content), "a", drop=True)
        assert found.values.tolist() == [1.0, 2.0, 3.0] and found.dropped == 3


# Content, column, the faulty field, and a part of the message.
FAULTS = {
    "missing": (MISSING, "a", "column", "3 of them, the first in record 2"),
    "empty line": ("a\n1\n\n2\n3\n", "a", "column", "the first in record 2"),
    "Latin-1": ("a,b\n1,é\n".encode("latin-1"), "a", "file", "save it as UTF-8"),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "a", "file", "save it as UTF-8"),
    "late Latin-1": (b"a\n" + b"1\n" * 10**6 + b"\xe9\n", "a", "file", "save it as UTF-8"),
    "no column": ("a,b\n1,2\n2,3\n", None, "column", "It has: 'a', 'b'."),
    "unknown column": ({"a": [1.0, 2.0, 3.0]}, "c", "column", "'a'"),
    "duplicated names": ("a,b,a\n1,2,3\n", "a", "file", "Two columns"),
    "strings": ({"a": ["x", "secret"]}, "a", "column", "holds string"),
    "dates": ("a\n2024-01-01\n2024-01-02\n", "a", "column", "no number, in record 1"),
    "late text": ("a\n" + "1000000\n2\n3\n" * 100_000 + "secret\n4\n", "a", "column", "in record 300,001"),
    "long integer": ({"a": pa.array([1, 2**53 + 1, 3])}, "a", "column", "beyond 2^53"),
    "long integer in text": ("a\n1\n2\n9007199254740993\n", "a", "column", "beyond 2^53"),
    "two values": ("a\n5\n6\n5\n6\n", "a", "column", "It has 2 in 4 records."),
    "quoted": ('a,b\n1,"x\ny"\n\nsecret,z\n', "a", "column", "record 2"),
    "ragged": ("a,b\n1,2\n\n3,invalid UTF8 secret,5\n", "a", "file", "Row 3, counted from the header"),
    "empty": ("", None, "file", "Empty CSV file"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(tmp_path, name):
    content, column, field, words = FAULTS[name]
    with pytest.raises(lf.InputError) as caught:
        read_column(written(tmp_path, content), column)
    assert caught.value.field == f"problem.{field}"
    assert words in str(caught.value)
    assert "secret" not in str(caught.value) and "9007199254740993" not in str(caught.value)


def test_texts_are_read_ten_thousand_at_a_time(tmp_path):
    """One long text may be that of all records: more of them would take gigabytes."""
    table = pa.table({"a": ["x"] * 30_000})
    for source in (UserTable(written(tmp_path, {"a": table["a"]})), UserTable(table)):
        assert {len(batch) for batch in source.batches(["a"])} == {10_000}


def test_files_that_are_none(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"no parquet")
    for name, words in (("none.csv", "No such file"), ("", "regular"), ("bad.parquet", "not a parquet")):
        with pytest.raises(lf.InputError, match=f"^pilot: .*{words}"):
            read_column(str(tmp_path / name), fields=("pilot", "column"))


def test_too_many_values(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpflow.components.problems.tables.MOST_VALUES", 1000)
    for content in ("a\n" + "1\n2\n3\n4\n" * 251, {"a": np.arange(1001.0)}):
        with pytest.raises(lf.InputError, match="at most 1,000. Give a random sample"):
            read_column(written(tmp_path, content))


TABLE = {"a": [3.0, 0.0, -1.0, 1e200], "b": [4, 0, 1, 0], "y": [0, 1, 1, 0]}


def test_rows_are_scaled_to_the_bound(tmp_path):
    problem = lf.NonconvexLogistic(file=written(tmp_path, TABLE), target="y", bound=2.0)
    x, y = problem.records
    assert problem.dimension == 2
    assert x == pytest.approx(np.array([[1.2, 1.6], [0, 0], [-(2**0.5), 2**0.5], [2, 0]]))
    assert y.tolist() == [-1, 1, 1, -1]
    again = lf.NonconvexLogistic.model_validate(problem.key_settings())
    assert again == problem and hash(again) == hash(problem)
    # What a problem keeps of its file is no setting: equal before it is read, and after.
    assert again.records[1].tolist() == y.tolist()
    assert again == problem and hash(again) == hash(problem)
    assert problem != lf.NonconvexLogistic(**problem.key_settings() | {"bound": 3.0})


@pytest.mark.parametrize(
    ("change", "settings", "field", "words"),
    [
        ({"y": [0, 1, 2, 0]}, {}, "problem.target", "It has 3."),
        ({"a": [1.0, None, 2.0, 3.0]}, {}, "problem.file", "the first in record 2"),
        ({"b": ["x", "1", "2", "3"]}, {}, "problem.file", "'b' has text that is no number, in record 1."),
        ({}, {"target": "z"}, "problem.target", "It has: 'a', 'b', 'y'."),
        ({}, {"features": ("a", "c")}, "problem.features", "'c'"),
        ({}, {"sha256": "0" * 64}, "problem.file", "It has changed."),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, change, settings, field, words):
    file = written(tmp_path, TABLE | change)
    with pytest.raises(lf.InputError) as caught:
        _ = lf.NonconvexLogistic(**{"file": file, "target": "y"} | settings).records
    assert caught.value.field == field
    assert words in str(caught.value)


def test_a_study_of_a_file_has_at_most_its_records(tmp_path):
    problem = {"kind": "robust_regression", "file": written(tmp_path, TABLE), "target": "y"}
    algorithm = {"kind": "dp_nsgd", "epsilon": 2.0, "epochs": 3.0}
    study = {"name": "file", "problem": problem, "algorithm": algorithm, "trajectory": {"points": 4}}
    assert lf.Study.from_mapping(study | {"grid": {"n": 4}}).plans()
    with pytest.raises(lf.InputError, match="at most 4, the records of"):
        lf.Study.from_mapping(study | {"grid": {"n": 5}})
    synthetic = {"kind": "robust_regression", "d": 100}
    with pytest.raises(lf.InputError, match="MiB"):
        lf.Study.from_mapping(study | {"problem": synthetic, "grid": {"n": 10**6}})
