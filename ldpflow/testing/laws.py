"""Checks of a data law: its functions against each other, and its draws against them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from mpmath import mpf

from ldpflow import constants
from ldpflow.mechanisms.none import NoMechanism
from ldpflow.problems.data_law import DataLaw
from ldpflow.problems.quantile import Quantile
from ldpflow.random.samplers import SAMPLERS
from ldpflow.testing.drawn import planes
from ldpflow.testing.running import SEED, Wrong, path_of, runs
from ldpflow.testing.simulated import ERROR_RATE, gradients, near

DRAWS = 8000
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


def quantile_of(law: DataLaw, tau: float = 0.5) -> Quantile:
    """The problem of a quantile of the law."""
    return Quantile(tau=tau, law=law.kind, shape=getattr(law, "shape", None))


def law_checks(made: dict[str, Any]) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Distribution function, density, quantile and draws of a data law."""

    def base() -> str:
        if made["it"].base not in SAMPLERS:
            raise Wrong(f"base is {made['it'].base!r}; it has to be one of {', '.join(SAMPLERS)}")
        return str(made["it"].base)

    def functions() -> str:
        law = made["it"]
        with constants.workdps(40):
            for tau in LEVELS:
                z = mpf(law.quantile(mpf(tau)))
                if abs(law.cdf(z) - tau) > 1e-12:
                    raise Wrong(f"cdf(quantile({tau})) is {float(law.cdf(z)):.6g}")
                h = mpf("1e-12") * max(abs(z), mpf(1))
                slope = (law.cdf(z + h) - law.cdf(z - h)) / (2 * h)
                if abs(law.density(z) - slope) > 1e-6 * abs(slope):
                    found, claimed = float(slope), float(law.density(z))
                    raise Wrong(
                        f"the cdf's slope at its {tau} quantile is {found:.6g}, density() is {claimed:.6g}"
                    )
        return f"at {len(LEVELS)} quantiles"

    def drawn() -> str:
        problem = quantile_of(made["it"])
        values = np.sort(planes(SEED, "data", problem.data_key(), 0, problem.variates(), DRAWS)[:, 0])
        expected = problem.data_law().cdf_values(values)
        ranks = np.arange(1, DRAWS + 1) / DRAWS
        distance = float(max((ranks - expected).max(), (expected - ranks).max() + 1 / DRAWS))
        # Kolmogorov's statistic, by the bound of Dvoretzky, Kiefer, Wolfowitz and Massart.
        if distance > math.sqrt(math.log(2 / ERROR_RATE) / (2 * DRAWS)):
            raise Wrong(f"the distribution of {DRAWS:,} draws is {distance:.3g} away from cdf()")
        return f"{DRAWS:,} draws"

    def truth() -> str:
        for tau in (0.1, 0.5, 0.9):
            problem = quantile_of(made["it"], tau)
            g = gradients(problem, NoMechanism(), problem.truth())
            near(g.mean(axis=0), g.std(axis=0, ddof=1), len(g), f"P(Z <= {tau} quantile) - {tau}")
        return "the 0.1, 0.5 and 0.9 quantiles"

    yield "base", base
    yield "cdf, density and quantile agree", functions
    yield "runs", lambda: runs(path_of(problem=quantile_of(made["it"])))
    yield "draws have the law", drawn
    yield "true value: compiled draws have the quantiles", truth
