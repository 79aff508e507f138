"""One-pass private least squares, record by record, and its exact moments.

Source: Varshney, Thakurta and Jain (2022), Algorithms 1 to 3, with the corrections that the package
documents; moments by hand from w_{t+1} - w* = (I - eta/b sum x x')(w_t - w*) + noise.
"""

import math

import numpy as np
from scipy import integrate, special, stats


def clip(v, zeta):
    """v min(1, zeta/||v||); 0 for 0 and for what is not finite."""
    v = np.asarray(v, dtype=float)
    if not np.isfinite(v).all() or not v.any():
        return np.zeros_like(v)
    return v * min(1.0, zeta / float(np.linalg.norm(v)))


def dp_stat(residuals, B, M, alpha, level, noise, printed=False):
    """Stop at the first noisy count >= level; ``noise`` holds one N(0, 1) per query, M or M + 1 of them."""
    delta = B / 2.0**M
    for i in range(M + 1 if printed else M):
        count = sum(1 for r in residuals if abs(r) <= delta * 2.0**i)
        if count + alpha * math.sqrt(M) * noise[i] >= level:
            return delta * 2.0**i
    return delta * 2.0**M


def margin(alpha, M, beta):
    return alpha * math.sqrt(2.0 * M * math.log(M / beta))


def dp_ambssgd(X, y, T, alpha, eta, R, c_zeta, B, M, beta, noise, part=11, printed=False):
    """Iterates w_1, ..., w_T, thresholds zeta_t and shares of clipped gradients.

    ``noise``: a step's numbers are those of its queries, then one per coordinate.
    """
    n = len(y) // T
    s = max(1, n // part)
    b = n - s
    queries = M + 1 if printed else M
    w = np.zeros(X.shape[1])
    path, zetas, shares = [], [], []
    for t in range(T):
        own = noise[t * (queries + len(w)) : (t + 1) * (queries + len(w))]
        last = n * t + s + (1 if printed else 0)
        residuals = X[n * t : last] @ w - y[n * t : last]
        level = s if printed else s - margin(alpha, M, beta)
        zeta = c_zeta * R * dp_stat(residuals, B, M, alpha, level, own, printed)
        total, clipped = np.zeros_like(w), 0
        for i in range(n * t + s, n * (t + 1)):
            v = X[i] * (X[i] @ w - y[i])
            total += clip(v, zeta)
            clipped += np.linalg.norm(v) > zeta
        w = w - eta * (total / b + 2.0 * alpha * zeta / b * own[queries:])
        path.append(w)
        zetas.append(zeta)
        shares.append(clipped / b)
    return np.array(path), np.array(zetas), np.array(shares)


def dp_mbssgd(X, y, T, alpha, eta, zeta, noise):
    """T mini-batches with a fixed clipping norm: iterates, and the number of clipped gradients so far."""
    b, w, path, clipped = len(y) // T, np.zeros(X.shape[1]), [], []
    for t, g in enumerate(np.reshape(noise, (T, len(w)))):
        gradients = [X[i] * (X[i] @ w - y[i]) for i in range(b * t, b * (t + 1))]
        w = w - eta * (sum(clip(v, zeta) for v in gradients) / b + 2.0 * alpha * zeta / b * g)
        path.append(w)
        clipped.append(sum(np.linalg.norm(v) > zeta for v in gradients))
    return np.array(path), np.cumsum(clipped)


def tail_average(path):
    return path[len(path) // 2 :].mean(axis=0)


def perturbed_statistics(X, y, x_bound, y_bound, alpha, noise):
    """Noise in the order: lower triangle by rows, then the vector."""
    n, d = X.shape
    A, v = np.zeros((d, d)), np.zeros(d)
    for x, target in zip(X, y, strict=True):
        x = clip(x, x_bound)
        A += np.outer(x, x) / n
        v += x * max(-y_bound, min(y_bound, target)) / n
    s = 2.0 * x_bound**2 * alpha / n
    k = 0
    for i in range(d):
        for j in range(i + 1):
            value = noise[k] * (s if i == j else s / math.sqrt(2.0))
            A[i, j] += value
            if i != j:
                A[j, i] += value
            k += 1
    v += 2.0 * math.sqrt(2.0) * x_bound * y_bound * alpha / n * noise[k : k + d]
    return np.linalg.solve(A, v)


def mean_risks(lam, start, b, eta, sigma, tau, T):
    """Means for normal x of the last iterate's and the tail average's excess risk, term by term."""
    d = len(lam)
    c = [list(start)]
    for t in range(T):
        s = sum(lam[j] * c[t][j] for j in range(d))
        c.append(
            [
                c[t][i] * (1 - 2 * eta * lam[i] + eta**2 * ((b + 1) / b) * lam[i] ** 2)
                + eta**2 / b * lam[i] * s
                + eta**2 * (sigma**2 * lam[i] / b + tau[t] ** 2)
                for i in range(d)
            ]
        )
    n = T - T // 2
    total = 0.0
    for i in range(d):
        m = 1 - eta * lam[i]
        for t in range(T // 2 + 1, T + 1):
            for u in range(T // 2 + 1, T + 1):
                total += lam[i] * c[min(t, u)][i] * m ** abs(t - u)
    return 0.5 * sum(lam[i] * c[T][i] for i in range(d)), 0.5 * total / n**2


def clip_share(d, c):
    """Share of gradients clipped at zeta = c sqrt(d + 2) s: E 2 Q(c sqrt(d + 2)/u), u ~ chi_d.

    For x ~ N(0, I_d) and a residual N(0, s^2) independent of it.
    """
    height = c * math.sqrt(d + 2.0)

    def share(u):
        return 2.0 * special.ndtr(-height / u) * stats.chi.pdf(u, d)

    return integrate.quad(share, 0.0, 60.0, points=[d**0.5], epsabs=1e-14, limit=200)[0]
