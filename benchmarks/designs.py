"""Designs to time: the two problems of Dette and Graw and Huber regression, at one budget and level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ldpflow.components.algorithms import ALGORITHMS
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.components.mechanisms import MECHANISMS
from ldpflow.components.problems import PROBLEMS
from ldpflow.numerics.streams import LANES
from ldpflow.simulators.one_pass import OnePass, run_path
from ldpflow.simulators.simulator import Cell

SEED = 20240520
TAU = 0.5
EPSILON = 1.0
GAMMA = 0.51
C = 1.0
LEVEL = 0.9


def quantile(mechanism: str = "randomized_response", **settings: Any) -> OnePass:
    """Path for the median of N(0, 1)."""
    return OnePass(
        PROBLEMS["quantile"](tau=TAU),
        MECHANISMS[mechanism](epsilon=EPSILON, **settings),
        ALGORITHMS["ldp_sgd"](gamma=GAMMA, c=C),
    )


def regression() -> OnePass:
    """Path for median regression with d = 4 under Laplace noise."""
    return OnePass(
        PROBLEMS["quantile_regression"](tau=TAU),
        MECHANISMS["laplace"](epsilon=EPSILON),
        ALGORITHMS["ldp_sgd"](gamma=GAMMA, c=C),
    )


def huber(d: int) -> OnePass:
    """Path for Huber regression with Mallows weights under Gaussian noise."""
    return OnePass(
        PROBLEMS["linear_regression"](coefficients=(1.0,) * d),
        MECHANISMS["gaussian"](mu=1.0),
        ALGORITHMS["ldp_sgd"](gamma=0.6, c=0.1),
    )


def cells(n: int, *methods: str) -> list[Cell]:
    """One cell per interval method, with its default settings."""
    return [Cell(n, INTERVAL_METHODS[kind](), LEVEL) for kind in methods]


def times_of(path: OnePass, wanted: list[Cell]) -> np.ndarray:
    """Times at which these cells need S, the sum of the iterates."""
    return np.array(path.needs(wanted).times, dtype=np.int64)


def kernel(path: OnePass, wanted: list[Cell]) -> tuple[Callable[[], object], int]:
    """Work that runs the path in all lanes, and its number of steps times replicates."""
    recording = path.needs(wanted)
    steps = recording.times[-1]

    def work() -> object:
        return run_path(path, SEED, range(LANES), recording.times, recording.marked, recording.sums)

    return work, steps * LANES
