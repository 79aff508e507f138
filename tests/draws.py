"""The variates that a kernel consumes, for one replicate, in order: what oracles are fed with."""

from __future__ import annotations

import numpy as np

from ldpflow.random.lockstep import CHUNK, LANES, PLANE
from ldpflow.random.samplers import SAMPLERS
from ldpflow.random.streams import lane_states


def planes(seed, role, key, replicate, variates, count):
    """The first ``count`` draws of every variate, array (count, len(variates))."""
    state = lane_states(seed, role, key, [replicate])
    chunks = []
    for _ in range(-(-count // CHUNK)):
        columns = []
        for variate in variates:
            out = np.empty(PLANE)
            SAMPLERS[variate.name](state, variate.parameter, out)
            columns.append(out.reshape(CHUNK, LANES)[:, 0])
        chunks.append(np.stack(columns, axis=1) if columns else np.empty((CHUNK, 0)))
    return np.concatenate(chunks)[:count]


def data(path, seed, replicate, count):
    """Standard variates of the first ``count`` records."""
    return planes(seed, "data", path.data_key(), replicate, path.problem.variates(), count)


def noise(path, seed, replicate, count):
    """Standard variates of the first ``count`` applications of the mechanism."""
    variates = path.mechanism.variates(path.problem)
    own = [v for v in variates if v.role is None]
    columns = [planes(seed, "mechanism", path.key, replicate, own, count)]
    for variate in variates[len(own) :]:
        if variate.role == "position":
            columns.append(np.arange(float(count))[:, None])
        else:
            key = path.public_key()
            columns.append(planes(seed, variate.role, key, replicate, [variate], count))
    return np.concatenate(columns, axis=1)
