"""Functions that are written into those that call them do what the calls did."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from ldpflow.kernels import cache
from ldpflow.kernels.specialise import Case, Part, Specialised, specialised
from ldpflow.random import register_array

FLOATS = "void(float64[::1], float64[::1])"


def source(function, **values):
    """What is compiled, as text."""
    case = Case(tuple(values.items()))
    made = specialised(function, case)
    from ldpflow.kernels.inlining import Writer
    from ldpflow.kernels.specialise import text_of

    body = Writer(text_of).written(text_of(made))
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


def both(function, values, size=4):
    """What a function leaves in its second argument, compiled and not."""
    compiled, plain = np.zeros(size), np.zeros(size)
    cache.compiled(function, Case(), FLOATS)(np.array(values), compiled)
    function(np.array(values), plain)
    return compiled.tolist(), plain.tolist()


def square(x):
    return x * x


def clipped(x, bound):
    if x > bound:
        return bound
    if x < -bound:
        return -bound
    return x


def doubled(values, at):
    values[at] *= 2.0
    return values[at]


def first_above(values, bound):
    for i in range(values.shape[0]):
        if values[i] > bound:
            return float(i)
    return -1.0


def moved(x):
    x = x + 1.0
    x = x * 2.0
    return x


def replaced(x, y, wanted):
    if wanted > 0.0:
        x = y
    return x


def swapped(a, b):
    return b, a


def expressions(values, out):
    out[0] = square(values[0] + 1.0) + clipped(values[1], 2.0)
    out[1] = moved(values[2]) - moved(values[1])
    out[2] = square(values[0]) if values[1] > 0.0 else moved(values[0])


def order(values, out):
    # The element is read before the function changes it.
    out[0] = values[0] + doubled(values, 0)
    out[1] = doubled(values, 1)
    doubled(values, 2)
    out[2] = values[2]


def loops(values, out):
    i = 0
    while square(values[i]) < 10.0 and i < 3:
        i += 1
    out[0] = i
    out[1] = first_above(values, 2.5)
    a, b = 0.0, 1.0
    for _ in range(5):
        a, b = swapped(a, b + a)
    out[2] = a
    out[3] = b


def overwritten(values, out):
    x = values[0]
    out[0] = replaced(x, values[1], values[2])
    out[1] = replaced(x, values[1], -values[2])
    count = 0.0
    for k in range(4):
        count += values[k]
    out[2] = count


def fill(part, value):
    for i in range(2):
        part[i] += value
    part[-1] += 0.5


def parts(values, out):
    for k in range(2):
        half = out[2 * k : 2 * k + 2]
        fill(half, values[k])
        fill(values[1:3], 1.0)
    whole = out[0:4]
    fill(whole[2:4], values[1])


def unused(values, out):
    kept = 0.0
    kept += values[0]
    wasted = values[1] * 2.0
    wasted = wasted + 1.0
    out[0] = values[0]


@pytest.mark.parametrize("function", [expressions, order, loops, overwritten, parts, unused])
def test_compiled_and_uncompiled_agree(function):
    compiled, plain = both(function, [1.5, -3.0, 2.75, 4.0])
    assert compiled == plain
    compiled, plain = both(function, [-1.5, 3.0, -2.75, 0.5])
    assert compiled == plain


def test_one_function_is_left():
    text = source(expressions)
    assert "clipped" not in text and "out[0] = x * x + " in text
    assert text.count("moved") == 1 and text.count("square") == 1  # where they may not be evaluated
    assert "first_above(" in source(loops)  # returns out of a loop


def test_an_index_into_a_part_is_one_into_the_array():
    text = source(parts)
    assert "out[uint64(start + i)]" in text and "half" not in text


def test_what_nothing_reads_is_left_out():
    text = source(unused)
    assert "wasted" not in text and "kept += values[0]" in text


def chain(values, out):
    for i in range(4):
        x = values[i]
        x = x * x
        x = x + 1.0
        out[i] = x
    y = 1.0
    for i in range(4):
        y = y * values[i]
        y = y + 1.0
    out[0] += y


def test_every_value_of_a_name_gets_a_name_where_no_loop_carries_it():
    text = source(chain)
    assert "x_2 = x_1 * x_1" in text and "out[i] = x_3" in text
    assert "y = y * values[i]" in text
    compiled, plain = both(chain, [1.5, -3.0, 2.75, 4.0])
    assert compiled == plain


def added(values, out):
    for i in range(4):
        x = values[i]
        x = x * x
        x += 1.0
        x = x - 2.0
        out[3 - i] += x


@pytest.mark.parametrize("function", [overwritten, parts, unused, chain, added])
def test_the_function_with_all_that_it_calls_is_what_is_compiled(function, monkeypatch):
    """Not each function by itself, which is what happens where that fails."""
    monkeypatch.setattr(cache, "KERNELS", {})
    monkeypatch.setattr(cache.KernelCache, "find", lambda self, context: False)
    monkeypatch.setattr(Specialised, "plain", lambda self: pytest.fail("each function by itself"))
    compiled, plain = both(function, [1.5, -3.0, 2.75, 4.0])
    assert compiled == plain


def reading(pair, settings, out):
    first, second = pair
    out[0] = first[0] - second[0]
    add(*pair, out)


def add(first, second, out):
    out[1] = first[0] + second[0]


def passing(kernel, values, out):
    pair = (values, out)
    kernel.part(pair, values, out)


def test_tuples_that_are_passed_on_are_resolved():
    text = source(passing, part=Part(reading))
    assert text.splitlines() == ["out[0] = values[0] - out[0]", "out[1] = values[0] + out[0]"]


def wrong_part(out):
    out[0] = "text" + 1.0


def calls_wrong_part(values, out):
    wrong_part(out)


def test_what_cannot_be_compiled_is_named_by_its_own_line():
    from numba.core.errors import TypingError

    line = wrong_part.__code__.co_firstlineno + 1
    with pytest.raises(TypingError, match=rf"test_inlining.py \({line}\)"):
        cache.compiled(calls_wrong_part, Case(), FLOATS)


def scratch(values, out):
    work = np.empty(4)
    small = register_array(4)
    for i in range(4):
        work[i] = values[i] + 1.0
        small[i] = work[i] * 2.0
    for i in range(4):
        out[i] = work[i] + small[i]


def test_memory_of_a_constant_size_needs_no_compiled_function():
    text = source(scratch)
    assert "scratch_array(4)" in text and "np" not in text
    compiled, plain = both(scratch, [1.0, 2.0, 3.0, 4.0])
    assert compiled == plain


def test_garbage_is_collected_again_after_a_compilation():
    import gc

    assert gc.isenabled()
    with cache.without_collections():
        assert not gc.isenabled()
    assert gc.isenabled()
