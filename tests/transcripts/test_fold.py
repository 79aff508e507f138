"""The fold against literal loops, bit for bit, for every size of chunks."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.mechanisms.none import NoMechanism
from ldpflow.practice.transcripts.fold import CollectedPath, Fold, UnknownLaw
from tests.oracles.transcript import folded, values

NAMES = ["self_normalization", "transcript_cubic", "transcript_quartic"]
TIMES = [1, 7, 64, 100, 128, 777, 1000, 1024, 1999, 2000]


def path(rows, n):
    """theta_0..theta_n and A_1..A_n of the first rows."""
    a = values(0.9, 1.0)
    thetas = [theta for theta, _ in rows[0][: n + 1]]
    return np.array(thetas), np.array([a[report] for _, report in rows[0][:n]])


def run(thetas, gradients, chunk, origin):
    path = CollectedPath(UnknownLaw(d=1), NoMechanism(), LdpSgd(c=40.0, gamma=0.51))
    fold = Fold(path, TIMES, TIMES, NAMES, np.array([origin]), thetas[:1])
    asked = thetas[:-1]
    for start in range(0, len(gradients), chunk):
        part = slice(start, start + chunk)
        assert fold.add(gradients[part, None], asked[part, None], None) is None
    assert fold.finish(thetas[None, -1:], False) is None
    return fold.record()


def literal(thetas, gradients, origin):
    kept = folded(thetas.tolist(), gradients.tolist(), origin, set(TIMES))
    return [kept[t] for t in TIMES]


def equal(record, expected):
    """All sums at all times, bit for bit."""
    sums = record.running_sums
    for at, (total, theta, weighted, squared, cubic, quartic) in enumerate(expected):
        assert record.prefix_sums[at, 0, 0] == total
        assert record.iterates[at, 0, 0] == theta
        assert sums["self_normalization"][:, at, 0, 0].tolist() == [weighted, squared]
        assert sums["transcript_cubic"][:, at, 0, 0].tolist() == cubic
        assert sums["transcript_quartic"][:, at, 0, 0].tolist() == quartic


@pytest.mark.parametrize(("chunk", "origin"), [(1, 20.0), (3, 38.0), (8, 20.0), (2**16, 38.0)])
def test_all_sums(rows, chunk, origin):
    thetas, gradients = path(rows, 2000)
    equal(run(thetas, gradients, chunk, origin), literal(thetas, gradients, origin))
