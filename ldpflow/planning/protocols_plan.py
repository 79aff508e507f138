"""Comparing the protocols for every quantile, budget, n and level of a study."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ldpflow.errors import InputError
from ldpflow.planning.compare import ProtocolPlan, compare_protocols
from ldpflow.planning.forecast import Steps
from ldpflow.planning.plans import Plan
from ldpflow.problems.quantile import Quantile
from ldpflow.problems.quantiles import Quantiles
from ldpflow.protocols import OneShot, Protocol
from ldpflow.protocols.population import CODES

if TYPE_CHECKING:
    from ldpflow.study import Study


class Comparison(TypedDict, total=False):
    """Settings of a comparison of protocols, beside its study.

    Parameters
    ----------
    range : (float, float)
        Public range of the values; that of the study's protocols unless given.
    scale_guess : float
        Public guess of the law's scale, for the number of bins.
    rounds_max, bits_max
        Protocols beyond them carry a caution.
    liars : float in [0, 1)
        Share of those who answer that send the worst report.
    answer_below, answer_above : float in (0, 1]
        Probability, beside the response rate, that a user answers whose value is at most the quantile,
        or above it.
    answers : int in [1, 64]
        Answers of every user, each with epsilon/answers.
    replicates : int
        Of the simulations.
    """

    range: tuple[float, float]
    scale_guess: float
    rounds_max: int
    bits_max: float
    liars: float
    answer_below: float
    answer_above: float
    answers: int
    replicates: int


class ProtocolsPlan(Plan):
    """The protocols side by side, one row for each; see :class:`ldpflow.planning.compare.ProtocolPlan`."""

    def check(self, engine: str = "serial", **options: Any) -> bool:
        """Refused: the rows are simulated already.

        Raises
        ------
        InputError
        """
        raise InputError("check", True, "nothing with `compare`: every row is simulated already")


def plan_protocols(
    study: Study,
    half_width: float | None = None,
    response: float = 1.0,
    **settings: Unpack[Comparison],
) -> ProtocolsPlan:
    """Rows of :func:`compare_study`, with the cautions of all rows in words."""
    found = compare_study(study, half_width=half_width, response=response, **settings)
    rows = [{**vars(row), "cautions": "; ".join(row.cautions)} for row in found]
    cautions = [
        f"{row.protocol}, tau {row.tau:g}, epsilon {row.epsilon:g}, n {row.n:,}: {'; '.join(row.cautions)}"
        for row in found
        if row.cautions
    ]
    return ProtocolsPlan(rows, cautions, refused=False)


def compare_study(
    study: Study,
    *,
    half_width: float | None = None,
    response: float = 1.0,
    **settings: Unpack[Comparison],
) -> list[ProtocolPlan]:
    """Compare the protocols for every quantile, epsilon, n and level of a study.

    Parameters
    ----------
    study : Study
        Its problems must be quantiles of one value; epsilon comes from its mechanisms and protocols,
        LDP-SGD's start and steps from its algorithms.
    half_width : float > 0, optional
        Wanted, unit of the data: users and budget that reach it.
    response : float in (0, 1]
        Probability that a user answers.
    settings
        See :class:`Comparison`.

    Raises
    ------
    InputError
        If a problem is no quantile, there is no range, or a value cannot be planned for.
    """
    known = Comparison.__annotations__
    for name in settings:
        if name not in known:
            raise InputError(name, settings[name], f"one of {', '.join(known)}")  # type: ignore[literal-required]
    simulators = [made.simulator for made in study.plans()]
    parts = [simulator.parts() for simulator in simulators]
    problems = list(dict.fromkeys(found["problem"] for found in parts))
    epsilons = list(dict.fromkeys(e for s in simulators if (e := s.privacy().epsilon) is not None))
    if not epsilons:
        raise InputError("mechanism.epsilon", None, "a study with a pure local budget")
    options: dict[str, Any] = dict(settings)
    ends, scale = public_facts(parts, options.pop("range", None), options.pop("scale_guess", None))
    options |= {"half_width": half_width, "response": response, "scale": scale, "steps": steps_of(parts)}
    found: list[ProtocolPlan] = []
    for problem in problems:
        if not isinstance(problem, (Quantile, Quantiles)):
            raise InputError("problem.kind", problem.kind, "quantile or quantiles, to compare protocols")
        law, taus = problem.data_law(), problem.levels() or ()
        if law.own is not None:
            raise InputError("problem.law", law.name, f"one of {', '.join(CODES)}, or a mixture")
        for epsilon, n, level in cases(study, epsilons):
            found += compare_protocols(law, taus, epsilon, n, ends, level=level, **options)
    return found


def cases(study: Study, epsilons: list[float]) -> Iterator[tuple[float, int, float]]:
    """Every epsilon, n and level."""
    for epsilon in epsilons:
        for n in study.n:
            for level in study.level:
                yield epsilon, n, level


def public_facts(
    parts: list[dict[str, Any]], ends: tuple[float, float] | None, scale: float | None
) -> tuple[tuple[float, float], float | None]:
    """Range and guessed scale, from the study's protocols where they are not given."""
    protocols = [found["protocol"] for found in parts if "protocol" in found]
    if ends is None:
        ends = next((p.ends for p in protocols if isinstance(p, Protocol)), None)
    if ends is None:
        hint = "It is known before any report: values outside are moved to its ends."
        raise InputError("range", None, "the public range of the values, two numbers", hint)
    low, high = map(float, ends)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError("range", list(ends), "two finite numbers, the smaller one first")
    if scale is None:
        guesses = (p.scale_guess for p in protocols if isinstance(p, OneShot))
        scale = next((guess for guess in guesses if guess is not None), None)
    elif not 0 < scale < math.inf:
        raise InputError("scale_guess", scale, "a number > 0")
    return (low, high), scale


def steps_of(parts: list[dict[str, Any]]) -> Steps:
    """Start and steps of the study's first algorithm of decaying steps; LDP-SGD's defaults without one."""
    for found in parts:
        algorithm = found.get("algorithm")
        if algorithm is None:
            continue
        if math.isnan(algorithm.step_exponent()) or math.isnan(algorithm.step_constant()):
            return Steps(undeclared=algorithm.kind)
        if algorithm.step_exponent() > 0.0:
            return Steps(
                algorithm.step_constant(),
                algorithm.step_exponent(),
                algorithm.theta0,
                algorithm.records_per_step(),
                getattr(algorithm, "rounds", None),
            )
    return Steps()
