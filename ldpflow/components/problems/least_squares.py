"""Linear regression with squared loss: y = <x, w*> + sigma z, F(w) = E (y - <x, w>)^2 / 2.

The gradient of a record is x (<x, w> - y), which is unbounded. The excess risk is ||w - w*||_H^2 / 2, where
H is E x x'. The coordinates of synthetic x are independent with mean 0 and variance lambda_j. So H is
diag(lambda). With a file the population is the file: w* is its least squares solution, and H has its second
moments. A replicate uses the records in a random order, each at most once.

Source of the constants: Varshney, Thakurta and Jain (2022), "(Nearly) optimal private linear regression via
adaptive clipping", Section 2. Its R_x^2 = d for N(0, I) should be d + 2.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.components.problems.file_rows import MOST_ROWS, check_independent, mean, second_moments, solve
from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import Matrix, Problem, diagonal, scale_matrix
from ldpflow.components.problems.tables import identify_file, read_columns
from ldpflow.numerics import constants
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.settings import Parameters, canonical_json

LAWS = {  # sampler, factor that makes the variance 1, fourth moment with this factor
    "normal": ("normal", 1.0, 3.0),
    "uniform": ("symmetric_uniform", math.sqrt(3.0), 1.8),
    "rademacher": ("rademacher", 1.0, 1.0),
    "laplace": ("laplace", math.sqrt(0.5), 6.0),
}


class LeastSquares(Problem):
    """Linear regression without intercept and with squared loss.

    Parameters
    ----------
    d : int
        Coordinates of a synthetic record. For a file it is the number of its columns x.
    kappa : float >= 1
        Condition number: the eigenvalues of the covariance of x fall geometrically from 1 to 1/kappa.
    eigenvalues : tuple of float, optional
        Eigenvalues lambda of the covariance of x, in place of d and kappa.
    norm : float
        Euclidean norm of the true coefficients w*. Every coordinate of w* is norm / sqrt(d).
    coefficients : tuple of float, optional
        True coefficients w*, in place of norm.
    sigma : float >= 0
        Standard deviation of y given x.
    design : str
        Law of the coordinates of x.
    errors : str
        Law of z.
    file : str, optional
        Parquet or CSV file with the records. Without it records are synthetic.
    target : str, optional
        Column y of the file.
    features : tuple of str, optional
        Columns of the file that make x, all but the target by default.
    sha256 : str, optional
        Digest of the file. It is filled in when the file is first read, and then checked.
    """

    cites: ClassVar = ("varshney2022",)
    kind: Literal["least_squares"] = "least_squares"
    d: Annotated[int, Field(ge=1, le=64)] = 10
    kappa: Annotated[float, Field(ge=1, le=1e6)] = 1.0
    eigenvalues: (
        Annotated[tuple[Annotated[float, Field(ge=1e-6, le=1e6)], ...], Field(min_length=1, max_length=64)]
        | None
    ) = None
    norm: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    coefficients: Annotated[tuple[float, ...], Field(min_length=1, max_length=64)] | None = None
    sigma: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    design: Literal["normal", "uniform", "rademacher", "laplace"] = "normal"
    errors: Literal["normal", "uniform", "rademacher", "laplace"] = "normal"
    file: str | None = None
    target: str | None = None
    features: tuple[str, ...] | None = None
    sha256: str | None = None

    @model_validator(mode="after")
    def check(self) -> Self:
        identity = identify_file(self, 64)
        if identity is None:
            if self.eigenvalues is not None:
                if self.kappa != 1.0:
                    raise ValueError("give eigenvalues or kappa, not both")
                self.__dict__["d"] = len(self.eigenvalues)
            if self.coefficients is not None and len(self.coefficients) != self.d:
                raise ValueError(f"coefficients must have {self.d} values, one per coordinate")
            return self
        if self.eigenvalues is not None or self.coefficients is not None or self.kappa != 1.0:
            raise ValueError("a file has its own eigenvalues and coefficients")
        self.__dict__["sha256"], self.__dict__["d"] = identity
        return self

    @property
    def dimension(self) -> int:
        return self.d

    def data_key(self) -> str:
        """Key without sigma, w* and H. Problems that differ in these have the same standard variates."""
        simulated = ("kind", "d", "design", "errors")
        names = simulated if self.file is None else ("sha256", "target", "features")
        return canonical_json({name: getattr(self, name) for name in names})

    @cached_property
    def lambdas(self) -> tuple[float, ...]:
        """Diagonal of H of a synthetic design."""
        if self.eigenvalues is not None:
            return self.eigenvalues
        with constants.workdps(40):
            steps = max(self.d - 1, 1)
            return tuple(float(mpf(self.kappa) ** (-mpf(j) / steps)) for j in range(self.d))

    def truth(self) -> tuple[float, ...]:
        if self.file is not None:
            return self.population.truth
        if self.coefficients is not None:
            return self.coefficients
        with constants.workdps(40):
            return (float(mpf(self.norm) / mp.sqrt(self.d)),) * self.d

    def variates(self) -> tuple[Variate, ...]:
        return (*(Variate(LAWS[self.design][0]),) * self.d, Variate(LAWS[self.errors][0]))

    def kernel_parameters(self) -> Parameters:
        if self.file is not None:  # the table has x and y - <x, w*>
            return {"error_scale": 1.0, "scales": (1.0,) * self.d, "coefficients": self.truth()}
        unit = LAWS[self.design][1]
        return {
            "error_scale": self.sigma * LAWS[self.errors][1],
            "scales": tuple(unit * math.sqrt(value) for value in self.lambdas),
            "coefficients": self.truth(),
        }

    def l1_sensitivity(self) -> float:
        return math.inf

    def l2_sensitivity(self) -> float:
        return math.inf

    def curvature(self) -> Matrix:
        if self.file is not None:
            return self.population.moments
        return diagonal(self.lambdas)

    def exact_hessian(self) -> Matrix:
        return self.curvature()

    def gradient_covariance(self) -> Matrix:
        return scale_matrix(self.curvature(), self.error_variance())

    # Constants that the paper's algorithms take as known. For a file, Tr H, eigenvalues of H and R_x^2 are
    # rounded to three digits, so that they are equal on every machine.

    def error_variance(self) -> float:
        return self.population.variance if self.file is not None else self.sigma * self.sigma

    def kurtosis(self) -> float:
        """E x_j^4 / lambda_j^2 for a synthetic design."""
        return LAWS[self.design][2]

    def tail(self) -> tuple[float, float]:
        """K_2 and a of the paper's tail condition.

        If a law is laplace, a is 1, and E exp(|v|/K_2) is 2 for a Laplace v with variance 1. Otherwise a is
        1/2, and E exp(v^2/K_2^2) is 2 for a normal v and smaller for the bounded laws.
        """
        heavy = "laplace" in (self.design, self.errors)
        return (math.sqrt(2.0), 1.0) if heavy else (math.sqrt(8.0 / 3.0), 0.5)

    def trace(self) -> float:
        return self.population.trace if self.file is not None else math.fsum(self.lambdas)

    def largest(self) -> float:
        """||H||, the largest eigenvalue of H."""
        return self.population.largest if self.file is not None else max(self.lambdas)

    def smallest(self) -> float:
        """Least eigenvalue of H, mu in the paper."""
        return self.population.smallest if self.file is not None else min(self.lambdas)

    def radius_square(self) -> float:
        """R_x^2, the least R^2 with E ||x||^2 x x' <= R^2 H."""
        if self.file is not None:
            return self.population.radius_square
        return self.trace() + (self.kurtosis() - 1.0) * self.largest()

    def signal(self) -> float:
        """||w*||_H."""
        w, h = self.truth(), self.curvature()
        d = range(self.d)
        return math.sqrt(max(0.0, math.fsum(w[i] * h[i][j] * w[j] for i in d for j in d)))

    def stored_records(self) -> int:
        return 0 if self.file is None else len(self.population.table)

    def table(self) -> NDArray[np.float64]:
        return self.population.table

    @cached_property
    def population(self) -> FileMoments:
        assert self.file is not None and self.target is not None
        columns, y = read_columns(self.file, self.target, self.features, MOST_ROWS)
        return FileMoments(columns, y, self.file)


class FileMoments:
    """Least squares solution of all records of a file, and constants of the file."""

    def __init__(self, columns: list[NDArray[np.float64]], y: NDArray[np.float64], file: str) -> None:
        moments = second_moments(columns, np.ones(len(y)))
        low, high = check_independent(moments, "problem.file", file)
        solution = solve(moments, [mean(column * y) for column in columns])
        assert solution is not None  # the columns are independent
        self.truth = tuple(solution)
        rest = y.copy()
        square = np.zeros(len(y))
        for column, value in zip(columns, self.truth, strict=True):
            rest = rest - column * value
            square = square + column * column
        self.table = np.ascontiguousarray(np.column_stack([*columns, rest]))
        self.moments: Matrix = moments
        self.variance = mean(rest * rest)
        self.trace = round_to_three_digits(mean(square), math.ceil)
        self.largest = round_to_three_digits(high, math.ceil)
        self.smallest = round_to_three_digits(low, math.floor)
        x = np.column_stack(columns)
        fourth = np.linalg.solve(np.array(moments), (x * square[:, None]).T @ x / len(y))
        largest = float(np.max(np.linalg.eigvals(fourth).real))
        self.radius_square = round_to_three_digits(largest, math.ceil)


def round_to_three_digits(value: float, towards: Any) -> float:
    unit = 10 ** (math.floor(math.log10(value)) - 2)
    return float(f"{towards(value / unit * (1 - 1e-9)) * unit:.3g}")


def residual(kernel, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """<x, theta> - y. The last variate is the error."""
    r = -problem.error_scale * data[kernel.D * STRIDE + at]
    for j in range(kernel.D):
        r += feature(j, data, at, problem) * (theta[j * LANES + lane] - problem.coefficients[j])
    return r


def feature(j, data, at, problem):  # type: ignore[no-untyped-def]
    return problem.scales[j] * data[j * STRIDE + at]


def square_norm(kernel, data, at, problem):  # type: ignore[no-untyped-def]
    square = 0.0
    for j in range(kernel.D):
        x = feature(j, data, at, problem)
        square += x * x
    return square


def gradient(kernel, g, theta, data, at, lane, problem):  # type: ignore[no-untyped-def]
    """x (<x, theta> - y)."""
    r = residual(kernel, theta, data, at, lane, problem)
    for j in range(kernel.D):
        g[j * LANES + lane] = r * feature(j, data, at, problem)
