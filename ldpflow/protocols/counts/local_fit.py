"""Last step of ``rounds``: a local logistic fit to randomised bits, and Fieller's interval from it."""

from __future__ import annotations

import numpy as np

from ldpflow.random.elementary import exp, jit

__all__ = ["fieller", "fit_logistic"]

STEPS = 30
PRIOR = 0.5  # standard deviation of the slope's prior over its mean
LEAST_INFORMATION = 1e-9


@jit
def clip(x, low, high):  # type: ignore[no-untyped-def]
    """x, moved into [low, high]."""
    return min(max(x, low), high)


@jit
def fit_logistic(u, asked, ones, expected, budget):  # type: ignore[no-untyped-def]
    """Maximum likelihood of P(report 1) = (1 - p) + (2p - 1) expit(a + b u), b ~ N(b0, (b0/2)^2).

    Damped Fisher scoring from (0, b0); b stays above b0/10.

    Parameters
    ----------
    u : array
        Thresholds in units of the window, within [-1, 1] where ``asked`` is not 0.
    expected : float
        b0.

    Returns
    -------
    tuple of float
        a, b, and the information matrix ((A, B), (B, C)).
    """
    a = 0.0
    b = expected
    prior = 1.0 / (PRIOR * expected * PRIOR * expected)
    aa = ab = bb = 0.0
    for _ in range(STEPS):
        aa = LEAST_INFORMATION
        ab = 0.0
        bb = prior
        ga = 0.0
        gb = -prior * (b - expected)
        for d in range(u.shape[0]):
            if asked[d] > 0.0:
                g = 1.0 / (1.0 + exp(-clip(a + b * u[d], -30.0, 30.0)))
                chance = budget.flip + budget.gap * g
                slope = budget.gap * g * (1.0 - g)
                weight = slope / (chance * (budget.flip + budget.gap * (1.0 - g)))
                information = asked[d] * slope * weight
                score = (ones[d] - asked[d] * chance) * weight
                aa += information
                ab += information * u[d]
                bb += information * u[d] * u[d]
                ga += score
                gb += score * u[d]
        det = aa * bb - ab * ab
        a += clip((bb * ga - ab * gb) / det, -1.0, 1.0)
        b = max(b + clip((aa * gb - ab * ga) / det, -expected, expected), 0.1 * expected)
    return a, b, aa, ab, bb


@jit
def fieller(fit, logit, z):  # type: ignore[no-untyped-def]
    """{u : (a + b u - logit)^2 <= z^2 Var(a + b u)} where it is an interval, else NaN limits."""
    a, b, aa, ab, bb = fit
    det = aa * bb - ab * ab
    square = z * z / det
    # Var(a + b u) = (C - 2 B u + A u^2)/det.
    qa = b * b - square * aa
    qb = (a - logit) * b + square * ab
    qc = (a - logit) * (a - logit) - square * bb
    inside = qb * qb - qa * qc
    if not (qa > 0.0 and inside >= 0.0):
        return np.nan, np.nan
    root = np.sqrt(inside)
    return (-qb - root) / qa, (-qb + root) / qa
