"""A plug-in of the tests: a part of every kind under a name of its own, and a method of five runs a row."""

from typing import Annotated, Literal

from mpmath import mpf
from pydantic import Field

import ldpflow as lf
from ldpflow.components.intervals.parallel_runs import ParallelRuns
from ldpflow.settings import Setting


@lf.register
class OwnQuantile(lf.Quantile):
    """A quantile, under a name of its own."""

    kind: Literal["own_quantile"] = "own_quantile"


@lf.register
class OwnResponse(lf.RandomizedResponse):
    """Randomised response, under a name of its own."""

    kind: Literal["own_response"] = "own_response"


@lf.register
class OwnSgd(lf.LdpSgd):
    """LDP-SGD, under a name of its own."""

    kind: Literal["own_sgd"] = "own_sgd"


@lf.register
class OwnRamp(lf.DataLaw):
    """Law of shape * sqrt(U): density 2 z / shape^2 on (0, shape)."""

    kind: Literal["own_ramp"] = "own_ramp"
    shape: Annotated[float, Field(gt=0, le=100), Setting("1", "upper end")] = 1.0

    def cdf(self, z):
        return min(max(z / mpf(self.shape), mpf(0)), mpf(1)) ** 2

    def density(self, z):
        return 2 * z / mpf(self.shape) ** 2 if 0 < z < self.shape else mpf(0)


def sample(u, shape):
    return shape * u**0.5


@lf.register
class OwnRuns(ParallelRuns):
    """Student's t over K runs, under a name of its own."""

    kind: Literal["own_runs"] = "own_runs"
