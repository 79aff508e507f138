"""Layers of the package: what imports what, and what is loaded when."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import ldpflow

ROOT = Path(__file__).parents[1]
PACKAGE = Path(ldpflow.__file__).parent

# From the bottom of the data flow to its top: a package may import from its own line and those above.
LAYERS = [
    {"errors", "documents", "columns", "settings", "options"},
    {"numerics"},
    {"components"},
    {"store"},
    {"simulators"},
    {"study"},
    {"results"},
    {"engine"},
    {"practice"},
    {"report"},
    {"run", "sweeps", "testing", "cli", "__main__"},
]
LAYER = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}


@cache
def imports():
    """(file, imported module) for every absolute import in the package, type checking included."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found.append((file, alias.name))
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: relative import"
                names = [f"ldpflow.{a.name}" for a in node.names] if node.module == "ldpflow" else []
                found += [(file, name) for name in names or [node.module]]
    return found


def package(parts):
    return parts[0].removesuffix(".py")


def test_imports_run_down_the_data_flow_only():
    upward = []
    for file, module in imports():
        if not module.startswith("ldpflow.") or module.split(".")[1].startswith("__"):
            continue
        here = package(file.relative_to(PACKAGE).parts)
        there = module.split(".")[1]
        if here != "__init__" and LAYER[there] > LAYER[here]:
            upward.append((str(file.relative_to(PACKAGE.parent)), module))
    assert upward == []


@pytest.mark.parametrize(
    ("library", "packages"),
    [("ray", {"engine"}), ("typer", {"cli"}), ("rich", {"cli"}), ("altair", {"report"})],
)
def test_a_library_stays_in_its_packages(library, packages):
    found = {
        package(file.relative_to(PACKAGE).parts)
        for file, module in imports()
        if module.split(".")[0] == library
    }
    assert found <= packages


def loaded(code):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; {code}; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "name",
    ["study", "store", "results", "results.summary", "results.published", "report.results"],
)
def test_a_package_that_reads_results_loads_no_compiler(name):
    assert not loaded(f"import ldpflow.{name}") & {"numba", "llvmlite", "ray", "typer"}


def test_the_package_itself_is_light():
    assert not loaded("import ldpflow") & {"numba", "numpy", "ray", "pyarrow", "scipy", "pydantic"}
