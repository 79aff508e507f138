"""Variates in bulk, in lockstep over LANES replicates.

A *plane* is a flat array of CHUNK * LANES doubles: CHUNK consecutive draws of LANES replicates, the lane
running fastest. Every sampler fills one plane and rejects nothing, so a variate has a fixed position in its
stream. All loops are flat, so that they vectorise.

Generator: xoshiro256++ (Blackman and Vigna, 2021, ACM TOMS 47(4)), one per lane. The state is a flat array
of 4 * LANES words. A uniform is the midpoint of one of 2^52 equal cells of (0, 1): never 0 or 1, symmetric,
and off by at most 2^-53 in probability. The generator is not secure: it simulates, and protects no data.
"""

from __future__ import annotations

import numpy as np

from ldpflow.numerics import elementary
from ldpflow.numerics.elementary import U64, bits_of, cos_quarter, exp, expm1, float_of, jit, log, sin_quarter
from ldpflow.numerics.registers import register_array
from ldpflow.numerics.streams import CHUNK, LANES, PLANE

HALF = PLANE // 2
STATE = 4 * LANES
GROUP = 4  # draws made per visit to a lane's state: keeps the state in registers

ONE_BITS = U64(0x3FF0000000000000)
BELOW_ONE = 1.0 - 2.0**-53
HALF_BITS = U64(0x4330000000000000)  # of 2^52, whose last place is 1
TWO_52 = 2.0**52


@jit
def fill_bits(state, out):  # type: ignore[no-untyped-def]
    """Raw 64-bit draws, stored as the bit patterns of doubles; one draw per element."""
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
    """Raw 64-bit draws: CHUNK/2 words whose halves serve CHUNK steps, and one word that refines them.

    The first step takes the upper half of the first word, the second its lower half, and so on.
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
    """A draw of xoshiro256++ and the next state."""
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
    """(half + V) 2^-32, V the uniform of the word ``refined``: a uniform whose first 32 bits are ``half``."""
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
    """Uniform(0, 1) with 32 bits of its own above lower bits that the CHUNK draws of a plane share.

    A comparison with a number needs the lower bits in one of 2^32 draws. Draws are dependent only if two of a
    plane need them, in one of 2^51 planes.
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
    """-1 or 1, each with probability 1/2."""
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = flip_sign(1.0, bits_of(out[i]) >> U64(63))


@jit
def fill_exponential(state, parameter, out):  # type: ignore[no-untyped-def]
    """Exponential(1): -log U."""
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = -log(unit(bits_of(out[i])))


@jit
def fill_laplace(state, parameter, out):  # type: ignore[no-untyped-def]
    """Laplace(0, 1), density exp(-|x|)/2: an exponential with a sign from an unused bit."""
    fill_bits(state, out)
    for i in range(PLANE):
        bits = bits_of(out[i])
        out[i] = flip_sign(log(unit(bits)), bits)


@jit
def fill_logistic(state, parameter, out):  # type: ignore[no-untyped-def]
    """Standard logistic: log U - log(1 - U)."""
    fill_bits(state, out)
    for i in range(PLANE):
        u = unit(bits_of(out[i]))
        out[i] = log(u) - log(1.0 - u)


@jit
def fill_normal(state, parameter, out):  # type: ignore[no-untyped-def]
    """N(0, 1) by Box and Muller (1958): sqrt(-2 log U) times (cos, sin) of a uniform angle.

    The two normals of a pair lie CHUNK/2 draws apart. The angle is uniform on the quarter of the
    circle around 0. Two unused bits turn it into one of the four quarters: one swaps sine and cosine,
    one flips both signs (the sign of the sine is symmetric already).
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
    """Student t with ``parameter`` degrees of freedom, by Bailey's polar method (1994).

    sqrt(nu (U^(-2/nu) - 1)) cos(angle) has the t law for every nu > 0; the second coordinate would
    not be independent of the first and is not used, so a variate costs two draws.
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
    """N(0, 1) truncated to [-1, 1], by inversion.

    x = Phi^-1(1/2 + u (Phi(1) - 1/2)) for u uniform on (-1, 1) is odd and analytic in u; the
    polynomial for x/u in u^2 has relative error 1.3e-16.
    """
    fill_bits(state, out)
    for i in range(PLANE):
        u = 2.0 * unit(bits_of(out[i])) - 1.0
        v = u * u
        out[i] = INVERSE_SERIES(v) * u


@jit
def fill_bimodal(state, parameter, out):  # type: ignore[no-untyped-def]
    """N(-3/2, 1) or N(3/2, 1), each with probability 1/2: a normal moved by an independent bit."""
    sides = np.empty(PLANE)
    fill_bits(state, sides)
    fill_normal(state, parameter, out)
    for i in range(PLANE):
        out[i] += flip_sign(1.5, bits_of(sides[i]) >> U64(63))


@jit
def fill_lognormal(state, parameter, out):  # type: ignore[no-untyped-def]
    """exp(parameter N), N standard normal."""
    fill_normal(state, parameter, out)
    for i in range(PLANE):
        out[i] = exp(parameter * out[i])


@jit
def fill_weibull(state, parameter, out):  # type: ignore[no-untyped-def]
    """(-log U)^(1/parameter)."""
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = exp(log(-log(unit(bits_of(out[i])))) / parameter)


@jit
def fill_pareto(state, parameter, out):  # type: ignore[no-untyped-def]
    """U^(-1/parameter) >= 1."""
    fill_bits(state, out)
    for i in range(PLANE):
        out[i] = exp(-log(unit(bits_of(out[i]))) / parameter)


@jit
def fill_position(state, parameter, out):  # type: ignore[no-untyped-def]
    """0, 1, 2, ...: the number of the draw, counted in the state (which starts at 0); no randomness."""
    for k in range(CHUNK):
        for lane in range(LANES):
            out[k * LANES + lane] = np.float64(state[lane] + U64(k))
    for lane in range(LANES):
        state[lane] += U64(CHUNK)


@jit
def step_sizes(first, c, gamma, eta):  # type: ignore[no-untyped-def]
    """eta_i = c i^(-gamma) for i = first, first + 1, ... (Dette and Graw, eq. 2)."""
    # Three loops: a single loop with both functions vectorises less well.
    start = np.float64(first)
    for k in range(eta.shape[0]):
        eta[k] = start + np.float64(k)
    for k in range(eta.shape[0]):
        eta[k] = -gamma * log(eta[k])
    for k in range(eta.shape[0]):
        eta[k] = c * exp(eta[k])


# Standard laws that a problem or a mechanism can ask for, by name.
SAMPLERS = {
    "uniform": fill_uniform,
    "uniform_32": fill_uniform_32,
    "symmetric_uniform": fill_symmetric_uniform,
    "rademacher": fill_rademacher,
    "normal": fill_normal,
    "laplace": fill_laplace,
    "exponential": fill_exponential,
    "logistic": fill_logistic,
    "student_t": fill_student_t,
    "position": fill_position,
    "truncated_normal": fill_truncated_normal,
    "bimodal": fill_bimodal,
    "lognormal": fill_lognormal,
    "weibull": fill_weibull,
    "pareto": fill_pareto,
}
