"""Unary encoding of the nodes of a 4-ary tree."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ldpflow.protocols.grr import bin_probabilities
from ldpflow.protocols.oue import unary_channel
from ldpflow.protocols.protocol import OneShot

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Tree"]

FAN_OUT = 4


class Tree(OneShot):
    """A public coin picks a level of a 4-ary tree; the user sends the unary encoding of the node.

    All nodes' estimates are made consistent by least squares. Cormode, Kulkarni and Srivastava
    (2019); Hay, Rastogi, Miklau and Suciu (2010).
    """

    kind: Literal["tree"] = "tree"
    bin_base: ClassVar[int] = FAN_OUT

    def bits(self, n: int) -> float:
        """Mean over the levels."""
        h = levels_of(self.bins(n))
        return float(self.answers * sum(FAN_OUT**level for level in range(1, h + 1)) / h)

    def middle_variance(self, k: int) -> float:
        h = levels_of(k)
        b = self.budget()
        total = 0.0
        passed_on = 1.0  # weight of a node's estimate in its first ancestor's
        for level in range(1, h + 1):
            height = h - level + 1
            own, child = FAN_OUT**height, FAN_OUT ** (height - 1)
            kept = (own - child) / (own - 1.0)
            weight = 0.5 * passed_on * kept
            total += weight * weight * (1.0 + (FAN_OUT**level * b.noise + 1.0) / b.answers)
            passed_on *= (child - 1.0) / (own - 1.0)
        return h * total

    def channel(self, k: int) -> NDArray[np.float64]:
        import numpy as np

        h = levels_of(k)
        columns = []
        for level in range(1, h + 1):
            nodes = np.arange(k) // (k // FAN_OUT**level)
            columns.append(unary_channel(FAN_OUT**level, self.budget())[nodes] / h)
        return np.hstack(columns)

    def kernels(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        from ldpflow.protocols.counts.tree import draw_tree, spread_tree

        return draw_tree, spread_tree

    def design(self, cdf: NDArray[np.float64], target: int) -> Any:
        import numpy as np

        from ldpflow.protocols.counts.tree import TreeDesign

        k = len(cdf) - 1
        h = levels_of(k)
        prefix = prefix_weights(k)
        masses = [bin_probabilities(cdf[:: k // FAN_OUT**level]) for level in range(1, h + 1)]
        raising = prefix[target - 1] > 0.0
        lie = raising if self.raises_cdf() else ~raising
        return TreeDesign(np.concatenate(masses), lie.astype(np.float64), prefix, prefix * prefix, h)


def levels_of(k: int) -> int:
    """h with 4^h = k."""
    return (k.bit_length() - 1) // 2


@lru_cache(maxsize=8)
def prefix_weights(k: int) -> NDArray[np.float64]:
    """Weights of all nodes' estimates in F^ at the inner edges, shape (k - 1, nodes)."""
    import numpy as np

    from ldpflow.protocols.calling import call
    from ldpflow.protocols.counts.tree import consistent

    h = levels_of(k)
    nodes = sum(FAN_OUT**level for level in range(1, h + 1))
    weights = np.empty((k - 1, nodes))
    for node in range(nodes):
        found = np.zeros(nodes)
        found[node] = 1.0
        call(consistent, found, 0.0, h)
        weights[:, node] = np.cumsum(found[-k:])[:-1]
    weights.setflags(write=False)
    return weights
