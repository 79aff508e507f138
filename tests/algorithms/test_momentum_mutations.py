"""The mistakes that the literature invites, put into the kernels: the golden vectors must notice."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.privacy.tree import touched_nodes
from ldpflow.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.simulators import finite_sum
from tests.algorithms.test_dp_nsgd import FIRST, golden
from tests.algorithms.test_dp_nsgd_reduced import FIXED, ROTATING
from tests.oracles import momentum

pytestmark = pytest.mark.slow

OLDER = [
    ("    m[:] = 0.0\n", "    m[:] = 0.0\n    older = np.empty(STATE)\n    older[:] = w\n"),
    ("            anchor[:] = w\n", "            anchor[:] = older\n"),
    ("        move(w, mhat, eta)\n", "        older[:] = w\n        move(w, mhat, eta)\n"),
]
NOISE = "zeta, keys, tree, level, rest, deviation"
MUTATIONS = {
    "the exponent counts from a node's start": (
        FIXED, [("factor = decay[t - a + 1]", "factor = decay[min(t - a + (1 << level), batches)]")]
    ),
    "the first algorithm's too": (FIRST, [("factor = doubled[level]", "factor = 1.0")]),
    "the root has no noise": (
        FIRST, [(NOISE, "zeta, keys, tree, level, rest, 0.0 if level == 3 else deviation")]
    ),
    "noise is drawn per query": (FIRST, [(NOISE, "zeta, keys, tree, level, t, deviation")]),
    "an older anchor": (ROTATING, OLDER),
    "a window too early": (FIXED, [("if t < 2 * batches:\n", "if t < batches:\n")]),
    "one vector for all levels of a step": (
        FIXED, [("zeta, keys, 2, level, index,", "zeta, keys, 2, 0, t - 1,")]
    ),
    "one vector for two trees": (FIXED, [("keys, 3, level, index", "keys, 2, level, index")]),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_in_a_kernel_shows(name, monkeypatch):
    algorithm, changes = MUTATIONS[name]
    right = golden(algorithm, 1.0)
    genuine = finite_sum.kernel_source

    def mutated(*args, **parts):
        source = genuine(*args, **parts)
        for before, after in changes:
            assert source.count(before) == 1, before
            source = source.replace(before, after)
        return source

    monkeypatch.setattr(finite_sum, "kernel_source", mutated)
    wrong = golden(algorithm, 1.0)
    # The golden vectors' tolerance is 1e-10.
    assert max(np.abs(a - b).max() for a, b in zip(right, wrong, strict=True)) > 1e-6


def test_visits_rounded_down_count_too_few_nodes():
    # N = 4, T = 10: a record enters 9 nodes; with floor(T/N) visits V would be 8, and sigma too small.
    n, steps = 4, 10
    floored = sum(min(steps // n, steps >> level) for level in range(steps.bit_length()))
    most = max(len(momentum.node_weights(range(p, steps + 1, n), steps, 0.5)) for p in range(1, n + 1))
    assert floored < most == touched_nodes(steps, n)


def test_the_smoothness_is_in_the_noise():
    # bound^2 / 4: four times the smoothness, four times the noise of Delta and r, at equal sigma.
    plans = [FIXED.plan(NonconvexLogistic(bound=b), 30) for b in (1.0, 2.0)]
    small = [FIXED.kernel_settings(plan)[-1] for plan in plans]
    assert small[1] / small[0] == pytest.approx(4.0)
