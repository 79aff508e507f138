"""Optimised unary encoding of the bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ldpflow.protocols.budget import Budget
from ldpflow.protocols.grr import bin_probabilities
from ldpflow.protocols.protocol import OneShot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Oue", "unary_channel"]


class Oue(OneShot):
    """k bits: the own bin's is 1 with probability 1/2, each other with 1/(e^eps + 1).

    Wang, Blocki, Li and Jha (2017). OLH has the same law of errors to first order.
    """

    kind: Literal["oue"] = "oue"

    def bits(self, n: int) -> float:
        return float(self.answers * self.bins(n))

    def middle_variance(self, k: int) -> float:
        b = self.budget()
        return 0.25 + 0.25 * (1.0 + b.noise * k) / b.answers

    def channel(self, k: int) -> NDArray[np.float64]:
        return unary_channel(k, self.budget())

    def kernels(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        from ldpflow.protocols.counts.oue import draw_oue, spread_oue

        return draw_oue, spread_oue

    def design(self, cdf: NDArray[np.float64], target: int) -> Any:
        import numpy as np

        from ldpflow.protocols.counts.oue import OueDesign

        below = np.arange(len(cdf) - 1) < target
        lie = below if self.raises_cdf() else ~below
        return OueDesign(bin_probabilities(cdf), lie.astype(np.float64))


def unary_channel(k: int, b: Budget) -> NDArray[np.float64]:
    """Probabilities of the 2^k reports given the bin; report y has bit j where (y >> j) & 1."""
    import numpy as np

    ones = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    matrix = np.empty((k, 2**k))
    for own in range(k):
        chance = np.full(k, b.flip)
        chance[own] = 0.5
        matrix[own] = np.prod(np.where(ones, chance, 1.0 - chance), axis=1)
    return matrix
