"""Distribution functions of populations against those of the laws."""

from __future__ import annotations

import numpy as np
import pytest

from ldpflow.components.problems.column_law import column_law
from ldpflow.components.problems.laws import Component, Law
from ldpflow.components.protocols.collections import call
from ldpflow.components.protocols.round_counts import CODES, cdf_at, population_of

RNG = np.random.default_rng(20261122)
POINTS = np.concatenate([RNG.normal(0, 3, 40), RNG.uniform(0, 30, 40), [0.0, 1.0, -50.0, 50.0, 1e-12]])
SHAPES = {"lognormal": 0.7, "weibull": 1.7, "pareto": 2.2, "gamma": 3.3}
COLUMN = column_law(np.exp(RNG.normal(size=500)))


def law(name, **settings):
    df = 2.5 if name == "student_t" else None
    table = COLUMN if name == "empirical" else None
    return Law(name, df=df, shape=SHAPES.get(name), table=table, **settings)


MIXTURE = Law(
    "mixture",
    location=1.0,
    scale=2.0,
    components=(Component(1.0, law("normal", location=-1.0, scale=0.5)), Component(3.0, law("gamma"))),
)
LAWS = [law(name, location=0.25, scale=2.0) for name in CODES] + [MIXTURE]


def cdf_values(law, points):
    values = np.empty(len(points))
    call(cdf_at, values, population_of(law), points)
    return values


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_the_arrays_give_the_law_s_distribution_function(law):
    x = 0.25 + 2.0 * POINTS
    assert cdf_values(law, x) == pytest.approx(law.cdf_values(x), abs=2e-12)
