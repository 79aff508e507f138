"""Small arrays of doubles on the stack, for the state of a recursion.

The compiler knows that nothing else points into them. So it keeps loads and stores of the lanes in
registers where it can, and needs no test for overlap before it vectorises over the lanes.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

__all__ = ["register_array"]


@intrinsic(prefer_literal=True)
def register_array(typingctx, size):  # type: ignore[no-untyped-def]
    """An uninitialised array of ``size`` doubles (a compile-time constant) in the caller's frame."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    count = size.literal_value
    array_type = types.Array(types.float64, 1, "C")

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), max(count, 1)))
        memory.align = 64
        word = context.get_value_type(types.intp)
        array = make_array(array_type)(context, builder)
        populate_array(
            array,
            data=builder.bitcast(memory, ir.DoubleType().as_pointer()),
            shape=(ir.Constant(word, count),),
            strides=(ir.Constant(word, 8),),
            itemsize=ir.Constant(word, 8),
            meminfo=None,
        )
        return array._getvalue()

    return array_type(size), codegen
