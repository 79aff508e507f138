"""Recursion that draws reports from their law given the iterate: a report is 1 if U < q(theta_{i-1}).

    q(theta) = (1 - p) + (2p - 1) F((theta - location)/scale)

U is uniform on (0, 1), p is the probability of a true answer, and F is the distribution function of the
standard law. q is expanded to second order around an anchor, a recent theta at distance h. The error of the
expansion is at most |h|^3/6 times the largest third derivative. If |U - expansion| is larger than this bound,
U is compared with the expansion, otherwise with q. Both comparisons give the report of q, so the bits of a
path do not depend on the anchors.

U is compared as an integer of 32 bits, stored in the double 2^52 + 2^32 U. The sampler ``uniform_32``
(ldpflow.numerics.samplers) draws these bits, for two steps from one word. ``kernel.HALVES`` says whether a
kernel has this sampler.
"""

from __future__ import annotations

import numpy as np

from ldpflow.numerics import bits_of, fill_words, float_of, fma, fraction_of, register_array, step_sizes
from ldpflow.numerics.streams import CHUNK, LANES, PLANE

U64 = np.uint64

SPAN = 8  # steps between two checks of the distance from the anchor
FURTHEST = 1024  # most steps that an anchor serves
WORDS = CHUNK // 2  # words of a chunk, each for two reports; one further word refines them

UNITS = 2.0**32
BASE = 2.0**52
BASE_BITS = U64(0x4330000000000000)
LOW = U64(0xFFFFFFFF)
UPPER = U64(32)

ROUNDING = 8.0
"""Bound of the rounding error of a comparison in units of 2^-32.

The sum of three errors is below 4: U has 32 bits and is off by at most 1, the coefficients change the
expansion by at most 1.6, and its evaluation by at most 1.
"""

NEAR = 256.0
"""The expansion is used if |theta - ``record.centre``| is below NEAR times the scale."""

HUGE = 1e300


def recursion(kernel, users, noises, problem, mechanism, settings, record):  # type: ignore[no-untyped-def]
    """LDP-SGD of LANES replicates. Variates are drawn for CHUNK steps at a time.

    Without running sums, the sum of the iterates is updated in the loop that draws the reports. With running
    sums, the steps of a chunk are made twice: first to draw the reports, then to update the sums.
    """
    c, gamma, start = settings.c, settings.gamma, settings.theta0
    times, marks, centre = record.times, record.marks, record.centre
    total, sums, tile = record.total, record.sums, record.tile
    state, _ = noises
    noise = np.empty((WORDS + 1) * LANES if kernel.HALVES else kernel.NOISE_PLANES * (PLANE + LANES))
    eta = np.empty(CHUNK)
    answers = np.empty(PLANE if kernel.SUMS else 1)
    anchors = np.empty(4 * LANES)
    theta = register_array(LANES)
    ahead = np.empty(LANES)
    unused = np.empty(LANES)
    g = register_array(LANES)
    theta[:] = start
    ahead[:] = start
    left = 0
    kept = 0
    i = 0
    t = 0
    while t < times.shape[0]:
        if kernel.HALVES:
            fill_words(state, noise)
        else:
            kernel.draw_noise(*noises, noise)
        step_sizes(i + 1, c, gamma, eta)
        if kernel.SUMS == 0:
            done = 0
            while done < CHUNK:
                until = min(CHUNK, done + times[t] - i)
                left = kernel.walk(
                    theta, total, answers, noise, eta, anchors, left, done, until, centre, problem, mechanism
                )
                i += until - done
                done = until
                if i == times[t]:
                    kernel.keep_path(record, theta, t)
                    t += 1
                    if t == times.shape[0]:
                        break
        else:
            left = kernel.walk(
                ahead, unused, answers, noise, eta, anchors, left, 0, CHUNK, centre, problem, mechanism
            )
            for k in range(CHUNK):
                i += 1
                eta_i = eta[k]
                step = float(i)
                for lane in range(LANES):
                    g[lane] = answers[k * LANES + lane]
                    kernel.keep_step(tile, centre, theta, g, kept, lane)
                    theta[lane] -= eta_i * g[lane]
                    kernel.add_iterate(total, centre, sums, theta, step, lane)
                ends = i == times[t] and marks[t] >= 0
                kept = kernel.end_step(sums, tile, kept, ends)
                if i == times[t]:
                    kernel.keep_path(record, theta, t)
                    t += 1
                    if t == times.shape[0]:
                        break
                kept = kernel.restart(sums, i, kept)


def walk(  # type: ignore[no-untyped-def]
    kernel, theta, total, answers, noise, eta, anchors, left, first, last, centre, problem, mechanism
):
    """Make the steps first, ..., last - 1 of the chunk. Returns how many more steps the anchors serve.

    Updates ``theta``. Without running sums it updates ``total``, with running sums it writes the private
    gradients to ``answers``.
    """
    # Each function has one call here, so that it is compiled once.
    k = first
    doubted = first  # before this step a stride has SPAN steps, since a longer one left a report in doubt
    while k < last:
        if left == 0:
            left = kernel.anchor(theta, eta, anchors, k, centre, problem, mechanism)
        until = min(last, k + left)
        whole = until - until % SPAN
        decided = False
        if k % SPAN == 0 and whole > k:
            until = k + SPAN if k < doubted else whole
            decided = kernel.stride(
                theta, total, answers, noise, eta, anchors, k, until, centre, problem, mechanism
            )
            if not decided and until > k + SPAN:
                doubted = until
                continue
        else:
            until = min(until, k - k % SPAN + SPAN)
        if not decided:
            for j in range(k, until):
                kernel.judge(theta, total, answers, noise, eta, anchors, j, centre, problem, mechanism)
        left -= until - k
        k = until
    return left


def anchor(kernel, theta, eta, anchors, k, centre, problem, mechanism):  # type: ignore[no-untyped-def]
    """Expand 2^52 + 2^32 q around theta, in x = theta - centre. Returns how many steps the anchors serve.

    ``anchors`` gets x and the coefficients of 1, x and x^2. x is NaN if the expansion must not be used. A
    report is in doubt if the expansion cannot decide it. The number of steps is the largest power of two with
    at most 0.06 expected reports in doubt, but at least SPAN and at most FURTHEST.
    """
    unit = problem.inverse_scale
    spread = 2.0 * mechanism.keep - 1.0
    for lane in range(LANES):
        z = (theta[lane] - problem.location) * unit
        x = theta[lane] - centre[0]
        below, density, change = kernel.expansion(z)
        value = (1.0 - mechanism.keep) + spread * below
        slope = UNITS * spread * density * unit
        bend = UNITS * 0.5 * spread * change * unit * unit
        anchors[lane] = x if abs(x) * unit < NEAR else np.nan
        anchors[LANES + lane] = BASE + (UNITS * value + x * (x * bend - slope))
        anchors[2 * LANES + lane] = slope - 2.0 * x * bend
        anchors[3 * LANES + lane] = bend
    step = eta[k] * max(abs(mechanism.one), abs(mechanism.zero))
    # With the error bound e(h), a step has 2 LANES e(h) expected reports in doubt. E |h|^3 is at most
    # 2.5 (step^2 steps)^(3/2).
    doubts = 5.0 * LANES * kernel.THIRD_DERIVATIVE / 6.0 * spread * (unit * step) ** 3
    steps = SPAN
    while steps < FURTHEST and doubts * (2.0 * steps) ** 2 * np.sqrt(2.0 * steps) < 0.06:
        steps *= 2
    return steps


def stride(  # type: ignore[no-untyped-def]
    kernel, theta, total, answers, noise, eta, anchors, first, last, centre, problem, mechanism
):
    """Make the steps first, ..., last - 1 by the expansion. Returns whether it decides all reports.

    If it does not, theta and total stay as they are.
    """
    unit = problem.inverse_scale
    rest = UNITS * (2.0 * mechanism.keep - 1.0) * kernel.THIRD_DERIVATIVE * unit * unit * unit / 6.0
    one = mechanism.one
    zero = mechanism.zero
    slack = SPAN * eta[first] * max(abs(one), abs(zero))
    middle = centre[0]
    # Copies on the stack, which the compiler keeps in registers.
    y = register_array(LANES)
    s = register_array(LANES)
    at = register_array(LANES)
    b0 = register_array(LANES)
    b1 = register_array(LANES)
    b2 = register_array(LANES)
    closest = register_array(LANES)
    furthest = register_array(LANES)
    for lane in range(LANES):
        y[lane] = theta[lane]
        s[lane] = total[lane]
        at[lane] = anchors[lane]
        b0[lane] = anchors[LANES + lane]
        b1[lane] = anchors[2 * LANES + lane]
        b2[lane] = anchors[3 * LANES + lane]
        closest[lane] = HUGE
        furthest[lane] = 0.0
    for span in range(first // SPAN, last // SPAN):
        for lane in range(LANES):
            h = abs((y[lane] - middle) - at[lane])
            furthest[lane] = furthest[lane] if h < furthest[lane] else h  # in this order NaN stays NaN
        for p in range(SPAN // 2):
            pair = span * (SPAN // 2) + p
            down = eta[2 * pair] * one
            up = eta[2 * pair] * zero
            next_down = eta[2 * pair + 1] * one
            next_up = eta[2 * pair + 1] * zero
            if kernel.HALVES:
                drawn = noise[pair * LANES : (pair + 1) * LANES]
            else:
                drawn = noise[2 * pair * LANES : 2 * (pair + 1) * LANES]
            if kernel.SUMS:
                made = answers[2 * pair * LANES : 2 * (pair + 1) * LANES]
            for lane in range(LANES):
                if kernel.HALVES:
                    word = bits_of(drawn[lane])
                    u = float_of((word >> UPPER) | BASE_BITS)
                    v = float_of((word & LOW) | BASE_BITS)
                else:
                    u = fma(drawn[lane], UNITS, BASE)
                    v = fma(drawn[LANES + lane], UNITS, BASE)
                x = y[lane] - middle
                gap = u - fma(fma(b2[lane], x, b1[lane]), x, b0[lane])
                z = y[lane] - (down if gap < 0.0 else up)
                x = z - middle
                later = v - fma(fma(b2[lane], x, b1[lane]), x, b0[lane])
                y[lane] = z - (next_down if later < 0.0 else next_up)
                if kernel.SUMS:
                    made[lane] = one if gap < 0.0 else zero
                    made[LANES + lane] = one if later < 0.0 else zero
                else:
                    s[lane] = (s[lane] + x) + (y[lane] - middle)
                gap = abs(gap)
                later = abs(later)
                close = gap if gap < closest[lane] else closest[lane]
                closest[lane] = later if later < close else close
    doubtful = 0
    for lane in range(LANES):
        h = abs((y[lane] - middle) - at[lane])
        h = furthest[lane] if h < furthest[lane] else h
        h += slack
        clear = closest[lane] > ROUNDING + rest * (h * h * h)
        doubtful += 0 if clear else 1
    if doubtful == 0:
        for lane in range(LANES):
            theta[lane] = y[lane]
            total[lane] = s[lane]
    return doubtful == 0


def judge(  # type: ignore[no-untyped-def]
    kernel, theta, total, answers, noise, eta, anchors, k, centre, problem, mechanism
):
    """Make step k of the chunk in every lane, by q itself if the expansion cannot decide a report."""
    p = mechanism.keep
    unit = problem.inverse_scale
    spread = 2.0 * p - 1.0
    rest = UNITS * spread * kernel.THIRD_DERIVATIVE * unit * unit * unit / 6.0
    middle = centre[0]
    reports = register_array(LANES)
    drawn = register_array(LANES)
    if kernel.HALVES:
        row = noise[k // 2 * LANES : (k // 2 + 1) * LANES]
        last = noise[WORDS * LANES : (WORDS + 1) * LANES]
    else:
        row = noise[k * LANES : (k + 1) * LANES]
    places = UPPER if k % 2 == 0 else U64(0)
    for lane in range(LANES):
        if kernel.HALVES:
            drawn[lane] = float_of(((bits_of(row[lane]) >> places) & LOW) | BASE_BITS)
        else:
            drawn[lane] = fma(row[lane], UNITS, BASE)
    doubtful = 0
    for lane in range(LANES):
        x = theta[lane] - middle
        q = fma(fma(anchors[3 * LANES + lane], x, anchors[2 * LANES + lane]), x, anchors[LANES + lane])
        h = x - anchors[lane]
        gap = drawn[lane] - q
        reports[lane] = 1.0 if gap < 0.0 else 0.0
        clear = abs(gap) > ROUNDING + rest * abs(h * h * h)
        doubtful += 0 if clear else 1
    if doubtful > 0:
        for lane in range(LANES):
            q = (1.0 - p) + spread * kernel.cdf((theta[lane] - problem.location) * unit)
            if kernel.HALVES:
                u = fraction_of(drawn[lane] - BASE, last[lane])
            else:
                u = row[lane]
            reports[lane] = 1.0 if u < q else 0.0
    for lane in range(LANES):
        answer = mechanism.one if reports[lane] > 0.0 else mechanism.zero
        theta[lane] -= eta[k] * answer
        if kernel.SUMS:
            answers[k * LANES + lane] = answer
        else:
            total[lane] += theta[lane] - middle
