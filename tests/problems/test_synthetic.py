"""Synthetic records of empirical risk minimisation, against their law written out."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.components.problems.robust_regression import RobustRegression
from ldpflow.components.problems.sigmoid_loss import SigmoidLoss
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.finite_sum import draw_records
from tests.draws import planes

SEED, N = 3, 300  # more than two chunks


def drawn(problem, replicate):
    """x, y and the standard variates of a replicate's records."""
    records = draw_records(problem, SEED, N, [0, replicate])
    x = records.rows.reshape(LANES, N, problem.d)[1]
    y = records.targets.reshape(LANES, N)[1]
    return x, y, planes(SEED, "data", problem.data_key(), replicate, problem.variates(), N)


@pytest.mark.thorough
@pytest.mark.parametrize(("direction", "u"), [("diagonal", (0.5,) * 4), ("axis", (1.0, 0, 0, 0))])
def test_two_classes(direction, u):
    problem = NonconvexLogistic(d=4, bound=2.0, separation=1.5, direction=direction, label_noise=0.2)
    x, y, variates = drawn(problem, 7)
    for i in range(N):
        v = variates[i, 4]
        label = 1.0 if v < 0.5 else -1.0
        raw = variates[i, :4] + label * 1.5 * np.array(u)
        assert x[i] == pytest.approx(2.0 * raw / np.linalg.norm(raw), rel=1e-12)
        # What the uniform has left after the class decides whether the label is flipped.
        assert y[i] == (-label if (2.0 * v) % 1.0 < 0.2 else label)


def test_the_diagonal_keeps_its_records():
    # From before there was a choice: stored runs go on with the same random numbers.
    key = '{"d":4,"law":"binary","parameters":[1.0,0.5,0.1]}'
    assert NonconvexLogistic(d=4).data_key() == SigmoidLoss(d=4).data_key() == key
    assert "direction" not in SigmoidLoss(d=4).key_settings()
    assert SigmoidLoss(d=4, direction="axis").data_key() != SigmoidLoss(d=4, separation=2).data_key()


@pytest.mark.thorough
def test_real_targets():
    problem = RobustRegression(d=3, bound=2.0, signal=1.5, error_scale=0.7)
    x, y, variates = drawn(problem, 7)
    for i in range(N):
        raw = variates[i, :3]
        unit = raw / np.linalg.norm(raw)
        assert x[i] == pytest.approx(2.0 * unit, rel=1e-12)
        mean = 1.5 * (unit[0] - unit[1] + unit[2])
        assert y[i] == pytest.approx(mean + 0.7 * variates[i, 3], rel=1e-11, abs=1e-13)
