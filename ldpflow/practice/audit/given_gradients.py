"""Problem of audits whose records are their own gradients."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.problems.laws import Variate
from ldpflow.practice.audit.given_gradient import Given
from ldpflow.settings import Parameters


class GivenGradients(Given):
    """Records that are their own gradients for every theta: one number each, in the order of the users."""

    kind: Literal["given_gradients"] = "given_gradients"

    def truth(self) -> tuple[float, ...]:
        return (0.0,)

    def variates(self) -> tuple[Variate, ...]:
        return (Variate("normal"),) * 2  # planes of the stored rows

    def stored_records(self) -> int:
        return len(self.values)

    def table(self) -> NDArray[np.float64]:
        return np.array([[value, 0.0] for value in self.values])

    def kernel_parameters(self) -> Parameters:
        return {"unit": 1.0}

    def l1_sensitivity(self) -> float:
        return super().l1_sensitivity() if self.bits is None else self.bits[1] - self.bits[0]

    def l2_sensitivity(self) -> float:
        return self.l1_sensitivity()


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """The number of the row."""
    g[lane] = problem.unit * data[at]
