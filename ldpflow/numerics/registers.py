"""Functions that Numba compiles in a special way: arrays on the stack or the heap, and the generator Philox.

The compiler knows that no other array overlaps an array on the stack. So it can keep the values of the lanes
in registers, and it vectorises loops over the lanes without a test for overlap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from ldpflow.numerics.elementary import U64


def register_array(size: int) -> NDArray[np.float64]:
    """Array of ``size`` doubles. Compiled code puts it on the stack and needs a constant ``size``."""
    return np.empty(size)


def scratch_array(size: int) -> NDArray[np.float64]:
    """``np.empty(size)`` on the heap, which takes less time to compile than ``np.empty``."""
    return np.empty(size)


# A kernel imports these two functions. Their Python code is not compiled.
register_array.implemented_for_numba = True  # type: ignore[attr-defined]
scratch_array.implemented_for_numba = True  # type: ignore[attr-defined]


@type_callable(register_array)
@type_callable(scratch_array)
def type_of_array(context: Any) -> Any:

    def typer(size: Any) -> Any:
        return types.Array(types.float64, 1, "C") if isinstance(size, types.IntegerLiteral) else None

    return typer


@lower_builtin(register_array, types.IntegerLiteral)
def memory_in_frame(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    count = signature.args[0].literal_value
    # The entry block runs once, also if the call is in a loop. Zeros: a kernel may read before it writes.
    with builder.goto_entry_block():
        memory = builder.alloca(ir.ArrayType(ir.DoubleType(), max(count, 1)))
        builder.store(ir.Constant(memory.type.pointee, None), memory)
    memory.align = 64
    return array_over(context, builder, signature, memory, None)


@lower_builtin(scratch_array, types.IntegerLiteral)
def memory_of_heap(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    word = context.get_value_type(types.intp)
    size = ir.Constant(word, 8 * signature.args[0].literal_value)
    memory = context.nrt.meminfo_alloc_aligned(builder, size, 64)
    data = context.nrt.meminfo_data(builder, memory)
    return array_over(context, builder, signature, data, memory)


def array_over(context: Any, builder: Any, signature: Any, memory: Any, owner: Any) -> Any:
    word = context.get_value_type(types.intp)
    array = make_array(signature.return_type)(context, builder)
    populate_array(
        array,
        data=builder.bitcast(memory, ir.DoubleType().as_pointer()),
        shape=(ir.Constant(word, signature.args[0].literal_value),),
        strides=(ir.Constant(word, 8),),
        itemsize=ir.Constant(word, 8),
        meminfo=owner,
    )
    return array._getvalue()


MASK = U64(0xFFFFFFFF)
MULTIPLIER_0 = U64(0xD2511F53)
MULTIPLIER_1 = U64(0xCD9E8D57)
WEYL_0 = U64(0x9E3779B9)
WEYL_1 = U64(0xBB67AE85)


# A loop over lanes is not vectorised if it contains a call. So this function is always inlined.
@njit(error_model="numpy", forceinline=True)
def philox(key0, key1, c0, c1, c2, c3):  # type: ignore[no-untyped-def]
    """Random words of Philox4x32-10: four 32-bit words, each in a uint64.

    The key has 64 bits, the counter 128. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
    easy as 1, 2, 3", SC 2011.
    """
    k0 = U64(key0)
    k1 = U64(key1)
    x0 = U64(c0)
    x1 = U64(c1)
    x2 = U64(c2)
    x3 = U64(c3)
    for _ in range(10):
        p0 = MULTIPLIER_0 * x0
        p1 = MULTIPLIER_1 * x2
        x0 = (p1 >> U64(32)) ^ x1 ^ k0
        x1 = p1 & MASK
        x2 = (p0 >> U64(32)) ^ x3 ^ k1
        x3 = p0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return x0, x1, x2, x3
