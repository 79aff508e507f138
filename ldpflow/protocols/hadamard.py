"""Randomised signs of a Hadamard matrix: of the bins, or of the halves of a Haar tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ldpflow.protocols.grr import bin_probabilities
from ldpflow.protocols.protocol import OneShot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Haar", "Hrr", "sylvester"]


class Hrr(OneShot):
    """A public coin picks a row r = 1..k-1 of the Hadamard matrix H; the user sends RR of H[r, bin].

    Acharya, Sun and Zhang (2019).
    """

    kind: Literal["hrr"] = "hrr"
    bin_base: ClassVar[int] = 2

    def bits(self, n: int) -> float:
        return float(self.answers)

    def middle_variance(self, k: int) -> float:
        b = self.budget()
        return 0.25 * (k - 1) * (1.0 + b.noise / b.answers)

    def channel(self, k: int) -> NDArray[np.float64]:
        import numpy as np

        b = self.budget()
        plus = np.where(sylvester(k)[1:].T > 0, b.keep, b.flip)
        return np.hstack([plus, 1.0 - plus]) / (k - 1)

    def kernels(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        from ldpflow.protocols.counts.hadamard import draw_hrr, spread_hrr

        return draw_hrr, spread_hrr

    def design(self, cdf: NDArray[np.float64], target: int) -> Any:
        import numpy as np

        from ldpflow.protocols.counts.hadamard import HrrDesign

        k = len(cdf) - 1
        rows = sylvester(k)[1:]
        # Sums of +-1 and of a few numbers in a fixed order: cumsum is sequential.
        means = np.cumsum(rows * bin_probabilities(cdf), axis=1)[:, -1]
        prefix = np.cumsum(rows, axis=1)[:, :-1]
        lie = np.where(prefix[:, target - 1] >= 0, 1.0, -1.0)
        return HrrDesign(
            chances=0.5 * (1.0 + means * self.budget().gap),
            truths=0.5 * (1.0 + means),
            lie=lie if self.raises_cdf() else -lie,
            squares=np.ascontiguousarray(prefix * prefix),
        )


class Haar(OneShot):
    """A public coin picks a level of a binary tree and a row of its Hadamard matrix.

    At level l the user sends RR of s H[r, node]: node of 2^l holds the value, s = 1 in its left half
    and -1 in its right one. Cormode, Kulkarni and Srivastava (2019).
    """

    kind: Literal["haar"] = "haar"
    bin_base: ClassVar[int] = 2

    def bits(self, n: int) -> float:
        return float(self.answers)

    def middle_variance(self, k: int) -> float:
        b = self.budget()
        return 0.25 * (k.bit_length() - 1) * (1.0 + b.noise / b.answers)

    def channel(self, k: int) -> NDArray[np.float64]:
        import numpy as np

        b = self.budget()
        levels = k.bit_length() - 1
        columns = []
        for level in range(levels):
            signs = level_signs(k, level)
            plus = np.where(signs > 0, b.keep, b.flip) / (levels * 2**level)
            minus = np.where(signs > 0, b.flip, b.keep) / (levels * 2**level)
            columns += [plus, minus]
        return np.hstack(columns)

    def kernels(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        from ldpflow.protocols.counts.hadamard import draw_haar, spread_haar

        return draw_haar, spread_haar

    def design(self, cdf: NDArray[np.float64], target: int) -> Any:
        import numpy as np

        from ldpflow.protocols.counts.hadamard import HaarDesign

        k = len(cdf) - 1
        pi = bin_probabilities(cdf)
        chances, truths, lies, squares = [], [], [], []
        for level in range(k.bit_length() - 1):
            nodes, size = 2**level, k >> level
            means = np.cumsum(level_signs(k, level) * pi[:, None], axis=0)[-1]
            chances.append(0.5 * (1.0 + means * self.budget().gap))
            truths.append(0.5 * (1.0 + means))
            # The prefix indicator's coefficient of the node that the edge divides is positive.
            lies.append(sylvester(nodes)[:, min(target // size, nodes - 1)])
            within = np.arange(1, k) % size
            squares.append((np.minimum(within, size - within) / size) ** 2)
        lie = np.concatenate(lies)
        return HaarDesign(
            chances=np.concatenate(chances),
            truths=np.concatenate(truths),
            lie=lie if self.raises_cdf() else -lie,
            squares=np.array(squares),
        )


def sylvester(size: int) -> NDArray[np.float64]:
    """The Hadamard matrix of this size, a power of two, in Sylvester's order."""
    import numpy as np

    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def level_signs(k: int, level: int) -> NDArray[np.float64]:
    """s H[r, node] of every bin (rows) for every Hadamard row r (columns) of a level."""
    import numpy as np

    size = k >> level
    bins = np.arange(k)
    side = np.where(bins % size < size // 2, 1.0, -1.0)
    return side[:, None] * sylvester(2**level)[:, bins // size].T
