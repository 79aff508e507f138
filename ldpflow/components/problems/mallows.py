"""Regressions whose gradients are bounded by Mallows weights or by clipping, and their population constants.

A gradient g is s(x, y, theta) x with a bounded score s. Mallows weights u(x) = min(1, 2/||x||^2) make g
bounded. They do not move theta*, since E[s | x] = 0 at theta*. Clipping, g min(1, C0/||g||), makes g
bounded too, but in general it moves the root of the mean gradient. For covariates x ~ N(0, I_d), the radius
||x|| and the direction x/||x|| are independent, so each constant is an integral over a radius and an angle.
Constants are G, the derivative of the mean gradient at theta*, and S, the covariance of the gradient there.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
from mpmath import mp, mpf
from mpmath.calculus.quadrature import GaussLegendre
from pydantic import Field, model_validator

from ldpflow.components.problems.file_rows import MOST_ROWS, Fit, Floats, Rows
from ldpflow.components.problems.problem import Matrix, Problem
from ldpflow.components.problems.tables import check_digest, identify_file, read_columns
from ldpflow.errors import InputError
from ldpflow.numerics import constants
from ldpflow.settings import Setting, canonical_json

DIGITS = 30
ROWS_PER_COLUMN = 16  # a file needs more than so many rows for each column
NODES = 48  # Gauss-Legendre nodes per panel


class BoundedRegression(Problem):
    """A regression whose gradient is bounded in x.

    Parameters
    ----------
    coefficients : tuple of float
        theta*. Its length d is the dimension.
    bounding : str
        How the gradient is bounded: ``mallows`` by weights, ``clip`` by clipping.
    clip : float, optional
        C0, for ``bounding = "clip"`` alone.
    file : str, optional
        Parquet or CSV file. Records are its rows, drawn with replacement.
    target : str, optional
        Column y of the file.
    features : tuple of str, optional
        Columns of the file that make x, all but the target by default.
    sha256 : str, optional
        Digest of the file. It is filled in when the file is first read, and then checked.
    moments : str, optional
        theta*, G and S of the rows. They are filled in when the digest is.
    """

    coefficients: Annotated[tuple[float, ...], Field(min_length=1, max_length=64)] = (1.0,) * 5
    bounding: Literal["mallows", "clip"] = "mallows"
    clip: Annotated[float, Field(ge=1e-3, le=1e6)] | None = None
    file: Annotated[str, Setting(stored=False)] | None = None
    target: Annotated[str, Setting(stored=False)] | None = None
    features: Annotated[tuple[str, ...], Setting(stored=False)] | None = None
    sha256: str | None = None
    moments: Annotated[str, Setting(stored=False)] | None = None

    @model_validator(mode="after")
    def check_clip(self) -> Self:
        if (self.bounding == "clip") != (self.clip is not None):
            raise ValueError("clip must be given with bounding = 'clip' and not without it")
        if self.clip is not None and self.file is not None:
            raise ValueError("bounding = 'clip' has no file")
        return self

    @model_validator(mode="after")
    def check_rows(self) -> Self:
        values = self.__dict__
        if self.file is None and (self.sha256 is not None or self.moments is not None):
            raise ValueError("sha256 and moments go with file")
        if self.moments is None:
            identity = identify_file(self, 64)
            if identity is None:
                return self
            values["sha256"] = identity[0]
            rows = self.rows()
            squares = sum((column * column for column in rows.columns), np.zeros(len(rows.y)))
            weight = np.minimum(1.0, 2.0 / np.maximum(squares, 1e-300))
            values["moments"] = self.fit_of(rows, weight).text()
        elif self.sha256 is None:
            raise ValueError("moments go with sha256")
        try:
            fit = Fit.of_text(str(self.moments))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"moments: {error}") from None
        if self.coefficients not in (type(self).model_fields["coefficients"].default, fit.truth):
            raise ValueError("a file has its own coefficients")
        values["coefficients"] = fit.truth
        return self

    @property
    def fit(self) -> Fit | None:
        return None if self.moments is None else Fit.of_text(self.moments)

    def rows(self) -> Rows:
        assert self.file is not None and self.target is not None
        check_digest(self.file, self.sha256)
        columns, y = read_columns(self.file, self.target, self.features, MOST_ROWS)
        if len(y) <= (least := ROWS_PER_COLUMN * len(columns)):
            allowed = f"more than {least:,} records for {len(columns)} columns"
            raise InputError("problem.file", f"{len(y):,} records", allowed)
        return Rows([np.ascontiguousarray(column) for column in columns], y)

    @abstractmethod
    def fit_of(self, rows: Rows, weight: Floats) -> Fit:
        """theta*, G and S of the rows of a file with weights u."""

    @abstractmethod
    def last_column(self, rows: Rows) -> Floats:
        """Last column of the kernel's table. The others are those of x."""

    @abstractmethod
    def moment(self, power: int) -> Matrix:
        """G (power 1) or S (power 2) for simulated records."""

    def curvature(self) -> Matrix:
        fit = self.fit
        return self.moment(1) if fit is None else fit.curvature

    def gradient_covariance(self) -> Matrix:
        fit = self.fit
        return self.moment(2) if fit is None else fit.covariance

    def stored_records(self) -> int:
        fit = self.fit
        return 0 if fit is None else fit.size

    def with_replacement(self) -> bool:
        return True

    @lru_cache(maxsize=4)  # noqa: B019 (tables are large)
    def table(self) -> Floats:
        rows = self.rows()
        return np.column_stack([*rows.columns, self.last_column(rows)])

    def key_settings(self) -> dict[str, Any]:
        """Settings of the path key, without coefficients that follow from a file."""
        found = super().key_settings()
        return found if self.file is None else {k: v for k, v in found.items() if k != "coefficients"}

    def data_key(self) -> str:
        if self.file is None:
            return super().data_key()
        return canonical_json({name: getattr(self, name) for name in ("sha256", "target", "features")})

    @classmethod
    def complete_axes(cls, axes: Mapping[str, tuple[Any, ...]]) -> Mapping[str, tuple[Any, ...]]:
        """Add digest, coefficients and moments of a file, unless an axis has several values."""
        read = axes.get("file", (None,)) == (None,) or axes.get("moments", (None,)) != (None,)
        if read or any(len(values) != 1 for values in axes.values()):
            return axes
        problem = cls(**{name: values[0] for name, values in axes.items()})
        names = ("coefficients", "sha256", "moments")
        return {**axes, **{name: (getattr(problem, name),) for name in names}}

    def truth(self) -> tuple[float, ...]:
        return self.coefficients

    @abstractmethod
    def gradient_bound(self) -> float:
        """C0 with ||g||_2 <= C0."""

    def l1_sensitivity(self) -> float:
        return 2.0 * self.gradient_bound() * math.sqrt(self.dimension)

    def l2_sensitivity(self) -> float:
        return 2.0 * self.gradient_bound()


@cache
def gauss_legendre() -> Any:
    with constants.workdps(DIGITS):
        return GaussLegendre(mp).calc_nodes(5, mp.prec)


def integral(f: Callable[[Any], Any], cuts: list[Any]) -> Any:
    """Integral of a function from the first cut to the last. It must be smooth between cuts."""
    total = mpf(0)
    for low, high in pairwise(cuts):
        half, middle = (high - low) / 2, (high + low) / 2
        total += half * sum(w * f(middle + half * x) for x, w in gauss_legendre())
    return total


def radial_mean(d: int, f: Callable[[Any], Any], kink: float) -> Any:
    """E f(||x||) for x ~ N(0, I_d) with mpmath. f need not be smooth at the radius ``kink``."""
    # Beyond sqrt(d) + 11 the density of ||x|| is below 1e-25 of its peak.
    last = mp.sqrt(d) + 11
    cuts = sorted({mpf(0), min(mpf(kink), last), *(last * mpf(i) / 5 for i in range(1, 6))})
    scale = 2 ** (1 - mpf(d) / 2) / mp.gamma(mpf(d) / 2)
    return integral(lambda r: scale * r ** (d - 1) * mp.exp(-r * r / 2) * f(r), cuts)


def weight(r: Any) -> Any:
    """u = min(1, 2/r^2)."""
    return min(mpf(1), 2 / r**2)


def along_and_across(d: int, f: Callable[[Any, Any], Any], kink: float) -> tuple[Any, Any]:
    """Eigenvalues of E f(r, t) x x' along a direction and across it, for x ~ N(0, I_d) and f even in t.

    r is ||x||, and t is the cosine of the angle between x and the direction. The eigenvalues are E f r^2 t^2
    and E f r^2 (1 - t^2)/(d - 1).
    """
    if d == 1:
        return radial_mean(1, lambda r: f(r, mpf(1)) * r**2, kink), mpf(0)
    scale = mp.gamma(mpf(d) / 2) / (mp.sqrt(mp.pi) * mp.gamma(mpf(d - 1) / 2))
    quarter = [mpf(0), mp.pi / 2]

    def ring(r: Any, across: bool) -> Any:
        def at(angle: Any) -> Any:
            t = mp.cos(angle)
            square = (1 - t * t) / (d - 1) if across else t * t
            return 2 * scale * mp.sin(angle) ** (d - 2) * f(r, t) * square

        return r**2 * integral(at, quarter)

    return radial_mean(d, lambda r: ring(r, False), kink), radial_mean(d, lambda r: ring(r, True), kink)


def mean_along(d: int, f: Callable[[Floats, Floats], Floats], kink: float) -> float:
    """E f(r, t) r^2 t^2 in double precision, see :func:`along_and_across`. f takes arrays."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    last = math.sqrt(d) + 11
    cuts = np.unique([0.0, kink, *(last * i / 5 for i in range(1, 6))])
    half = np.diff(cuts)[:, None] / 2
    r = (cuts[:-1, None] + half * (1 + nodes)).reshape(-1, 1)
    density = 2 ** (1 - d / 2) / math.gamma(d / 2) * r ** (d - 1) * np.exp(-(r**2) / 2)
    ring = density * (half * weights).reshape(-1, 1) * r**2
    if d == 1:
        return float((ring * f(r, np.ones((1, 1)))).sum())
    angle = math.pi / 4 * (1 + nodes)[None, :]
    t = np.cos(angle)
    scale = 2 * math.gamma(d / 2) / (math.sqrt(math.pi) * math.gamma((d - 1) / 2))
    around = scale * np.sin(angle) ** (d - 2) * t**2 * (math.pi / 4 * weights)[None, :]
    return float((ring * around * f(r, t)).sum())


def bounded(score, square, clip):  # type: ignore[no-untyped-def]
    """Score of a bounded gradient. ``square`` is ||x||^2, and ``clip`` is C0, or 0 for Mallows weights."""
    if clip > 0.0:
        # The quotient is infinite if the score is 0.
        return score * min(1.0, clip / (np.abs(score) * np.sqrt(square)))
    return score * min(1.0, 2.0 / square)
