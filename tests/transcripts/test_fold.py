"""The fold against literal loops, bit for bit, for every size of chunks."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.algorithms.minibatch_sgd import MinibatchSgd
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


def run(thetas, gradients, chunk, known=True, origin=20.0, batch_size=1):
    """The fold of rows; with thetas, or from theta_0 alone."""
    algorithm = LdpSgd(c=40.0, gamma=0.51)
    if batch_size > 1:
        algorithm = MinibatchSgd(c=40.0, gamma=0.51, batch_size=batch_size)
    path = CollectedPath(UnknownLaw(d=1), NoMechanism(), algorithm)
    fold = Fold(path, TIMES, TIMES, NAMES, np.array([origin]), thetas[:1])
    asked = np.repeat(thetas[:-1], batch_size)
    for start in range(0, len(gradients), chunk):
        part = slice(start, start + chunk)
        assert fold.add(gradients[part, None], asked[part, None] if known else None, None) is None
    assert fold.finish(thetas[None, -1:] if known else None, not known) is None
    return fold.record()


def literal(thetas, gradients, origin=20.0):
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
    equal(run(thetas, gradients, chunk, origin=origin), literal(thetas, gradients, origin))


@pytest.mark.parametrize("chunk", [1, 999])
def test_theta_from_the_reports(rows, chunk):
    """Left out, theta follows from c, gamma and theta_0; to rounding that of a program with another power."""
    thetas, gradients = path(rows, 2000)
    record = run(thetas, gradients, chunk, known=False)
    whole = run(thetas, gradients, 2**16, known=False)
    assert np.array_equal(record.prefix_sums, whole.prefix_sums)
    expected = literal(thetas, gradients)
    assert record.iterates[:, 0, 0] == pytest.approx([row[1] for row in expected], rel=1e-11)


@pytest.mark.parametrize("chunk", [1, 4, 1000])
@pytest.mark.parametrize("known", [True, False])
def test_rounds_of_several_reports(chunk, known):
    """Five reports to a step: A of a step is their mean, added up in order."""
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=10_000)
    means = []
    for step in gradients.reshape(-1, 5).tolist():
        total = 0.0
        for a in step:
            total += a
        means.append(total / 5)
    moves = 40.0 * np.arange(1, 2001) ** -0.51 * means
    thetas = 20.0 - np.concatenate([[0.0], np.cumsum(moves)])
    record = run(thetas, gradients, chunk, known=known, batch_size=5)
    if known:
        equal(record, literal(thetas, np.array(means)))
        return
    sums = record.running_sums["transcript_cubic"][6, :, 0, 0]
    start = {t: 2 ** ((t - 1).bit_length() - 1) if t > 1 else 0 for t in TIMES}
    for at, t in enumerate(TIMES):
        assert sums[at] == pytest.approx(sum(means[start[t] : t]), rel=1e-12)
