"""Empirical risk minimisation over one data set that is visited many times.

    F(w) = (1/N) sum_i f(w, (x_i, y_i)),   f(w, (x, y)) = l(<w, x>, y) + sum_j h(w_j)

A one-pass problem draws a record per step and knows its true parameter; here the N records are fixed
beforehand, there is no true parameter, and what is asked for is a point with a small gradient of F. A
synthetic data set is a replicate's own; a file's is shared by all replicates.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ldpflow.problems.laws import Variate
from ldpflow.problems.problem import BaseProblem
from ldpflow.problems.tables import identified, read_records
from ldpflow.settings import Parameters, canonical_json


class FiniteSumProblem(BaseProblem):
    """A smooth loss of a linear score, and the records it is averaged over.

    The module that defines a problem also holds its kernel functions, plain Python: ``loss(u, y,
    problem)`` and its ``derivative`` in u, and where it has a regulariser ``separable_loss(w, y, problem)``
    and its derivative ``separable`` (h and h', of one coordinate).

    Parameters
    ----------
    d : int
        Coordinates of a synthetic record; a file says its own.
    bound : float
        Euclidean norm to which every record's x is scaled. (Row by row: it costs no privacy.)
    file : str, optional
        A Parquet or CSV file of records instead of synthetic ones.
    target : str, optional
        The file's column y; the other columns, or those named in ``features``, are x.
    features : tuple of str, optional
        Columns of the file that make x; all but the target unless given.
    sha256 : str, optional
        Digest of the file, filled in when it is first read and checked afterwards: results name the
        data they come from.
    """

    d: Annotated[int, Field(ge=1, le=256)] = 10
    bound: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    file: str | None = None
    target: str | None = None
    features: tuple[str, ...] | None = None
    sha256: str | None = None

    @model_validator(mode="after")
    def check_file(self) -> Self:
        found = identified(self.file, self.target, self.features, self.sha256, self.d)
        if found is not None:
            for name, value in zip(("sha256", "d"), found, strict=True):
                object.__setattr__(self, name, value)
        return self

    @property
    def dimension(self) -> int:
        """Number d of coordinates of w."""
        return self.d

    @property
    @abstractmethod
    def labels(self) -> Literal["binary", "real"]:
        """Kind of the response y: -1 or 1, or any number."""

    @abstractmethod
    def lipschitz_of_loss(self) -> float:
        """G: sup ||grad l||, all that privacy needs, because h cancels between neighbours."""

    @abstractmethod
    def smoothness_of_loss(self) -> float:
        """L: Lipschitz constant of grad l, all that privacy needs."""

    def lipschitz(self) -> float:
        """sup ||grad f||, h included."""
        return self.lipschitz_of_loss()

    def smoothness(self) -> float:
        """Lipschitz constant of grad f, h included."""
        return self.smoothness_of_loss()

    def gap(self) -> float | None:
        """An upper bound of F(0) - inf F over all data, or None where there is none."""
        return None

    def convex(self) -> bool:
        """Whether F is convex, so that its minimum, and the excess risk, can be computed."""
        return False

    def variates(self) -> tuple[Variate, ...]:
        """Standard variates that one synthetic record takes, in the order of their planes."""
        last = Variate("uniform") if self.labels == "binary" else Variate("student_t", 2.0)
        return (*(Variate("normal") for _ in range(self.d)), last)

    @abstractmethod
    def data_parameters(self) -> Parameters:
        """Argument ``law`` of the synthetic law's kernel function (see ldpflow.problems.synthetic)."""

    def kernel_parameters(self) -> Parameters:
        """Argument ``problem`` of the loss functions."""
        return {}

    @cached_property
    def records(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """x of shape (N, d), scaled to the bound, and y of shape (N,), of the file."""
        assert self.file is not None and self.target is not None
        return read_records(self.file, self.target, self.features, self.bound, self.labels)

    def largest_n(self) -> int | None:
        """Number of records of the file; None where they are synthetic."""
        return None if self.file is None else len(self.records[1])

    def data_key(self) -> str:
        """Key of the ``data`` streams: problems with the same law of records share their data."""
        return canonical_json(self.data_settings())

    def data_settings(self) -> dict[str, Any]:
        """The settings that the synthetic data follow from."""
        return {"law": self.labels, "d": self.d, "parameters": list(self.data_parameters().values())}


def separable_loss(w, y, problem):  # type: ignore[no-untyped-def]
    """No regulariser."""
    return 0.0


def separable(w, y, problem):  # type: ignore[no-untyped-def]
    """No regulariser."""
    return 0.0
