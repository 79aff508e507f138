"""Inputs of a prediction of arrival: the law, the steps, the start and the noise of a step."""

from __future__ import annotations

from dataclasses import dataclass

from ldpflow.problems.laws import Law

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Approach:
    """One path of a quantile problem, as far as its arrival depends on it.

    Parameters
    ----------
    law : Law
        Of a record.
    tau : float in (0, 1)
    noise : float
        Variance that the mechanism adds to the gradient -tau + 1{X <= theta} of one record.
    c, gamma, theta0 : float
        Steps c i^-gamma and the start, in the unit of the data.
    steps : int
        Steps of the run, each of ``records`` records.
    records : int
        Records whose gradients a step averages.
    """

    law: Law
    tau: float
    noise: float
    c: float
    gamma: float
    theta0: float
    steps: int
    records: int = 1

    def variance(self) -> float:
        """S, the variance of a private gradient at theta*."""
        return (self.tau * (1.0 - self.tau) + self.noise) / self.records


@dataclass(frozen=True)
class LinearApproach:
    """One path of another problem, near theta*: its mean gradient is G (theta - theta*).

    Parameters
    ----------
    curvature : d x d
        G.
    distance : tuple of float, length d
        theta0 - theta*.
    variances : tuple of float, length d
        Diagonal of the asymptotic covariance per step.
    c, gamma : float
    steps : int
    """

    curvature: Matrix
    distance: tuple[float, ...]
    variances: tuple[float, ...]
    c: float
    gamma: float
    steps: int
