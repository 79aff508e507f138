"""SGD under Gaussian local privacy: gradients, noise, and exact moments on a quadratic.

Source: the experiments of "Non-asymptotic analysis of SGD under local differential privacy
guarantee"; moments by hand from delta_k = (1 - eta_k h) delta_{k-1} + eta_k (x_k + A_k).
"""

import math

import numpy as np


def huber_gradient(x, y, theta, c, clip=None):
    """-psi_c(y - x'theta) u(x) x, or the gradient without u clipped to norm ``clip``."""
    r = y - float(np.dot(x, theta))
    psi = r if abs(r) <= c else math.copysign(c, r)
    if clip is None:
        u = min(1.0, 2.0 / float(np.dot(x, x)))
        return -psi * u * np.asarray(x)
    g = -psi * np.asarray(x)
    return g * min(1.0, clip / np.linalg.norm(g))


def logistic_gradient(x, y, theta, clip=None):
    """(p - y) u(x) x, or the gradient without u clipped."""
    p = 1.0 / (1.0 + math.exp(-float(np.dot(x, theta))))
    if clip is None:
        return (p - y) * min(1.0, 2.0 / float(np.dot(x, x))) * np.asarray(x)
    g = (p - y) * np.asarray(x)
    return g * min(1.0, clip / np.linalg.norm(g))


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
