"""Base class of data laws from outside ldpflow: a standard variate Z, drawn from a bundled one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from ldpflow.problems.standard_laws import StandardLaw
from ldpflow.settings import Settings


class DataLaw(Settings, StandardLaw):
    """Law of a standard variate Z, for ``Quantile(law="my_law")``: records are ``location + scale * Z``.

    A subclass may declare one setting, ``shape``, with its default and its bounds. Its module holds the
    kernel function ``sample(base, shape)`` that makes Z from one draw of ``base``; a law without a shape
    gets 0 there.

    Attributes
    ----------
    base : str
        Law of the draw that Z is made from: ``uniform`` (on (0, 1)), ``normal``, ``exponential`` or another
        of ``ldpflow.random.samplers.SAMPLERS``.
    """

    group: ClassVar[str] = "law"

    base: ClassVar[str] = "uniform"

    @abstractmethod
    def cdf(self, z: Any) -> Any:
        """P(Z <= z); z is a number of mpmath with 40 digits, and so should be what is returned."""

    @abstractmethod
    def density(self, z: Any) -> Any:
        """Density of Z at z, 0 outside the support; numbers as in :meth:`cdf`."""


DATA_LAWS: dict[str, type[DataLaw]] = {}
"""Laws that plug-ins bring, by kind; those of ldpflow are in :mod:`ldpflow.problems.standard_laws`."""
