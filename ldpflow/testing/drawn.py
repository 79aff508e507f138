"""The standard variates that a replicate of a one-pass simulator consumes, for literal computations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.kernels.functions import part_of
from ldpflow.problems.laws import Variate
from ldpflow.random.lockstep import CHUNK, LANES, PLANE
from ldpflow.random.samplers import SAMPLERS
from ldpflow.random.streams import lane_states

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Draws:
    """Standard variates of the first users of one replicate.

    Parameters
    ----------
    data : ndarray, shape (count, variates of the problem)
        Record i is made from row i.
    noise : ndarray, shape (count, variates of the mechanism)
        Row i is what the i-th application of the mechanism draws.
    """

    data: Array
    noise: Array


def draws(simulator: Any, seed: int, replicate: int, count: int) -> Draws:
    """The standard variates that a one-pass simulator consumes in one replicate, in order.

    Parameters
    ----------
    simulator : Simulator
        Of problem, mechanism and one-pass algorithm.
    seed : int
        The study's seed.
    replicate : int
    count : int
        Users.
    """
    problem, mechanism = simulator.problem, simulator.mechanism
    data = planes(seed, "data", simulator.data_key(), replicate, problem.variates(), count)
    variates = mechanism.variates(problem)
    own = [v for v in variates if v.role is None]
    columns = [planes(seed, "mechanism", simulator.key, replicate, own, count)]
    for variate in variates[len(own) :]:
        if variate.role == "position":
            columns.append(np.arange(float(count))[:, None])
        else:
            columns.append(planes(seed, variate.role, simulator.public_key(), replicate, [variate], count))
    return Draws(data, np.concatenate(columns, axis=1))


def plane(state: Any, variate: Variate) -> Array:
    """The next CHUNK draws of a variate in the first lane."""
    own = None if variate.law is None else variate.law.own
    out = np.empty(PLANE)
    SAMPLERS[variate.name if own is None else own.base](state, variate.parameter, out)
    drawn = out.reshape(CHUNK, LANES)[:, 0]
    if own is None:
        return drawn
    sample = part_of(own, "sample")
    return np.array([sample(z, variate.parameter) for z in drawn.tolist()])


def planes(
    seed: int, role: str | None, key: str, replicate: int, variates: Sequence[Variate], count: int
) -> Array:
    """The first ``count`` draws of every variate, shape (count, len(variates))."""
    assert role is not None
    state = lane_states(seed, role, key, [replicate])
    chunks = []
    for _ in range(-(-count // CHUNK)):
        columns = []
        for variate in variates:
            columns.append(plane(state, variate))
        chunks.append(np.stack(columns, axis=1) if columns else np.empty((CHUNK, 0)))
    return np.concatenate(chunks)[:count]
