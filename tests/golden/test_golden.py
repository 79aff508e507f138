"""Rows of tiny runs, path keys and cell ids are what they were when the files were made."""

import json

import numpy as np
import pytest

from tests.golden.cases import CASES, FAST, THOROUGH, UNCOMPILED, write_records
from tests.golden.make import BUNDLED, HERE, case_results, key_results
from tests.kernels import uncompiled

STORED = {name: json.loads((HERE / f"{name}.json").read_text()) for name in (*CASES, "keys")}


def hashes(results):
    """List the hashes of a case, so that a failing comparison names path, kind of rows and column."""
    return {
        (path, kind, *item)
        for path, kinds in results.items()
        for kind, table in kinds.items()
        for item in (*table["columns"].items(), ("all", table["sha256"]), ("count", table["count"]))
    }


def runs():
    """List each case to be compiled, and those of UNCOMPILED also as plain Python."""
    for group, studies in CASES.items():
        for name in studies:
            mark = () if name in FAST else pytest.mark.thorough if name in THOROUGH else pytest.mark.slow
            yield pytest.param(group, name, False, id=name, marks=mark)
            if name in UNCOMPILED:
                yield pytest.param(group, name, True, id=f"{name}-plain")


@pytest.mark.parametrize(("group", "name", "plain"), list(runs()))
def test_rows_of_a_tiny_run(group, name, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path)
    if plain:
        uncompiled.use(monkeypatch)
    golden = STORED[group]
    with np.errstate(all="ignore" if plain else "warn"):
        found = case_results(CASES[group][name], golden["columns"])
    assert hashes(found) == hashes(golden["cases"][name])


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
