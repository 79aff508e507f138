"""The figure of protocols: a line per protocol, its default interval, and the bound beneath them all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.report.figures import default_rows, measure
from ldpflow.report.page import draw_figures
from ldpflow.report.results import Results
from ldpflow.study import Study
from tests.report.test_figures import values

STUDY = {
    "name": "protocols",
    "seed": 3,
    "replicates": 40,
    "problem": {"kind": "quantile", "tau": [0.5, 0.9]},
    "mechanism": {"kind": "randomized_response", "epsilon": [1.0, 4.0], "sampling": "private_bit"},
    "algorithm": {"kind": "ldp_sgd"},
    "protocol": {"kind": ["rounds", "haar", "grr"], "epsilon": [1.0, 4.0], "range": [-6.3, 9.7]},
    "grid": {"n": [1000, 10000]},
    "method": [{"kind": "oracle"}, {"kind": "inversion", "limits": ["outer", "line"]}, {"kind": "fieller"}],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "protocols"
    run_study(Study.from_mapping(STUDY), folder, engine="serial")
    return Results.load(folder)


def test_one_default_interval_of_every_protocol(results):
    rows = default_rows(results)
    cells = [(row["series"], row["tau"], row["epsilon"], row["n"]) for row in rows]
    assert len(cells) == len(set(cells))
    assert {name for name, *_ in cells} == {"ldp_sgd", "rounds", "haar", "grr"}
    assert not any(row["limits"] == "line" for row in rows)
    assert all((row["range_end_share"] or 0) <= 0.5 for row in rows)
    # GRR's intervals of the .9-quantile at n = 1000 end at the range.
    assert ("grr", 0.9, 1.0, 1000) not in cells


def test_the_bound_is_that_of_the_cell(results):
    (row,) = [
        row
        for row in default_rows(results)
        if (row["series"], row["tau"], row["epsilon"], row["n"]) == ("haar", 0.5, 1.0, 10000)
    ]
    error = np.sqrt(1.1706736 / 10000) * np.sqrt(2 * np.pi)
    assert row["bound"] == pytest.approx(2 * 1.6448536 * error, rel=1e-6)
    assert row["length_mean"] > row["bound"]


def test_both_axes_are_logarithmic_and_every_protocol_has_a_line(results):
    spec = measure(results, "n", "protocols").to_dict()
    assert str(spec).count("'type': 'log'") >= 2
    data = values(spec)
    assert {row["series"] for row in data} == {"ldp_sgd", "rounds", "haar", "grr"}
    assert len({row["panel"] for row in data}) == 4 and len(data) == len(default_rows(results))


def test_the_report_has_the_figure_and_other_runs_do_not(results):
    assert "protocols" in [name for name, _, _ in draw_figures(results)]
    rows = [{**row, "protocol": None} for row in results.rows]
    with pytest.raises(InputError, match="protocol"):
        measure(dataclasses.replace(results, rows=rows), "n", "protocols")
