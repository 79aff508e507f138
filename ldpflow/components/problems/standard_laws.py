"""Laws of a standard variate Z: quantile, density and distribution function in numbers of mpmath.

A result with 40 digits that is rounded once has equal bits on every machine. These functions are slow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ldpflow.numerics import constants
from ldpflow.settings import Settings

SHAPES: dict[str, tuple[float, float]] = {
    "lognormal": (1e-3, 50.0),
    "weibull": (0.06, 1e3),
    "pareto": (0.06, 1e3),
    "gamma": (0.125, 1e3),
}
"""Laws with a ``shape``, and the shapes for which each draw is a finite double > 0."""

Formula = Callable[[Any, Any], Any]


class StandardLaw(ABC):
    """Law of a standard variate Z. Numbers are mpmath's, in the working precision of the caller."""

    @abstractmethod
    def cdf(self, z: Any) -> Any:
        """P(Z <= z)."""

    @abstractmethod
    def density(self, z: Any) -> Any:
        """Density of Z at z. 0 outside the support."""

    def quantile(self, t: Any) -> Any:
        """t-quantile of Z for 0 < t < 1, by bisection of :meth:`cdf`."""
        widest = mpf(2) ** 1024
        low, high = mpf(-1), mpf(1)
        while self.cdf(low) >= t and low > -widest:
            low *= 2
        while self.cdf(high) < t and high < widest:
            high *= 2
        return find_root(lambda z: self.cdf(z) - t, low, high)

    def cdf_values(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        def value(x: float) -> float:
            return float(self.cdf(mpf(x))) if math.isfinite(x) else float(x > 0)

        with constants.workdps(40):
            return np.array([value(x) for x in z.ravel().tolist()]).reshape(z.shape)


@dataclass(frozen=True)
class BundledLaw(StandardLaw):
    name: str
    parameter: float

    def quantile(self, t: Any) -> Any:
        return FORMULAS[self.name][0](float(t), self.parameter)

    def density(self, z: Any) -> Any:
        return FORMULAS[self.name][1](z, self.parameter)

    def cdf(self, z: Any) -> Any:
        return FORMULAS[self.name][2](z, self.parameter)

    def cdf_values(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        from ldpflow.numerics.distributions import cdf_values

        return cdf_values(self.name, z, self.parameter)


def find_root(excess: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Root of an increasing function between low and high. The error is below (high - low) 2^-140."""
    for _ in range(140):
        middle = (low + high) / 2
        if excess(middle) > 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def zero_below(start: float, formula: Formula) -> Formula:
    return lambda z, a: formula(z, a) if z > start else mpf(0)


def student_density(z: Any, df: Any) -> Any:
    nu = mpf(df)
    scale = mp.gamma((nu + 1) / 2) / (mp.sqrt(nu * mp.pi) * mp.gamma(nu / 2))
    return scale * (1 + z**2 / nu) ** (-(nu + 1) / 2)


def student_cdf(z: Any, df: Any) -> Any:
    nu = mpf(df)
    tail = mp.betainc(nu / 2, mpf(1) / 2, 0, nu / (nu + z * z), regularized=True) / 2
    return tail if z < 0 else 1 - tail


@lru_cache(maxsize=1024)
def gamma_quantile(t: float, shape: float) -> Any:
    with constants.workdps(40):
        k = mpf(shape)

        def excess(log_z: Any) -> Any:
            return mp.gammainc(k, 0, mp.exp(log_z), regularized=True) - mpf(t)

        # P(Z <= z) <= z^k / Gamma(k + 1), and P(Z > k + 40 sqrt(k) + 800) < 1e-300.
        low = (mp.log(mpf(t)) + mp.loggamma(k + 1)) / k
        return mp.exp(find_root(excess, low - 1, mp.log(k + 40 * mp.sqrt(k) + 800)))


APART = mpf(3) / 2

FORMULAS: dict[str, tuple[Formula, Formula, Formula]] = {
    "normal": (lambda t, a: constants.normal_quantile(t), lambda z, a: mp.npdf(z), lambda z, a: mp.ncdf(z)),
    "laplace": (
        lambda t, a: mp.log(2 * mpf(t)) if t < 0.5 else -mp.log(2 * (1 - mpf(t))),
        lambda z, a: mp.exp(-abs(z)) / 2,
        lambda z, a: mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2,
    ),
    "exponential": (
        lambda t, a: -mp.log(1 - mpf(t)),
        zero_below(0.0, lambda z, a: mp.exp(-z)),
        zero_below(0.0, lambda z, a: -mp.expm1(-z)),
    ),
    "uniform": (
        lambda t, a: mpf(t),
        lambda z, a: mpf(1) if 0 < z < 1 else mpf(0),
        lambda z, a: min(max(z, mpf(0)), mpf(1)),
    ),
    "logistic": (
        lambda t, a: mp.log(mpf(t) / (1 - mpf(t))),
        lambda z, a: mp.exp(-z) / (1 + mp.exp(-z)) ** 2,
        lambda z, a: 1 / (1 + mp.exp(-z)),
    ),
    "student_t": (constants.student_quantile, student_density, student_cdf),
    "bimodal": (
        lambda t, a: constants.bimodal_quantile(t),
        lambda z, a: (mp.npdf(z - APART) + mp.npdf(z + APART)) / 2,
        lambda z, a: (mp.ncdf(z - APART) + mp.ncdf(z + APART)) / 2,
    ),
    "lognormal": (
        lambda t, a: mp.exp(mpf(a) * mp.sqrt(2) * mp.erfinv(2 * mpf(t) - 1)),
        zero_below(0.0, lambda z, a: mp.npdf(mp.log(z) / a) / (z * a)),
        zero_below(0.0, lambda z, a: mp.ncdf(mp.log(z) / mpf(a))),
    ),
    "weibull": (
        lambda t, a: (-mp.log(1 - mpf(t))) ** (1 / mpf(a)),
        zero_below(0.0, lambda z, a: a * z ** (mpf(a) - 1) * mp.exp(-(z ** mpf(a)))),
        zero_below(0.0, lambda z, a: -mp.expm1(-(z ** mpf(a)))),
    ),
    "pareto": (
        lambda t, a: (1 - mpf(t)) ** (-1 / mpf(a)),
        zero_below(1.0, lambda z, a: a * z ** (-mpf(a) - 1)),
        zero_below(1.0, lambda z, a: 1 - z ** -mpf(a)),
    ),
    "gamma": (
        gamma_quantile,
        zero_below(0.0, lambda z, a: z ** (mpf(a) - 1) * mp.exp(-z) / mp.gamma(mpf(a))),
        zero_below(0.0, lambda z, a: mp.gammainc(mpf(a), 0, z, regularized=True)),
    ),
}
"""Quantile at t, density at z and P(Z <= z) of the bundled laws. The parameter a is df or shape."""


class DataLaw(Settings, StandardLaw):
    """Base class of a plug-in's law of Z. Records of ``Quantile(law="my_law")`` are ``location + scale * Z``.

    A subclass may have one setting, ``shape``, with a default and bounds. Its module has the kernel function
    ``sample(base, shape)`` that makes Z from one draw of the law ``base``. Without a setting the argument
    ``shape`` is 0. Arguments and results of ``cdf`` and ``density`` are mpmath numbers of 40 digits or more.

    Attributes
    ----------
    base : str
        Name in ``ldpflow.numerics.samplers.SAMPLERS``, for example ``uniform`` for (0, 1), or ``normal``.
    """

    group: ClassVar[str] = "law"

    base: ClassVar[str] = "uniform"


DATA_LAWS: dict[str, type[DataLaw]] = {}
"""Laws of plug-ins, by kind."""
