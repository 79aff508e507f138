"""Base class of the two classification problems: the synthetic law with two Gaussians."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field

from ldpflow.problems.finite_sum import FiniteSumProblem
from ldpflow.settings import Parameters


class BinaryProblem(FiniteSumProblem):
    """Labels -1 and 1, a loss of the margin y <w, x>.

    Parameters
    ----------
    separation : float
        Distance of each class's mean from 0, before rows are scaled; the noise has unit variance.
    direction : str
        Where the means lie: ``diagonal``, along (1, ..., 1), or ``axis``, along the first coordinate. A
        penalty that is a sum over coordinates tells the two apart.
    label_noise : float in [0, 1]
        Probability that a synthetic label is flipped.
    """

    separation: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    direction: Literal["diagonal", "axis"] = "diagonal"
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.1

    @property
    def labels(self) -> Literal["binary", "real"]:
        return "binary"

    def data_parameters(self) -> Parameters:
        if self.direction == "axis":
            first, others = self.separation, 0.0
        else:
            first = others = self.separation / math.sqrt(self.d)
        return {"bound": self.bound, "first": first, "others": others, "label_noise": self.label_noise}

    def data_settings(self) -> dict[str, Any]:
        settings = super().data_settings()
        if self.direction == "diagonal":  # named as before there was a choice: the same records
            settings["parameters"] = [self.bound, self.data_parameters()["first"], self.label_noise]
        return settings
