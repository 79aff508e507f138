"""Transcripts, written and folded by literal loops: no arrays, no library's random numbers."""

import math
from random import Random
from statistics import NormalDist

SETTINGS = {
    "problem": {"kind": "quantile", "tau": 0.9},
    "mechanism": {"kind": "randomized_response", "epsilon": 1.0},
    "algorithm": {"c": 40.0, "gamma": 0.51, "theta0": 20.0},
}


def values(tau, epsilon):
    p = 1 / (1 + math.exp(-epsilon))
    return -tau - (1 - p) / (2 * p - 1), -tau + p / (2 * p - 1)


def demo(n=20_000, tau=0.9, epsilon=1.0, c=40.0, gamma=0.51, theta0=20.0, scale=30.0):
    """[(theta asked, report)] of n users with values from N(0, scale^2), and the last theta."""
    a = values(tau, epsilon)
    p = 1 / (1 + math.exp(-epsilon))
    state, theta, rows = 12345, theta0, []

    def uniform():
        nonlocal state
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        return ((state >> 12) + 0.5) * 2.0**-52

    for i in range(1, n + 1):
        keep = uniform() < p
        bit = scale * NormalDist().inv_cdf(uniform()) <= theta
        report = int(bit == keep)
        rows.append((theta, report))
        theta -= c * i**-gamma * a[report]
    return rows, theta


def folded(thetas, gradients, origin, times):
    """What is kept of a scalar path at the times: S, self-normalisation, and cubic and quartic sums.

    ``thetas`` are theta_0, ..., theta_n; sums over the transcript start again after powers of two.
    """
    total = weighted = squared = 0.0
    cubic = [0.0] * 11
    quartic = [0.0] * 3
    kept = {}
    for i, a in enumerate(gradients, start=1):
        x = thetas[i - 1] - origin
        x2 = x * x
        x3 = x2 * x
        x4 = x2 * x2
        for k, term in enumerate((x, x2, x3, x4, x3 * x2, x3 * x3, a, a * x, a * x2, a * x3, a * a)):
            cubic[k] += term
        for k, term in enumerate((x4 * x3, x4 * x4, a * x4)):
            quartic[k] += term
        total += thetas[i] - origin
        weighted += float(i) * total
        squared += total * total
        if i in times:
            kept[i] = (total, thetas[i], weighted, squared, list(cubic), list(quartic))
        if i & (i - 1) == 0:
            cubic = [0.0] * 11
            quartic = [0.0] * 3
    return kept


def cell_demo(n=4000, taus=(0.3, 0.6), epsilon=2.0, c=3.0, gamma=0.6, theta0=0.0, seed=7, spent=None):
    """[(thetas asked, cell reported)] of n users with standard normal values, and the last thetas.

    A user reports the own cell with probability e^eps/(e^eps + Q), each other one with 1/(e^eps + Q); theta_q
    moves by c i^-gamma ((C_q - q q')/(p' - q') - tau_q), C_q = 1 for a cell below it, and is sorted. The
    devices may spend another epsilon.
    """
    rng = Random(seed)
    count = len(taus)
    total = math.exp(epsilon) + count
    keep, other = math.exp(epsilon) / total, 1 / total
    theta, rows = list(theta0) if isinstance(theta0, tuple) else [theta0] * count, []
    for i in range(1, n + 1):
        x = rng.gauss(0.0, 1.0)
        cell = sum(t < x for t in theta)
        if rng.random() >= (keep if spent is None else math.exp(spent) / (math.exp(spent) + count)):
            cell = rng.choice([k for k in range(count + 1) if k != cell])
        rows.append((tuple(theta), cell))
        for q, tau in enumerate(taus):
            below = 1.0 if cell <= q else 0.0
            theta[q] -= c * i**-gamma * ((below - (q + 1) * other) / (keep - other) - tau)
        theta.sort()
    return rows, tuple(theta)
