"""The design of the rows of a run, after one command or several."""

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
from ldpflow.results.references import study_paragraph
from ldpflow.study import Study
from tests.kernels import uncompiled


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch):
    uncompiled.use(monkeypatch)


def described(run):
    found = Results.load(run)
    return study_paragraph(found.design, found.table, found.sessions), commands(found), found.design.text


def summary(run):
    return sorted(map(repr, lf.open_run(run).summary().to_pylist()))


def swept(out, flags):
    line = f"ldpflow sweep quickstart --n 40 --replicates 4 --quiet --engine serial {flags} --out {out}"
    with patch.object(sys, "argv", line.split()):
        assert main(line.split()[1:]) == 0


def test_a_design_that_is_not_factorial_is_said_to_be_none(tmp_path, capsys):
    run = tmp_path / "run"
    swept(run, "--epsilon 1 --tau 0.5 --method SN --n 50")
    swept(run, "--epsilon 1 --tau 0.5 --tau 0.9 --method BM --replicates 5")
    paragraph, typed, text = described(run)
    assert "4 to 5 independent replicates" in paragraph and "SN" in paragraph and "BM" in paragraph
    assert "not a full factorial design" in paragraph and "a full factorial design:" not in paragraph
    assert text == "" and len(typed) == 2
    for command in typed:
        assert main(shlex.split(command.replace(str(run), str(tmp_path / "again")))[1:]) == 0
    assert summary(tmp_path / "again") == summary(run)
    capsys.readouterr()
    assert main(["cite", str(run), "--text"]) == 0 and capsys.readouterr().out.strip() == paragraph
    assert main(["cite", str(run)]) == 0
    assert {"liu2023", "chen2020"} <= set(re.findall(r"@\w+\{(\w+),", capsys.readouterr().out))


def test_replicates_that_a_target_decided(tmp_path):
    run = tmp_path / "run"
    study = Study.load("quickstart").replace(n=[50, 100], epsilon=[1.0], method=["SN", "BM"])
    run_study(study, run, engine="serial", target_mcse=0.02, max_replicates=2000)
    paragraph, (command,), _ = described(run)
    assert "--target-mcse 0.02" in command and "--max-replicates 2000" in command
    assert "error of every coverage was at most 0.02" in paragraph


def test_a_run_of_one_command_is_described_by_its_study_and_a_part_of_it_by_its_rows(tmp_path):
    run = tmp_path / "run"
    swept(run, "--epsilon 1 --epsilon 2 --method SN")
    _, typed, text = described(run)
    assert typed == ["ldpflow sweep quickstart.toml --out runs/quickstart-again"]
    assert text == lf.open_run(run).store.read_study()
    shutil.rmtree(next((run / "replicates").iterdir()))
    (run / "summary.parquet").unlink()
    design = Results.load(run).design
    assert len(design.study["mechanism"][0]["epsilon"]) == 1 and design.text == ""
