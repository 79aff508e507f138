"""The design that the rows of a run are of, whatever commands made them, and the study that gives them."""

import json
import re
import shlex
import shutil
import sys
from unittest.mock import patch

import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.engine.run import run_study
from ldpflow.report.page import commands
from ldpflow.report.results import Results
from ldpflow.results.design import StoredDesign, places_of
from ldpflow.results.references import study_paragraph
from ldpflow.store.provenance import chain_checksums
from ldpflow.store.schema import cell_id
from ldpflow.study import Study, bundled_studies, load_study
from tests.studies import changed


def described(run):
    """Paragraph, commands and study file of a report."""
    found = Results.load(run)
    return study_paragraph(found.design, found.table, found.sessions), commands(found), found.design.text


def summary(run):
    return sorted(map(repr, lf.open_run(run).summary().to_pylist()))


def swept(out, flags):
    line = f"ldpflow sweep quickstart --n 500 --replicates 20 --quiet --engine serial {flags} --out {out}"
    with patch.object(sys, "argv", line.split()):
        assert main(line.split()[1:]) == 0


def test_a_design_that_is_not_factorial_is_said_to_be_none(tmp_path, capsys):
    run = tmp_path / "run"
    swept(run, "--epsilon 1 --tau 0.5 --method SN --n 400")
    swept(run, "--epsilon 1 --tau 0.5 --tau 0.9 --method BM --replicates 30")
    paragraph, typed, text = described(run)
    assert "20 to 30 independent replicates" in paragraph and "SN" in paragraph and "BM" in paragraph
    assert "not a full factorial design" in paragraph and "a full factorial design:" not in paragraph
    assert text == "" and len(typed) == 2
    for command in typed:
        assert main(shlex.split(command.replace(str(run), str(tmp_path / "again")))[1:]) == 0
    assert summary(tmp_path / "again") == summary(run)
    capsys.readouterr()
    assert main(["cite", str(run), "--text"]) == 0 and capsys.readouterr().out.strip() == paragraph
    assert main(["cite", str(run)]) == 0
    assert {"liu2023", "chen2020"} <= set(re.findall(r"@\w+\{(\w+),", capsys.readouterr().out))


def test_rows_of_several_replicates_and_their_number(tmp_path):
    """103 replicates are 20 rows of PAR; those of BM alone tell how many they were."""
    study = changed(
        replicates=23, problem={"kind": "quantile"}, algorithm={"kind": "ldp_sgd"}, grid={"n": [500]},
        mechanism={"kind": "randomized_response", "epsilon": 1.0}, method=[{"kind": "PAR"}],
    )  # fmt: skip
    run = tmp_path / "run"
    run_study(Study.from_mapping(study), run, engine="serial")
    run_study(Study.from_mapping(study | {"method": [{"kind": "BM"}]}), run, engine="serial")
    again = Study.from_toml(described(run)[2])
    run_study(again, tmp_path / "again", engine="serial")
    assert again.replicates == 23 and summary(tmp_path / "again") == summary(run)


def test_replicates_that_a_target_decided(tmp_path):
    run = tmp_path / "run"
    study = Study.load("quickstart").replace(n=[100, 500], epsilon=[1.0], method=["SN", "BM"])
    run_study(study, run, engine="serial", target_mcse=0.02, max_replicates=2000)
    paragraph, (command,), _ = described(run)
    assert "--target-mcse 0.02" in command and "--max-replicates 2000" in command
    assert "error of every coverage was at most 0.02" in paragraph


def test_a_run_of_one_command_is_described_by_its_study_finished_or_not(tmp_path):
    run = tmp_path / "run"
    swept(run, "--epsilon 1 --epsilon 2 --method SN")
    _, typed, text = described(run)
    assert typed == ["ldpflow sweep quickstart.toml --out runs/quickstart-again"]
    assert text == lf.open_run(run).store.read_study()
    shutil.rmtree(next((run / "replicates").iterdir()))
    sessions = json.loads((run / "provenance.json").read_text())
    sessions[-1] |= {"ended": None}
    (run / "provenance.json").write_text(json.dumps(chain_checksums(sessions)))
    (run / "summary.parquet").unlink()
    assert "1 of 2 cells have rows" in described(run)[0]
    assert Results.load(run).design.study["mechanism"]["epsilon"] == [1.0, 2.0]


def rows_of(study, kept):
    """The rows that a run of some of the cells of a study has, without a run."""
    rows = object.__new__(StoredDesign)
    rows.name, rows.seed = study.name, study.seed
    rows.paths, rows.cells, rows.counts, rows.runs = {}, {}, {}, {}
    for plan in study.plans():
        path = f"p{plan.simulator.key}"
        for cell in filter(kept, plan.cells):
            place = path, cell_id(cell.columns())
            rows.paths[path] = plan.simulator
            rows.cells[place] = {k: v for k, v in cell.columns().items() if v is not None}
            rows.runs[place] = cell.runs
            rows.counts[place] = study.replicates // cell.runs
        if plan.checkpoints and path in rows.paths:
            rows.counts[path, ""], rows.runs[path, ""] = study.replicates, 1
    return rows


LARGE = ("tr-interplay", "tr-laws", "tr-laws-interplay", "tr-steps")


@pytest.mark.parametrize("name", [n for n in bundled_studies() if n not in LARGE and load_study(n).method])
def test_studies_are_rebuilt_from_their_rows(name):
    """All rows give one study with the same cells; without those of a method at the largest n none does."""
    study = load_study(name)
    mapping = {"name": name, "seed": study.seed} | {
        table: value for table, value in study.settings().items() if table in ("trajectory", "monitor")
    }
    last = study.method_settings[-1]
    rows = rows_of(study, lambda cell: True)
    found = rows.design(mapping, None)
    again = Study.from_toml(found.text)
    assert found.factorial and again.replicates == study.replicates
    assert places_of(again) == rows.counts.keys()
    if len(study.method_settings) > 1:
        found = rows_of(study, lambda cell: cell.n < study.n[-1] or cell.method != last).design(mapping, None)
        assert not found.factorial and found.text == ""


def test_a_design_whose_n_have_their_own_paths_is_rebuilt():
    study = Study.from_mapping(changed(grid__independent_n=True))
    rows = rows_of(study, lambda cell: True)
    found = rows.design({"name": study.name, "seed": study.seed}, None)
    assert places_of(Study.from_toml(found.text)) == rows.counts.keys()
