"""Planes of variates: each from the stream of its role, with its own parameter, in the order asked for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from ldpflow.components.problems.laws import Variate
from ldpflow.numerics.streams import LANES, STRIDE
from ldpflow.simulators.one_pass_kernel import draw, drawing, drawing_parameters

ASKED = (
    Variate("student_t", 3.0),
    Variate("student_t", 5.0),
    Variate("normal"),
    Variate("normal", role="budgets"),
    Variate("normal", role="budgets"),
    Variate("student_t", 7.0),
)


def test_every_plane_has_the_sampler_the_parameter_and_the_stream_of_its_variate():
    """The kernel function, interpreted, with samplers that write down what they were called with."""
    values = dict(drawing(ASKED).case.values)
    assert values["GROUPS"] == 4, "neighbours that are alike share a loop"
    names = [ASKED[first].name for first in values["FIRST"]]

    def sampler(name):
        def fill(state, parameter, plane):
            plane[:3] = len(name), parameter, state[0]
            plane[3:] += 1.0  # how often it was filled

        return fill

    values["samplers"] = tuple(map(sampler, names))
    state = np.repeat([10.0, 20.0], 4 * LANES)  # the component's stream, then that of the role
    planes = np.zeros(len(ASKED) * STRIDE)
    draw(SimpleNamespace(**values), state, drawing_parameters(ASKED), planes)
    for variate, plane in zip(ASKED, planes.reshape(-1, STRIDE), strict=True):
        stream = 10.0 if variate.role is None else 20.0
        assert plane[:3].tolist() == [len(variate.name), variate.parameter, stream]
        assert set(plane[3:]) == {1.0}
