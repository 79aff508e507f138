"""SGD under Gaussian local privacy: gradients, noise, and exact moments on a quadratic.

Source: the experiments of "Non-asymptotic analysis of SGD under local differential privacy
guarantee"; moments by hand from delta_k = (1 - eta_k h) delta_{k-1} + eta_k (x_k + A_k).
"""

import math

import numpy as np


def bounded(score, x, clip):
    """score x times u(x) = min(1, 2/||x||^2), or clipped to norm ``clip``."""
    x = np.asarray(x)
    if clip is None:
        return score * min(1.0, 2.0 / float(np.dot(x, x))) * x
    return score * x * min(1.0, clip / np.linalg.norm(score * x))


def huber_gradient(x, y, theta, c, clip=None):
    """-psi_c(y - x'theta) x, bounded."""
    return bounded(-np.clip(y - float(np.dot(x, theta)), -c, c), x, clip)


def logistic_gradient(x, y, theta, clip=None):
    return bounded(1.0 / (1.0 + math.exp(-float(np.dot(x, theta)))) - y, x, clip)


def quadratic_moments(h, S, s2, delta0, eta, alpha, n):
    """E||delta_k||^2 and E||average - theta*||^2 (both conventions), k = 0..n, H and S diagonal.

    Per coordinate p = E delta^2, c = E delta Sum, v = E Sum^2 of the uncentred sum of delta_1..delta_k.
    """
    h, S, delta0 = (np.asarray(a, dtype=float) for a in (h, S, delta0))
    p, c, v = delta0**2, np.zeros_like(h), np.zeros_like(h)
    c0, v0 = np.zeros_like(h), np.zeros_like(h)  # sums of delta_0..delta_{k-1}
    out = {name: np.zeros(n + 1) for name in ("distance", "average_post", "average_pre")}
    out["distance"][0] = p.sum()
    for k in range(1, n + 1):
        e = eta * k**-alpha
        v0 = v0 + 2 * c0 + p
        c0 = c0 + p
        r = 1 - e * h
        p = r**2 * p + e**2 * (S + s2)
        c = r * c
        c0 = r * c0
        v = v + 2 * c + p
        c = c + p
        out["distance"][k] = p.sum()
        out["average_post"][k] = v.sum() / k**2
        out["average_pre"][k] = v0.sum() / k**2
    return out
