"""A plug-in of the tests: a part of every kind under a name of its own, and a method of five runs a row."""

from typing import Literal

import ldpflow as lf
from ldpflow.components.intervals.parallel_runs import ParallelRuns


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
class OwnRuns(ParallelRuns):
    """Student's t over K runs, under a name of its own."""

    kind: Literal["own_runs"] = "own_runs"
