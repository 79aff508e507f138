"""Reading a run whose plug-in is not loaded: explanations, and which rows are of the same users."""

from functools import partial
from pathlib import Path

import pytest

import ldpflow as lf
from ldpflow.engine.run import run_study
from ldpflow.report.answers import pairs
from ldpflow.report.results import Results
from ldpflow.results.summary import stored_cells
from ldpflow.store.run_store import RunStore
from tests.kernels import uncompiled
from tests.studies import forget_plugins

PLUGIN = str(Path(__file__).with_name("own_parts.py"))
LAW = str(Path(__file__).parents[1] / "api" / "plugin_law.py")
forget_own = partial(
    forget_plugins, "own_quantile", "own_response", "own_sgd", "own_runs", "ramp", "coarse_thresholds"
)


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    uncompiled.use(monkeypatch)


def swept(out, plugin=PLUGIN, **parts):
    lf.load_plugin(plugin)
    given = {
        "problem": {"kind": "quantile"},
        "mechanism": {"kind": "randomized_response", "epsilon": 1.0},
        "algorithm": {"kind": "ldp_sgd"},
        "methods": [lf.SelfNormalization(), lf.Oracle()],
        "replicates": 40,
    }
    run_study(lf.Study(**given | parts, n=[100], name="own", plugins=[plugin]), out, engine="serial")


OWN = {"problem": {"kind": "own_quantile"}, "algorithm": {"kind": "own_sgd"}}
ALL_OWN = OWN | {"mechanism": {"kind": "own_response", "epsilon": 1.0}}
RAMP = {"plugin": LAW, "problem": {"kind": "quantile", "law": "ramp", "tau": 0.25}}


@pytest.mark.parametrize("part", [RAMP, ALL_OWN], ids=["law", "all"])
def test_a_run_is_explained(part, tmp_path):
    swept(tmp_path / "run", **part)
    forget_own()
    found = lf.open_run(tmp_path / "run").explain()["explanation"].to_pylist()
    assert len(found) == 2 and all(text.startswith("Coverage 0.") for text in found)


def test_rows_of_several_replicates_are_compared_with_their_equals_alone(tmp_path):
    """BM on single replicates, and PAR and its copy in a plug-in on five replicates a row.

    The number survives compaction, which joins cells of any number of replicates in one part, and growth.
    """
    methods = [{"kind": kind} for kind in ("BM", "PAR", "own_runs")]
    swept(tmp_path, methods=methods, replicates=100)
    store = RunStore(tmp_path)
    store.replicates.compact(store.replicates.path_keys())
    swept(tmp_path, methods=methods, replicates=120)
    forget_own()
    pieces = stored_cells(store, damaged="refuse")
    found = {name: cell.runs for keys, cells in pieces
             for name, cell in zip(keys["method"].to_pylist(), cells, strict=True)}  # fmt: skip
    assert found == {"BM": 1, "PAR": 5, "own_runs": 5}
    # The copy has the numbers of PAR.
    (own,) = lf.open_run(tmp_path).compare(baseline="PAR").to_pylist()
    assert own["method"] == "own_runs" and own["pairs"] == 24
    assert own["coverage_difference"] == 0.0 and own["length_ratio"] == 1.0
    # Nothing is paired with BM, the baseline of the report.
    with pytest.raises(lf.InputError, match="^by: .* with the same replicates differ"):
        lf.open_run(tmp_path).compare(baseline="BM")
    results = Results.load(tmp_path)
    assert results.baseline == "BM" and pairs(results) is None


def test_a_grown_run_is_described_with_the_plug_in_and_without(tmp_path):
    """Two commands with a method each make a full factorial design of both methods."""
    swept(tmp_path / "run", **OWN, methods=[{"kind": "own_runs"}])
    swept(tmp_path / "run", **OWN, methods=[{"kind": "BM"}])
    found = [Results.load(tmp_path / "run").design]
    forget_own()
    found.append(Results.load(tmp_path / "run").design)
    for design in found:
        assert design.factorial and design.text == "", "no single study gives the rows"
        assert {entry["kind"] for entry in design.study["method"]} == {"own_runs", "BM"}
        assert [entry["kind"] for entry in design.study["algorithm"]] == ["own_sgd"]
