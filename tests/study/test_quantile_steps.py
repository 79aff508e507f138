"""Step constants and starts by quantile: what a study may give, and what it means."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.errors import InputError
from ldpflow.simulators import one_pass
from ldpflow.simulators.approach import approach
from ldpflow.study import Study
from tests.kernels import uncompiled

TAUS = (0.1, 0.5, 0.9)


def study(problem=None, **algorithm):
    """A study of three quantiles, or of another problem, with settings as a file has them."""
    return Study.from_mapping(
        {
            "name": "quantiles", "seed": 1, "replicates": 4,
            "problem": {"kind": "quantiles", "taus": list(TAUS)} | (problem or {}),
            "mechanism": {"kind": "cells", "epsilon": 1.0},
            "algorithm": {"kind": "ldp_sgd"} | algorithm,
            "grid": {"n": [400]}, "method": [{"kind": "TR", "degree": 1}],
        }
    )  # fmt: skip


def test_a_list_in_a_list_is_one_value_for_each_quantile():
    found = study(c=[[0.5, 1.0, 2.0]], theta0=[[-1.0, 0.0, 1.0]])
    (simulator,) = found.simulators()
    assert simulator.algorithm == lf.LdpSgd(c=(0.5, 1.0, 2.0), theta0=(-1.0, 0.0, 1.0))
    assert simulator.algorithm.step_factors() == (0.5, 1.0, 2.0)
    assert simulator.algorithm.start(3) == (-1.0, 0.0, 1.0)
    assert Study.from_mapping(found.settings()).simulators() == [simulator]
    (axis,) = {tuple(s.algorithm.c for s in study(c=[0.5, 1.0, 2.0]).simulators())}
    assert axis == (0.5, 1.0, 2.0)
    several = study(c=[[0.5, 1.0, 2.0], [1.0, 1.0, 1.5]], theta0=0.5).simulators()
    assert [s.algorithm.step_factors() for s in several] == [(0.5, 1.0, 2.0), (1.0, 1.0, 1.5)]
    assert several[0].algorithm.start(3) == (0.5, 0.5, 0.5)


def test_keys_of_paths_without_them_stay():
    assert study(c=2.0).simulators()[0].algorithm.key_settings() == {"kind": "ldp_sgd", "c": 2.0}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"c": [[1.0, 2.0]]}, "c has 2 values, one for each of as many quantiles"),
        ({"theta0": [[0.0, 1.0, 2.0, 3.0]]}, "theta0 has 4 values"),
        ({"theta0": [[1.0, 0.0, 2.0]]}, "the starts of several quantiles must not decrease"),
        ({"c": [[1.0, -2.0, 1.0]]}, "algorithm.c: [1.0, -2.0, 1.0] is not allowed"),
        ({"c": [1.0, [1.0, 2.0, 1.0]]}, "algorithm.c: [1.0, 2.0, 1.0] is not allowed"),
        ({"c": [[1.0, 2.0, 1.0]], "c_factors": [1.0, 1.0, 1.0]}, "given once, as c or as c_factors"),
    ],
)
def test_refused(settings, said):
    with pytest.raises(InputError) as caught:
        study(**settings).simulators()
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


def test_relaxation_times_and_units_follow_the_coordinate():
    once, twice = (study(c=[[1.0, 1.0, f]], theta0=[[-1.0, 0.0, 1.0]]).simulators()[0] for f in (1.0, 2.0))
    method = lf.TranscriptRegression(degree=1)
    with mock.patch.object(one_pass, "one_pass_kernel", uncompiled.one_pass_kernel):
        record = lf.simulate(twice, 1, range(2), [100], [method])
    found = method.intervals(record, 100, [0.9]).diagnosis["relaxation_times"]
    other = method.intervals(replace(record, source=once), 100, [0.9]).diagnosis["relaxation_times"]
    np.testing.assert_allclose(found, other * np.array([1.0, 1.0, 2.0])[:, None], rtol=1e-12)
    own, plain = (approach(path, 400, 2) for path in (twice, once))
    assert (own.c, own.theta0) == (2.0, 1.0) and replace(own, c=plain.c) == plain
    (path,) = study(
        {"location": 10.0, "scale": 3.0, "units": {"location": 10.0, "scale": 3.0}},
        c=[[0.5, 1.0, 2.0]], theta0=[[-1.0, 0.0, 1.0]],
    ).simulators()  # fmt: skip
    assert path.algorithm.start(3) == (7.0, 10.0, 13.0) and path.algorithm.c == 3.0
    assert path.algorithm.step_factors() == (0.5, 1.0, 2.0)
