"""The generated module of a kernel: its text, its digest, its errors, and its machine code on disk."""

import errno
import sys
from collections import namedtuple
from types import ModuleType

import numba
import numpy as np
import pytest

from ldpflow.errors import InputError, LdpflowError
from ldpflow.numerics import exp, register_array
from ldpflow.numerics import kernels as module
from ldpflow.numerics.specialise import Case, KernelPart, specialise
from tests.kernels.loads import loads

FLOATS = "void(float64[::1], float64[::1])"
TABLE = np.array([1.0, 2.0])


def module_of(function, **values):
    """Digest and text of the module."""
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
    """Hits and misses of a kernel that this process forgets."""
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
