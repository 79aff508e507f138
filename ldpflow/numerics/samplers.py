"""Samplers of standard laws for LANES replicates at once.

A sampler fills one *plane*, an array of CHUNK draws of LANES replicates, flat over (draw, lane). No sampler
rejects draws, so a variate has a fixed position in its stream. Loops over a plane are flat, so that they
vectorise.

The generator of each lane is xoshiro256++ (Blackman and Vigna, 2021, ACM TOMS 47(4)). The state of all lanes
is an array of 4 * LANES words, flat over (word, lane). A uniform is the midpoint of one of 2^52 equal cells
of (0, 1). It is never 0 or 1, and its distribution function is off by at most 2^-53. The generator is for
simulation: it is not cryptographically secure and protects no data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldpflow.numerics import elementary
from ldpflow.numerics.elementary import U64, bits_of, cos_quarter, exp, expm1, float_of, jit, log, sin_quarter
from ldpflow.numerics.registers import register_array
from ldpflow.numerics.streams import CHUNK, LANES, PLANE

HALF = PLANE // 2
STATE = 4 * LANES
GROUP = 4  # consecutive draws of a lane, with its state in registers

ONE_BITS = U64(0x3FF0000000000000)
BELOW_ONE = 1.0 - 2.0**-53
HALF_BITS = U64(
    0x4330000000000000
)  # bits of the double 2^52; an integer k < 2^32 in the last places makes it 2^52 + k
TWO_52 = 2.0**52


@jit
def fill_bits(state, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with draws of 64 bits, stored as doubles with these bits."""
    words = register_array(STATE)
    for i in range(STATE):
        words[i] = float_of(state[i])
    for k in range(CHUNK // GROUP):
        for lane in range(LANES):
            s0 = bits_of(words[lane])
            s1 = bits_of(words[LANES + lane])
            s2 = bits_of(words[2 * LANES + lane])
            s3 = bits_of(words[3 * LANES + lane])
            for j in range(GROUP):
                word, s0, s1, s2, s3 = next_draw(s0, s1, s2, s3)
                out[(k * GROUP + j) * LANES + lane] = float_of(word)
            words[lane] = float_of(s0)
            words[LANES + lane] = float_of(s1)
            words[2 * LANES + lane] = float_of(s2)
            words[3 * LANES + lane] = float_of(s3)
    for i in range(STATE):
        state[i] = bits_of(words[i])


@jit
def fill_words(state, out):  # type: ignore[no-untyped-def]
    """Draw CHUNK/2 words of 64 bits for each lane, and one further word.

    Steps 1 and 2 take the upper and lower half of the first word, steps 3 and 4 those of the second, and so
    on. The further word has the bits that follow a half if a step needs more than 32 bits.
    """
    a, b, c, d = state[:LANES], state[LANES : 2 * LANES], state[2 * LANES : 3 * LANES], state[3 * LANES :]
    for k in range(CHUNK // 2 // GROUP):
        o = out[k * GROUP * LANES : (k + 1) * GROUP * LANES]
        for lane in range(LANES):
            s0, s1, s2, s3 = a[lane], b[lane], c[lane], d[lane]
            for j in range(GROUP):
                word, s0, s1, s2, s3 = next_draw(s0, s1, s2, s3)
                o[j * LANES + lane] = float_of(word)
            a[lane], b[lane], c[lane], d[lane] = s0, s1, s2, s3
    o = out[CHUNK // 2 * LANES : (CHUNK // 2 + 1) * LANES]
    for lane in range(LANES):
        word, a[lane], b[lane], c[lane], d[lane] = next_draw(a[lane], b[lane], c[lane], d[lane])
        o[lane] = float_of(word)


@jit
def next_draw(s0, s1, s2, s3):  # type: ignore[no-untyped-def]
    """Word and next state of xoshiro256++."""
    t = s0 + s3
    word = ((t << U64(23)) | (t >> U64(41))) + s0
    t = s1 << U64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    return word, s0, s1, s2, (s3 << U64(45)) | (s3 >> U64(19))


@jit
def fraction_of(half, refined):  # type: ignore[no-untyped-def]
    """Uniform (half + V) 2^-32 with the first 32 bits ``half``. V is the uniform of the word ``refined``."""
    return (half + unit(bits_of(refined))) * 2.0**-32


@jit
def unit(bits):  # type: ignore[no-untyped-def]
    """(k + 1/2) 2^-52 for the top 52 bits k of a draw."""
    return float_of((bits >> U64(12)) | ONE_BITS) - BELOW_ONE


@jit
def flip_sign(x, bit):  # type: ignore[no-untyped-def]
    """x with its sign flipped if the lowest bit of ``bit`` is set."""
    return float_of(bits_of(x) ^ (bit << U64(63)))


@jit
def fill_uniform(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = unit(bits_of(out[i]))


@jit
def fill_uniform_32(state, parameter, out):  # type: ignore[no-untyped-def]
    """Uniform(0, 1): each draw has its own first 32 bits. In a plane, the draws of a lane share further bits.

    A comparison with a number needs the shared bits in one of 2^32 draws. Two draws of a lane need them in
    one of 2^51 planes.
    """
    words = np.empty(PLANE // 2 + LANES)
    fill_words(state, words)
    refined = words[PLANE // 2 : PLANE // 2 + LANES]
    for k in range(CHUNK // 2):
        w = words[k * LANES : (k + 1) * LANES]
        o = out[2 * k * LANES : 2 * (k + 1) * LANES]
        for lane in range(LANES):
            word = bits_of(w[lane])
            low = float_of((word & U64(0xFFFFFFFF)) | HALF_BITS) - TWO_52
            high = float_of((word >> U64(32)) | HALF_BITS) - TWO_52
            o[lane] = fraction_of(high, refined[lane])
            o[LANES + lane] = fraction_of(low, refined[lane])


@jit
def fill_symmetric_uniform(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = 2.0 * unit(bits_of(out[i])) - 1.0


@jit
def fill_rademacher(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = flip_sign(1.0, bits_of(out[i]) >> U64(63))


@jit
def fill_exponential(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = -log(unit(bits_of(out[i])))


@jit
def fill_laplace(state, parameter, out):  # type: ignore[no-untyped-def]
    """Draw Laplace(0, 1) as an exponential variate whose sign is an unused bit of the draw."""
    fill_bits(state, out)
    for i in range(PLANE):
        bits = bits_of(out[i])
        out[i] = flip_sign(log(unit(bits)), bits)


@jit
def fill_logistic(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_bits(state, out)
    for i in range(PLANE):
        u = unit(bits_of(out[i]))
        out[i] = log(u) - log(1.0 - u)


@jit
def fill_normal(state, parameter, out):  # type: ignore[no-untyped-def]
    """Draw N(0, 1) by Box and Muller (1958): sqrt(-2 log U) times cosine and sine of a uniform angle.

    The two normals of a pair lie CHUNK/2 draws apart. The angle is uniform on (-pi/4, pi/4). One unused bit
    swaps sine and cosine, and another flips both signs. This makes the angle uniform on the circle.
    """
    fill_bits(state, out)
    first = out[:HALF]
    second = out[HALF:PLANE]
    for i in range(HALF):
        angle = bits_of(second[i])
        w = unit(angle) - 0.5
        r = flip_sign(np.sqrt(-2.0 * log(unit(bits_of(first[i])))), angle)
        s = sin_quarter(w)
        c = cos_quarter(w)
        swap = (angle & U64(2)) != U64(0)
        first[i] = r * (s if swap else c)
        second[i] = r * (c if swap else s)


@jit
def fill_student_t(state, parameter, out):  # type: ignore[no-untyped-def]
    """Draw Student's t with ``parameter`` degrees of freedom nu by Bailey's polar method (1994).

    sqrt(nu (U^(-2/nu) - 1)) cos(angle) has this law for each nu > 0. The product with sin(angle) is not used,
    because it depends on the first product. So a variate takes two uniforms.
    """
    scratch = np.empty(PLANE)
    fill_bits(state, scratch)
    fill_bits(state, out)
    for i in range(PLANE):
        angle = bits_of(out[i])
        w = unit(angle) - 0.5
        grow = expm1(log(unit(bits_of(scratch[i]))) * (-2.0 / parameter))
        r = flip_sign(np.sqrt(parameter * grow), angle)
        out[i] = r * (sin_quarter(w) if (angle & U64(2)) != U64(0) else cos_quarter(w))


INVERSE_SERIES = elementary.polynomial(
    4.1343272316051e-06, -2.7898659943066492e-05, 9.070988638432092e-05, -0.00018042763383418483,
    0.0002475841003650544, -0.00023985292812448106, 0.00018015952936312134, -8.328318810911256e-05,
    6.665685915122525e-05, 5.637773382308892e-05, 0.00017079743667399163, 0.00042344673987594,
    0.0010983542437802557, 0.0029591495023240317, 0.008459706390649305, 0.026750541518766942,
    0.10439945224947311, 0.8556243918921488,
)  # fmt: skip


@jit
def fill_truncated_normal(state, parameter, out):  # type: ignore[no-untyped-def]
    """Draw N(0, 1) truncated to [-1, 1], by inversion.

    x = Phi^-1(1/2 + u (Phi(1) - 1/2)) for u uniform on (-1, 1). The polynomial in u^2 for x/u has a relative
    error of 1.3e-16.
    """
    fill_bits(state, out)
    for i in range(PLANE):
        u = 2.0 * unit(bits_of(out[i])) - 1.0
        v = u * u
        out[i] = INVERSE_SERIES(v) * u


@jit
def fill_bimodal(state, parameter, out):  # type: ignore[no-untyped-def]
    """Draw N(-3/2, 1) or N(3/2, 1), each with probability 1/2."""
    sides = np.empty(PLANE)
    fill_bits(state, sides)
    fill_normal(state, parameter, out)
    for i in range(PLANE):
        out[i] += flip_sign(1.5, bits_of(sides[i]) >> U64(63))


@jit
def fill_lognormal(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_normal(state, parameter, out)
    for i in range(PLANE):
        out[i] = exp(parameter * out[i])


@jit
def fill_weibull(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = exp(log(-log(unit(bits_of(out[i])))) / parameter)


@jit
def fill_pareto(state, parameter, out):  # type: ignore[no-untyped-def]
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = exp(-log(unit(bits_of(out[i]))) / parameter)


@jit
def fill_position(state, parameter, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the numbers 0, 1, 2, ... of the draws of each lane, counted in ``state``."""
    for k in range(CHUNK):
        for lane in range(LANES):
            out[k * LANES + lane] = np.float64(state[lane] + U64(k))
    for lane in range(LANES):
        state[lane] += U64(CHUNK)


@jit
def step_sizes(first, c, gamma, eta):  # type: ignore[no-untyped-def]
    """Fill ``eta`` with c i^(-gamma) for i = first, first + 1, ... (Dette and Graw, eq. 2)."""
    # A single loop with log and exp vectorises less well.
    start = np.float64(first)
    for k in range(eta.shape[0]):
        eta[k] = start + np.float64(k)
    for k in range(eta.shape[0]):
        eta[k] = -gamma * log(eta[k])
    for k in range(eta.shape[0]):
        eta[k] = c * exp(eta[k])


SAMPLERS: dict[str, Any] = {
    name.removeprefix("fill_"): function
    for name, function in dict(globals()).items()
    if name.startswith("fill_") and name not in ("fill_bits", "fill_words")
}
"""Samplers by the name of a variate (ldpflow.components.problems.laws.Variate)."""
