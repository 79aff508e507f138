"""The variates that a kernel consumes, for one replicate, in order: what oracles are fed with."""

from ldpflow.testing.checks import noise_draws as noise
from ldpflow.testing.checks import planes

__all__ = ["data", "noise", "planes"]


def data(path, seed, replicate, count):
    """Standard variates of the first ``count`` records."""
    return planes(seed, "data", path.data_key(), replicate, path.problem.variates(), count)
