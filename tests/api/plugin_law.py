"""A plug-in of the tests: a data law with a shape, and a protocol."""

from typing import Annotated, Literal

import numpy as np
from mpmath import mpf
from pydantic import Field

import ldpflow as lf
from ldpflow.components.protocols.histograms import Thresholds
from ldpflow.settings import Setting


@lf.register
class Ramp(lf.DataLaw):
    """Law of shape * sqrt(U): density 2 z / shape^2 on (0, shape)."""

    kind: Literal["ramp"] = "ramp"
    shape: Annotated[float, Field(gt=0, le=100), Setting("1", "upper end")] = 1.0

    def cdf(self, z):
        return min(max(z / mpf(self.shape), mpf(0)), mpf(1)) ** 2

    def density(self, z):
        return 2 * z / mpf(self.shape) ** 2 if 0 < z < self.shape else mpf(0)


def half_root(u):
    return np.sqrt(u)


def sample(u, shape):
    return shape * half_root(u)


@lf.register
class CoarseThresholds(Thresholds):
    """Thresholds, under a name of its own."""

    kind: Literal["coarse_thresholds"] = "coarse_thresholds"
