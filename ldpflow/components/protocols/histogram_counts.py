"""Counts of one-shot protocols drawn from their exact law, and estimates and intervals from counts.

``draw_NAME`` fills ``asked`` with the number of answers to each question, and ``found`` with the number of
reports of 1. For signs ``asked`` has the number of users, and ``found`` the sum of their mean signs. A bin of
``grr`` or ``oue`` and a node of ``tree`` count as a question.

``fold_NAME`` fills ``values`` with F^, the estimate of the distribution function F of the values, at the
inner edges. It returns the number of questions that were put to no user.

``spread_NAME`` fills ``out`` with n Var F^ at each inner edge for n users, if F is tau at this edge.

k is the number of bins, a that of the answers of a user, and v is ``budget.noise``. p' and q' are the
probabilities that a report of ``grr`` is the own bin and another given bin. q = 1/(e^eps + 1) is the
probability of a 1 for another bin in ``oue``. h is the number of levels, q_i the mass of node i, and
s, g and w are weights in F^ at edge m.
"""

from __future__ import annotations

import numpy as np

from ldpflow.components.protocols.protocol import FAN_OUT
from ldpflow.numerics.counts import binomial, multinomial
from ldpflow.numerics.elementary import jit

ANSWERS, LIES = 0, 1  # stages: part of the address of a random number


def collect(kernel, values, received, empty, asked, found, keys, users, answer, liars, design, budget):  # type: ignore[no-untyped-def]
    """Simulate F^ of every replicate.

    Fills ``values``, shape (replicates, edges), ``received`` with the number of users who answered, and
    ``empty`` with the number of questions that were put to no user. ``asked`` and ``found`` keep the counts
    of the last replicate. A user answers with probability ``answer``. A user who answers is a liar with
    probability ``liars``.
    """
    for r in range(values.shape[0]):
        key0, key1 = keys[r, 0], keys[r, 1]
        answering = binomial(key0, key1, 0, ANSWERS, 0, users, answer)
        lying = binomial(key0, key1, 0, LIES, 0, answering, liars)
        received[r] = answering
        if answering > 0.0:
            kernel.draw(asked, found, key0, key1, answering - lying, lying, design, budget)
            empty[r] = kernel.fold(values[r], asked, found, budget)
        else:
            empty[r] = 0
            values[r] = np.nan


def fold_counts(kernel, values, empty, asked, found, budget):  # type: ignore[no-untyped-def]
    """Fill ``values``, shape (1, edges), and ``empty``, shape (1,), from the counts of one collection."""
    empty[0] = kernel.fold(values[0], asked, found, budget)


HONEST, ONES = 2, 4  # further stages; liars have the stage HONEST + 1
TRUTHS = 16  # first stage of the bits of users with several answers


@jit
def split(count, key0, key1, stage, turn, honest, liars):  # type: ignore[no-untyped-def]
    """Numbers of honest users and of liars for each of ``count`` equally likely questions."""
    asked = np.empty(count)
    lying = np.empty(count)
    equal = np.ones(count)
    multinomial(asked, key0, key1, stage, turn, honest, equal)
    multinomial(lying, key0, key1, stage + 1, turn, liars, equal)
    return asked, lying


@jit
def add_up(values, masses):  # type: ignore[no-untyped-def]
    below = 0.0
    for m in range(values.shape[0]):
        below += masses[m]
        values[m] = below


@jit
def bits(key0, key1, index, stage, turn, users, truth, chance, budget):  # type: ignore[no-untyped-def]
    """Number of reports of 1 of users whose bit is 1 with probability ``truth``.

    A report is 1 with probability ``chance``. All answers of a user are about the same bit.
    """
    if budget.answers == 1.0:
        return binomial(key0, key1, index, stage, turn, users, chance)
    true = binomial(key0, key1, index, stage + TRUTHS, turn, users, truth)
    kept = binomial(key0, key1, index, stage + TRUTHS + 1, turn, budget.answers * true, budget.keep)
    false = budget.answers * (users - true)
    return kept + binomial(key0, key1, index, stage + TRUTHS + 2, turn, false, budget.flip)


@jit
def draw_thresholds(asked, found, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    k = asked.shape[0]
    users, lying = split(k, key0, key1, HONEST, 0, honest, liars)
    for m in range(k):
        chance = budget.flip + budget.gap * design.cdf[m]
        ones = bits(key0, key1, m, ONES, 0, users[m], design.cdf[m], chance, budget)
        found[m] = ones + design.lie * lying[m] * budget.answers
        asked[m] = (users[m] + lying[m]) * budget.answers


@jit
def fold_thresholds(values, asked, found, budget):  # type: ignore[no-untyped-def]
    """Debiased shares of ones. An edge without users gets 1/2."""
    empty = 0
    for m in range(values.shape[0]):
        if asked[m] == 0.0:
            empty += 1
            values[m] = 0.5
        else:
            values[m] = (found[m] / asked[m] - budget.flip) / budget.gap
    return empty


@jit
def spread_thresholds(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """(k - 1) (tau (1 - tau) + v/(4 a))."""
    k = out.shape[0]
    out[:] = k * (tau * (1.0 - tau) + 0.25 * budget.noise / budget.answers)


GRR_REPORTS = 2
GRR_USERS, GRR_OWN, GRR_OTHERS = 3, 4, 5  # stages for several answers of a user


@jit
def several_answers(reports, key0, key1, users, design, budget):  # type: ignore[no-untyped-def]
    """Reports of users with several answers: the own bin with probability 1 - k q', else any of k bins."""
    k = reports.shape[0]
    true = np.empty(k)
    multinomial(true, key0, key1, GRR_USERS, 0, users, design.bins)
    truthful = budget.excess / (budget.odds + k - 1.0)
    rest = budget.answers * users
    for j in range(k):
        true[j] = binomial(key0, key1, j, GRR_OWN, 0, budget.answers * true[j], truthful)
        rest -= true[j]
    multinomial(reports, key0, key1, GRR_OTHERS, 0, rest, np.full(k, 1.0 / k))
    for j in range(k):
        reports[j] += true[j]


@jit
def draw_grr(asked, found, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    if budget.answers == 1.0:
        multinomial(found, key0, key1, GRR_REPORTS, 0, honest, design.chances)
    else:
        several_answers(found, key0, key1, honest, design, budget)
    found[design.lie] += liars * budget.answers
    asked[:] = (honest + liars) * budget.answers


@jit
def fold_grr(values, asked, found, budget):  # type: ignore[no-untyped-def]
    """F^(t_m) = (C_m/n - m q')/(p' - q'), with C_m the number of reports of the first m bins."""
    k = asked.shape[0]
    n = asked[0]
    width = (budget.odds + k - 1.0) / budget.excess  # 1/(p' - q')
    add_up(values, found)
    for m in range(k - 1):
        values[m] = values[m] / n * width - (m + 1.0) / budget.excess
    return 0


@jit
def spread_grr(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """V = A(1 - A)/(p' - q')^2 for one answer, with A = P(the report is one of the first m bins).

    For several answers it is tau (1 - tau) + (V - tau (1 - tau))/a.
    """
    k = design.chances.shape[0]
    total = budget.odds + k - 1.0
    width = total / budget.excess
    for m in range(k - 1):
        a = (m + 1.0 + tau * budget.excess) / total
        out[m] = a * (1.0 - a) * width * width
        if budget.answers > 1.0:
            truth = tau * (1.0 - tau)
            out[m] = truth + (out[m] - truth) / budget.answers


UNARY_USERS, UNARY_OWN, UNARY_OTHERS = 2, 3, 4


@jit
def unary_ones(found, key0, key1, turn, honest, liars, bins, lie, budget):  # type: ignore[no-untyped-def]
    """Replace ``found`` by the number of ones of each bin.

    N_j of n honest users in bin j give Bin(a N_j, 1/2) + Bin(a (n - N_j), q) ones, independent over bins.
    """
    a = budget.answers
    multinomial(found, key0, key1, UNARY_USERS, turn, honest, bins)
    for j in range(found.shape[0]):
        own = binomial(key0, key1, j, UNARY_OWN, turn, a * found[j], 0.5)
        others = binomial(key0, key1, j, UNARY_OTHERS, turn, a * (honest - found[j]), budget.flip)
        found[j] = own + others + lie[j] * liars * a


@jit
def frequencies(out, asked, found, budget):  # type: ignore[no-untyped-def]
    """Unbiased frequencies of the bins: (ones/n - q)/(1/2 - q)."""
    for j in range(out.shape[0]):
        out[j] = 2.0 * (found[j] / asked[j] - budget.flip) / budget.gap


@jit
def draw_oue(asked, found, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    unary_ones(found, key0, key1, 0, honest, liars, design.bins, design.lie, budget)
    asked[:] = (honest + liars) * budget.answers


@jit
def fold_oue(values, asked, found, budget):  # type: ignore[no-untyped-def]
    """F^ from frequencies, to which a constant is added that makes their sum 1."""
    k = asked.shape[0]
    shares = np.empty(k)
    frequencies(shares, asked, found, budget)
    total = 0.0
    for j in range(k):
        total += shares[j]
    add_up(values, shares - (total - 1.0) / k)
    return 0


@jit
def spread_oue(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """F(1 - F) + [v m(k - m)/k + F(1 - m/k)^2 + (1 - F)(m/k)^2]/a with F = tau."""
    k = design.bins.shape[0]
    for m in range(1, k):
        s = m / k
        rest = 1.0 - s
        noise = budget.noise * m * rest
        if budget.answers == 1.0:
            out[m - 1] = tau * (1.0 - tau) + noise + tau * rest * rest + (1.0 - tau) * s * s
        else:
            noise += tau * rest * rest + (1.0 - tau) * s * s
            out[m - 1] = tau * (1.0 - tau) + noise / budget.answers


SIGN_LEVELS, SIGN_ROWS, SIGN_PLUS = 2, 4, 6


@jit
def transform(x):  # type: ignore[no-untyped-def]
    """x <- H x with the Hadamard matrix H in Sylvester's order. len(x) is a power of two."""
    size = x.shape[0]
    half = 1
    while half < size:
        for start in range(0, size, 2 * half):
            for i in range(start, start + half):
                a = x[i]
                b = x[i + half]
                x[i] = a + b
                x[i + half] = a - b
        half *= 2


@jit
def sign_sums(asked, found, key0, key1, turn, honest, liars, chances, truths, lie, budget):  # type: ignore[no-untyped-def]
    """Number of users of every row and the sum of their signs. Each user has a random row.

    For each row ``chances`` has the probability of an honest report of +1, ``truths`` that of a true sign of
    +1, and ``lie`` the report of a liar. The sign of a user with several answers is their mean.
    """
    size = asked.shape[0]
    users, lying = split(size, key0, key1, SIGN_ROWS, turn, honest, liars)
    for r in range(size):
        plus = bits(key0, key1, r, SIGN_PLUS, turn, users[r], truths[r], chances[r], budget) / budget.answers
        asked[r] = users[r] + lying[r]
        found[r] = 2.0 * plus - users[r] + lie[r] * lying[r]


@jit
def mean_signs(out, asked, found, budget):  # type: ignore[no-untyped-def]
    """Debiased mean of the signs of every row, 0 for a row without users. Returns the number of such rows."""
    empty = 0
    for r in range(out.shape[0]):
        if asked[r] == 0.0:
            empty += 1
            out[r] = 0.0
        else:
            out[r] = found[r] / asked[r] * budget.inflation
    return empty


@jit
def draw_hrr(asked, found, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    chances, truths = design.chances, design.truths
    sign_sums(asked, found, key0, key1, 0, honest, liars, chances, truths, design.lie, budget)


@jit
def fold_hrr(values, asked, found, budget):  # type: ignore[no-untyped-def]
    """F^ from the probabilities H' mu / k of the bins, with mu the mean signs of the rows and mu_0 = 1."""
    k = asked.shape[0] + 1
    mu = np.empty(k)
    mu[0] = 1.0
    empty = mean_signs(mu[1:], asked, found, budget)
    transform(mu)
    add_up(values, mu / k)
    return empty


@jit
def spread_hrr(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """(k - 1)/k^2 sum_r s_rm^2 (1 + v/a - E_r^2), with mean signs E_r from the isotonic estimate."""
    k = design.chances.shape[0] + 1
    mean = np.empty(k)
    for j in range(k):
        mean[j] = isotonic[j + 1] - isotonic[j]
    transform(mean)
    most = 1.0 + budget.noise / budget.answers
    out[:] = 0.0
    for r in range(k - 1):
        weight = most - mean[r + 1] * mean[r + 1]
        for m in range(k - 1):
            out[m] += weight * design.squares[r, m]
    out *= (k - 1.0) / (k * k)


@jit
def draw_haar(asked, found, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """Row r of level l is question 2^l + r - 1."""
    levels = design.squares.shape[0]
    users, lying = split(levels, key0, key1, SIGN_LEVELS, 0, honest, liars)
    for level in range(levels):
        nodes = 1 << level
        rows = slice(nodes - 1, 2 * nodes - 1)
        chances, truths, lie = design.chances[rows], design.truths[rows], design.lie[rows]
        counts = (asked[rows], found[rows])
        sign_sums(*counts, key0, key1, level, users[level], lying[level], chances, truths, lie, budget)


@jit
def fold_haar(values, asked, found, budget):  # type: ignore[no-untyped-def]
    """F^ from d^ = H mu / 2^level, the mass of the left half of each node less that of the right half."""
    k = asked.shape[0] + 1
    mass = np.empty(k)
    mass[0] = 1.0
    means = np.empty(k)
    empty = 0
    nodes = 1
    while nodes < k:
        d = means[:nodes]
        rows = slice(nodes - 1, 2 * nodes - 1)
        empty += mean_signs(d, asked[rows], found[rows], budget)
        transform(d)
        for node in range(nodes - 1, -1, -1):
            whole = mass[node]
            difference = d[node] / nodes
            mass[2 * node] = 0.5 * (whole + difference)
            mass[2 * node + 1] = 0.5 * (whole - difference)
        nodes *= 2
    add_up(values, mass)
    return empty


@jit
def spread_haar(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """h sum_l g_lm^2 (1 + v/a - sum over nodes of d^2), with d from the isotonic estimate."""
    levels = design.squares.shape[0]
    k = 1 << levels
    out[:] = 0.0
    for level in range(levels):
        size = k >> level
        weight = 1.0 + budget.noise / budget.answers
        for node in range(1 << level):
            start = node * size
            middle = isotonic[start + size // 2]
            d = (middle - isotonic[start]) - (isotonic[start + size] - middle)
            weight -= d * d
        for m in range(k - 1):
            out[m] += weight * design.squares[level, m]
    out *= levels


TREE_LEVELS = 5  # the stage after those of unary encoding


@jit
def share_rest(found, first, total):  # type: ignore[no-untyped-def]
    """Add a constant to the children from ``first`` on, which makes their sum ``total``."""
    rest = total
    for j in range(FAN_OUT):
        rest -= found[first + j]
    for j in range(FAN_OUT):
        found[first + j] += rest / FAN_OUT


@jit
def reconcile_nodes(found, total, levels):  # type: ignore[no-untyped-def]
    """Fit masses of the leaves with this total to the estimates ``found`` of all nodes, by least squares.

    ``found`` has the levels 1..h. Its last level is replaced by the result, in two passes, up and down (Hay,
    Rastogi, Miklau and Suciu, VLDB 2010).
    """
    below = float(FAN_OUT)  # FAN_OUT^(height of a child)
    count = FAN_OUT**levels
    start = found.shape[0] - count
    for _ in range(levels - 1):
        count //= FAN_OUT
        up = start - count
        own = below * FAN_OUT
        for i in range(count):
            children = 0.0
            for j in range(FAN_OUT):
                children += found[start + FAN_OUT * i + j]
            found[up + i] = ((own - below) * found[up + i] + (below - 1.0) * children) / (own - 1.0)
        below = own
        start = up
    share_rest(found, 0, total)
    start, count = 0, FAN_OUT
    for _ in range(levels - 1):
        down = start + count
        for i in range(count):
            share_rest(found, down + FAN_OUT * i, found[start + i])
        start, count = down, count * FAN_OUT


def reconcile(kernel, found, total, levels):  # type: ignore[no-untyped-def]
    reconcile_nodes(found, total, levels)


@jit
def draw_tree(asked, found, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    levels = design.levels
    users, lying = split(levels, key0, key1, TREE_LEVELS, 0, honest, liars)
    first, size = 0, FAN_OUT
    for level in range(levels):
        part = slice(first, first + size)
        nodes, lie = design.nodes[part], design.lie[part]
        asked[part] = (users[level] + lying[level]) * budget.answers
        unary_ones(found[part], key0, key1, level, users[level], lying[level], nodes, lie, budget)
        first += size
        size *= FAN_OUT


@jit
def fold_tree(values, asked, found, budget):  # type: ignore[no-untyped-def]
    """F^ from the frequencies of all nodes. A level without users gets equal shares."""
    shares = np.empty(asked.shape[0])
    levels = 0
    empty = 0
    first, size = 0, FAN_OUT
    while first < asked.shape[0]:
        part = slice(first, first + size)
        if asked[first] == 0.0:
            shares[part] = 1.0 / size
            empty += 1
        else:
            frequencies(shares[part], asked[part], found[part], budget)
        levels += 1
        first += size
        size *= FAN_OUT
    reconcile_nodes(shares, 1.0, levels)
    add_up(values, shares[first - size // FAN_OUT :])
    return empty


@jit
def spread_tree(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """h sum_l [sum_i w_i^2 ((v + q_i)/a + q_i) - (sum_i w_i q_i)^2], with q_i of the isotonic estimate."""
    k = isotonic.shape[0] - 1
    masses = np.empty(design.nodes.shape[0])
    at, size = 0, FAN_OUT
    for _ in range(design.levels):
        step = k // size
        for i in range(size):
            masses[at + i] = isotonic[(i + 1) * step] - isotonic[i * step]
        at += size
        size *= FAN_OUT
    for m in range(k - 1):
        total = 0.0
        at, size = 0, FAN_OUT
        for _ in range(design.levels):
            noise = 0.0
            mean = 0.0
            for i in range(at, at + size):
                own = budget.noise + 2.0 * masses[i]
                if budget.answers > 1.0:
                    own = masses[i] + (budget.noise + masses[i]) / budget.answers
                noise += design.squares[m, i] * own
                mean += design.prefix[m, i] * masses[i]
            total += noise - mean * mean
            at += size
            size *= FAN_OUT
        out[m] = design.levels * total


@jit
def isotonic_fit(out, values):  # type: ignore[no-untyped-def]
    """Isotonic regression with equal weights, clipped to [0, 1], by pooling adjacent violators.

    ``out`` has a 0 before the result and a 1 after it.
    """
    count = values.shape[0]
    means, sizes = np.empty(count), np.empty(count)
    blocks = 0
    for i in range(count):
        mean = values[i]
        size = 1.0
        while blocks > 0 and means[blocks - 1] >= mean:
            blocks -= 1
            mean = (means[blocks] * sizes[blocks] + mean * size) / (sizes[blocks] + size)
            size += sizes[blocks]
        means[blocks] = mean
        sizes[blocks] = size
        blocks += 1
    out[0] = 0.0
    out[count + 1] = 1.0
    at = 1
    for b in range(blocks):
        value = min(max(means[b], 0.0), 1.0)
        for _ in range(int(sizes[b])):
            out[at] = value
            at += 1


@jit
def find_crossing(heights, edges, tau):  # type: ignore[no-untyped-def]
    """First point at which the linear interpolation of heights between edges reaches tau."""
    j = 1
    while heights[j] < tau:
        j += 1
    low = heights[j - 1]
    return edges[j - 1] + (edges[j] - edges[j - 1]) * ((tau - low) / (heights[j] - low))


@jit
def invert(limits, values, spread, edges, tau, z, users):  # type: ignore[no-untyped-def]
    """Smallest interval with all x at which |F^(x) - tau| <= z se(x), se = sqrt(spread/users).

    Fills ``limits`` with five numbers: both limits with F^ -+ z se interpolated between edges, both limits
    rounded outwards to edges, and how many of the rounded limits are ends of the range.
    """
    count = values.shape[0]
    ends = 0.0
    j = 1
    low = 0.0
    high = 1.0
    while j <= count:
        high = values[j - 1] + z * np.sqrt(spread[j - 1] / users)
        if high >= tau:
            break
        low = high
        high = 1.0
        j += 1
    if j == 1:
        ends += 1.0
    limits[0] = edges[j - 1] + (edges[j] - edges[j - 1]) * ((tau - low) / (high - low))
    limits[2] = edges[j - 1]
    i = count
    low = 0.0
    high = 1.0
    while i >= 1:
        low = values[i - 1] - z * np.sqrt(spread[i - 1] / users)
        if low <= tau:
            break
        high = low
        low = 0.0
        i -= 1
    if i == count:
        ends += 1.0
    limits[1] = edges[i] + (edges[i + 1] - edges[i]) * ((tau - low) / (high - low))
    limits[3] = edges[i + 1]
    limits[4] = ends


def variance_at_edges(kernel, out, cdf, tau, design, budget):  # type: ignore[no-untyped-def]
    kernel.spread(out, cdf, tau, design, budget)


def estimate_all(kernel, estimates, limits, values, received, edges, taus, z, design, budget):  # type: ignore[no-untyped-def]
    """Estimates and intervals of all replicates.

    Fills ``estimates``, shape (quantiles, replicates), with the first points at which the isotonic estimate
    reaches tau. Fills ``limits``, shape (levels, quantiles, replicates, 5), by :func:`invert`. ``values`` is
    F^ at the inner edges, shape (replicates, edges), and ``received`` the number of users who answered.
    """
    count = values.shape[1]
    fitted = np.empty(count + 2)
    variance = np.empty(count)
    for r in range(values.shape[0]):
        if not received[r] > 0.0:
            estimates[:, r] = np.nan
            limits[:, :, r, :] = np.nan
            continue
        isotonic_fit(fitted, values[r])
        for q in range(taus.shape[0]):
            estimates[q, r] = find_crossing(fitted, edges, taus[q])
            if z.shape[0] > 0:
                kernel.spread(variance, fitted, taus[q], design, budget)
            for level in range(z.shape[0]):
                invert(limits[level, q, r], values[r], variance, edges, taus[q], z[level], received[r])
