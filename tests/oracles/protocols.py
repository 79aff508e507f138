"""One-shot protocols and rounds of thresholds, user by user.

Every user's report is drawn through the randomiser itself, and the server works on the list of all
reports with dense matrices. Arrays of users have shape (populations, users).
"""

import numpy as np
from scipy.linalg import hadamard
from scipy.optimize import isotonic_regression
from scipy.special import expit

from tests.oracles.mechanisms import keep_probability as keep


def debiased(share, eps):
    return (share - (1 - keep(eps))) / (2 * keep(eps) - 1)


def randomised(rng, bits, eps):
    return np.where(rng.random(bits.shape) < keep(eps), bits, ~bits)


def prefix(frequencies):
    return np.cumsum(frequencies, axis=-1)[..., :-1]


def mean_by_group(values, groups, size, empty):
    out = np.full((len(values), size), empty, dtype=float)
    for g in range(size):
        inside = groups == g
        count = inside.sum(axis=1)
        total = np.where(inside, values, 0.0).sum(axis=1)
        out[:, g] = np.where(count > 0, total / np.maximum(count, 1), empty)
    return out


def thresholds(rng, bins, k, eps):
    edge = rng.integers(1, k, size=bins.shape)
    report = randomised(rng, bins < edge, eps)
    share = mean_by_group(report.astype(float), edge - 1, k - 1, 0.5)
    untouched = np.stack([(edge == m).sum(axis=1) == 0 for m in range(1, k)], axis=1)
    return np.where(untouched, 0.5, debiased(share, eps))


def grr(rng, bins, k, eps):
    q = 1 / (np.exp(eps) + k - 1)
    p = np.exp(eps) * q
    other = (bins + rng.integers(1, k, size=bins.shape)) % k
    report = np.where(rng.random(bins.shape) < p, bins, other)
    frequencies = np.stack([(report == j).mean(axis=1) for j in range(k)], axis=1)
    return prefix((frequencies - q) / (p - q))


def unary(rng, nodes, k, eps, among):
    """Unbiased frequencies from unary encodings of those users who are ``among``."""
    q = 1 / (1 + np.exp(eps))
    n = among.sum(axis=1)
    found = []
    for j in range(k):
        bit = rng.random(nodes.shape) < np.where(nodes == j, 0.5, q)
        found.append(((bit & among).sum(axis=1) / np.maximum(n, 1) - q) / (0.5 - q))
    found = np.stack(found, axis=1)
    found[n == 0] = 1 / k
    return found


def oue(rng, bins, k, eps):
    found = unary(rng, bins, k, eps, np.ones(bins.shape, bool))
    return prefix(found - (found.sum(axis=1, keepdims=True) - 1) / k)


def hrr(rng, bins, k, eps):
    h = hadamard(k)
    row = rng.integers(1, k, size=bins.shape)
    sign = np.where(randomised(rng, h[row, bins] > 0, eps), 1.0, -1.0)
    mu = mean_by_group(sign, row - 1, k - 1, 0.0) / np.tanh(eps / 2)
    return prefix((1 + mu @ h[1:]) / k)


def haar(rng, bins, k, eps):
    levels = int(np.log2(k))
    level = rng.integers(levels, size=bins.shape)
    mass = np.ones((len(bins), 1))
    for l in range(levels):
        nodes, size = 2**l, k >> l
        h = hadamard(nodes)
        row = rng.integers(nodes, size=bins.shape)
        side = np.where(bins % size < size // 2, 1.0, -1.0)
        sign = np.where(randomised(rng, side * h[row, bins // size] > 0, eps), 1.0, -1.0)
        mu = mean_by_group(sign, np.where(level == l, row, -1), nodes, 0.0) / np.tanh(eps / 2)
        d = mu @ h / nodes
        mass = np.stack([(mass + d) / 2, (mass - d) / 2], axis=2).reshape(len(bins), -1)
    return prefix(mass)


def tree_matrix(k):
    """Sums over the leaves that the nodes of levels 1..h stand for, fan-out 4."""
    levels = round(np.log(k) / np.log(4))
    return np.vstack([np.kron(np.eye(4**l), np.ones(k // 4**l)) for l in range(1, levels + 1)])


def tree(rng, bins, k, eps):
    levels = round(np.log(k) / np.log(4))
    level = rng.integers(1, levels + 1, size=bins.shape)
    found = [unary(rng, bins // (k // 4**l), 4**l, eps, level == l) for l in range(1, levels + 1)]
    return consistent(np.hstack(found), k)


def consistent(found, k):
    """Least squares on the leaves, whose sum is fixed at 1, by Lagrange's equations; then F^."""
    a = tree_matrix(k)
    system = np.block([[a.T @ a, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    right = np.hstack([found @ a, np.ones((len(found), 1))])
    return prefix(np.linalg.solve(system, right.T).T[:, :k])


ONE_SHOT = {"thresholds": thresholds, "grr": grr, "oue": oue, "hrr": hrr, "haar": haar, "tree": tree}


# --- from F^ to quantiles and intervals ---------------------------------------------------------


def isotonic(values):
    fitted = np.clip(isotonic_regression(values).x, 0, 1)
    return np.concatenate([[0.0], fitted, [1.0]])


def crossing(heights, edges, tau):
    """First point of the line through (edges, heights) at height tau."""
    for j in range(1, len(edges)):
        if heights[j] >= tau:
            share = (tau - heights[j - 1]) / (heights[j] - heights[j - 1])
            return edges[j - 1] + share * (edges[j] - edges[j - 1])
    raise AssertionError("the last height is 1")


def inversion(values, variance, n, edges, tau, z):
    """Limits of the lines F^ -+ z se, and the same rounded outwards to edges."""
    half = z * np.sqrt(variance / n)
    upper = np.concatenate([[0.0], values + half, [1.0]])
    lower = np.concatenate([[0.0], values - half, [1.0]])
    first = min(j for j in range(len(edges)) if upper[j] >= tau)
    last = max(j for j in range(len(edges)) if lower[j] <= tau)
    left = np.interp(tau, upper[first - 1 : first + 1], edges[first - 1 : first + 1])
    right = np.interp(tau, lower[last : last + 2], edges[last : last + 2])
    return left, right, edges[first - 1], edges[last + 1]


# --- rounds -------------------------------------------------------------------------------------


def posterior(x, asked, ones, eps, tau, low, high, scales, points):
    """Mean and sd of the quantile and exp of the mean log scale, on the full grid at once."""
    theta = low + (high - low) * (np.arange(points) + 0.5) / points
    z = np.log(tau / (1 - tau)) + (x - theta[:, None, None]) / scales[:, None]
    p = keep(eps)
    chance = (1 - p) + (2 * p - 1) * expit(z)
    likelihood = (ones * np.log(chance) + (asked - ones) * np.log(1 - chance)).sum(axis=2)
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    mean = (weights.sum(axis=1) * theta).sum()
    cell = (high - low) / points
    sd = np.sqrt((weights.sum(axis=1) * (theta - mean) ** 2).sum() + cell**2 / 12)
    return mean, sd, np.exp((weights.sum(axis=0) * np.log(scales)).sum())


def logistic_fit(u, asked, ones, eps, expected, steps=30):
    """Damped Fisher scoring of (1-p) + (2p-1) expit(a + b u), b ~ N(expected, (expected/2)^2)."""
    p = keep(eps)
    beta = np.array([0.0, expected])
    design = np.stack([np.ones_like(u), u], axis=1)
    prior = np.diag([1e-9, 4 / expected**2])
    for _ in range(steps):
        g = expit(np.clip(design @ beta, -30, 30))
        chance = (1 - p) + (2 * p - 1) * g
        slope = (2 * p - 1) * g * (1 - g)
        weight = slope / (chance * (1 - chance))
        information = design.T @ (design * (asked * slope * weight)[:, None]) + prior
        score = design.T @ ((ones - asked * chance) * weight)
        score[1] -= prior[1, 1] * (beta[1] - expected)
        step = np.clip(np.linalg.solve(information, score), [-1, -expected], [1, expected])
        beta = beta + step
        beta[1] = max(beta[1], expected / 10)
    return beta, information


def fieller(beta, information, logit, z):
    """{u: (a + b u - logit)^2 <= z^2 Var(a + b u)} where that is an interval, else None."""
    cov = np.linalg.inv(information)
    a = beta[1] ** 2 - z**2 * cov[1, 1]
    b = 2 * ((beta[0] - logit) * beta[1] - z**2 * cov[0, 1])
    c = (beta[0] - logit) ** 2 - z**2 * cov[0, 0]
    if a <= 0 or b**2 < 4 * a * c:
        return None
    return tuple(sorted(np.roots([a, b, c]).real))


def rounds(rng, values, low, high, tau, eps, rounds, z):
    """Estimate and Fieller's limits (or None) from one population, one user after the other.

    ``values``: one per user; they are asked in order, a round's users split evenly.
    """
    n = len(values)
    values = np.clip(values, low, high)
    spread = tau * (1 - tau) + np.exp(eps) / (np.exp(eps) - 1) ** 2
    share = np.clip(9 * spread / (min(tau, 1 - tau) ** 2 * n), 0.1, 0.15) * 4 / (rounds - 1)
    scales = (high - low) * np.geomspace(1 / 200, 1 / 10, 6)
    x, asked, ones = (np.empty(0) for _ in range(3))
    mean, sd = (low + high) / 2, high - low
    at = 0
    for t in range(1, rounds + 1):
        if t == 1:
            new = low + (high - low) * np.arange(1, 9) / 9
        else:
            new = mean + sd * np.array([-2.0, 2.0] if t == rounds else [-2.0, 0.0, 2.0])
            new = np.clip(new, low, high)
        part = share if t < rounds else 1 - (rounds - 1) * share
        size = int(n * part) // len(new)
        for threshold in new:
            users = values[at : at + size]
            at += size
            x = np.append(x, threshold)
            asked = np.append(asked, size)
            ones = np.append(ones, randomised(rng, users <= threshold, eps).sum())
        if t < rounds:
            near = np.abs(x - mean) <= 4 * sd
            bracket = max(mean - 5 * sd, low), min(mean + 5 * sd, high)
            points = 91 if t == 1 else 45
            mean, sd, sigma = posterior(x[near], asked[near], ones[near], eps, tau, *bracket, scales, points)
            gap = min([*x[x > mean], high]) - max([*x[x <= mean], low])
            sd = max(sd, gap / 6)
    half = 2.5 * sd
    u = (x - mean) / half
    use = np.abs(u) <= 1
    beta, information = logistic_fit(u[use], asked[use], ones[use], eps, half / sigma)
    logit = np.log(tau / (1 - tau))
    limits = fieller(beta, information, logit, z)
    estimate = np.clip(mean + half * (logit - beta[0]) / beta[1], low, high)
    if limits is not None:
        limits = tuple(np.clip(mean + half * np.array(limits), low, high))
    return estimate, limits
