"""Lemma 3.11, the lower bound and shares of clipped gradients, which tests alone use.

See ldpflow.results.curves for the source.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def lemma_311(
    lambdas: ArrayLike,
    radius_square: float,
    eta: float,
    b: int,
    steps: int,
    start: float,
    variance: float,
    alpha: float,
    log_n: float,
    a: float = 0.5,
    k2: float = 1.0,
    printed: bool = False,
) -> float:
    """Lemma 3.11: DP-AMBSSGD without clipping, noise multiplier alpha, ``start`` = ||w*||_H^2.

    Print has 12, 24 and 96 where thresholds of up to twice the largest residual make 48, 96 and 384.
    """
    lam = np.asarray(lambdas, dtype=float)
    kappa, mu, trace = float(lam.max() / lam.min()), float(lam.min()), float(lam.sum())
    inverse, d = float((1.0 / lam).sum()), len(lam)
    one, two, three = (12.0, 24.0, 96.0) if printed else (48.0, 96.0, 384.0)
    size = k2**2 * radius_square * log_n ** (4.0 * a)
    first = 4.0 * math.exp(-eta * mu) / (eta * mu * steps) ** 2
    first += three * alpha**2 / (steps * b**2) * size * kappa * inverse
    second = start * math.exp(-0.25 * eta * mu * steps)
    second += 2.0 * eta / (mu * b) * variance * float((lam**2).sum())
    second += two * eta * alpha**2 / (mu * b**2) * size * variance * trace
    third = variance * d + one * alpha**2 / b * size * variance * inverse
    return float(first * second + 8.0 / (steps * b) * third)


def clip_share(d: int, c: float) -> float:
    """Share of gradients clipped at zeta = c sqrt(d + 2) s: E 2 Q(c sqrt(d + 2)/u), u ~ chi_d.

    For x ~ N(0, I_d) and a residual N(0, s^2) independent of it.
    """
    from scipy import integrate, special, stats

    height = c * math.sqrt(d + 2.0)
    value, _ = integrate.quad(
        lambda u: 2.0 * special.ndtr(-height / u) * stats.chi.pdf(u, d),
        0.0,
        60.0,
        points=[d**0.5],
        epsabs=1e-14,
        limit=200,
    )
    return float(value)
