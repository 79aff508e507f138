"""One bit per user about a random threshold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from ldpflow.protocols.protocol import OneShot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Thresholds"]


class Thresholds(OneShot):
    """A public coin picks one of the inner edges; the user sends RR of 1{value below it}.

    Warner (1965) for the bit. n Var F^(t) = (k - 1) S(F, eps).
    """

    kind: Literal["thresholds"] = "thresholds"

    def bits(self, n: int) -> float:
        return float(self.answers)

    def middle_variance(self, k: int) -> float:
        b = self.budget()
        return (k - 1) * (0.25 + 0.25 * b.noise / b.answers)

    def channel(self, k: int) -> NDArray[np.float64]:
        import numpy as np

        b = self.budget()
        below = np.arange(k)[:, None] < np.arange(1, k)
        one = np.where(below, b.keep, b.flip)
        return np.hstack([one, 1.0 - one]) / (k - 1)

    def kernels(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        from ldpflow.protocols.counts.bits import draw_thresholds, spread_thresholds

        return draw_thresholds, spread_thresholds

    def design(self, cdf: NDArray[np.float64], target: int) -> Any:
        from ldpflow.protocols.counts.bits import ThresholdDesign

        return ThresholdDesign(cdf[1:-1].copy(), 1.0 if self.raises_cdf() else 0.0)
