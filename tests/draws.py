"""The variates that a kernel consumes, for one replicate, in order: what oracles are fed with."""

from __future__ import annotations

import numpy as np

from ldpflow.numerics.distributions import TABLE_SAMPLERS
from ldpflow.numerics.samplers import SAMPLERS
from ldpflow.numerics.streams import CHUNK, LANES, PLANE, lane_states
from ldpflow.simulators.one_pass_kernel import table_of


def planes(seed, role, key, replicate, variates, count):
    """The first ``count`` draws of every variate, array (count, len(variates))."""
    state = lane_states(seed, role, key, [replicate])
    chunks = []
    for _ in range(-(-count // CHUNK)):
        columns = []
        for variate in variates:
            columns.append(plane(state, variate).reshape(CHUNK, LANES)[:, 0])
        chunks.append(np.stack(columns, axis=1) if columns else np.empty((CHUNK, 0)))
    return np.concatenate(chunks)[:count]


def plane(state, variate):
    """One plane of a variate; of a mixture the component that a uniform says, all of them drawn."""
    out = np.empty(PLANE)
    if variate.name in SAMPLERS:
        SAMPLERS[variate.name](state, variate.parameter, out)
        return out
    if variate.name in TABLE_SAMPLERS:
        TABLE_SAMPLERS[variate.name](state, table_of(variate), out)
        return out
    SAMPLERS["uniform"](state, 0.0, out)
    parts = variate.law.components
    drawn = [part.law.location + part.law.scale * plane(state, part.law.variate) for part in parts]
    ends = np.cumsum([part.weight for part in parts]) / sum(part.weight for part in parts)
    return np.choose(np.searchsorted(ends[:-1], out, side="right"), drawn)


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
