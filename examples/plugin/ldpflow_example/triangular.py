"""Data law triangular: a triangle over (0, 1) with its peak at ``shape``."""

from typing import Annotated, Literal

import numpy as np
from mpmath import mpf, sqrt
from pydantic import Field

import ldpflow as lf
from ldpflow.settings import Setting


@lf.register
class Triangular(lf.DataLaw):
    """Triangular law on (0, 1).

    Parameters
    ----------
    shape : float in (0, 1)
        Position of the peak.
    """

    kind: Literal["triangular"] = "triangular"
    shape: Annotated[float, Field(gt=0, lt=1), Setting("1", "place of the peak")] = 0.3

    def cdf(self, z):
        """P(Z <= z)."""
        peak, z = mpf(self.shape), min(max(z, mpf(0)), mpf(1))
        return z**2 / peak if z < peak else 1 - (1 - z) ** 2 / (1 - peak)

    def density(self, z):
        """Density of Z at z."""
        peak = mpf(self.shape)
        if not 0 < z < 1:
            return mpf(0)
        return 2 * z / peak if z < peak else 2 * (1 - z) / (1 - peak)

    def quantile(self, t):
        """Quantile of Z at the level t."""
        peak = mpf(self.shape)
        return sqrt(t * peak) if t < peak else 1 - sqrt((1 - t) * (1 - peak))


def falling(u, peak):
    """Quantile of Z above the peak."""
    return 1.0 - np.sqrt((1.0 - u) * (1.0 - peak))


def sample(u, shape):
    """Z from a uniform variate. A square root has equal bits on every machine."""
    return np.sqrt(u * shape) if u < shape else falling(u, shape)
