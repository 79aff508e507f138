"""Theorems and lemmas on momentum with tree noise that tests alone use (see ldpflow.results.curves)."""

from __future__ import annotations

import math

from ldpflow.numerics.tree import power


def tree_noise_bound(lipschitz: float, sigma: float, alpha: float, d: int, nodes: float, steps: int) -> float:
    """Lemma 12: E||noise|| <= 4 alpha G sigma sqrt(d V floor(log2(T + 1))); print has log2 T."""
    levels = (steps + 1).bit_length() - 1
    return 4.0 * alpha * lipschitz * sigma * math.sqrt(d * nodes * levels)


def theorem6_bound(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    gap: float,
    steps: float,
) -> float:
    """Theorem 6, its proof carried out with the constants that it has: 48 G where print has 12.

    (1.5 R + 9 L + 48 G) sqrt(X/(eps N)) + 0.75 L/sqrt(N T) + 6 G/sqrt(N) + 3 G X/(eps N),
    X = log2(T) sqrt(d log(1/delta)).
    """
    x = math.log2(steps) * math.sqrt(d * math.log(1 / delta))
    return (
        (1.5 * gap + 9.0 * smooth + 48.0 * lipschitz) * math.sqrt(x / (epsilon * n))
        + 0.75 * smooth / math.sqrt(n * steps)
        + 6.0 * lipschitz / math.sqrt(n)
        + 3.0 * lipschitz * x / (epsilon * n)
    )


def theorem6_printed(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    gap: float,
    steps: float,
) -> float:
    """Theorem 6 as printed."""
    log2, log = math.log2(steps), math.log(1 / delta)
    factor = (
        1.5 * gap + 6.0 * smooth * math.sqrt(log2 * log) + 12.0 * lipschitz * math.sqrt(log2 * math.sqrt(log))
    )
    return (
        factor * math.sqrt(math.sqrt(d) / (epsilon * n))
        + 0.75 * smooth * math.sqrt(math.sqrt(d * log) * log2 / (epsilon * n)) / n
        + 6.0 * lipschitz / math.sqrt(n)
        + 6.0 * lipschitz * log2 * math.sqrt(d * log) / (epsilon * n)
    )


def theorem9_printed(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    gap: float,
    steps: float,
) -> float:
    """Theorem 9 as printed, but K = 16 log2(T) sqrt(log(1/delta)), as its proof has it."""
    k = 16.0 * math.log2(steps) * math.sqrt(math.log(1 / delta))
    return (
        (1.5 * gap + 24.0 * k * (lipschitz + 2.0 * smooth) + 12.0 * smooth)
        * math.cbrt(d / (epsilon * n) ** 2)
        + 6.0 * lipschitz / math.sqrt(n)
        + (36.0 * lipschitz * k + 9.0 * k * smooth) * math.sqrt(d) / (epsilon * n)
    )


def printed_reduced_noise_bound(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    lipschitz: float,
    smooth: float,
    eta: float,
    steps: float,
    alpha: float,
) -> float:
    """Lemma 7 as printed: E||noise|| of Algorithm 2 with sigma = 4 sqrt(log(1/delta))/epsilon."""
    parts = (
        192.0 * lipschitz
        + 128.0 * (lipschitz + 2.0 * smooth) * math.sqrt(eta * steps)
        + 16.0 * eta * smooth * math.sqrt(3.0 * steps * n)
    )
    return math.sqrt(d * math.log(1 / delta)) * math.log2(steps) * alpha * parts / epsilon


def reduced_noise_variance_bound(
    batches: int,
    steps: int,
    alpha: float,
    eta: float,
    cross: float,
    sigma: float,
    lipschitz: float,
    smooth: float,
) -> float:
    """Bound of Algorithm 2's variance per coordinate at difference_scale 4 (ours; B < 1 - cross).

    192 (1 + s^2) (alpha G sigma l)^2 + 256 s^2 (alpha sigma l)^2 (T/M) (cross G^2 + (eta M L)^2/cross)
    + 192 (alpha sigma eta M L)^2 (T/M) l log2 T,   l = log2 M, s = 1/(1 - B/(1 - cross)).
    """
    log2 = math.log2(batches)
    epochs = steps / batches
    moved = eta * batches * smooth
    s = 1.0 / (1.0 - power(1.0 - alpha, batches) / (1.0 - cross))
    return (
        192.0 * (1.0 + s * s) * (alpha * lipschitz * sigma * log2) ** 2
        + 256.0 * (s * alpha * sigma * log2) ** 2 * epochs * (cross * lipschitz**2 + moved**2 / cross)
        + 192.0 * (alpha * sigma * moved) ** 2 * epochs * log2 * math.log2(steps)
    )
