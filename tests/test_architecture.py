"""ARCHITECTURE.md is true: its paths exist, its levels are those of the imports, and its steps work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layers import LAYERS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
TEMPLATES = ROOT / "ldpflow" / "testing" / "templates"
BASES = {
    "problem": "from ldpflow.components.problems.problem import Problem",
    "mechanism": "from ldpflow.components.mechanisms.mechanism import Mechanism",
    "algorithm": "",
    "method": "from ldpflow.components.algorithms import Algorithm\n"
    "from ldpflow.components.intervals.interval import Intervals, PathIntervalMethod\n"
    "from ldpflow.components.intervals.record import PathRecord",
}
FOLDERS = {"problem": "problems", "mechanism": "mechanisms", "algorithm": "algorithms", "method": "intervals"}
PROTOCOL = '''
from typing import Literal

from ldpflow.components.protocols.histograms import Grr


class Added(Grr):
    """A protocol that somebody adds."""

    kind: Literal["added_protocol"] = "added_protocol"
'''
STUDY = """
name = "added"
seed = 1
replicates = 16
problem = { kind = "added_problem" }
mechanism = { kind = "added_mechanism", epsilon = 1.0 }
algorithm = { kind = "added_algorithm" }
grid = { n = 64 }
method = [{ kind = "added_method" }]
"""


def test_paths_exist():
    named = re.findall(r"`((?:ldpflow|tests|workflows)/[\w./]*\w/?)`", TEXT)
    found = [path for path in named if "NAME" not in path]
    assert len(found) > 15
    assert [path for path in found if not (ROOT / path).exists()] == []


def test_it_is_short_and_names_each_level():
    assert len(TEXT.splitlines()) <= 120
    for names in LAYERS:
        assert all(f"`{name}`" in TEXT for name in names if not name.startswith("__"))


@pytest.mark.system
def test_a_component_is_one_file(tmp_path):
    package = tmp_path / "ldpflow"
    shutil.copytree(ROOT / "ldpflow", package, ignore=shutil.ignore_patterns("__pycache__"))
    for kind, folder in FOLDERS.items():
        name = f"added_{kind}"
        text = (TEMPLATES / f"{kind}.py.txt").read_text().format(kind=name, Class=f"Added{kind}", file="x.py")
        text = text.replace("import ldpflow as lf\n", BASES[kind] + "\n").replace("@lf.register\n", "")
        (package / "components" / folder / f"{name}.py").write_text(re.sub(r"\blf\.", "", text))
    (package / "components" / "protocols" / "added.py").write_text(PROTOCOL)
    (tmp_path / "study.toml").write_text(STUDY)

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", "ldpflow", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    listed = run("list").stdout
    assert all(f"added_{kind}" in listed for kind in (*FOLDERS, "protocol"))
    done = run("sweep", "study.toml", "--engine", "serial", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "added_method" in run("summary", "run").stdout
