"""Unit of a study: location and scale in whose multiples its steps and its start are given."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ldpflow.settings import Checked


class Units(Checked):
    """Location and scale in which a study gives its steps and its start.

    A step constant c means c ``scale``, a start theta0 means ``location`` + ``scale`` theta0, in the unit of
    the data. Path, key, iterates and intervals are those of a study that gives these numbers itself.

    Parameters
    ----------
    location : float
        Unit of the data.
    scale : float > 0
        Unit of the data, for example the interquartile range of a pilot.
    """

    location: Annotated[float, Field(ge=-1e100, le=1e100)] = 0.0
    scale: Annotated[float, Field(ge=1e-100, le=1e100)] = 1.0

    def place(self, value: float) -> float:
        """A place such as theta0, in the unit of the data."""
        return self.location + self.scale * value

    def size(self, value: float) -> float:
        """A distance or a step constant, in the unit of the data."""
        return self.scale * value

    def back(self, value: float) -> float:
        """A place in the unit of the data as a study in this unit writes it."""
        return (value - self.location) / self.scale

    def written(self) -> dict[str, Any]:
        """As a study file has it."""
        return self.model_dump()
