"""Regression on the transcript, literally: least squares on the whole path, roots of polynomials.

Source: the specification of the method (ours). Written from the formulas, in coordinates around the
pilot theta_{i0}, which is not how the library does it.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

Vector = NDArray[np.float64]


def burn_in(n, rule):
    """i0 = ceil(n^a) or ceil(share n)."""
    if rule.startswith("n^"):
        power = n ** float(rule[2:])
    else:
        power = float(rule[:-1]) * n
    nearest = round(power)
    return nearest if abs(power - nearest) <= 1e-9 * power else math.ceil(power)


def transcript(theta0, path, c, gamma):
    """theta_{i-1}, A_i = (theta_{i-1} - theta_i)/eta_i and eta_i for i = 1..n; path has shape (n, d)."""
    before = np.vstack([theta0[None], path[:-1]])
    eta = c * np.arange(1, len(path) + 1) ** -gamma
    return before, (before - path) / eta[:, None], eta


def small_run(K):
    return min(K / (K - 4), 2.0) if K > 4 else 2.0


def polynomial(before, A, degree):
    """Pilot-free fit: centre, scale, coefficients (lowest first), M^-1, sum of squared residuals."""
    x = before - before[0]
    centre, scale = x.mean(), x.std()
    V = np.vander((x - centre) / scale, degree + 1, increasing=True)
    b, *_ = np.linalg.lstsq(V, A, rcond=None)
    return centre + before[0], scale, b, np.linalg.inv(V.T @ V), float(((A - V @ b) ** 2).sum())


def root(b):
    """Root of P on the increasing branch through 0, NaN if there is none."""
    P = np.polynomial.Polynomial(b)
    if b[1] <= 0:
        return math.nan
    turns = [r.real for r in P.deriv().roots() if abs(r.imag) < 1e-12]
    low = max([t for t in turns if t < 0], default=-math.inf)
    high = min([t for t in turns if t > 0], default=math.inf)
    found = [r.real for r in P.roots() if abs(r.imag) < 1e-9 and low < r.real < high]
    return found[0] if found else math.nan


def score_set(b, inverse, at, z2S):
    """The real roots of P^2 - z^2 S v' M^-1 v nearest to ``at`` on both sides."""
    antidiagonals = range(len(b) - 1, -len(b), -1)
    variance = np.array([np.trace(inverse[:, ::-1], k) for k in antidiagonals])
    F = np.polynomial.Polynomial(np.convolve(b, b) - z2S * variance)
    real = [r.real for r in F.roots() if abs(r.imag) < 1e-7]
    return (
        max([r for r in real if r < at], default=math.nan),
        min([r for r in real if r > at], default=math.nan),
    )


def interval(before, A, eta, degree, level, S):
    """(estimate, lower, upper, K, t statistic of the next power); S None: the residuals' variance."""
    centre, scale, b, inverse, rss = polynomial(before, A, degree)
    if S is None:
        S = rss / (len(A) - degree - 1)
    u = root(b)
    slope = np.polynomial.Polynomial(b).deriv()(u) / scale
    K = slope * eta.sum()
    factor = small_run(K)
    z = stats.norm.ppf(0.5 + level / 2)
    low, high = score_set(b, inverse, u, z * z * S)
    _, _, b_next, inverse_next, _ = polynomial(before, A, degree + 1)
    t = b_next[-1] / math.sqrt(S * inverse_next[-1, -1])
    return (
        centre + scale * u,
        centre + scale * (u - factor * (u - low)),
        centre + scale * (u + factor * (high - u)),
        K,
        t,
    )


def kappa(n, eta):
    """(n/N) / (1 - (sum eta)^2/(3 N sum eta^2)) over the N steps of the fit."""
    N = len(eta)
    return n / N / (1 - eta.sum() ** 2 / (3 * N * (eta**2).sum()))


def powers(x, degree=2):
    """Rows (1, x_1, ..., x_d) for rows x, with (x_1 x_1, x_2 x_1, x_2 x_2, ...) for degree 2."""
    d = x.shape[1]
    products = [x[:, k] * x[:, h] for k in range(d) for h in range(k + 1)] if degree == 2 else []
    return np.column_stack([np.ones(len(x)), x, *products])


def derivative(b, at, degree):
    """dP_j/du_k by central differences, exact for a quadratic but for rounding."""
    forward, backward = (powers(at + sign * np.eye(len(at)), degree) for sign in (1, -1))
    return ((forward - backward) @ b / 2).T


def vector(before, A, eta, degree, S):
    """Root of the fit of a vector, standard errors (with K/(K - 4)) and K, all of shape (d,), and S."""
    N, d = before.shape
    centre, scale = before.mean(axis=0), before.std(axis=0)
    V = powers((before - centre) / scale, degree)
    b, *_ = np.linalg.lstsq(V, A, rcond=None)
    found = optimize.root(lambda u: (powers(u[None], degree) @ b)[0], np.zeros(d), tol=1e-13)
    if S is None:
        S = (A - V @ b).T @ (A - V @ b) / (N - V.shape[1])
    v = powers(found.x[None], degree)[0]
    inverse = np.linalg.inv(derivative(b, found.x, degree) / scale)
    covariance = inverse @ S @ inverse.T * (v @ np.linalg.solve(V.T @ V, v))
    K = eta.sum() / np.diag(inverse)
    factor = np.array([small_run(k) for k in K])
    return centre + scale * found.x, np.sqrt(np.diag(covariance)) * factor, K, S


def halves_test(before, A, middle, degree, root, S):
    """t statistics of dP_j/dx_j at ``root``, the steps after the first ``middle`` against those."""
    slopes, variances = [], []
    for x, a in ((before[:middle], A[:middle]), (before[middle:], A[middle:])):
        V = powers(x - root, degree)  # around the root the slopes are coefficients
        b, *_ = np.linalg.lstsq(V, a, rcond=None)
        d = x.shape[1]
        slopes.append(np.diag(b[1 : d + 1]))
        variances.append(np.diag(np.linalg.inv(V.T @ V))[1 : d + 1])
    return (slopes[1] - slopes[0]) / np.sqrt(np.diag(S) * (variances[0] + variances[1]))


# The sandwich with the transcript's slope (TRC). Source: the estimator of Ni & Huo (2026), "trajectory
# regression": unweighted least squares of A_i on powers of theta_{i-1}, and G^-1 S G^-1 at the average.


def scalar_covariance(theta0, path, c, gamma, degree, rule, S, factor):
    """(V, K) of a path (n, 1) around its average; S None: the residuals' variance."""
    i0 = burn_in(len(path), rule)
    before, A, eta = (part[i0:] for part in transcript(theta0, path, c, gamma))
    centre, scale, b, _, rss = polynomial(before[:, 0], A[:, 0], degree)
    G = np.polynomial.Polynomial(b).deriv()((path.mean() - centre) / scale) / scale
    if S is None:
        S = rss / (len(A) - degree - 1)
    K = G * eta.sum()
    if not G > 0:
        return math.nan, K
    return S / G**2 * (small_run(K) ** 2 if factor else 1.0), K


def vector_covariance(theta0, path, c, gamma, rule, S):
    """(B^-1 S B^-T, K by coordinate) of a path (n, d); S None: the residuals' covariance."""
    i0 = burn_in(len(path), rule)
    before, A, eta = (part[i0:] for part in transcript(theta0, path, c, gamma))
    N, d = before.shape
    design = powers(before - before[0], 1)
    coefficients, *_ = np.linalg.lstsq(design, A, rcond=None)
    B = coefficients[1:].T
    if S is None:
        residuals = A - design @ coefficients
        S = residuals.T @ residuals / (N - d - 1)
    inverse = np.linalg.inv(B)
    return inverse @ S @ inverse.T, eta.sum() / np.diag(inverse)
