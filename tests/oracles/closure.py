"""The Gaussian closure, one step after the other with 200 nodes; the variance backwards from the end."""

import math
from statistics import NormalDist

import numpy as np

NODES = np.array([NormalDist().inv_cdf((k + 0.5) / 200) for k in range(200)])
NODES = NODES / math.sqrt(np.mean(NODES * NODES))


def closure(cdf, tau, noise, c, gamma, theta0, truth, n):
    """Bias and standard deviation of the average of theta_1 .. theta_n, unit of the data."""
    m, v, total = theta0, 0.0, 0.0
    history = []  # v, H, eta and width of every stretch of steps
    i = 0
    while i < n:
        sd = math.sqrt(v)
        values = cdf(m + sd * NODES)
        q = float(np.mean(values))
        h = max(float(np.mean(NODES * values)) / sd, 0.0) if sd > 0 else 0.0
        s = q * (1 - q) + noise
        if i < 400:
            i += 1
            eta = c * i**-gamma
            history.append((v, h, eta, 1.0))
            m -= eta * (q - tau)
            v = max(v - 2 * eta * h * v + eta**2 * s, 1e-3 * eta**2 * s)
            total += m
            continue
        j = min(n, max(i + 1, int(i * 1.015)))
        ds = c * ((j + 0.5) ** (1 - gamma) - (i + 0.5) ** (1 - gamma)) / (1 - gamma)
        eta = ds / (j - i)
        history.append((v, h, eta, float(j - i)))
        new = m - (q - tau) * ds * mean_decay(h * ds)
        v = v * math.exp(-2 * h * ds) + eta * s * ds * mean_decay(2 * h * ds)
        total += (j - i) * (m + new) / 2
        m, i = new, j
    # Var(sum) = 2 int v(i) W(i) di, W(i) = int_i^n exp(-int_i^j H eta) dj.
    ahead = variance = 0.0
    for v, h, eta, width in reversed(history):
        a = h * eta * width
        now = ahead * math.exp(-a) + width * mean_decay(a)
        variance += width * v * (now + ahead)
        ahead = now
    return total / n - truth, math.sqrt(variance) / n


def mean_decay(a):
    return -math.expm1(-a) / a if a > 1e-12 else 1.0
