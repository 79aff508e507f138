"""Records of whole paths: every step recorded, every running sum marked there."""

import numpy as np

import ldpflow as lf
from ldpflow.components.intervals.record import PathRecord
from ldpflow.simulators.one_pass import OnePass

SEED = 5
SCALAR = OnePass(lf.Quantile(tau=0.9), lf.RandomizedResponse(), lf.LdpSgd())
VECTOR = OnePass(lf.QuantileRegression(), lf.Laplace(epsilon=4.0), lf.LdpSgd())


def record_of(path, iterates, origin=None):
    """The record of given iterates, shape (n, d, R), with the running sums along the path."""
    n, _, replicates = iterates.shape
    origin = np.array(path.problem.truth()) if origin is None else np.asarray(origin, dtype=float)
    S = np.cumsum(iterates - origin[None, :, None], axis=0)
    i = np.arange(1, n + 1)[:, None, None]
    sums = {
        "self_normalization": np.stack([np.cumsum(i * S, axis=0), np.cumsum(S**2, axis=0)]),
        "prefix_total": np.cumsum(S, axis=0)[None],
    }
    grid = np.arange(1, n + 1)
    return PathRecord(path, SEED, np.arange(replicates), grid, origin, S, iterates, sums, grid)


def noisy(path, n, replicates=3, spread=1.0):
    """Independent normal iterates around the truth."""
    d = path.problem.dimension
    truth = np.array(path.problem.truth())[None, :, None]
    rng = np.random.default_rng([n, d, SEED])
    return truth + spread * rng.normal(size=(n, d, replicates))


def walk(path, n, replicates=3):
    """SGD on a linear gradient of slope 0.18 with normal noise, around the truth."""
    truth = np.array(path.problem.truth())[None, :, None]
    noise = noisy(path, n, replicates) - truth
    result = np.empty_like(noise)
    theta = np.zeros_like(noise[0])
    for i in range(n):
        theta = theta - (i + 1.0) ** -0.51 * (0.18 * theta + noise[i])
        result[i] = theta
    return truth + result
