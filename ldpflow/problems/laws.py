"""Laws of data and errors: a standard variate moved and scaled, with density and quantile."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mpmath import mp, mpf

from ldpflow import constants

__all__ = ["LAW_NAMES", "Law", "Variate"]


@dataclass(frozen=True)
class Variate:
    """A standard law to draw from: a sampler's name and its parameter (degrees of freedom).

    ``role`` is the stream that it comes from where that is not the role of whoever asks:
    ``budgets`` (public randomness), or ``position`` (no randomness, the number of the draw).
    """

    name: str
    parameter: float = 0.0
    role: str | None = None


@dataclass(frozen=True)
class Law:
    """The law of ``location + scale * Z``, Z standard.

    Standard laws: normal N(0, 1); laplace, density exp(-|x|)/2; exponential, density exp(-x) on
    x > 0; uniform on (0, 1); logistic; student_t with ``df`` degrees of freedom (1: Cauchy);
    bimodal, N(-3/2, 1) and N(3/2, 1) in equal parts.
    """

    name: str
    location: float = 0.0
    scale: float = 1.0
    df: float | None = None

    @property
    def variate(self) -> Variate:
        """What to draw, before moving and scaling."""
        return Variate(self.name, self.df if self.df is not None else 0.0)

    def standard_quantile(self, tau: float) -> float:
        """tau-quantile of Z."""
        if self.name == "normal":
            return constants.normal_quantile(tau)
        if self.name == "student_t":
            assert self.df is not None
            return constants.student_quantile(tau, self.df)
        if self.name == "bimodal":
            return constants.bimodal_quantile(tau)
        with constants.workdps(40):
            t = mpf(tau)
            if self.name == "laplace":
                return float(mp.log(2 * t) if t < 0.5 else -mp.log(2 * (1 - t)))
            if self.name == "exponential":
                return float(-mp.log(1 - t))
            if self.name == "logistic":
                return float(mp.log(t / (1 - t)))
            return float(t)

    def standard_density(self, z: float) -> float:
        """Density of Z at z, a point inside the support."""
        if self.name == "normal":
            return constants.normal_density(z)
        if self.name == "student_t":
            assert self.df is not None
            return constants.student_density(z, self.df)
        if self.name == "bimodal":
            return (constants.normal_density(z - 1.5) + constants.normal_density(z + 1.5)) / 2.0
        with constants.workdps(40):
            x = mpf(z)
            if self.name == "laplace":
                return float(mp.exp(-abs(x)) / 2)
            if self.name == "exponential":
                return float(mp.exp(-x))
            if self.name == "logistic":
                return float(mp.exp(-x) / (1 + mp.exp(-x)) ** 2)
            return 1.0

    def has_quantile(self, tau: float) -> bool:
        """Whether the tau-quantile is a finite double with a positive density."""
        try:
            return math.isfinite(self.quantile(tau)) and self.density_at_quantile(tau) > 0.0
        except (ZeroDivisionError, OverflowError):
            return False

    def quantile(self, tau: float) -> float:
        """tau-quantile of the law."""
        return self.location + self.scale * self.standard_quantile(tau)

    def density_at_quantile(self, tau: float) -> float:
        """Density of the law at its tau-quantile."""
        return self.standard_density(self.standard_quantile(tau)) / self.scale


LAW_NAMES = ("normal", "laplace", "exponential", "uniform", "logistic", "student_t", "bimodal")
