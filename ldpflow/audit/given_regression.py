"""Problem of audits of private least squares whose rows are given."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.problems.least_squares import LeastSquares
from ldpflow.settings import Parameters

Floats = NDArray[np.float64]


class GivenRegression(LeastSquares):
    """Least squares in one coordinate on given rows (x, y); what its theory needs is that of N(0, 1).

    Parameters
    ----------
    rows : tuple of (float, float)
    """

    kind: Literal["given_regression"] = "given_regression"  # type: ignore[assignment]
    rows: tuple[tuple[float, float], ...]

    def stored_records(self) -> int:
        return len(self.rows)

    @cached_property
    def given(self) -> Floats:
        """The rows as an array."""
        return np.array(self.rows)

    def table(self) -> Floats:
        return self.given

    def kernel_parameters(self) -> Parameters:
        return {"error_scale": 1.0, "scales": (1.0,), "coefficients": (0.0,)}
