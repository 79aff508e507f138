"""A law of data as arrays, in the form that a compiled distribution function reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mpmath import mpf

from ldpflow import constants

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ldpflow.problems.laws import Law

__all__ = ["CODES", "Population", "population_of"]

CODES = {
    "normal": 0,
    "laplace": 1,
    "exponential": 2,
    "uniform": 3,
    "logistic": 4,
    "student_t": 5,
    "bimodal": 6,
    "lognormal": 7,
    "weibull": 8,
    "pareto": 9,
    "gamma": 10,
    "empirical": 11,
}


class Population(NamedTuple):
    """The law of a mixture of location + scale Z: arrays over its components.

    Parameters
    ----------
    codes : ndarray of int64
        Standard laws, see CODES.
    weights, locations, scales : ndarray
        Weights sum to 1.
    shapes, norms : ndarray
        Parameter and norming constant of the standard law; 0 where it has none.
    p, q, slope, bend : ndarray
        Cells of the quantile function of an empirical law, q + d (slope + d bend) with d = u - p;
        empty where there is none.
    end : float
        Its largest value.
    """

    codes: NDArray[np.int64]
    weights: NDArray[np.float64]
    locations: NDArray[np.float64]
    scales: NDArray[np.float64]
    shapes: NDArray[np.float64]
    norms: NDArray[np.float64]
    p: NDArray[np.float64]
    q: NDArray[np.float64]
    slope: NDArray[np.float64]
    bend: NDArray[np.float64]
    end: float


def population_of(law: Law) -> Population:
    """The arrays of a law; the distribution function reads them (counts.population_cdf)."""
    import numpy as np

    from ldpflow.random.distributions import law_constants

    parts = law.parts() if law.components else [(1.0, law)]
    rows: list[tuple[float, ...]] = []
    cells: tuple[NDArray[np.float64], ...] = (np.empty(0),) * 4
    end = 0.0
    for weight, part in parts:
        with constants.workdps(constants.DIGITS):
            location, scale = float(mpf(part.location)), float(mpf(part.scale))
            if law.components:
                location = float(mpf(law.location) + mpf(law.scale) * mpf(part.location))
                scale = float(mpf(law.scale) * mpf(part.scale))
        shape, norm = (*law_constants(part.name, part.parameter), 0.0, 0.0)[:2]
        if part.table is not None:
            table = part.table
            cells = (table.p[:-1], table.q[:-1], table.s[:-1], table.r)
            end = float(table.q[-1])
        rows.append((float(weight), location, scale, shape, norm))
    weights, locations, scales, shapes, norms = np.array(rows).T.copy()
    codes = np.array([CODES[part.name] for _, part in parts], dtype=np.int64)
    p, q, slope, bend = (np.ascontiguousarray(c) for c in cells)
    return Population(codes, weights, locations, scales, shapes, norms, p, q, slope, bend, end)
