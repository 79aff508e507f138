"""The house: what imports what, and what is loaded when."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ldpflow"

# From the bottom of the data flow to its top: a room may import from its own line and those above.
FLOORS = [
    {"errors", "settings", "exact"},
    {"compiled", "random", "kernel_parts"},
    {"problems"},
    {"mechanisms", "privacy"},
    {"algorithms", "path"},  # a kernel is made of a path's parts; a path names an algorithm
    {"theory"},
    {"intervals"},
    {"cell"},
    {"store", "measures", "study", "published"},
    {"trajectory", "diagnosis"},
    {"simulate", "summary", "trace"},
    {"engine", "comparison"},
    {"planning"},
    {"report"},
    {"cli", "__main__"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def imports():
    """(file, imported module) for every absolute import in the package, type checking included."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield file, alias.name
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: relative import"
                names = [f"ldpflow.{a.name}" for a in node.names] if node.module == "ldpflow" else []
                for name in names or [node.module]:
                    yield file, name


def room(parts):
    return parts[0].removesuffix(".py")


def test_imports_run_down_the_data_flow_only():
    upward = []
    for file, module in imports():
        if not module.startswith("ldpflow.") or module.split(".")[1].startswith("__"):
            continue
        here = room(file.relative_to(PACKAGE).parts)
        there = module.split(".")[1]
        if here != "__init__" and FLOOR[there] > FLOOR[here]:
            upward.append((str(file.relative_to(ROOT)), module))
    assert upward == []


@pytest.mark.parametrize(
    ("library", "rooms"),
    [("ray", {"engine"}), ("typer", {"cli"}), ("rich", {"cli"}), ("altair", {"report"})],
)
def test_a_library_stays_in_its_room(library, rooms):
    found = {
        room(file.relative_to(PACKAGE).parts)
        for file, module in imports()
        if module.split(".")[0] == library
    }
    assert found <= rooms


def test_no_file_outgrows_its_idea():
    long = {
        str(f.relative_to(ROOT)): n
        for f in PACKAGE.rglob("*.py")
        if (n := len(f.read_text().splitlines())) > 400
    }
    assert long == {}


def loaded(code):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; {code}; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "name",
    ["study", "store", "measures", "diagnosis", "summary", "published", "report.results"],
)
def test_a_room_that_reads_results_loads_no_compiler(name):
    assert not loaded(f"import ldpflow.{name}") & {"numba", "llvmlite", "ray", "typer"}


def test_the_package_itself_is_light():
    assert not loaded("import ldpflow") & {"numba", "numpy", "ray", "pyarrow", "scipy", "pydantic"}
