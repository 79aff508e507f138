"""The sandwich with the transcript's slope (TRC), literally: least squares on the whole path.

Source: the estimator of Ni & Huo (2026), "trajectory regression", in the form of the method's
specification: unweighted least squares of A_i on powers of theta_{i-1}, and G^-1 S G^-1 at the average.
"""

import math

import numpy as np

from tests.oracles.transcript_regression import burn_in, small_run, transcript


def scalar(theta0, path, c, gamma, degree, rule, S, factor):
    """(V, K) of a path (n, 1) around its average; S None: the residuals' variance."""
    i0 = burn_in(len(path), rule)
    before, A, eta = (part[i0:] for part in transcript(theta0, path, c, gamma))
    x, y = before[:, 0], A[:, 0]
    pilot = x[0]
    P, (rss, *_) = np.polynomial.Polynomial.fit(x - pilot, y, degree, full=True)
    G = P.deriv()(path.mean() - pilot)
    if S is None:
        S = float(rss[0]) / (len(x) - degree - 1)
    K = G * eta.sum()
    if not G > 0:
        return math.nan, K
    return S / G**2 * (small_run(K) ** 2 if factor else 1.0), K


def vector(theta0, path, c, gamma, rule, S):
    """(B^-1 S B^-T, K by coordinate) of a path (n, d); S None: the residuals' covariance."""
    i0 = burn_in(len(path), rule)
    before, A, eta = (part[i0:] for part in transcript(theta0, path, c, gamma))
    N, d = before.shape
    design = np.column_stack([np.ones(N), before - before[0]])
    coefficients, *_ = np.linalg.lstsq(design, A, rcond=None)
    B = coefficients[1:].T
    if S is None:
        residuals = A - design @ coefficients
        S = residuals.T @ residuals / (N - d - 1)
    inverse = np.linalg.inv(B)
    return inverse @ S @ inverse.T, eta.sum() / np.diag(inverse)
