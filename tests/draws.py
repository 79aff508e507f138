"""Variates that a kernel uses for one replicate, in order. Oracles use the same variates."""

from ldpflow.testing.checks import noise_draws as noise
from ldpflow.testing.checks import planes

__all__ = ["data", "noise", "planes"]


def data(path, seed, replicate, count):
    """Standard variates of the first ``count`` records of a replicate."""
    return planes(seed, "data", path.data_key(), replicate, path.problem.variates(), count)
