"""Laws of data and errors: quantile, density and distribution function of location + scale Z."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from mpmath import mpf
from numpy.typing import NDArray

from ldpflow.components.problems.column_law import ColumnLaw, Records
from ldpflow.components.problems.standard_laws import BundledLaw, DataLaw, StandardLaw, find_root
from ldpflow.numerics import constants


@dataclass(frozen=True)
class Variate:
    """Standard variate that a kernel draws: the name of a sampler and its parameter, df or shape.

    ``law`` is given if the variate needs a table, components or a law of a plug-in. ``role`` is the role of
    the stream if it is not that of the component: ``budgets`` for public randomness, ``position`` for the
    number of the draw.
    """

    name: str
    parameter: float = 0.0
    role: str | None = None
    law: Law | None = None


@dataclass(frozen=True)
class Component:
    """Law in a mixture, and its weight. The weights of a mixture need not sum to 1."""

    weight: float
    law: Law


@dataclass(frozen=True)
class Law:
    """The law of ``location + scale * Z``. These are the laws of Z, with a = ``shape``:

        normal        N(0, 1)
        laplace       density exp(-|x|)/2
        exponential   density exp(-x) for x > 0
        uniform       uniform on (0, 1)
        logistic      distribution function 1/(1 + exp(-x))
        student_t     Student's t with ``df`` degrees of freedom
        bimodal       N(-3/2, 1) or N(3/2, 1), each with probability 1/2
        lognormal     exp(a N) with N from N(0, 1)
        weibull       (-log U)^(1/a) with U uniform on (0, 1)
        pareto        U^(-1/a) with U uniform on (0, 1)
        gamma         density x^(a-1) exp(-x)/Gamma(a)
        mixture       one of ``components``, drawn with its weight
        empirical     smooth law of a column, in ``table``
        records       record of a column, drawn with replacement from ``table``

    A law of a plug-in is in ``own``.
    """

    name: str
    location: float = 0.0
    scale: float = 1.0
    df: float | None = None
    shape: float | None = None
    components: tuple[Component, ...] = ()
    table: ColumnLaw | Records | None = None
    own: DataLaw | None = None

    @property
    def parameter(self) -> float:
        return next((a for a in (self.df, self.shape) if a is not None), 0.0)

    @property
    def variate(self) -> Variate:
        composed = self.table is not None or bool(self.components) or self.own is not None
        standard = replace(self, location=0.0, scale=1.0, df=None, shape=None) if composed else None
        return Variate(self.name, self.parameter, law=standard)

    @cached_property
    def standard(self) -> StandardLaw:
        """Law of Z, for laws without ``table``."""
        if self.components:
            return Mixture(self.components)
        return self.own or BundledLaw(self.name, self.parameter)

    def standard_quantile(self, tau: float) -> float:
        with constants.workdps(40):
            return float((self.table or self.standard).quantile(mpf(tau)))

    def has_quantile(self, tau: float) -> bool:
        """Whether the tau-quantile is a finite double at which the density is positive."""
        try:
            return math.isfinite(self.quantile(tau)) and self.density_at_quantile(tau) > 0.0
        except (ZeroDivisionError, OverflowError):
            return False

    def quantile(self, tau: float) -> float:
        return self.location + self.scale * self.standard_quantile(tau)

    def density_at_quantile(self, tau: float) -> float:
        if self.table is not None:
            return 1.0 / (self.scale * self.table.sparsity(tau))
        z = self.standard_quantile(tau)
        if self.name == "bimodal":
            density = (constants.normal_density(z - 1.5) + constants.normal_density(z + 1.5)) / 2.0
            return density / self.scale
        with constants.workdps(40):
            return float(self.standard.density(mpf(z))) / self.scale

    def slope_at_quantile(self, tau: float) -> float:
        """Derivative of the density at the tau-quantile. At a kink it is the mean of both sides."""
        if self.table is not None:
            return self.table.slope(tau) / self.scale**2
        with constants.workdps(60):
            z, h = mpf(self.standard_quantile(tau)), mpf("1e-20")
            step = h * max(abs(z), mpf("1e-3"))
            change = self.standard.density(z + step) - self.standard.density(z - step)
            return float(change / (2 * step)) / self.scale**2

    def cdf_values(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(X <= x) for an array x, with an absolute error below 1e-12."""
        return (self.table or self.standard).cdf_values((x - self.location) / self.scale)


@dataclass(frozen=True)
class Mixture(StandardLaw):
    components: tuple[Component, ...]

    def parts(self) -> list[tuple[Any, Law]]:
        total = sum(mpf(part.weight) for part in self.components)
        return [(mpf(part.weight) / total, part.law) for part in self.components]

    def cdf(self, z: Any) -> Any:
        return sum(w * law.standard.cdf((z - law.location) / law.scale) for w, law in self.parts())

    def density(self, z: Any) -> Any:
        return sum(
            w * law.standard.density((z - law.location) / law.scale) / law.scale for w, law in self.parts()
        )

    def quantile(self, t: Any) -> Any:
        places = ((law, mpf(law.standard_quantile(float(t)))) for _, law in self.parts())
        ends = [law.location + mpf(law.scale) * z for law, z in places]
        low, high = min(ends), max(ends)
        # The ends are rounded. With the margin the root is between low and high.
        margin = mpf("1e-12") * (abs(low) + abs(high) + (high - low))
        return find_root(lambda z: self.cdf(z) - t, low - margin, high + margin)

    def cdf_values(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        total = math.fsum(part.weight for part in self.components)
        return np.asarray(sum(part.weight / total * part.law.cdf_values(z) for part in self.components))
