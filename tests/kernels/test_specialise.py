"""Specialised functions: what a kernel function may use, that it runs uncompiled, and its cache."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path as FilePath
from types import SimpleNamespace

import numpy as np
import pytest

from ldpflow.errors import LdpflowError
from ldpflow.numerics import kernels
from ldpflow.numerics.kernel_functions import flat, layout_of, size_of
from ldpflow.numerics.specialise import Case, specialise

ROOT = FilePath(__file__).parents[2]
FACTOR = 3


def helper(kernel, values, j):
    return values[j] * FACTOR + kernel.D


def example(kernel, values, out, problem):
    """Every way of using the case."""
    for j in range(kernel.D):
        if j == 0:
            out[j] = problem.scale
        else:
            out[j] = helper(kernel, values, j) + problem.shifts[j]
    if kernel.EXTRA and len(problem.shifts) > 1:
        kernel.tail[0](values, out)


def tail(values, out):
    out[0] += values[0]


def case_of(**values):
    parameters = {"scale": 0.5, "shifts": (1.0, 2.0, 4.0)}
    return Case(tuple(values.items()), (("problem", layout_of(parameters)),), frozenset({"D"}))


def test_parameters_lie_in_the_order_of_their_names():
    parameters = {"a": 1.0, "b": (2.0, 3.0), "c": 4.0}
    assert layout_of(parameters) == (("a", 0, None), ("b", 1, 2), ("c", 3, None))
    assert size_of(layout_of(parameters)) == 4
    assert flat(parameters).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_constants_loops_parameters_and_branches_are_written_out():
    made = specialise(example, case_of(D=3, EXTRA=False))
    assert ast.unparse(made.tree).splitlines()[1:] == [
        "    out[0] = problem[0]",
        "    out[1] = helper(values, 1) + problem[2]",
        "    out[2] = helper(values, 2) + problem[3]",
    ]
    # The lines are those of this file.
    first = example.__code__.co_firstlineno
    assert [statement.lineno - first for statement in made.tree.body] == [4, 6, 6]


@pytest.mark.parametrize("extra", [False, True])
def test_compiled_and_uncompiled_agree(extra):
    values, parameters = np.array([10.0, 20.0, 30.0]), {"scale": 0.5, "shifts": (1.0, 2.0, 4.0)}
    case = case_of(D=3, EXTRA=extra, tail=(tail,))
    kernel = kernels.compile_kernel(example, case, "void(float64[::1], float64[::1], float64[::1])")
    compiled = np.zeros(3)
    kernel(values, compiled, flat(parameters))
    plain = np.zeros(3)
    namespace = SimpleNamespace(D=3, EXTRA=extra, tail=(tail,))
    example(namespace, values, plain, SimpleNamespace(**parameters))
    assert compiled.tolist() == plain.tolist() == [0.5 + 10.0 * extra, 65.0, 97.0]


def test_what_is_missing_is_named():
    with pytest.raises(NameError, match=r"example .*nothing supplies kernel.EXTRA"):
        specialise(example, case_of(D=3))

    def wrong(problem):
        return problem.size

    with pytest.raises(NameError, match=r"no parameter problem.size \(there are: scale, shifts\)"):
        specialise(wrong, case_of())


def test_a_source_that_changed_after_its_import_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "changed_later.py"
    file.write_text("def f(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import changed_later

    file.write_text("def f(x):\n    return 2 * x\n")
    os.utime(file, (1, 1))
    with pytest.raises(LdpflowError, match="changed after it was imported"):
        specialise(changed_later.f, Case())


PROBLEM = '''
"""A problem outside of the package, with a helper and a constant of its own module."""
from typing import Literal

import tools
from tools import scaled

from ldpflow.components.problems import PROBLEMS
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Problem

HALF = 0.5


class Mean(Problem):
    kind: Literal["mean"] = "mean"
    scale: float = 2.0

    def truth(self):
        return (0.0,)

    def variates(self):
        return (Variate("uniform"),)

    def kernel_parameters(self):
        return {"scale": self.scale}

    def l1_sensitivity(self):
        return self.scale

    l2_sensitivity = l1_sensitivity

    def curvature(self):
        return [[1.0]]

    def gradient_covariance(self):
        return [[self.scale**2 / 12]]


def centred(kernel, x):
    return tools.shifted(x, HALF) * kernel.D


def gradient(kernel, g, theta, data, at, lane, problem):
    """theta - X."""
    g[lane] = theta[lane] - scaled(problem.scale, centred(kernel, data[at]))


PROBLEMS["mean"] = Mean
'''
TOOLS = """
def scaled(scale, x):
    return scale * x


def shifted(x, half):
    return x - half
"""
SWEEP = """
import sys
import mean_problem
from ldpflow.engine.run import run_study
from tests.kernels.loads import loads
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
study = Study.from_mapping({
    "name": "mean", "seed": 1, "replicates": 8, "problem": {"kind": "mean"},
    "mechanism": {"kind": "laplace", "epsilon": 1.0},
    "algorithm": {"kind": "ldp_sgd"}, "grid": {"n": [200], "level": [0.9]}, "method": [{"kind": "BM"}],
})
assert not run_study(study, sys.argv[1], engine="serial").failed_batches
rows = RunStore(sys.argv[1]).replicates.read(damaged="refuse").sort_by("replicate")
print(rows["estimate"][0].as_py().hex(), *loads())
"""


def run(code, *arguments, path, cache, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": f"{path}{os.pathsep}{ROOT}",
            "LDPFLOW_CACHE_DIR": str(cache),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_a_problem_of_another_package_calls_its_own_functions_and_is_never_stale(tmp_path):
    (tmp_path / "mean_problem.py").write_text(PROBLEM)
    (tmp_path / "tools.py").write_text(TOOLS)
    folder = tmp_path / "cache"

    def swept(name):
        return run(SWEEP, tmp_path / name, path=tmp_path, cache=folder)

    first, *loads = swept("first")
    assert loads == ["0", "1"]
    assert swept("again") == [first, "1", "0"]
    # A comment is no change of a kernel, wherever the lines move.
    (tmp_path / "tools.py").write_text("# tools\n" + TOOLS)
    assert swept("comment") == [first, "1", "0"]
    (tmp_path / "tools.py").write_text(TOOLS.replace("scale * x", "scale * x + 0.25"))
    helper_changed, *loads = swept("helper")
    assert helper_changed != first and loads == ["0", "1"]
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "mean_problem.py").write_text(PROBLEM.replace("HALF = 0.5", "HALF = 0.25"))
    constant_changed, *loads = swept("constant")
    assert constant_changed not in (first, helper_changed) and loads == ["0", "1"]


ONE = """
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from tests.kernels.loads import loads
from ldpflow.components.mechanisms.laplace import Laplace
from ldpflow.components.problems.quantile import Quantile
from ldpflow.simulators.one_pass import run_path
from ldpflow.simulators.one_pass import OnePass
record = run_path(OnePass(Quantile(), Laplace(), LdpSgd()), 1, range(3), [1000])
print(record.prefix_sums[0, 0, 2].hex(), *loads())
"""
PROCESSORS = {
    "own": {},
    "haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"},
    "x86-64": {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""},
}


@pytest.mark.slow
def test_each_processor_has_code_of_its_own_with_the_same_bits(tmp_path):
    cold = {name: run(ONE, path=ROOT, cache=tmp_path, **p) for name, p in PROCESSORS.items()}
    assert len({bits for bits, *_ in cold.values()}) == 1
    assert all(loads == ["0", "1"] for _, *loads in cold.values())
    warm = run(ONE, path=ROOT, cache=tmp_path, **PROCESSORS["haswell"])
    assert warm == [cold["own"][0], "1", "0"]
