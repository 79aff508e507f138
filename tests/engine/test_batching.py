"""A study cut into batches, everything once and smaller at the end; its predicted time."""

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.intervals.variance import BatchMeans
from ldpflow.components.mechanisms.randomized_response import RandomizedResponse
from ldpflow.components.problems.quantile import Quantile
from ldpflow.engine.batching import TAIL_SECONDS, cut
from ldpflow.engine.prediction import predict
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import Batch
from ldpflow.simulators.simulator import Cell
from ldpflow.study import load_study

LAWS = ("normal", "laplace", "logistic")


def missing(tau: float, n: int, first: int, last: int, law: str = "normal") -> Batch:
    path = OnePass(Quantile(tau=tau, law=law), RandomizedResponse(), LdpSgd())
    return Batch(path, 1, first, last, (Cell(n, BatchMeans(), 0.9),))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(2, 8), st.integers(0, 5), st.integers(1, 3000)), max_size=4),
    st.integers(1, 64),
)
def test_every_replicate_once(ranges, cores):
    wanted = [
        missing(0.1 * (k + 1), 10**power, 64 * start, 64 * start + count, LAWS[k % 3])
        for k, (power, start, count) in enumerate(ranges)
    ]
    batches = list(chain.from_iterable(cut(wanted, cores)))
    for m in wanted:
        mine = sorted((b.first, b.last) for b in batches if b.simulator == m.simulator)
        assert [first for first, _ in mine] == [m.first, *(last for _, last in mine[:-1])]
        assert mine[-1][1] == m.last
    assert all(b.first % LANES == 0 for b in batches)


def test_small_batches_come_last():
    cores = 4
    m = missing(0.5, 10**7, 0, 6400)
    sizes = [b.last - b.first for b in chain.from_iterable(cut([m], cores))]
    assert sizes[0] * m.cost.seconds > 1.0
    # 2 batches per core, in pieces of one row of lanes: half a second is less than one takes.
    assert LANES * m.cost.seconds > TAIL_SECONDS
    assert sizes == sorted(sizes, reverse=True) and sizes[-4 * cores :] == [LANES] * 4 * cores


def test_cost_scales_with_replicates_and_cores(monkeypatch):
    monkeypatch.setattr("ldpflow.engine.prediction.CALIBRATION_SECONDS", 0.02)
    plans = load_study("quickstart").replace({"n": [2000]}).plans()
    small = predict(plans, 64, 1, "serial")
    large = predict(plans, 640, 1, "serial")
    assert large.steps == 10 * small.steps == 10 * 3 * 64 * 2000
    # The same calibration twice, on a machine that may be busy.
    assert 2.0 < large.kernel_seconds / small.kernel_seconds < 50.0
    assert len(small.nanoseconds) == 3
