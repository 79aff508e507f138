"""Specialised functions: what a kernel function may use, and its digest."""

import ast
import importlib
import os
import sys

import pytest

from ldpflow.errors import LdpflowError
from ldpflow.numerics import kernels
from ldpflow.numerics.kernels import layout_of
from ldpflow.numerics.specialise import Case, KernelPart, specialise

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


@pytest.mark.parametrize("extra", [False, True])
def test_constants_loops_parameters_and_branches_are_written_out(extra):
    made = specialise(example, case_of(D=3, EXTRA=extra, tail=(tail,)))
    assert ast.unparse(made.tree).splitlines()[1:] == [
        "    out[0] = problem[0]",
        "    out[1] = helper(values, 1) + problem[2]",
        "    out[2] = helper(values, 2) + problem[3]",
        *["    kernel_tail_0(values, out)"][: int(extra)],
    ]
    # The lines are those of this file.
    first = example.__code__.co_firstlineno
    assert [statement.lineno - first for statement in made.tree.body][:3] == [4, 6, 6]


def test_what_is_missing_is_named():
    with pytest.raises(NameError, match=r"example .*nothing supplies kernel.EXTRA"):
        specialise(example, case_of(D=3))


def test_a_source_that_changed_after_its_import_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "changed_later.py"
    file.write_text("def f(x):\n    return x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import changed_later

    file.write_text("def f(x):\n    return 2 * x\n")
    os.utime(file, (1, 1))
    with pytest.raises(LdpflowError, match="changed after it was imported"):
        specialise(changed_later.f, Case())


MEAN = """
import numpy as np
import tools
from tools import scaled

HALF = 0.5
TABLE = np.array([1.0, 2.0])


def centred(kernel, x):
    return tools.shifted(x, HALF) * kernel.D


def gradient(kernel, g, theta, data, problem):
    g[0] = theta[0] - scaled(problem.scale, kernel.part(data[0])) + TABLE[0]
"""
TOOLS = """
def scaled(scale, x):
    return scale * x


def shifted(x, half):
    return x - half
"""


def test_the_digest_follows_functions_constants_parts_and_tables_of_other_modules(tmp_path, monkeypatch):
    """As of a plug-in that is edited between two processes."""
    monkeypatch.syspath_prepend(tmp_path)

    def digest(mean=MEAN, tools=TOOLS, size=2):
        for name, text in (("mean", mean), ("tools", tools)):
            (tmp_path / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        module = importlib.import_module("mean")
        part = KernelPart(module.centred, Case((("D", size),)))
        case = Case((("part", part),), (("problem", layout_of({"scale": 2.0})),))
        return kernels.module_of(specialise(module.gradient, case, "called"))[0]

    first = digest()
    # A comment is no change of a kernel, wherever the lines move.
    assert digest(tools="# tools\n" + TOOLS) == first
    changed = {
        digest(tools=TOOLS.replace("scale * x", "scale * x + 0.25")),
        digest(tools=TOOLS.replace("x - half", "x + half")),
        digest(mean=MEAN.replace("HALF = 0.5", "HALF = 0.25")),
        digest(mean=MEAN.replace("[1.0, 2.0]", "[1.0, 3.0]")),
        digest(size=3),
        first,
    }
    assert len(changed) == 6 and digest() == first
