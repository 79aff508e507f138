"""Draws by inversion of a tabulated quantile function, in lockstep over LANES replicates.

A table holds one polynomial per cell of t = min(u, 1 - u): every octave of t from 1/2 down to 2^-53, the
smallest uniform, has CELLS equal cells, and the cell of a uniform is its exponent with the first four bits
of its mantissa, so nothing is searched. The first half of the table is for u = t, the second for u = 1 - t,
and 1 - u has no rounding error. One draw takes one uniform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldpflow.random.elementary import U64, bits_of, float_of, fma, jit
from ldpflow.random.lockstep import PLANE
from ldpflow.random.registers import register_array
from ldpflow.random.samplers import fill_bits, unit

CELLS = 16
OCTAVES = 52
HALF = CELLS * OCTAVES
WIDTHS = {"empirical": 4, "gamma": 8}
"""Numbers per cell: a quadratic in d = t - edge and one unused; degree 7 in the place in the cell."""

BLOCK = 256
SHIFT = U64(48)  # 52 bits of the mantissa less the four that name a cell
FIRST = U64((1023 - 53) * CELLS)
EDGE = ~U64((1 << 48) - 1)
PLACE = U64((1 << 48) - 1)
SIGN = np.int64(63)
SECOND = U64(HALF)
ONE = U64(0x3FF0000000000000)


def cell_edges() -> NDArray[np.float64]:
    """Lower edges of the cells of t, ascending, shape (HALF,)."""
    k = np.arange(HALF)
    result: NDArray[np.float64] = 2.0 ** (k // CELLS - 53) * (1.0 + (k % CELLS) / CELLS)
    return result


@jit
def fill_quadratic(state, table, out):  # type: ignore[no-untyped-def]
    """Quantile function that is quadratic in every cell: q + d (s + d r), rows of q, s, r, unused."""
    fill_bits(state, out)
    # Rows are copied one by one, a load and a store each: gathers take longer, and the compiler would
    # make gathers of loads that go straight into the arithmetic.
    rows = np.empty(4 * BLOCK)
    cells = register_array(BLOCK)
    distances = register_array(BLOCK)
    for k in range(PLANE // BLOCK):
        o = out[k * BLOCK : (k + 1) * BLOCK]
        for i in range(BLOCK):
            bits = bits_of(o[i])
            upper = U64(np.int64(bits) >> SIGN)  # all ones where u > 1/2
            t = unit(bits ^ upper)
            cell = (bits_of(t) >> SHIFT) - FIRST + (upper & SECOND)
            cells[i] = float_of(cell << U64(2))
            distances[i] = t - float_of(bits_of(t) & EDGE)
        for i in range(BLOCK):
            row = bits_of(cells[i])
            q = table[row]
            s = table[row + U64(1)]
            r = table[row + U64(2)]
            unused = table[row + U64(3)]
            rows[4 * i] = q
            rows[4 * i + 1] = s
            rows[4 * i + 2] = r
            rows[4 * i + 3] = unused
        for i in range(BLOCK):
            d = distances[i]
            o[i] = fma(d, fma(d, rows[4 * i + 2], rows[4 * i + 1]), rows[4 * i])


@jit
def fill_octic(state, table, out):  # type: ignore[no-untyped-def]
    """Quantile function of degree 7 in the place p of (-1, 1) in every cell, coefficients lowest first."""
    fill_bits(state, out)
    for k in range(PLANE // BLOCK):
        o = out[k * BLOCK : (k + 1) * BLOCK]
        for i in range(BLOCK):
            bits = bits_of(o[i])
            upper = U64(np.int64(bits) >> SIGN)
            t = bits_of(unit(bits ^ upper))
            row = ((t >> SHIFT) - FIRST + (upper & SECOND)) << U64(3)
            p = 2.0 * float_of(((t & PLACE) << U64(4)) | ONE) - 3.0
            x = fma(p, table[row + U64(7)], table[row + U64(6)])
            x = fma(p, x, table[row + U64(5)])
            x = fma(p, x, table[row + U64(4)])
            x = fma(p, x, table[row + U64(3)])
            x = fma(p, x, table[row + U64(2)])
            x = fma(p, x, table[row + U64(1)])
            o[i] = fma(p, x, table[row])


TABLE_SAMPLERS = {"empirical": fill_quadratic, "gamma": fill_octic}
