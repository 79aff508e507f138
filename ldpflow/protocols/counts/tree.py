"""Counts of unary encodings over the nodes of a 4-ary tree, one level per user (protocol ``tree``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldpflow.protocols.counts.oue import frequencies
from ldpflow.random.counts import split_evenly
from ldpflow.random.elementary import jit

__all__ = ["FAN_OUT", "TreeDesign", "consistent", "consistent_leaves", "draw_tree", "spread_tree"]

FAN_OUT = 4
LEVELS, LYING = 5, 6  # the stages after those of unary encoding


class TreeDesign(NamedTuple):
    """Nodes of the levels 1..h, one level after the other.

    Parameters
    ----------
    nodes : ndarray
        Probabilities.
    lie : ndarray
        Bits that a liar sends.
    prefix : ndarray, shape (edges, nodes)
        Weights of the nodes' estimates in F^ at an edge.
    squares : ndarray, shape (edges, nodes)
        The weights squared.
    levels : int
        h.
    """

    nodes: NDArray[np.float64]
    lie: NDArray[np.float64]
    prefix: NDArray[np.float64]
    squares: NDArray[np.float64]
    levels: int


@jit
def consistent_leaves(found, total, levels):  # type: ignore[no-untyped-def]
    """Least squares: masses of the leaves closest to the estimates of all nodes, with this total.

    ``found`` holds the levels 1..h and is overwritten; the last level's part is the result. Two
    passes, up and down (Hay, Rastogi, Miklau and Suciu, "Boosting the accuracy of differentially
    private histograms through consistency", VLDB 2010).
    """
    first = 0
    size = FAN_OUT
    for _ in range(levels - 1):
        first += size
        size *= FAN_OUT
    below = float(FAN_OUT)  # FAN_OUT to the height of a child
    start, count = first, size
    for _ in range(levels - 1):
        up_count = count // FAN_OUT
        up = start - up_count
        own = below * FAN_OUT
        for i in range(up_count):
            children = 0.0
            for j in range(FAN_OUT):
                children += found[start + FAN_OUT * i + j]
            found[up + i] = ((own - below) * found[up + i] + (below - 1.0) * children) / (own - 1.0)
        below = own
        start, count = up, up_count
    rest = total
    for j in range(FAN_OUT):
        rest -= found[j]
    for j in range(FAN_OUT):
        found[j] += rest / FAN_OUT
    start, count = 0, FAN_OUT
    for _ in range(levels - 1):
        down = start + count
        for i in range(count):
            rest = found[start + i]
            for j in range(FAN_OUT):
                rest -= found[down + FAN_OUT * i + j]
            for j in range(FAN_OUT):
                found[down + FAN_OUT * i + j] += rest / FAN_OUT
        start, count = down, count * FAN_OUT


def consistent(kernel, found, total, levels):  # type: ignore[no-untyped-def]
    """:func:`consistent_leaves`."""
    consistent_leaves(found, total, levels)


@jit
def draw_tree(values, key0, key1, honest, liars, design, budget):  # type: ignore[no-untyped-def]
    """Frequencies of every level's nodes, made consistent, added up."""
    levels = design.levels
    asked = np.empty(levels)
    lying = np.empty(levels)
    split_evenly(asked, key0, key1, LEVELS, 0, honest)
    split_evenly(lying, key0, key1, LYING, 0, liars)
    found = np.empty(design.nodes.shape[0])
    empty = 0
    first, size = 0, FAN_OUT
    for level in range(levels):
        last = first + size
        if asked[level] + lying[level] == 0.0:
            found[first:last] = 1.0 / size
            empty += 1
        else:
            frequencies(
                found[first:last],
                key0,
                key1,
                level,
                asked[level],
                lying[level],
                design.nodes[first:last],
                design.lie[first:last],
                budget,
            )
        first, size = last, size * FAN_OUT
    consistent_leaves(found, 1.0, levels)
    leaves = found[first - size // FAN_OUT :]
    below = 0.0
    for m in range(values.shape[0]):
        below += leaves[m]
        values[m] = below
    return empty


@jit
def spread_tree(out, isotonic, tau, design, budget):  # type: ignore[no-untyped-def]
    """h sum_l [sum_i w_i^2 (v + 2 q_i) - (sum_i w_i q_i)^2], q from the isotonic estimate.

    With a answers of every user (v + q_i)/a + q_i stands in the place of v + 2 q_i.
    """
    k = isotonic.shape[0] - 1
    masses = np.empty(design.nodes.shape[0])
    at, size = 0, FAN_OUT
    for _ in range(design.levels):
        step = k // size
        for i in range(size):
            masses[at + i] = isotonic[(i + 1) * step] - isotonic[i * step]
        at += size
        size *= FAN_OUT
    for m in range(k - 1):
        total = 0.0
        at, size = 0, FAN_OUT
        for _ in range(design.levels):
            noise = 0.0
            mean = 0.0
            for i in range(at, at + size):
                own = budget.noise + 2.0 * masses[i]
                if budget.answers > 1.0:
                    own = masses[i] + (budget.noise + masses[i]) / budget.answers
                noise += design.squares[m, i] * own
                mean += design.prefix[m, i] * masses[i]
            total += noise - mean * mean
            at += size
            size *= FAN_OUT
        out[m] = design.levels * total
