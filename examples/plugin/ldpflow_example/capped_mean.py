"""Problem capped_mean: the mean of an exponential value that is cut off at a cap."""

from typing import Annotated, Literal

from mpmath import exp, mpf, workdps
from pydantic import Field

import ldpflow as lf
from ldpflow.components.problems.laws import Variate
from ldpflow.settings import Setting


@lf.register
class CappedMean(lf.Problem):
    """Mean of min(Z, cap) for an exponential Z: theta* = 1 - exp(-cap) and g(x, theta) = theta - x.

    Parameters
    ----------
    cap : float > 0
        Largest value of a record.
    """

    kind: Literal["capped_mean"] = "capped_mean"
    cap: Annotated[float, Field(ge=0.01, le=50), Setting("unit of theta", "largest value of a record")] = 2.0

    def truth(self):
        """theta*, computed in 40 digits and rounded once: equal bits on every machine."""
        with workdps(40):
            return (float(1 - exp(-mpf(self.cap))),)

    def variates(self):
        """One exponential variate for each record."""
        return (Variate("exponential"),)

    def kernel_parameters(self):
        """Values that ``gradient`` reads by name from its argument ``problem``."""
        return {"cap": self.cap}

    def l1_sensitivity(self):
        """Largest distance of two gradients: two records are at most ``cap`` apart."""
        return self.cap

    def l2_sensitivity(self):
        return self.cap

    def curvature(self):
        return [[1.0]]

    def gradient_covariance(self):
        """Var min(Z, cap) = 2 (1 - (1 + cap) exp(-cap)) - (1 - exp(-cap))^2."""
        with workdps(40):
            cap = mpf(self.cap)
            return [[float(2 * (1 - (1 + cap) * exp(-cap)) - (1 - exp(-cap)) ** 2)]]


def capped(z, cap):
    """min(z, cap). Kernel functions may call functions of their own file."""
    return min(z, cap)


def gradient(g, theta, data, at, lane, problem):
    """g(X, theta) = theta - X, for one lane (one replicate)."""
    g[lane] = theta[lane] - capped(data[at], problem.cap)
