"""What a method may return: a wrong shape, an undeclared diagnostic or swapped limits end the batch."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.columns import Column
from ldpflow.errors import LdpflowError
from ldpflow.simulators.one_pass import OnePass
from ldpflow.simulators.rows import Batch, simulate
from ldpflow.simulators.simulator import Cell


def changed(result, kind):
    narrow = {"lower": result.lower[0], "upper": result.upper[0]}
    return {
        "right": result,
        "by level": replace(result, estimate=np.stack([result.estimate] * 2)),
        "narrow": replace(result, **narrow),
        "swapped": replace(result, lower=result.upper, upper=result.lower),
        "scalar": replace(result, diagnosis={"declared": 3.0}),
        "undeclared": replace(result, diagnosis={"other": result.estimate}),
        "estimate": replace(result, estimate=result.estimate[0]),
        "se": replace(result, se=result.se[:, :1]),
        "tuple": (result.lower, result.upper),
    }[kind]


class Mistaken(lf.SelfNormalization):
    kind: Literal["mistaken"] = "mistaken"
    mistake: str = "right"
    diagnostics: ClassVar = (Column("declared", "double", "1", "a number"),)

    def intervals(self, record, n, levels):
        found = super().intervals(record, n, levels)
        return changed(replace(found, se=np.ones_like(found.estimate)), self.mistake)


def rows(mistake):
    path = OnePass(lf.Quantile(), lf.RandomizedResponse(epsilon=1.0), lf.LdpSgd())
    cells = tuple(Cell(100, Mistaken(mistake=mistake), level) for level in (0.5, 0.9))
    return simulate(Batch(path, 1, 0, 5, cells)).rows


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("narrow", r"lower has shape \(1, 5\); it has to be \(2, 1, 5\)"),
        ("swapped", "a lower limit lies above the upper one"),
        ("scalar", r"declared has shape \(\); it has to be \(1, 5\) or \(2, 1, 5\)"),
        ("undeclared", "'other', which is not in its diagnostics"),
        ("estimate", r"estimate has shape \(5,\)"),
        ("se", r"se has shape \(1, 1\)"),
        ("tuple", "returned a tuple; it has to be an lf.Intervals"),
    ],
)
def test_a_mistake_is_one_sentence(mistake, said):
    assert rows("right").num_rows == rows("by level").num_rows == 10
    with pytest.raises(LdpflowError, match=f"test_faulty_methods.py: Mistaken: .*{said}"):
        rows(mistake)
