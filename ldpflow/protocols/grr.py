"""Generalised randomised response over the bins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ldpflow.protocols.protocol import OneShot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Grr"]


class Grr(OneShot):
    """The user sends the own bin with probability e^eps/(e^eps + k - 1), else a uniform other one.

    Wang, Blocki, Li and Jha (2017).
    """

    kind: Literal["grr"] = "grr"

    def bits(self, n: int) -> float:
        return self.answers * math.log2(self.bins(n))

    def middle_variance(self, k: int) -> float:
        b = self.budget()
        width = (b.odds + k - 1.0) / b.excess
        return 0.25 + 0.25 * (width * width - 1.0) / b.answers

    def channel(self, k: int) -> NDArray[np.float64]:
        import numpy as np

        b = self.budget()
        matrix = np.full((k, k), 1.0 / (b.odds + k - 1.0))
        np.fill_diagonal(matrix, b.odds / (b.odds + k - 1.0))
        return matrix

    def kernels(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        from ldpflow.protocols.counts.grr import draw_grr, spread_grr

        return draw_grr, spread_grr

    def design(self, cdf: NDArray[np.float64], target: int) -> Any:
        from ldpflow.protocols.counts.grr import GrrDesign

        b = self.budget()
        k = len(cdf) - 1
        chances = (1.0 + bin_probabilities(cdf) * b.excess) / (b.odds + k - 1.0)
        return GrrDesign(chances, bin_probabilities(cdf), 0 if self.raises_cdf() else k - 1)


def bin_probabilities(cdf: NDArray[np.float64]) -> NDArray[np.float64]:
    """Increments of a distribution function; rounding below 0 is cut off."""
    import numpy as np

    return np.maximum(np.diff(cdf), 0.0)
