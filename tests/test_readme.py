"""The Python that README shows is run as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import ldpflow as lf
from ldpflow.testing import check_plugin

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def block(beginning):
    (found,) = [text for text in BLOCKS if beginning in text]
    return found


def test_the_lines_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shorter = block("lf.sweep").replace("n=[1e4, 1e5], replicates=200", "n=[1e3, 1e5], replicates=20")
    shorter = shorter.replace("n=10_000", "n=1_000")
    names = {}
    exec(compile(shorter, "README.md", "exec"), names)
    assert names["run"].summary().num_rows == 2 * 2 * 3 * 2 and names["run"].out == "runs/mine"


def test_the_problem_is_right(tmp_path):
    file = tmp_path / "mean_of_readme.py"
    file.write_text(block("class Mean"))
    assert [str(finding) for finding in check_plugin(str(file)) if not finding.passed] == []
    mean = lf.load_plugin(str(file)).Mean
    study = lf.Study(
        problem=mean(scale=[1.0, 2.0]),
        mechanism=lf.Laplace(epsilon=2.0),
        algorithm=lf.LdpSgd(),
        methods=[lf.Oracle()],
        n=[2e3],
        replicates=64,
    )
    run = lf.sweep(study, tmp_path / "run", executor="serial")
    assert run.summary()["problem"].to_pylist() == ["mean", "mean"]
    assert run.summary()["scale"].to_pylist() == [1.0, 2.0]
    assert min(run.summary()["coverage"].to_pylist()) > 0.7
    assert sys.modules["ldpflow_plugin_mean_of_readme"]


def test_the_layout_names_what_there_is():
    text = (ROOT / "README.md").read_text().partition("## The layout of the package")[2]
    layout = text.partition("    ldpflow/\n")[2].partition("    workflows/")[0]
    named = set(re.findall(r"([a-z]+)/", layout))
    there = {folder.parent.name for folder in (ROOT / "ldpflow").glob("*/__init__.py")}
    assert there <= named and named <= there
