"""Empirical risk minimisation over one data set that is visited many times.

    F(w) = (1/N) sum_i f(w, (x_i, y_i)),   f(w, (x, y)) = l(<w, x>, y) + sum_j h(w_j)

There is no true parameter. The aim is a point w with a small gradient of F. Each replicate has its own
synthetic data set, but a file is shared by all replicates. Each x is scaled to the norm ``bound``.

There are two laws of synthetic records, with z ~ N(0, I):

* binary: x = z + y separation u, with u = (1, ..., 1) / sqrt(d) or u = (1, 0, ..., 0). The label y is -1 or
  1. After x is made, y is flipped with probability ``label_noise``.
* real: x = z and y = <x, beta> + scale e, with beta = (1, -1, 1, ...) signal / bound. e has Student's t law
  with 2 degrees of freedom, whose variance is infinite.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.components.problems.laws import Variate
from ldpflow.components.problems.problem import BaseProblem
from ldpflow.components.problems.tables import identify_file, read_records
from ldpflow.numerics.streams import CHUNK, LANES, STRIDE
from ldpflow.settings import Parameters, canonical_json


class FiniteSumProblem(BaseProblem):
    """A smooth loss of <w, x>, averaged over records.

    The module of a problem has its kernel functions, plain Python. With u = <w, x>, ``loss(u, y, problem)``
    is l, and ``derivative(u, y, problem)`` is its derivative in u. A problem with a regulariser also has
    ``separable_loss(w, y, problem)`` for h and ``separable(w, y, problem)`` for h', with one coordinate w.

    Parameters
    ----------
    d : int
        Coordinates of a synthetic record. For a file it is the number of its columns x.
    bound : float
        Euclidean norm to which x of every record is scaled.
    file : str, optional
        Parquet or CSV file with the records. Without it records are synthetic.
    target : str, optional
        Column y of the file.
    features : tuple of str, optional
        Columns of the file that make x, all but the target by default.
    sha256 : str, optional
        Digest of the file. It is filled in when the file is first read, and then checked.
    """

    labels: ClassVar[Literal["binary", "real"]]  # y is -1 or 1, or any number

    d: Annotated[int, Field(ge=1, le=256)] = 10
    bound: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    file: str | None = None
    target: str | None = None
    features: tuple[str, ...] | None = None
    sha256: str | None = None

    @model_validator(mode="after")
    def check_file(self) -> Self:
        identity = identify_file(self)
        if identity is not None:
            self.__dict__["sha256"], self.__dict__["d"] = identity
        return self

    @property
    def dimension(self) -> int:
        return self.d

    @abstractmethod
    def lipschitz_of_loss(self) -> float:
        """G = sup ||grad l||. Privacy depends on l alone: h is equal for neighbouring data sets."""

    @abstractmethod
    def smoothness_of_loss(self) -> float:
        """L, the Lipschitz constant of grad l."""

    def lipschitz(self) -> float:
        """sup ||grad f||."""
        return self.lipschitz_of_loss()

    def smoothness(self) -> float:
        """Lipschitz constant of grad f."""
        return self.smoothness_of_loss()

    def gap(self) -> float | None:
        """An upper bound of F(0) - inf F over all data sets, or None."""
        return None

    def convex(self) -> bool:
        """Whether F is convex. Then its minimum and the excess risk can be computed."""
        return False

    def variates(self) -> tuple[Variate, ...]:
        last = Variate("uniform") if self.labels == "binary" else Variate("student_t", 2.0)
        return (*(Variate("normal") for _ in range(self.d)), last)

    @abstractmethod
    def data_parameters(self) -> Parameters:
        """Argument ``law`` of :func:`binary_record` or :func:`real_record`."""

    def kernel_parameters(self) -> Parameters:
        return {}

    @cached_property
    def records(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x of shape (N, d), scaled to the norm ``bound``, and y of shape (N,) of the file."""
        assert self.file is not None and self.target is not None
        return read_records(self.file, self.target, self.features, self.bound, self.labels)

    def data_key(self) -> str:
        parameters = list(self.data_parameters().values())
        return canonical_json({"law": self.labels, "d": self.d, "parameters": parameters})


def separable_loss(w, y, problem):  # type: ignore[no-untyped-def]
    return 0.0


def separable(w, y, problem):  # type: ignore[no-untyped-def]
    return 0.0


class BinaryProblem(FiniteSumProblem):
    """Labels -1 and 1, and a loss of the margin y <w, x>.

    Parameters
    ----------
    separation : float
        Norm of the mean of x in each class, before x is scaled. The coordinates of z have variance 1.
    direction : str
        Direction of the means. ``diagonal``: (1, ..., 1). ``axis``: the first coordinate.
    label_noise : float in [0, 1]
        Probability that a synthetic label is flipped.
    """

    labels: ClassVar = "binary"
    separation: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    direction: Literal["diagonal", "axis"] = "diagonal"
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.1

    def data_parameters(self) -> Parameters:
        if self.direction == "axis":
            first, others = self.separation, 0.0
        else:
            first = others = self.separation / math.sqrt(self.d)
        return {"bound": self.bound, "first": first, "others": others, "label_noise": self.label_noise}

    def data_key(self) -> str:
        if self.direction == "axis":
            return super().data_key()
        # Earlier versions had this direction alone. Their data keys remain.
        parameters = [self.bound, self.data_parameters()["first"], self.label_noise]
        return canonical_json({"law": self.labels, "d": self.d, "parameters": parameters})


def binary_record(kernel, x, data, at, law):  # type: ignore[no-untyped-def]
    v = data[kernel.D * STRIDE + at]
    y = 1.0 if v < 0.5 else -1.0
    square = 0.0
    for j in range(kernel.D):
        x[j] = data[j * STRIDE + at] + y * (law.first if j == 0 else law.others)
        square += x[j] * x[j]
    scale = law.bound / np.sqrt(square)
    for j in range(kernel.D):
        x[j] *= scale
    rest = 2.0 * v if v < 0.5 else 2.0 * v - 1.0
    return -y if rest < law.label_noise else y


def real_record(kernel, x, data, at, law):  # type: ignore[no-untyped-def]
    square = 0.0
    for j in range(kernel.D):
        x[j] = data[j * STRIDE + at]
        square += x[j] * x[j]
    scale = law.bound / np.sqrt(square)
    y = 0.0
    sign = 1.0
    for j in range(kernel.D):
        x[j] *= scale
        y += sign * x[j]
        sign = -sign
    return law.signal * y + law.error_scale * data[kernel.D * STRIDE + at]


def all_records(kernel, state, variates, law, n, rows, targets):  # type: ignore[no-untyped-def]
    """Draw n records of every lane. ``rows`` is flat over (lane, record, coordinate)."""
    data = np.empty(kernel.DATA_PLANES * STRIDE)
    for i in range(n):
        if i % CHUNK == 0:
            kernel.draw_data(state, variates, data)
        for lane in range(LANES):
            place = lane * n + i
            x = rows[place * kernel.D : (place + 1) * kernel.D]
            targets[place] = kernel.record(x, data, (i % CHUNK) * LANES + lane, law)
