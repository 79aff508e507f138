"""Layers of the package: what imports what, and what is loaded when."""

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ldpflow

ROOT = Path(__file__).parents[1]
PACKAGE = Path(ldpflow.__file__).parent

# From the bottom of the data flow to its top: a package imports from its own level and those below.
LAYERS = [
    {"errors", "documents", "columns", "settings", "options", "client"},
    {"numerics"},
    {"components"},
    {"store", "simulators"},
    {"study"},
    {"results", "engine"},
    {"practice", "report"},
    {"run", "sweeps", "testing", "cli", "__main__"},
]
LAYER = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}


def module_of(file):
    parts = ("ldpflow", *file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): ast.parse(file.read_text()) for file in sorted(PACKAGE.rglob("*.py"))}
NODES = {module: list(ast.walk(tree)) for module, tree in MODULES.items()}


def imported(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import of {node.module}"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in MODULES else node.module


def executed(node):
    """Nodes that run when a module is imported: neither functions nor `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from executed(child)


def level(module):
    return LAYER[module.split(".")[1]]


def test_imports_run_down_the_levels_only():
    upward = [
        (module, other)
        for module, nodes in NODES.items()
        for other in imported(nodes)
        if module != "ldpflow" and other.startswith("ldpflow.") and level(other) > level(module)
    ]
    assert upward == []


def test_no_packages_import_each_other():
    """Below the top level, where the Python interface and the commands use each other."""
    graph = {package: set() for level in LAYERS[:-1] for package in level}
    for module, nodes in NODES.items():
        package = module.partition("ldpflow.")[2].partition(".")[0]
        if package in graph:
            others = {other.split(".")[1] for other in imported(nodes) if other.startswith("ldpflow.")}
            graph[package] |= others - {package}
    TopologicalSorter(graph).prepare()


def test_no_modules_import_each_other():
    graph = {
        module: {other for other in imported(executed(tree)) if other in MODULES} - {module}
        for module, tree in MODULES.items()
    }
    TopologicalSorter(graph).prepare()  # a circle is an error that names its modules


@pytest.mark.parametrize(
    ("library", "packages"),
    [("ray", {"engine"}), ("typer", {"cli"}), ("rich", {"cli"}), ("altair", {"report"})],
)
def test_a_library_stays_in_its_packages(library, packages):
    users = {
        module.split(".")[1]
        for module, nodes in NODES.items()
        if library in {name.split(".")[0] for name in imported(nodes)}
    }
    assert users <= packages


def loaded(code):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import sys; {code}; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("code", "libraries"),
    [
        ("import ldpflow", {"numpy", "pyarrow", "scipy", "pydantic"}),
        ("import ldpflow.client", {"numpy", "pyarrow", "scipy", "pydantic", "mpmath"}),
        ("import ldpflow.cli", {"numpy", "pyarrow", "scipy", "pydantic"}),
        ("import ldpflow as lf; lf.Study, lf.Quantile, lf.open_run, lf.sweep", {"scipy", "typer"}),
        ("import ldpflow.study as s; s.load_study('paper-table2')", {"scipy", "typer", "rich"}),
        (
            "import ldpflow.components.algorithms, ldpflow.practice.privacy.page; "
            "from ldpflow.numerics import accounting; accounting.clipping_noise_multiplier(1.0, 1e-6, 'gdp')",
            {"dp_accounting"},
        ),
        ("import ldpflow.results.published, ldpflow.report.results, ldpflow.store", {"typer"}),
    ],
)
def test_what_is_not_needed_is_not_loaded(code, libraries):
    assert not loaded(code) & {"numba", "llvmlite", "ray", *libraries}
