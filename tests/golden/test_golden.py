"""Rows of tiny runs, path keys and cell ids are what they were when the files were made."""

import json
import math

import pyarrow as pa
import pytest

from tests.golden.cases import CASES, FAST, THOROUGH, write_records
from tests.golden.make import BUNDLED, HERE, case_results, key_results, table_hashes

STORED = {name: json.loads((HERE / f"{name}.json").read_text()) for name in (*CASES, "keys")}


def hashes(results):
    """Path, kind of rows, column and hash of a case; a failing comparison names what has changed."""
    return {
        (path, kind, *item)
        for path, kinds in results.items()
        for kind, table in kinds.items()
        for item in (*table["columns"].items(), ("all", table["sha256"]), ("count", table["count"]))
    }


def marks_of(name):
    if name in FAST:
        return ()
    return pytest.mark.thorough if name in THOROUGH else pytest.mark.slow


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(group, name, id=name, marks=marks_of(name))
        for group, studies in CASES.items()
        for name in studies
    ],
)
def test_rows_of_a_tiny_run(group, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path)
    golden = STORED[group]
    assert hashes(case_results(CASES[group][name], golden["columns"])) == hashes(golden["cases"][name])


def test_every_golden_case_is_still_run():
    assert STORED["keys"].keys() == BUNDLED.keys()
    for group, studies in CASES.items():
        assert STORED[group]["cases"].keys() == studies.keys()


SLOW_KEYS = ("momentum-n", "momentum-epsilon")


@pytest.mark.parametrize(
    "name",
    # The privacy of these takes seconds to compute, and momentum-d has the same columns.
    [pytest.param(n, marks=pytest.mark.thorough) if n in SLOW_KEYS else n for n in STORED["keys"]],
)
def test_keys_of_a_bundled_study(name):
    assert key_results(BUNDLED[name]) == STORED["keys"][name]


def test_a_changed_value_changes_the_hash():
    values = [0.1, math.nextafter(0.1, 1), 0.0, -0.0, math.nan, None]
    tables = [pa.table({"se": pa.array([se, 1.0], pa.float64()), "method": ["BB", "BM"]}) for se in values]
    tables.append(tables[0].set_column(1, "method", pa.array(["BM", "BB"])))
    assert len({table_hashes(table, table.column_names)["sha256"] for table in tables}) == 7
