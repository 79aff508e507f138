"""One-shot protocols: reports of users about their bins, and the numbers that kernels need for the counts.

A liar is a user whose report does not depend on the value. F^ estimates the distribution function F of the
values. H is a Hadamard matrix, k the number of bins, and RR means randomised response.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from ldpflow.components.protocols.protocol import FAN_OUT, Array, OneShot
from ldpflow.numerics import Deferred

# F at the inner edges, and the report of a liar (0 or 1).
ThresholdDesign = namedtuple("ThresholdDesign", ("cdf", "lie"))
# Probabilities of the k reports, probabilities of the k bins, and the bin that a liar reports.
GrrDesign = namedtuple("GrrDesign", ("chances", "bins", "lie"))
# Probabilities of the bins, and the bits that a liar sends.
OueDesign = namedtuple("OueDesign", ("bins", "lie"))


def kernel_functions(name: str) -> Iterator[Deferred]:
    """The functions draw_NAME, fold_NAME and spread_NAME. They load Numba when they are called."""
    module = "ldpflow.components.protocols.histogram_counts"
    return (Deferred(module, f"{part}_{name}") for part in ("draw", "fold", "spread"))


class SignDesign(NamedTuple):
    """Numbers for each row of H without its first row (HRR), or of one H for each level (Haar)."""

    chances: Array  # P(report = +1), shape (rows,)
    truths: Array  # P(true sign = +1), shape (rows,)
    lie: Array  # sign that a liar reports, shape (rows,)
    squares: Array  # squares of the weights in F^ at the inner edges, shape (rows, edges) or (levels, edges)


class TreeDesign(NamedTuple):
    """Numbers for each node of the levels 1..h, one level after the other."""

    nodes: Array  # probabilities of the nodes
    lie: Array  # bits that a liar sends
    prefix: Array  # weights of the estimates of the nodes in F^ at the inner edges, shape (edges, nodes)
    squares: Array  # squares of ``prefix``
    levels: int  # h


class Thresholds(OneShot):
    """A public coin draws one of the inner edges t. The user sends RR of 1{value below t} (Warner, 1965).

    n Var F^(t) = (k - 1) S, with the variance S of ``Budget.bit_variance``.
    """

    kind: Literal["thresholds"] = "thresholds"
    cites = ("warner1965",)
    draw, fold, spread = kernel_functions("thresholds")

    def design(self, cdf: Array, target: int) -> Any:
        return ThresholdDesign(cdf[1:-1].copy(), 1.0 if self.raises_cdf() else 0.0)


class Grr(OneShot):
    """The user sends the own bin with probability e^eps/(e^eps + k - 1), else a uniformly drawn other bin.

    Source: Wang, Blocki, Li and Jha (2017).
    """

    kind: Literal["grr"] = "grr"
    cites = ("wang2017",)
    public_coin = False
    draw, fold, spread = kernel_functions("grr")

    def reports(self, k: int) -> int:
        return k

    def questions(self, k: int) -> int:
        return k

    def middle_variance(self, k: int) -> float:
        b = self.budget()
        width = (b.odds + k - 1.0) / b.excess
        return 0.25 + 0.25 * (width * width - 1.0) / b.answers

    def design(self, cdf: Array, target: int) -> Any:
        b = self.budget()
        k = len(cdf) - 1
        chances = (1.0 + bin_probabilities(cdf) * b.excess) / (b.odds + k - 1.0)
        return GrrDesign(chances, bin_probabilities(cdf), 0 if self.raises_cdf() else k - 1)


def bin_probabilities(cdf: Array) -> Array:
    """Increments of a distribution function, at least 0."""
    return np.maximum(np.diff(cdf), 0.0)


class Oue(OneShot):
    """The user sends k bits. The bit of the own bin is 1 with probability 1/2, each other with 1/(e^eps + 1).

    Source: Wang, Blocki, Li and Jha (2017).
    """

    kind: Literal["oue"] = "oue"
    cites = ("wang2017",)
    public_coin = False
    draw, fold, spread = kernel_functions("oue")

    def widths(self, k: int) -> tuple[int, ...]:
        return (k,)

    def middle_variance(self, k: int) -> float:
        b = self.budget()
        return 0.25 + 0.25 * (1.0 + b.noise * k) / b.answers

    def design(self, cdf: Array, target: int) -> Any:
        below = np.arange(len(cdf) - 1) < target
        lie = below if self.raises_cdf() else ~below
        return OueDesign(bin_probabilities(cdf), lie.astype(np.float64))


class Hrr(OneShot):
    """A public coin draws a row r = 1..k-1 of H. The user sends RR of H[r, bin].

    Source: Acharya, Sun and Zhang (2019).
    """

    kind: Literal["hrr"] = "hrr"
    cites = ("acharya2019",)
    bin_base = 2
    signs = True
    draw, fold, spread = kernel_functions("hrr")

    def design(self, cdf: Array, target: int) -> Any:
        k = len(cdf) - 1
        rows = sylvester(k)[1:]
        # cumsum adds in a fixed order: bits are equal on every machine.
        means = np.cumsum(rows * bin_probabilities(cdf), axis=1)[:, -1]
        prefix = np.cumsum(rows, axis=1)[:, :-1]
        lie = np.where(prefix[:, target - 1] >= 0, 1.0, -1.0)
        return sign_design(self, means, lie, np.ascontiguousarray(prefix * prefix))


class Haar(OneShot):
    """A public coin draws a level l of a binary tree and a row r of H with 2^l rows.

    The user sends RR of s H[r, node], where ``node`` is the one of 2^l nodes with the value. s is 1 if the
    value is in the left half of the node, else -1. Source: Cormode, Kulkarni and Srivastava (2019).
    """

    kind: Literal["haar"] = "haar"
    cites = ("cormode2019",)
    bin_base = 2
    signs = True
    draw, fold, spread = kernel_functions("haar")

    def middle_variance(self, k: int) -> float:
        return (k.bit_length() - 1) * self.budget().bit_variance(0.5)

    def design(self, cdf: Array, target: int) -> Any:
        k = len(cdf) - 1
        pi = bin_probabilities(cdf)
        means, lies, squares = [], [], []
        for level in range(k.bit_length() - 1):
            nodes, size = 2**level, k >> level
            means.append(np.cumsum(level_signs(k, level) * pi[:, None], axis=0)[-1])
            # The target lies in this node, whose coefficient in F^ at the target is positive.
            lies.append(sylvester(nodes)[:, min(target // size, nodes - 1)])
            within = np.arange(1, k) % size
            squares.append((np.minimum(within, size - within) / size) ** 2)
        return sign_design(self, np.concatenate(means), np.concatenate(lies), np.array(squares))


def sign_design(protocol: OneShot, means: Array, lie: Array, squares: Array) -> SignDesign:
    """Design from the mean true sign of every row and the signs of liars that raise F^."""
    chances, truths = 0.5 * (1.0 + means * protocol.budget().gap), 0.5 * (1.0 + means)
    return SignDesign(chances, truths, lie if protocol.raises_cdf() else -lie, squares)


@lru_cache(maxsize=16)
def sylvester(size: int) -> Array:
    from scipy.linalg import hadamard

    found = np.asarray(hadamard(size, dtype=np.float64))
    found.setflags(write=False)  # all callers share it
    return found


def level_signs(k: int, level: int) -> Array:
    """s H[r, node] of every bin for every r of a level, shape (k, 2^level)."""
    size = k >> level
    bins = np.arange(k)
    side = np.where(bins % size < size // 2, 1.0, -1.0)
    return side[:, None] * sylvester(2**level)[:, bins // size].T


class Tree(OneShot):
    """A public coin draws a level of a 4-ary tree. A user sends a bit for each node of the level, as in OUE.

    Estimates of nodes are made consistent by least squares. Sources: Cormode, Kulkarni and Srivastava (2019);
    Hay, Rastogi, Miklau and Suciu (2010).
    """

    kind: Literal["tree"] = "tree"
    cites = ("cormode2019", "hay2010")
    bin_base = FAN_OUT
    draw, fold, spread = kernel_functions("tree")

    def widths(self, k: int) -> tuple[int, ...]:
        return tuple(FAN_OUT**level for level in range(1, levels_of(k) + 1))

    def middle_variance(self, k: int) -> float:
        h = levels_of(k)
        b = self.budget()
        total = 0.0
        passed_on = 1.0  # weight of the estimate of a node in that of its ancestor on level 1
        for level in range(1, h + 1):
            height = h - level + 1
            own, child = FAN_OUT**height, FAN_OUT ** (height - 1)
            kept = (own - child) / (own - 1.0)
            weight = 0.5 * passed_on * kept
            total += weight * weight * (1.0 + (FAN_OUT**level * b.noise + 1.0) / b.answers)
            passed_on *= (child - 1.0) / (own - 1.0)
        return h * total

    def design(self, cdf: Array, target: int) -> Any:
        k = len(cdf) - 1
        h = levels_of(k)
        prefix = prefix_weights(k)
        masses = [bin_probabilities(cdf[:: k // width]) for width in self.widths(k)]
        raising = prefix[target - 1] > 0.0
        lie = raising if self.raises_cdf() else ~raising
        return TreeDesign(np.concatenate(masses), lie.astype(np.float64), prefix, prefix * prefix, h)


def levels_of(k: int) -> int:
    """h with 4^h = k."""
    return (k.bit_length() - 1) // 2


@lru_cache(maxsize=8)
def prefix_weights(k: int) -> Array:
    """Weights of the estimates of all nodes in F^ at the inner edges, shape (k - 1, nodes)."""
    from ldpflow.components.protocols.collections import call
    from ldpflow.components.protocols.histogram_counts import reconcile

    h = levels_of(k)
    nodes = sum(FAN_OUT**level for level in range(1, h + 1))
    weights = np.empty((k - 1, nodes))
    for node in range(nodes):
        found = np.zeros(nodes)
        found[node] = 1.0
        call(reconcile, found, 0.0, h)
        weights[:, node] = np.cumsum(found[-k:])[:-1]
    weights.setflags(write=False)
    return weights
