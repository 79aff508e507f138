"""The fold against literal loops, bit for bit, for every size of chunks."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.practice.transcripts.fold import CollectedPath, Fold, UnknownLaw
from tests.oracles.transcript import folded, values

NAMES = ["prefix_total", "self_normalization", "transcript_cubic", "transcript_quartic"]
TIMES = [1, 7, 64, 100, 128, 777, 1000, 1024, 1999, 2000]


@pytest.mark.parametrize(("chunk", "origin"), [(1, 20.0), (3, 38.0), (2**16, 38.0)])
def test_all_sums(rows, chunk, origin):
    thetas = np.array([theta for theta, _ in rows[0][:2001]])
    gradients = np.array([values(0.9, 1.0)[report] for _, report in rows[0][:2000]])
    path = CollectedPath(UnknownLaw(d=1), NoMechanism(), LdpSgd(c=40.0, gamma=0.51))
    fold = Fold(path, TIMES, TIMES, NAMES, np.array([origin]), thetas[:1])
    for start in range(0, 2000, chunk):
        part = slice(start, start + chunk)
        assert fold.add(gradients[part, None], thetas[:-1][part, None]) is None
    record, literal = fold.record(), folded(thetas.tolist(), gradients.tolist(), origin, set(TIMES))
    for at, time in enumerate(TIMES):
        total, theta, weighted, squared, *powers = literal[time]
        assert (record.prefix_sums[at, 0, 0], record.iterates[at, 0, 0]) == (total, theta)
        found = [record.running_sums[name][:, at, 0, 0].tolist() for name in NAMES[1:]]
        assert found == [[weighted, squared], *powers]
