"""Rows of tiny runs are, bit for bit, what they were when the golden files were made."""

from __future__ import annotations

import json

import pytest

from tests.golden.cases import CASES, write_records
from tests.golden.make import HERE, case_results

STORED = {group: json.loads((HERE / f"{group}.json").read_text()) for group in CASES}


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
            if made == golden:
                continue
            names = golden["columns"].keys() | made["columns"].keys()
            moved = sorted(n for n in names if made["columns"].get(n) != golden["columns"].get(n))
            lines.append(f"{key} {kind}: {made['count']} of {golden['count']}, columns {moved}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("group", "name"),
    [
        pytest.param(group, name, id=name, marks=[pytest.mark.slow] if case.slow else [])
        for group, cases in CASES.items()
        for name, case in cases.items()
    ],
)
def test_rows_of_a_tiny_run(group, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path)
    golden = STORED[group]
    ours = case_results(CASES[group][name], golden["columns"])
    assert ours == golden["cases"][name], difference(ours, golden["cases"][name])


def test_every_golden_case_is_still_run():
    for group, golden in STORED.items():
        assert golden["cases"].keys() == CASES[group].keys()
