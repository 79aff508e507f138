"""Rows that were edited and saved again, runs whose data file is gone, and settings that name any file."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ldpflow.documents import SUM_OF_TEXT
from ldpflow.engine.check import check_run, repair_run
from ldpflow.engine.run import run_study, write_summaries
from ldpflow.errors import InputError
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.faults.study import rewrite, study
from tests.kernels import uncompiled
from tests.studies import changed


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("check") / "run"
    run_study(study(replicates=32), run, engine="serial")
    return run


@pytest.fixture
def run(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


def edit(run: Path, name: str, change) -> None:
    """Change the values of a column of the first part and save it as a sweep would."""

    def changed(table, meta):
        values = pa.array(change(table[name].to_pylist()), table.schema.field(name).type)
        return table.set_column(table.column_names.index(name), table.schema.field(name), values)

    rewrite(min((run / "replicates").rglob("*.parquet")), changed)


def with_value(value: object):
    return lambda old: [*old[:7], value(old[7]) if callable(value) else value, *old[8:]]


def findings(run: Path, **options) -> list[str]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*reads a data file")
        return [finding.what for finding in check_run(str(run), **options)[0]]


@pytest.mark.parametrize(
    ("name", "value", "finding"),
    [
        ("covered", None, "covered"),
        ("covered", lambda covered: not covered, "covered"),
        ("length", 3.0, "length"),
        ("status", "weird", "status"),
        ("status", "undefined", "limits"),
        ("truth", 50.0, "truth"),
    ],
)
def test_an_edited_row_that_breaks_a_rule_of_rows_is_found_and_repaired(run, name, value, finding):
    edit(run, name, with_value(value))
    found = findings(run)
    assert any(finding in what and "part-0-" in what for what in found), found
    if value is None:
        repair_run(str(run), engine="serial")
        assert findings(run) == []


def test_a_consistent_forgery_is_found_by_computing_again(run):
    with pytest.raises(InputError, match="recompute"):
        check_run(str(run), recompute=1.5)
    assert findings(run, recompute=0.5) == []
    edit(run, "se", lambda values: [None if se is None else se / 2 for se in values])
    write_summaries(RunStore(run))
    assert findings(run) == []
    assert any("computed again differ" in what for what in findings(run, recompute=1.0))


@pytest.mark.parametrize(
    ("name", "factor", "found"),
    [
        ("bias_effect", 1 + 1e-13, False),  # the normal distribution function of another processor
        ("bias_effect", 1 + 1e-6, True),
        ("coverage_together_mcse", 1 + 1e-13, False),
        ("length_mean", 1 + 1e-13, True),
    ],
)
def test_a_summary_of_another_machine_agrees_where_a_library_computed_it(run, name, factor, found):
    store = RunStore(str(run))
    summary = store.read_summary()
    values = [value and value * factor for value in summary[name].to_pylist()]
    assert values != summary[name].to_pylist()
    at = summary.column_names.index(name)
    store.write_summary(summary.set_column(at, summary.field(at), pa.array(values, pa.float64())))
    said = ["summary.parquet: its numbers are not those of the rows"]
    assert findings(run) == (said if found else [])


@pytest.fixture(scope="module")
def of_file(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("file")
    file = folder / "records.csv"
    rng = np.random.default_rng(1)
    rows = (f"{i % 2},{a:.3f},{b:.3f}" for i, (a, b) in enumerate(rng.normal(size=(40, 2))))
    file.write_text("y,a,b\n" + "\n".join(rows) + "\n")
    own = changed(
        replicates=4, problem={"kind": "nonconvex_logistic", "file": str(file), "target": "y"}, mechanism=...,
        algorithm={"kind": "dp_gd", "epsilon": 1.0, "epochs": 4}, grid={"n": [40]}, method=...,
        trajectory={"first": 1, "points": 2},
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        uncompiled.use(patch)
        run_study(Study.from_mapping(own), folder / "run", engine="serial")
    return file, folder / "run"


def test_a_run_whose_data_file_has_moved_is_checked(of_file, tmp_path):
    file, made = of_file
    run = shutil.copytree(made, tmp_path / "run")
    moved = file.rename(tmp_path / "elsewhere.csv")
    assert findings(run) == []
    with pytest.warns(UserWarning, match="does not open"):
        check_run(str(run))
    part = min((run / "trajectories").rglob("*.parquet"))
    data = bytearray(part.read_bytes())
    data[100] ^= 1
    part.write_bytes(bytes(data))
    assert any("checksum" in what for what in findings(run))
    moved.rename(file)


def resettle(run: Path, file: str) -> None:
    """Put another file, without its digest, into every part, as a stranger might."""

    def settle(table, meta):
        problem = meta["path_settings"]["problem"] | {"file": file}
        meta["path_settings"]["problem"] = {k: v for k, v in problem.items() if k != "sha256"}
        meta.pop("described", None)

    for part in (run / "trajectories").rglob("*.parquet"):
        rewrite(part, settle)


@pytest.mark.parametrize("named", ["/dev/zero", "secret.csv"])
def test_settings_in_parts_open_no_file(of_file, tmp_path, named, capfd):
    file, made = of_file
    run = shutil.copytree(made, tmp_path / "run")
    secret = tmp_path / "secret.csv"
    secret.write_text("password=hunter2\nnext,line,of,it\n")
    target = named if named.startswith("/") else str(secret)
    resettle(run, file=target)
    text = (run / "study.toml").read_text().rpartition(SUM_OF_TEXT)[0]
    RunStore(run).write_study(text.replace(str(file), target))
    found = findings(run)
    with pytest.raises(InputError) as refused:
        repair_run(str(run), engine="serial")
    shown = " ".join(found) + str(refused.value) + "".join(capfd.readouterr())
    assert found and "hunter2" not in shown and "password" not in shown
