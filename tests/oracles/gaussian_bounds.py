"""Bounds under Gaussian LDP: recursions and sums from which the closed forms follow.

See ldpflow.results.curves for the source and the notation.
"""

import numpy as np


def excess_recursion(s, n):
    """Theorem 5 for eta <= 1/M: D_k = D_{k-1} - (eta_k/K_{k-1}) D_{k-1}^2 + eta_k^2 M sigma^2/2, k = 0..n."""
    excess = s.smoothness * s.start / 2
    values, energy = [excess], s.start
    sigma2 = s.bound**2 * (1 + 4 * s.dimension / s.mu**2)
    for k in range(1, n + 1):
        eta = s.eta * k**-s.alpha
        excess += -eta / energy * excess**2 + eta**2 * s.smoothness * sigma2 / 2
        energy += eta**2 * sigma2
        values.append(excess)
    return np.array(values)


def average_excess(s, n):
    """Theorem 6 for theta_1, ..., theta_n: (1/(2 n)) [K_{n+1}/eta_{n+1} + sigma^2 sum_{k=2}^{n+1} eta_k]."""
    sigma2 = s.bound**2 * (1 + 4 * s.dimension / s.mu**2)
    eta = [s.eta * k**-s.alpha for k in range(1, n + 2)]
    energy = s.start + sigma2 * sum(e**2 for e in eta)
    return (energy / eta[n] + sigma2 * sum(eta[1:])) / (2 * n)
