"""Kernels: functions specialised for a case, their module, its digest and errors, and its machine code."""

import ast
import errno
import importlib
import linecache
import os
import sys
from collections import namedtuple
from types import ModuleType

import numba
import numpy as np
import pytest

from ldpflow.errors import InputError, LdpflowError
from ldpflow.numerics import exp, register_array
from ldpflow.numerics import kernels as module
from ldpflow.numerics.kernels import layout_of
from ldpflow.numerics.specialise import Case, KernelPart, specialise
from tests.kernels.conftest import loads

FLOATS = "void(float64[::1], float64[::1])"
TABLE = np.array([1.0, 2.0])


def module_of(function, **values):
    digest, made = module.module_of(specialise(function, Case(tuple(values.items())), "called"))
    return digest, made.text


def square(x):
    return x * x


def shifted(kernel, x):
    return square(x) + kernel.SHIFT


def fill(kernel, values, out):
    square = register_array(4)
    for i in range(4):
        square[i] = kernel.part(values[i]) + kernel.other(values[i])
        out[i] = square[i] + TABLE[0]


PARTS = {
    "part": KernelPart(shifted, Case((("SHIFT", 2),))),
    "other": KernelPart(shifted, Case((("SHIFT", 3),))),
}


def leave(values):
    own = register_array(16)
    for i in range(16):
        own[i] = values[i]
    return own[3]


def add_unwritten(values, out):
    out[0] = leave(values)  # fills the frame
    own = register_array(16)
    for i in range(16):
        own[i] += 1.0
        out[i] = own[i]


def test_an_array_in_the_frame_begins_with_zeros(folder):
    kernel = module.compile_kernel(add_unwritten, Case(()), FLOATS)
    for fill in (np.nan, 7.0):
        out = np.empty(16)
        kernel(np.full(16, fill), out)
        assert (out == 1.0).all()


def test_every_function_is_written_once_with_its_origin_in_a_file_that_the_user_can_open(folder):
    kernel = module.compile_kernel(fill, Case(tuple(PARTS.items())), FLOATS)
    out = np.zeros(4)
    kernel(np.array([1.0, 2.0, 3.0, 4.0]), out)
    assert out.tolist() == [8.0, 14.0, 24.0, 38.0]
    digest, text = module_of(fill, **PARTS)
    (file,) = (folder / "kernels").glob("*.py")
    assert (file.stem, file.read_text()) == (digest, text)
    functions = [line for line in text.splitlines() if line.startswith("def ")]
    # `square` is a local variable of `fill`, so the function gets another name.
    assert functions == ["def square_2(x):", "def shifted(x):", "def shifted_2(x):", "def fill(values, out):"]
    assert f"# fill of {__name__}\n@numba.njit(" in text
    assert "return square_2(x) + 3" in text
    assert f"from {__name__} import TABLE  # " in text


@numba.njit(fastmath=True)
def summed(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += exp(values[i])
    return total


def sums(values, out):
    out[0] = summed(values)


def test_a_decorated_function_keeps_its_options():
    text = module_of(sums)[1]
    assert "fastmath=True)\ndef summed(values):" in text
    assert text.count("fastmath") == 1  # not the functions that it calls


def wrong(out):
    out[0] = "text" + 1.0


def calls_wrong(kernel, values, out):
    for i in range(values.shape[0]):
        if kernel.SKIPPED:
            out[i] = 0.0
    wrong(out)


def test_an_error_names_file_and_line_of_the_source(folder):
    line = wrong.__code__.co_firstlineno + 1
    with pytest.raises(LdpflowError, match=rf'test_module.py", line {line}') as refused:
        module.compile_kernel(calls_wrong, Case((("SKIPPED", False),)), FLOATS)
    assert str(folder) not in str(refused.value)


def load_again():
    module.KERNELS.clear()
    module.compile_kernel(sums, Case(), FLOATS)
    return loads()


def test_machine_code_is_loaded_unless_it_is_damaged(folder, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder.parent / "elsewhere"))
    assert load_again() == (0, 1)
    assert load_again() == (1, 0)
    for code in (folder / "kernels" / "__pycache__").iterdir():
        content = bytearray(code.read_bytes())
        content[len(content) // 2] ^= 1
        code.write_bytes(content)
        assert load_again() == (0, 1), code.suffix
        assert load_again() == (1, 0), code.suffix
    (source,) = (folder / "kernels").glob("*.py")
    source.write_text("raise SystemExit(3)\n")
    load_again()
    assert source.read_text() == module_of(sums)[1]
    assert not (folder.parent / "elsewhere").exists()


def difference(pairs, out):
    out[0] = pairs[0].a - pairs[0].b


def test_named_tuples_that_moved_or_changed_meet_no_kernel_of_before(folder, monkeypatch):
    for name, fields in (("old_home", "a b"), ("new_home", "a b"), ("new_home", "b a")):
        home, pair = ModuleType(name), namedtuple("Pair", fields, module=name)
        home.Pair = pair
        arguments, out = (pair(a=5.0, b=3.0),), np.zeros(1)
        module.KERNELS.clear()
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, name, home)
            signature = numba.void(numba.typeof(arguments), numba.typeof(out))
            kernel = module.compile_kernel(difference, Case(), signature)
        # Called directly: in one process, Numba confuses named tuples of equal names.
        kernel.overloads[signature.args].entry_point(arguments, out)
        assert out[0] == 2.0, (name, fields)


def test_a_full_disk_is_one_message(folder, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_private", full)
    with pytest.raises(InputError, match="No space left on device") as refused:
        module.compile_kernel(sums, Case(), FLOATS)
    assert refused.value.field == "LDPFLOW_CACHE_DIR"


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
    with pytest.raises(LdpflowError, match="changed after its import"):
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
    monkeypatch.syspath_prepend(tmp_path)

    def digest(own=MEAN, tools=TOOLS, size=2):
        for name, text in (("mean", own), ("tools", tools)):
            (tmp_path / f"{name}.py").write_text(text)
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        mean = importlib.import_module("mean")
        part = KernelPart(mean.centred, Case((("D", size),)))
        case = Case((("part", part),), (("problem", layout_of({"scale": 2.0})),))
        return module.module_of(specialise(mean.gradient, case, "called"))[0]

    first = digest()
    # A comment is no change of a kernel, wherever the lines move.
    assert digest(tools="# tools\n" + TOOLS) == first
    changed = {
        digest(tools=TOOLS.replace("scale * x", "scale * x + 0.25")),
        digest(tools=TOOLS.replace("x - half", "x + half")),
        digest(own=MEAN.replace("HALF = 0.5", "HALF = 0.25")),
        digest(own=MEAN.replace("[1.0, 2.0]", "[1.0, 3.0]")),
        digest(size=3),
        first,
    }
    assert len(changed) == 6 and digest() == first


def test_the_digest_follows_an_edited_package_that_keeps_its_version(tmp_path, monkeypatch):
    """Its classes and intrinsics are imported by kernels, not rewritten."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "kept.py").write_text("from keeping import Pair\n\ndef f(x):\n    return Pair(x)\n")
    digests = set()
    for fields in ("a", "b"):
        text = (
            f"from collections import namedtuple\n__version__ = '1'\nPair = namedtuple('Pair', '{fields}')\n"
        )
        (tmp_path / "keeping.py").write_text(text)
        for name in ("kept", "keeping"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        linecache.clearcache()
        module.file_digest.cache_clear()
        digests.add(module.module_of(specialise(importlib.import_module("kept").f, Case()))[0])
    assert len(digests) == 2
