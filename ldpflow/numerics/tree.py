"""Privacy of sums released through a binary tree, over many epochs of one data set.

Source: Tran and Cutkosky (2022), "Momentum Aggregation for Private Non-convex ERM". Steps are t = 1, ..., T.
A step uses one record or one batch, and an epoch has M steps. The node with level b and index a covers the
steps a 2^b + 1, ..., (a + 1) 2^b. Its value is the sum of the gradients of these steps, with the weight
(1 - alpha)^(z - t) at step t, where z is the last step of the node. If a node uses a record at the steps
t_1, t_2, ..., the record has the weight w = sum_j (1 - alpha)^(z - t_j). Replacing it changes the node by at
most (unit sensitivity) w.

The noise of a node has the standard deviation (unit sensitivity) sigma sqrt(v). Then all released nodes
together are (r, c r / (2 sigma^2))-RDP for every order r. The cost c is the maximum over records of the sum
of w^2 / v over released nodes. :func:`tree_cost` computes c or an upper bound. The paper bounds all weights
of a node at once, with constants that are wrong in several places.

The noise of a prefix sum over the steps 1, ..., t has the variance Q_t in units of a node's variance. Q_t is
the sum of (1 - alpha)^(2 (t - z)) over the last steps z of the nodes that make up the prefix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXACT_STEPS = 2**23
EXACT_EPOCH = 2**15
"""If all epochs have one order of the records, the cost is computed node by node for T <= EXACT_STEPS or
M <= EXACT_EPOCH. Else it is bounded. The time of the computation is about M min(M, T/M) log T.
"""


def compose(first: int, last: int) -> list[tuple[int, int]]:
    """Nodes (first step, last step) that together cover the steps first, ..., last (Algorithm 3)."""
    cover = []
    while first <= last:
        level = 0
        while (first - 1) % 2 ** (level + 1) == 0 and first + 2 ** (level + 1) - 1 <= last:
            level += 1
        cover.append((first, first + 2**level - 1))
        first += 2**level
    return cover


def touched_nodes(steps: int, epoch: int) -> int:
    """V = sum over levels b of min(ceil(T/M), floor(T/2^b)), the largest number of nodes that use a record.

    The paper has T/M in place of ceil(T/M), which is too small if M does not divide T.
    """
    visits = -(-steps // epoch)
    return sum(min(visits, steps >> level) for level in range(steps.bit_length()))


@dataclass(frozen=True)
class NoiseTree:
    """Released nodes of a tree, and their variance factors v.

    v is ``variance``, but ``early_variance`` for nodes that end at step ``early`` or before. Nodes are
    released if their level is below ``levels`` (None: all levels), they start after step ``after``, and, with
    ``left``, their index is even. Nodes with even indices suffice for prefix sums.
    """

    variance: float
    early_variance: float = 1.0
    early: int = 0
    levels: int | None = None
    left: bool = False
    after: int = 0

    def indices(self, level: int, steps: int) -> range:
        if self.levels is not None and level >= self.levels:
            return range(0)
        stride = 2 if self.left else 1
        first = -(-self.after // (1 << level))
        return range(first + first % stride, steps >> level, stride)

    def groups(self, level: int, steps: int) -> list[tuple[float, range]]:
        index = self.indices(level, steps)
        early = len(range(index.start, self.early >> level, index.step))
        return [(self.early_variance, index[:early]), (self.variance, index[early:])]


def tree_cost(trees: Iterable[NoiseTree], steps: int, epoch: int, alpha: float, *, fixed: bool) -> float:
    """Cost c of trees that are released together. T is ``steps``, and M is ``epoch``.

    ``alpha``, in [1/M, 1], is the weight of the new gradient. With ``fixed`` all epochs have one order of the
    records. Then the cost is exact if T or M is short, and else an upper bound. Without ``fixed`` the result
    bounds the cost for all sequences of orders.
    """
    if fixed and (steps <= EXACT_STEPS or epoch <= EXACT_EPOCH):
        cost = np.zeros(min(epoch, steps))
        for tree in trees:
            add_fixed_cost(cost, tree, steps, epoch, alpha)
        return float(cost.max())
    return sum(cost_bound(tree, steps, epoch, alpha, fixed=fixed) for tree in trees)


def powers(base: float, count: int) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.r_[1.0, np.full(count - 1, base)]
    return values.cumprod()


def add_fixed_cost(cost: NDArray[np.float64], tree: NoiseTree, steps: int, epoch: int, alpha: float) -> None:
    """Add to ``cost``, for each position in an epoch, the sum of w^2 / v over a tree's nodes."""
    decay = powers(1.0 - alpha, epoch + 1)
    for level in range(steps.bit_length()):
        size = 1 << level
        back = np.arange(min(size, epoch))  # steps from the last use of a record to the end of its node
        weight = decay[back]
        if size > epoch:
            geometric = np.cumsum(powers(float(decay[epoch]), size // epoch + 2))
            weight = weight * geometric[(size - 1 - back) // epoch]  # 1 + B + B^2 + ..., B = (1 - alpha)^M
        square = weight * weight
        for variance, index in tree.groups(level, steps):
            if len(index) > len(back):
                ends = np.tile(ends_by_position(index, level, epoch), 2)
                for i in range(len(back)):
                    at = (i + 1) % epoch
                    cost += ends[at : at + len(cost)] * (square[i] / variance)
            else:
                for z in ((i + 1) << level for i in index):
                    # Positions differ, so no index occurs twice.
                    cost[(z - back - 1) % epoch] += square / variance


def ends_by_position(index: range, level: int, epoch: int) -> NDArray[np.int64]:
    """Numbers of nodes by the remainder of their last step modulo the epoch."""
    count = len(index)
    stride = index.step << level
    period = epoch // math.gcd(epoch, stride)
    k = np.arange(min(count, period))
    result = np.zeros(epoch, dtype=np.int64)
    # With the remainder of stride, products stay below 2^63.
    place = (((index.start + 1) << level) % epoch + k * (stride % epoch)) % epoch
    result[place] = count // period + (k < count % period)
    return result


def cost_bound(tree: NoiseTree, steps: int, epoch: int, alpha: float, *, fixed: bool) -> float:
    """Upper bound of the sum of w^2 / v over a tree's nodes, for all records and orders.

    The weights of a record in the k nodes of a level add up to at most its visits, the number of times that
    it is used. No weight is above ``most``. So the sum of the squares is at most visits * most,
    and at most k * most^2. In a fixed order visits are M steps apart, and most = 1 + B + B^2 + ... with
    B = (1 - alpha)^M. If epochs are reshuffled, the end of an epoch and the start of the next can use one
    record in adjacent steps, and most = 1 + (1 - alpha) (1 + B + B^2 + ...).
    """
    decay = float(powers(1.0 - alpha, epoch + 1)[epoch])
    total = 0.0
    for level in range(steps.bit_length()):
        size = 1 << level
        apart = -(-size // epoch)  # most visits of a record to a node if they are M steps apart
        most = geometric_sum(decay, apart)
        if not fixed and size > 1:
            most = max(most, 1.0 + (1.0 - alpha) * geometric_sum(decay, apart))
        for variance, index in tree.groups(level, steps):
            if index:
                visits = -(-min((index[-1] + 1) << level, steps) // epoch)
                total += min(visits * most, len(index) * most * most) / variance
    return total


def geometric_sum(ratio: float, count: int) -> float:
    total = 0.0
    power = 1.0
    for _ in range(min(count, 10_000)):
        if total + power == total:
            return total
        total += power
        power *= ratio
    # The other terms are bounded by the infinite series.
    return total + (power / (1.0 - ratio) if count > 10_000 else 0.0)


def chi_mean(dimension: int) -> float:
    """E ||Z|| = sqrt(2) Gamma((d+1)/2) / Gamma(d/2) for a standard normal vector Z."""
    half = dimension / 2.0
    return math.sqrt(2.0) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))


def prefix_discount(t: int, alpha: float) -> float:
    """Q_t, the sum of (1 - alpha)^(2 (t mod 2^i)) over the bits i of t that are 1."""
    total = 0.0
    for level in range(t.bit_length()):
        if t >> level & 1:
            total += power((1.0 - alpha) ** 2, t & ((1 << level) - 1))
    return total


def power(base: float, exponent: int) -> float:
    """base^exponent by repeated squaring. A library's pow may give other bits on another machine."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def mean_prefix_discount(levels: int, alpha: float) -> float:
    """Mean of Q_t over t = 0, ..., 2^levels - 1."""
    square = (1.0 - alpha) * (1.0 - alpha)
    total, last = 0.0, square  # last is (1 - alpha)^(2 2^level)
    for level in range(levels):
        mean = 1.0 if alpha >= 1.0 and level == 0 else (1.0 - last) / (1.0 - square) / (1 << level)
        total += 0.5 * mean
        last *= last
    return total


def window_variance(
    first: int, last: int, alpha: float, variance: Callable[[int, int], float] = lambda y, z: 1.0
) -> float:
    """Sum of (1 - alpha)^(2 (last - z)) variance(y, z) over the nodes (y, z) that cover first, ..., last."""
    square = (1.0 - alpha) * (1.0 - alpha)
    return math.fsum(power(square, last - z) * variance(y, z) for y, z in compose(first, last))


def mean_window_discount(length: int, alpha: float, samples: int = 61) -> float:
    """Mean of :func:`window_variance` over windows of ``length`` steps with evenly spaced starts."""
    period = 1 << length.bit_length()
    starts = [period + 1 + i * period // samples for i in range(samples)]
    return math.fsum(window_variance(a, a + length - 1, alpha) for a in starts) / samples


def squared_weights(decay: float, cross: float) -> float:
    """Sum of S_i^2 over i >= 1, where S_i = sum_{j < i} (1 - cross)^j decay^(i - 1 - j)."""
    a, b = 1.0 - cross, decay
    if a == b:
        return (1.0 + a * a) / (1.0 - a * a) ** 3
    squares = a * a / (1.0 - a * a) - 2.0 * a * b / (1.0 - a * b) + b * b / (1.0 - b * b)
    return squares / ((a - b) * (a - b))


def reduced_variance(
    t: int, batches: int, alpha: float, cross: float, early: float, late: float, small: float
) -> tuple[float, float, float, float, float]:
    """Five parts of the variance of the noise of one coordinate of the momentum of ``dp_nsgd_reduced``.

    The momentum is that of step t. Its trees G, D and r are described in the module of the algorithm. The
    parts are: the prefix of G, the first full window of G, the later windows of G (with the factor
    ``cross``), the windows of D, and the prefix of r. A node of G has the variance ``early`` if it ends at
    step 2 M or before, else ``late``. M is ``batches``. A node of D or r has the variance ``small``.
    """

    def of_g(y: int, z: int) -> float:
        return early if z <= 2 * batches else late

    q, r = divmod(t, batches)
    decay = power(1.0 - alpha, batches)
    square = alpha * alpha
    first = power(decay, 2 * q) * window_variance(1, r, alpha, of_g)
    second = gamma = delta = 0.0
    weight = 0.0  # S_i
    ahead = 1.0  # (1 - cross)^i
    peak = 0.0
    for i in range(1, q + 1):
        weight, ahead = decay * weight + ahead, ahead * (1.0 - cross)
        if i == q:
            second = weight * weight * window_variance(r + 1, r + batches, alpha, of_g)
            break
        peak = max(peak, weight)
        if weight < 1e-9 * peak:  # later weights are smaller and do not change the rounded sum
            break
        a, b = t - i * batches + 1, t - (i - 1) * batches
        unit = weight * weight
        gamma += unit * cross * cross * window_variance(a, b, alpha, of_g)
        delta += unit * (1.0 - cross) ** 2 * small * window_variance(a, b, alpha)
    residual = small * prefix_discount(t, alpha)
    return square * first, square * second, square * gamma, square * delta, square * residual
