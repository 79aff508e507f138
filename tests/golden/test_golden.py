"""Rows of tiny runs, path keys and cell ids are what they were when the files were made."""

import json
import math

import pyarrow as pa
import pytest

from tests.golden.cases import CASES, FAST, THOROUGH, write_records
from tests.golden.make import BUNDLED, HERE, case_results, key_results, table_hashes

STORED = {name: json.loads((HERE / f"{name}.json").read_text()) for name in (*CASES, "keys")}


def difference(ours, stored):
    """What has changed, in words; the whole hashes would not say."""
    if ours.keys() != stored.keys():
        return f"path keys: {sorted(ours)}, golden {sorted(stored)}"
    lines = []
    for key, kinds in stored.items():
        if ours[key].keys() != kinds.keys():
            lines.append(f"{key} has {sorted(ours[key])}, golden {sorted(kinds)}")
            continue
        for kind, golden in kinds.items():
            made = ours[key][kind]
            if made != golden:
                names = golden["columns"].keys() | made["columns"].keys()
                moved = sorted(n for n in names if made["columns"].get(n) != golden["columns"].get(n))
                lines.append(f"{key} {kind}: {made['count']} of {golden['count']}, columns {moved}")
    return "\n".join(lines)


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
    ours = case_results(CASES[group][name], golden["columns"])
    assert ours == golden["cases"][name], difference(ours, golden["cases"][name])


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
