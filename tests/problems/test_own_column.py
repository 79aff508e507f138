"""What forbids a quantile of a column: too few values beyond it, or a value that too many records have."""

from pathlib import Path

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.components.problems.column_law import (
    add_jitter,
    atoms,
    check_level,
    lattice_spacing,
    law_of_column,
    load_column,
)
from ldpflow.components.problems.tables import DataColumn
from ldpflow.engine.check import check_run
from ldpflow.engine.replay import equal_bits, replay
from ldpflow.engine.run import run_study
from ldpflow.store.run_store import RunStore
from tests.kernels import uncompiled
from tests.oracles.column_law import example_column
from tests.problems.files import column_file
from tests.studies import changed


@pytest.mark.parametrize(
    ("values", "tau", "words"),
    [
        (example_column(200), 0.99, "200 values: .* needs 2,000"),
        (example_column(200), 0.005, "200 values: .* needs 4,000"),
        (np.append(np.zeros(240), np.random.default_rng(1).lognormal(3, 1, 1760)), 0.1, "12% of the records"),
    ],
)
def test_a_quantile_that_a_column_does_not_determine(tmp_path, values, tau, words):
    column = load_column(column_file(tmp_path, values), "a")
    check_level(column, None, 0.9)
    with pytest.raises(lf.InputError, match=words) as caught:
        check_level(column, None, tau)
    assert caught.value.field == "problem.tau"


def test_a_column_has_a_hundred_values(tmp_path):
    with pytest.raises(lf.InputError, match="at least 100 values"):
        load_column(column_file(tmp_path, example_column(50)), "a")


def test_lattice_and_jitter(tmp_path):
    rng = np.random.default_rng(1)
    values = np.round(2 * rng.normal(size=2000)) / 2
    column = load_column(column_file(tmp_path, values), "a")
    assert law_of_column(column, None).spacing == 0.5
    with pytest.raises(lf.InputError, match="jitter = 0.5"):
        check_level(column, None, 0.5)
    check_level(column, 0.5, 0.5)
    law = law_of_column(column, 0.5)
    assert law.spacing == 0.0
    # The law of a rounded normal plus uniform noise is the normal with steps averaged over a cell.
    assert law.median == pytest.approx(0.0, abs=0.06)
    assert 1 / law.sparsity(0.5) == pytest.approx(0.3949, rel=0.12)


def test_jitter_spreads_ties_evenly():
    values = np.repeat([1.0, 2.0, 5.0], [400, 100, 300])
    spread = add_jitter(values, 1.0)
    for value, count in ((1.0, 400), (2.0, 100), (5.0, 300)):
        near = np.sort(spread[np.abs(spread - value) <= 0.5])
        assert len(near) == count
        assert np.abs(near - (value - 0.5 + (np.arange(count) + 0.5) / count)).max() < 4 / count


@pytest.mark.parametrize(
    ("values", "spacing"),
    [
        (np.round(np.random.default_rng(1).normal(size=500), 1), 0.1),
        (np.round(np.random.default_rng(1).normal(1e6, 10, 500), 1), 0.1),
        (10 * np.random.default_rng(1).integers(0, 30, 400) + 3.0, 10.0),
        (np.random.default_rng(1).normal(size=500), 0.0),
        (np.repeat([1.0, 2.0, 4.5], 50), 0.0),  # 2.5 is no multiple of 1
        (np.arange(100.0), 0.0),  # not tied
    ],
)
def test_lattice_spacing(values, spacing):
    assert lattice_spacing(np.sort(values)) == pytest.approx(spacing, rel=1e-9)


def own_study(file, **settings):
    problem = {"kind": "quantile", "law": "empirical", "file": file, "column": "a", **settings}
    algorithm = {"kind": "ldp_sgd", "c": 1000.0, "theta0": 2000.0}
    others = {"mechanism__epsilon": 1.0, "grid": {"n": 400}, "method": {"kind": "SN"}}
    return lf.Study.from_mapping(changed(replicates=2, problem=problem, algorithm=algorithm, **others))


@pytest.mark.thorough
def test_a_run_is_continued_and_replayed_without_its_file(tmp_path, monkeypatch):
    """The run has the law of the column and the digest of the file: the same bits as with the file."""
    uncompiled.use(monkeypatch)
    file = column_file(tmp_path, example_column(1000))
    run_study(own_study(file), tmp_path / "run", engine="serial")
    run_study(own_study(file).replace(replicates=4), tmp_path / "whole", engine="serial")
    Path(file).unlink()
    text = (tmp_path / "run" / "study.toml").read_text()
    assert "sha256 = " in text and "law_table = " in text
    stored = lf.Study.from_toml(text)
    computed, kept = replay(str(tmp_path / "run"), f"p{stored.simulators()[0].key}", 1)
    assert equal_bits(computed, kept) and len(kept) == 1
    run_study(stored.replace(replicates=4), tmp_path / "run", engine="serial")
    summaries = [RunStore(tmp_path / name).read_summary() for name in ("run", "whole")]
    assert equal_bits(*summaries) and summaries[0]["replicates"].to_pylist() == [4]
    assert check_run(str(tmp_path / "run"), recompute=1.0)[0] == []
    # Its paths by name, without the values of the pilot.
    with pytest.raises(lf.InputError) as caught:
        replay(str(tmp_path / "run"), "pz", 1)
    assert "0x1" not in str(caught.value)


def test_a_changed_file_is_read_again_and_refused(tmp_path):
    file = column_file(tmp_path, example_column(1000))
    first = load_column(file, "a")
    assert load_column(file, "a") is first
    study = own_study(file)
    digest = study.settings()["problem"][0]["sha256"][0]
    column_file(tmp_path, example_column(1100))
    assert len(load_column(file, "a").values) == 1100
    for expected in (digest, "0" * 64):
        with pytest.raises(lf.InputError, match=f"SHA-256 {expected}.*has changed"):
            own_study(file, sha256=expected)
    assert own_study(file).simulators()[0].key != study.simulators()[0].key


def test_values_with_their_counts_are_the_records(tmp_path):
    """The law and the number of records left out are those of the file with a line for each record."""
    values = example_column(300)
    different, counts = np.unique(values, return_counts=True)
    lines = [*zip(different, counts, strict=True), ("NA", 7), (1e9, 0)]
    counted = tmp_path / "counted.csv"
    counted.write_text("a,people\n" + "".join(f"{v},{c}\n" for v, c in lines))
    long = column_file(tmp_path, [*values, *["NA"] * 7])
    given = {"law": "empirical", "column": "a", "missing": "drop"}
    found = lf.Quantile(file=str(counted), count_column="people", **given)
    assert found.law_table == lf.Quantile(file=long, **given).law_table
    assert "7 of 307 records" in str(found.caution())
    assert "file" not in found.key_settings() and found.key_settings()["count_column"] == "people"


@pytest.mark.parametrize(
    ("counts", "words"),
    [("2.5", "Row 3"), ("-1", "Row 3"), ("NA", "Row 3"), ("x", "no number"), ("1e9", "at most 10,000,000")],
)
def test_counts_that_are_no_whole_numbers_are_refused(tmp_path, counts, words):
    file = tmp_path / "data.csv"
    file.write_text(f"a,people\n1,50\n2,50\n3,{counts}\n")
    with pytest.raises(lf.InputError, match=words) as caught:
        load_column(str(file), "a", count_column="people")
    assert caught.value.field == "problem.count_column"


def test_atoms_are_values_that_neighbours_do_not_explain(tmp_path):
    rng = np.random.default_rng(5)
    sessions = np.concatenate([np.zeros(210), np.full(270, 30.0), np.round(rng.lognormal(4.4, 1.0, 2520))])
    found = atoms(DataColumn("s", sessions, 0))
    assert [(atom.value, atom.below) for atom in found] == [(0.0, 0.0), (30.0, np.mean(sessions < 30))]
    assert found[1].share == np.mean(sessions == 30)
    # Rounding, also to half a deviation, makes a lattice and no atoms; nor do a few ties of a small column.
    for width in (0.01, 1.0, 5.0):
        assert atoms(DataColumn("s", width * np.round(rng.normal(50, 9, 3000) / width), 0)) == ()
    assert atoms(DataColumn("s", np.round(rng.normal(50, 9, 200), 1), 0)) == ()
