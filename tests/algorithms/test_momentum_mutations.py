"""The mistakes that the literature invites, put into the kernels: the golden vectors must notice."""

from __future__ import annotations

import inspect
import linecache

import numpy as np
import pytest

from ldpflow.components.problems.nonconvex_logistic import NonconvexLogistic
from ldpflow.numerics.kernel_functions import part_of
from ldpflow.simulators import finite_sum_kernel
from tests.algorithms.test_dp_nsgd import FIRST, golden
from tests.algorithms.test_dp_nsgd_reduced import FIXED, ROTATING

OLDER = [
    ("    position = batches\n", "    position = batches\n    older = w.copy()\n"),
    ("                anchor[at] = w[at]\n", "                anchor[at] = older[at]\n"),
    ("        kernel.move(w, mhat, eta)\n", "        older[:] = w\n        kernel.move(w, mhat, eta)\n"),
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


def mutated(function, changes):
    """The function with its source changed, and how often a change applied."""
    source, found = inspect.getsource(function), 0
    for before, after in changes:
        found += source.count(before)
        source = source.replace(before, after)
    file = f"<mutated {function.__name__} {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    namespace = dict(vars(inspect.getmodule(function)))
    exec(compile(source, file, "exec"), namespace)
    return namespace[function.__name__], found


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_in_a_kernel_shows(name, plain):
    algorithm, changes = MUTATIONS[name]
    right = golden(algorithm, 1.0)
    recursion, in_recursion = mutated(part_of(algorithm, "recursion"), changes)
    prefix_noise, in_noise = mutated(finite_sum_kernel.prefix_noise, changes)
    assert in_recursion + in_noise == len(changes)
    wrong = golden(algorithm, 1.0, recursion=recursion, prefix_noise=prefix_noise)
    # The golden vectors' tolerance is 1e-10.
    assert max(np.abs(a - b).max() for a, b in zip(right, wrong, strict=True)) > 1e-6


def test_the_smoothness_is_in_the_noise():
    # bound^2 / 4: four times the smoothness, four times the noise of Delta and r, at equal sigma.
    plans = [FIXED.plan(NonconvexLogistic(bound=b), 30) for b in (1.0, 2.0)]
    small = [FIXED.kernel_settings(plan)["small"] for plan in plans]
    assert small[1] / small[0] == pytest.approx(4.0)
