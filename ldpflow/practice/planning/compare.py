"""Which protocol for a quantile: accuracy, users, budget, bits and rounds of each, side by side.

Users and budgets for a half width are the fewest and smallest with which a protocol's default interval is as
short as wanted: the median half width of simulated intervals decides. That of a histogram falls in steps,
since intervals end at edges and the number of bins is chosen again at every n and epsilon; that of LDP-SGD
takes a simulation of every user, so the length that its method has on such paths is corrected by few of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.quantiles import Quantiles
from ldpflow.components.protocols import PROTOCOLS, OneShot, Protocol
from ldpflow.components.protocols.round_counts import CODES
from ldpflow.errors import InputError
from ldpflow.practice.planning.forecasts import (
    CellsForecast,
    Forecast,
    OneShotForecast,
    RoundsForecast,
    SgdForecast,
    Simulated,
    Steps,
    Target,
)
from ldpflow.practice.planning.method import MOST_USERS
from ldpflow.practice.planning.plans import Plan
from ldpflow.results.protocol_curves import bit_variance

if TYPE_CHECKING:
    from ldpflow.study import Study

SHORT = 0.03  # coverage below the level that needs a caution
AGREES = 0.05  # a half width this close to a simulation with other seeds needs no caution
PRECISE = 0.01  # Monte Carlo error of an RMSE, over the RMSE, that ends a simulation early
FAR = 5.0  # an estimate this many standard errors of the bound away is lost

EPSILONS: tuple[float, ...] = tuple(round(0.05 + 0.001 * i, 3) for i in range(11951))
"""Budgets among which the smallest that is enough is looked for: .05, .051, .. 12."""

USERS: tuple[int, ...] = tuple(
    dict.fromkeys(math.floor(10.0 ** (i / 100) * (1 + 1e-12)) for i in range(1201))
)
"""Numbers of users among which the fewest are looked for, 100 a decade: found to 2.3%."""

REPLICATES = 500  # of a search: a median length is known well with fewer than a coverage
CORRECTIONS = 2
CLOSE = 0.01

T = TypeVar("T", int, float)


@dataclass(frozen=True)
class ProtocolPlan:
    """One protocol at one (tau, epsilon, n, level): every number is that of the interval it gives by default.

    Efficiencies, ``median_error`` and ``lost`` are of the estimate that this interval is around.

    Parameters
    ----------
    protocol : str
    tau, level : float
    epsilon : float
        Budget of a user, for all answers together.
    n : int
        Users asked.
    users : int
        Users who answer about this quantile.
    answers : int
        Of each of them.
    interval : str or None
        ``TR`` or ``TR3`` of LDP-SGD, as a plan recommends; ``fieller`` of rounds; ``outer`` of histograms.
        None, and no number, for a path that does not arrive.
    bins : int or None
        k of a histogram.
    rounds : int
    bits : float
        Sent by a user.
    needs : str
        What has to be known beforehand.
    half_width : float or None
        Median of half the simulated lengths, unit of the data; an undefined interval is infinitely long.
    n_needed : int or None
        Fewest users asked for the half width wanted; None without one, or if 10^12 are not enough.
    interval_needed : str or None
        The interval with so many users.
    epsilon_needed : float or None
        Smallest budget in steps of .001 up to 12 with which n users reach it; None if none does.
    efficiency : float or None
        S/(n MSE f^2), simulated; 1 is the best possible.
    efficiency_formula : float
        S/V from the asymptotic variance V of the protocol's estimate, of LDP-SGD of the average.
    coverage, coverage_mcse : float or None
        Of the interval, simulated.
    median_error : float or None
        Median of the absolute errors over the bound's standard error; .674 for normal errors at the bound.
    lost : float or None
        Share of estimates more than five of the bound's standard errors away.
    range_end, undefined : float or None
        Shares of intervals that end at the range, and that are undefined.
    cautions : tuple of str
    """

    protocol: str
    tau: float
    epsilon: float
    level: float
    n: int
    users: int
    answers: int
    interval: str | None
    bins: int | None
    rounds: int
    bits: float
    needs: str
    half_width: float | None = None
    n_needed: int | None = None
    interval_needed: str | None = None
    epsilon_needed: float | None = None
    efficiency: float | None = None
    efficiency_formula: float = math.nan
    coverage: float | None = None
    coverage_mcse: float | None = None
    median_error: float | None = None
    lost: float | None = None
    range_end: float | None = None
    undefined: float | None = None
    cautions: tuple[str, ...] = ()

    def with_cautions(self, *cautions: str) -> ProtocolPlan:
        """The row with further cautions."""
        return replace(self, cautions=(*self.cautions, *cautions))


class ProtocolsPlan(Plan):
    """The protocols side by side, one row for each; see :class:`ldpflow.practice.planning.ProtocolPlan`."""

    def check(self, engine: str = "serial", **options: Any) -> bool:
        """Refused: the rows are simulated already.

        Raises
        ------
        InputError
        """
        raise InputError("check", True, "nothing with `compare`: every row is simulated already")


def plan_protocols(
    study: Study, half_width: float | None = None, response: float = 1.0, **settings: Any
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
    range: tuple[float, float] | None = None,
    scale_guess: float | None = None,
    **settings: Any,
) -> list[ProtocolPlan]:
    """Compare the protocols for every quantile, epsilon, n and level of a study.

    Parameters
    ----------
    study : Study
        Its problems must be quantiles of one value; epsilon comes from its mechanisms and protocols,
        LDP-SGD's start and steps from its algorithms.
    half_width, response, range, scale_guess, settings
        See :class:`ldpflow.practice.planning.PlanOptions`.

    Raises
    ------
    InputError
        If a problem is no quantile, there is no range, or a value cannot be planned for.
    """
    simulators = [made.simulator for made in study.plans()]
    parts = [simulator.parts() for simulator in simulators]
    problems = list(dict.fromkeys(found["problem"] for found in parts))
    epsilons = list(dict.fromkeys(e for s in simulators if (e := s.privacy().epsilon) is not None))
    if not epsilons:
        raise InputError("mechanism.epsilon", None, "a study with a pure local budget")
    ends, scale = public_facts(parts, range, scale_guess)
    settings |= {"half_width": half_width, "response": response, "scale": scale, "steps": steps_of(parts)}
    found: list[ProtocolPlan] = []
    for problem in problems:
        if not isinstance(problem, (Quantile, Quantiles)):
            raise InputError("problem.kind", problem.kind, "quantile or quantiles, to compare protocols")
        law, taus = problem.data_law(), problem.levels() or ()
        if law.own is not None:
            raise InputError("problem.law", law.name, f"one of {', '.join(CODES)}, or a mixture")
        for epsilon, n, level in product(epsilons, study.n, study.level):
            found += compare_protocols(law, taus, epsilon, n, ends, level=level, **settings)
    return found


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
                algorithm.step_factors(),
                getattr(algorithm, "theta0_offsets", None) or (),
            )
    return Steps()


def compare_protocols(
    law: Law,
    taus: Sequence[float],
    epsilon: float,
    n: int,
    ends: tuple[float, float],
    *,
    level: float = 0.9,
    half_width: float | None = None,
    scale: float | None = None,
    rounds_max: int | None = None,
    bits_max: float | None = None,
    steps: Steps | None = None,
    replicates: int = 2000,
    seed: int = 1,
    **answering: Any,
) -> list[ProtocolPlan]:
    """Compare the protocols for one quantile of a law, or for several from the same users.

    For several quantiles ``sgd`` and ``rounds`` split the users evenly, ``cells`` asks every user about
    all of them, and a histogram answers for all.

    Parameters
    ----------
    law : Law
    taus : sequence of float
        Levels of the quantiles, each once.
    epsilon, level, half_width, scale, rounds_max, bits_max
        See :class:`ldpflow.practice.planning.PlanOptions`.
    n : int
        Users asked.
    ends : (float, float)
        Public range of the values.
    steps : Steps, optional
        Start and step of LDP-SGD and of ``cells``; from 0 with c = 1 and gamma = .51 where not given.
    replicates, seed : int
        Of the simulations; up to four times as many where the errors have heavy tails.
    answering
        Share that answers, liars and answers of each user, by the names of :class:`Target`.

    Returns
    -------
    list of ProtocolPlan
        By quantile, and for each by users needed, or by half width at n where none is wanted.

    Raises
    ------
    InputError
        If a value is not one that can be planned for.
    """
    if not taus or len(set(taus)) < len(taus):
        raise InputError("tau", list(taus), "one level or more, each once")
    if not 1e-6 <= epsilon <= 30:
        raise InputError("epsilon", epsilon, "a number in [1e-06, 30]")
    if not 1 <= n <= MOST_USERS:
        raise InputError("n", n, f"an integer in [1, {MOST_USERS:g}]")
    if half_width is not None and not 0 < half_width < math.inf:
        raise InputError("half_width", half_width, "a number > 0")
    found: list[ProtocolPlan] = []
    for tau in sorted(taus):
        target = Target(law, tau, level, together=tuple(sorted(taus)), **answering)
        rows = []
        for forecast in forecasts(target, ends, scale, steps or Steps()):
            row = at_n(forecast, n, epsilon, replicates, seed)
            if half_width is not None:
                row = with_needs(row, forecast, half_width, replicates, seed)
            if rounds_max is not None and row.rounds > rounds_max:
                row = row.with_cautions(f"rounds > {rounds_max}")
            if bits_max is not None and row.bits > bits_max:
                row = row.with_cautions(f"bits > {bits_max:g}")
            rows.append(row)
        found += sorted(rows, key=rank)
    return found


def forecasts(
    target: Target, ends: tuple[float, float], scale: float | None, steps: Steps
) -> Iterator[Forecast]:
    """Every protocol for a target."""
    yield SgdForecast(target, steps)
    yield RoundsForecast(target, ends)
    if target.quantiles > 1 and steps.undeclared is None:
        yield CellsForecast(target, steps)
    for kind in PROTOCOLS.values():
        if issubclass(kind, OneShot):
            yield OneShotForecast(target, kind.model_validate({"range": ends, "scale_guess": scale}))


def rank(row: ProtocolPlan) -> tuple[float, ...]:
    """Fewest users first, what cannot reach the half width last; by half width where none is wanted."""
    return tuple(math.inf if value is None else value for value in (row.n_needed, row.half_width))


def at_n(forecast: Forecast, n: int, epsilon: float, replicates: int, seed: int) -> ProtocolPlan:
    """Accuracy of a protocol at n users, by formula and by simulation."""
    t = forecast.target
    error = forecast.standard_error(n, epsilon)
    row = ProtocolPlan(
        protocol=forecast.name,
        tau=t.tau,
        epsilon=epsilon,
        level=t.level,
        n=n,
        users=forecast.users(n),
        answers=t.answers,
        interval=forecast.interval(n, epsilon),
        bins=forecast.bins(n, epsilon),
        rounds=forecast.rounds(n),
        bits=forecast.bits(n, epsilon),
        needs=forecast.needs,
        efficiency_formula=bit_variance(t.tau, epsilon) / t.density**2 / forecast.variance(n, epsilon),
        cautions=tuple(forecast.cautions(n, epsilon)),
    )
    found = None if row.interval is None else simulated_well(forecast, n, epsilon, replicates, seed)
    if found is not None:
        row = with_simulation(row, t, found)
    if t.dropout_bias:
        row = row.with_cautions(f"drop-out: bias {t.dropout_bias:+.3g} at every n")
    if t.liars > 0:
        shift = forecast.liars_shift(n, epsilon, seed)
        if shift > error:
            row = row.with_cautions(f"liars shift {shift / error:.1f} SE")
    return row


def simulated_well(
    forecast: Forecast, n: int, epsilon: float, replicates: int, seed: int
) -> Simulated | None:
    """Replicates until the RMSE is precise, at most some times as many as asked for."""
    found = forecast.simulate(n, epsilon, replicates, seed)
    for batch in range(1, forecast.batches):
        if found is None or found.rmse_error(forecast.target.truth) <= PRECISE:
            break
        further = forecast.simulate(n, epsilon, replicates, seed + 1000 * batch)
        assert further is not None
        found = found.joined(further)
    return found


def with_simulation(row: ProtocolPlan, t: Target, found: Simulated) -> ProtocolPlan:
    """The row with what a simulation of it showed."""
    coverage, half_width = found.coverage(t.truth), found.half_width()
    mcse = math.sqrt(coverage * (1.0 - coverage) / len(found.estimate))
    bound = bit_variance(t.tau, row.epsilon) / (t.answering * row.n) / t.density**2
    at_end, undefined = float(found.range_end.mean()), float(1.0 - (found.lower == found.lower).mean())
    shares = {"range_end": at_end, "undefined": undefined}
    cautions = [f"{name} {share:.0%}" for name, share in shares.items() if share > 0.01]
    if coverage + 2.0 * mcse < row.level - SHORT:
        cautions.append(f"the interval covers {coverage:.3f}, not {row.level:g}")
    return replace(
        row,
        half_width=half_width if math.isfinite(half_width) else None,
        efficiency=bound / found.rmse(t.truth) ** 2,
        coverage=coverage,
        coverage_mcse=mcse,
        median_error=found.median_error(t.truth) / math.sqrt(bound),
        lost=found.far(t.truth, FAR * math.sqrt(bound)),
        range_end=at_end,
        undefined=undefined,
        cautions=(*row.cautions, *cautions),
    )


def with_needs(
    row: ProtocolPlan, forecast: Forecast, half_width: float, replicates: int, seed: int
) -> ProtocolPlan:
    """The row with the users and the budget that a half width takes, and what is wrong with them."""
    needed = fewest_users(forecast, row.epsilon, half_width, replicates, seed + 1)
    budget = least_budget(forecast, row.n, half_width, replicates, seed + 3)
    interval = None if needed is None else forecast.method_at(needed, row.epsilon)
    row = replace(row, n_needed=needed, interval_needed=interval, epsilon_needed=budget)
    bins = forecast if isinstance(forecast, OneShotForecast) else None
    if needed is None:
        width = 0.0 if bins is None else bins.width(MOST_USERS, row.epsilon)
        text = f"{half_width:g} not reached with {MOST_USERS:g} users"
        if 0.5 * width > half_width:
            text = f"bins of {width:.3g} cannot give {half_width:g}, whatever n and epsilon"
        elif isinstance(forecast, SgdForecast):
            text = f"no n is known at which its half width is {half_width:g}"
        return row.with_cautions(text)
    if budget is None and bins is not None and 0.5 * (width := bins.width(row.n, EPSILONS[-1])) > half_width:
        least = f"the least with {row.n:,} users"
        row = row.with_cautions(f"bins of {width:.3g}, {least}, cannot give {half_width:g}")
    found = forecast.simulate(needed, row.epsilon, replicates, seed + 2)
    if found is None:
        return row.with_cautions(f"n = {needed:,} by the length that {interval} has on such paths")
    reached = found.half_width()
    if reached / half_width - 1.0 > AGREES:
        text = f"n = {needed:,} gives half width {reached:.3g}, not {half_width:g}, when simulated again"
        return row.with_cautions(text)
    return row


def fewest_users(
    forecast: Forecast, epsilon: float, half_width: float, replicates: int, seed: int
) -> int | None:
    """Fewest users to ask; None beyond 10^12, or where no interval is recommended at any number."""
    count = min(replicates, REPLICATES)
    if isinstance(forecast, SgdForecast):
        users = forecast.expected_users(epsilon, half_width)
        for _ in range(CORRECTIONS):
            found = None if users is None else forecast.simulate(users, epsilon, count, seed)
            if users is None or found is None:
                break
            ratio = found.half_width() / half_width
            corrected = math.ceil(users * ratio * ratio) if math.isfinite(ratio) else MOST_USERS
            if abs(ratio - 1.0) < CLOSE or corrected > MOST_USERS:
                break
            if corrected < users and forecast.method_at(corrected, epsilon) is None:
                break  # so few would be too few for the method
            users = corrected
        return users
    return first_of(USERS, lambda n: reaches(forecast, n, epsilon, half_width, count, seed))


def least_budget(forecast: Forecast, n: int, half_width: float, replicates: int, seed: int) -> float | None:
    """Smallest of EPSILONS with which n users are enough; None where none is."""
    count = min(replicates, REPLICATES)
    if not isinstance(forecast, SgdForecast):
        return first_of(EPSILONS, lambda epsilon: reaches(forecast, n, epsilon, half_width, count, seed))
    ratio, chosen = 1.0, None
    for _ in range(CORRECTIONS + 1):
        chosen = first_of(EPSILONS, partial(expects, forecast, n, half_width / ratio))
        found = None if chosen is None else forecast.simulate(n, chosen, count, seed)
        if chosen is None or found is None:
            break
        measured = found.half_width() / forecast.expected_half_width(n, chosen)
        if not math.isfinite(measured) or abs(measured / ratio - 1.0) < CLOSE:
            break
        ratio = measured
    return chosen


def expects(forecast: SgdForecast, n: int, half_width: float, epsilon: float) -> bool:
    """Whether the half width that LDP-SGD's method has on such paths is at most that wanted."""
    return forecast.expected_half_width(n, epsilon) <= half_width


def reaches(
    forecast: Forecast, n: int, epsilon: float, half_width: float, replicates: int, seed: int
) -> bool:
    """Whether more than half of the simulated half widths are at most that wanted, by two standard errors.

    Half widths of histograms are multiples of half a bin: at a jump of the median other replicates would
    have another one.
    """
    found = forecast.simulate(n, epsilon, replicates, seed)
    return found is not None and found.share_within(half_width) >= 0.5 + 1.0 / math.sqrt(replicates)


def first_of(values: Sequence[T], enough: Callable[[T], bool]) -> T | None:
    """First of ascending values that is enough, where those after it are; None where the last is not."""
    low, high = -1, len(values) - 1
    if not enough(values[high]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(values[middle]) else (middle, high)
    return values[high]
