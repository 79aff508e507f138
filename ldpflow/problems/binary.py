"""What the two classification problems share: the synthetic law with two Gaussians."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from ldpflow.problems.erm import ErmProblem

__all__ = ["BinaryProblem"]


class BinaryProblem(ErmProblem):
    """Labels -1 and 1, a loss of the margin y <w, x>.

    Parameters
    ----------
    separation : float
        Distance of each class's mean from 0, before rows are scaled; the noise has unit variance.
    label_noise : float in [0, 1]
        Probability that a synthetic label is flipped.
    """

    separation: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.1

    @property
    def labels(self) -> Literal["binary", "real"]:
        return "binary"

    def data_parameters(self) -> tuple[float, ...]:
        return (self.bound, self.separation / math.sqrt(self.d), self.label_noise)
