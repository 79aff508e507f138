"""Small arrays of doubles on the stack, for the state of a recursion.

The compiler knows that nothing else points into them. So it keeps loads and stores of the lanes in
registers where it can, and needs no test for overlap before it vectorises over the lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

__all__ = ["register_array"]


def register_array(size: int) -> NDArray[np.float64]:
    """An uninitialised array of ``size`` doubles; compiled (``size`` a constant), in the caller's frame."""
    return np.empty(size)


@type_callable(register_array)
def type_of_array(context: Any) -> Any:
    """The array's type, where its size is a constant."""

    def typer(size: Any) -> Any:
        return types.Array(types.float64, 1, "C") if isinstance(size, types.IntegerLiteral) else None

    return typer


@lower_builtin(register_array, types.IntegerLiteral)
def memory_in_frame(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The array, over memory in the frame of the function that is compiled."""
    count = signature.args[0].literal_value
    memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), max(count, 1)))
    memory.align = 64
    word = context.get_value_type(types.intp)
    array = make_array(signature.return_type)(context, builder)
    populate_array(
        array,
        data=builder.bitcast(memory, ir.DoubleType().as_pointer()),
        shape=(ir.Constant(word, count),),
        strides=(ir.Constant(word, 8),),
        itemsize=ir.Constant(word, 8),
        meminfo=None,
    )
    return array._getvalue()
