"""Elementary functions of kernels, with equal bits on every x86-64 processor.

The last bit of ``log`` or ``exp`` of a mathematical library depends on the machine. Kernels call the
functions below instead. They use additions, multiplications, divisions, square roots and fused multiply-adds.
IEEE 754 rounds all of these correctly. The polynomials are Chebyshev interpolants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

U64 = np.uint64
# A check for division by zero would stop vectorisation: numpy's error model has none. An entry for calls
# from C would take time to compile.
jit = njit(error_model="numpy", no_cfunc_wrapper=True)  # type: ignore[call-overload]


@intrinsic
def fma(typingctx, a, b, c):  # type: ignore[no-untyped-def]
    """``a * b + c``, rounded once."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def bits_of(typingctx, x):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@intrinsic
def float_of(typingctx, bits):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


def polynomial(*coefficients: float) -> Any:
    """Function of x that evaluates a polynomial by Horner's rule. The highest power comes first."""

    @intrinsic
    def evaluated(typingctx, x):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            value, *rest = (ir.Constant(ir.DoubleType(), number) for number in coefficients)
            for number in rest:
                value = builder.fma(value, args[0], number)
            return value

        return types.float64(types.float64), codegen

    return evaluated


LN2_HIGH = 6.93147180369123816490e-01  # 33 bits: k * LN2_HIGH is exact for |k| < 2**20
LN2_LOW = 1.90821492927058770002e-10
SQRT_HALF_BITS = U64(0x3FE6A09E667F3BCD)


LOG_SERIES = polynomial(
    0.14809710360655276, 0.1531252814836419, 0.18183631680229329, 0.22222197056726048,
    0.2857142876064168, 0.3999999999930234, 0.6666666666666765, 2.0,
)  # fmt: skip


@jit
def log(x):  # type: ignore[no-untyped-def]
    """Natural logarithm of a positive normal double. The relative error is below 4e-16.

    x = 2^e m with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh(s) with s = (m - 1)/(m + 1). The polynomial
    in s^2 for 2 atanh(s)/s has a relative error of 3e-18.
    """
    ix = bits_of(x)
    e = np.int64(ix - SQRT_HALF_BITS) >> np.int64(52)
    m = float_of(ix - (U64(e) << U64(52)))
    s = (m - 1.0) / (m + 1.0)
    v = s * s
    p = LOG_SERIES(v)
    ef = np.float64(e)
    return fma(ef, LN2_HIGH, fma(s, p, ef * LN2_LOW))


LOG2_E = 1.4426950408889634
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to the nearest integer


OF_EXPM1 = (
    2.0918129454967065e-09, 2.5110037605963777e-08, 2.755726330147475e-07, 2.755724091857897e-06,
    2.480158733642132e-05, 0.00019841269890047113, 0.0013888888888879082, 0.008333333333319601,
    0.04166666666666668, 0.1666666666666668, 0.5,
)  # fmt: skip
"""Coefficients of (exp(r) - 1)/r, from the highest power down."""

EXPM1_SERIES = polynomial(*OF_EXPM1)
EXP_SERIES = polynomial(*OF_EXPM1, 1.0, 1.0)


@jit
def expm1(x):  # type: ignore[no-untyped-def]
    """exp(x) - 1 for |x| <= 700. The relative error is below 1e-15.

    x = k log 2 + r with |r| <= log(2)/2. The polynomial for (exp(r) - 1)/r has a relative error of 2e-18.
    """
    t = fma(x, LOG2_E, ROUND)
    k = t - ROUND
    r = fma(k, -LN2_LOW, fma(k, -LN2_HIGH, x))
    p = EXPM1_SERIES(r)
    q = fma(p, r * r, r)
    # The low bits of t hold k. Shifted into the exponent, they make 2^k.
    scale = float_of((bits_of(t) + U64(1023)) << U64(52))
    return fma(scale, q, scale - 1.0)


@jit
def exp(x):  # type: ignore[no-untyped-def]
    """exp(x), with x clipped to [-700, 700]. The relative error is below 1e-15."""
    x = -700.0 if x < -700.0 else x  # these comparisons keep NaN
    x = 700.0 if x > 700.0 else x
    t = fma(x, LOG2_E, ROUND)
    k = t - ROUND
    r = fma(k, -LN2_LOW, fma(k, -LN2_HIGH, x))
    p = EXP_SERIES(r)
    return p * float_of((bits_of(t) + U64(1023)) << U64(52))


SIN_SERIES = polynomial(
    5.633933781537854e-08, -3.59864335298231e-06, 0.0001604411507421909, -0.004681754132340976,
    0.07969262624604301, -0.6459640975062443, 1.5707963267948966,
)  # fmt: skip


@jit
def sin_quarter(w):  # type: ignore[no-untyped-def]
    """sin(pi w / 2) for |w| <= 1/2. The polynomial has a relative error of 4e-17."""
    v = w * w
    p = SIN_SERIES(v)
    return p * w


COS_SERIES = polynomial(
    -6.321256869628588e-09, 4.710609726757823e-07, -2.520203677046026e-05, 0.0009192602741831558,
    -0.02086348076331121, 0.2536695079010467, -1.2337005501361697,
)  # fmt: skip


@jit
def cos_quarter(w):  # type: ignore[no-untyped-def]
    """cos(pi w / 2) for |w| <= 1/2. The polynomial has a relative error of 3e-17."""
    v = w * w
    p = COS_SERIES(v)
    return fma(p, v, 1.0)
