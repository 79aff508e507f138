"""Comparison of protocols for a quantile: accuracy, users, budget, bits and rounds of each.

For a wanted half width, a row has the fewest users and the smallest budget with which the simulated median
half width of the protocol's default interval is at most that. For a histogram this median falls in steps:
intervals end at edges, and the number of bins depends on n and epsilon. LDP-SGD has to be simulated user by
user, so its expected length is corrected by few simulations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

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
from ldpflow.results.protocol_curves import bit_variance

if TYPE_CHECKING:
    from ldpflow.study import Study

SHORT = 0.03  # coverage below the level that needs a caution
AGREES = 0.05  # a half width this close to a simulation with other seeds needs no caution
PRECISE = 0.01  # relative Monte Carlo error of the RMSE at which a simulation ends early
FAR = 5.0  # standard errors of the bound beyond which an estimate is lost

EPSILONS: tuple[float, ...] = tuple(round(0.05 + 0.001 * i, 3) for i in range(11951))
"""Budgets that are searched for the smallest one that is enough: .05, .051, .. 12."""

USERS: tuple[int, ...] = tuple(
    dict.fromkeys(math.floor(10.0 ** (i / 100) * (1 + 1e-12)) for i in range(1201))
)
"""Numbers of users that are searched for the fewest that are enough, 100 a decade: exact to 2.3%."""

REPLICATES = 500  # of a search: a median length needs fewer than a coverage
CORRECTIONS = 2
CLOSE = 0.01

T = TypeVar("T", int, float)
Row = dict[str, Any]


def compare_study(
    study: Study,
    *,
    range: tuple[float, float] | None = None,
    scale_guess: float | None = None,
    **settings: Any,
) -> list[Row]:
    """Compare the protocols for every quantile, epsilon, n and level of a study.

    Its problems must be quantiles of one value. epsilon comes from its mechanisms and protocols, LDP-SGD's
    start and steps from its algorithms, ``range`` and ``scale_guess`` by default from its protocols. Other
    settings are those of :func:`compare_protocols`.
    """
    simulators = study.simulators()
    parts = [simulator.parts() for simulator in simulators]
    epsilons = list(dict.fromkeys(e for s in simulators if (e := s.privacy().epsilon) is not None))
    if not epsilons:
        raise InputError("mechanism.epsilon", None, "a study with a pure local budget")
    ends, scale = public_facts(parts, range, scale_guess)
    settings |= {"scale": scale, "steps": steps_of(parts)}
    rows: list[Row] = []
    for problem in dict.fromkeys(found["problem"] for found in parts):
        if not isinstance(problem, (Quantile, Quantiles)):
            raise InputError("problem.kind", problem.kind, "quantile or quantiles, to compare protocols")
        law, taus = problem.data_law(), problem.levels() or ()
        if law.own is not None:
            raise InputError("problem.law", law.name, f"one of {', '.join(CODES)}, or a mixture")
        if problem.ties is not None:
            raise InputError("problem.ties", problem.ties, "a smooth law, to compare protocols")
        for epsilon, n, level in product(epsilons, study.n, study.level):
            rows += compare_protocols(law, taus, epsilon, n, ends, level=level, **settings)
    return rows


def public_facts(
    parts: list[dict[str, Any]], ends: tuple[float, float] | None, scale: float | None
) -> tuple[tuple[float, float], float | None]:
    """Range and guessed scale, from the study's protocols if None."""
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
) -> list[Row]:
    """Compare the protocols for one quantile of a law, or for several from the same users.

    For several quantiles ``sgd`` and ``rounds`` split the users evenly, ``cells`` asks every user about
    all of them, and a histogram answers for all.

    n counts the users asked, ``ends`` is the public range of the values, and ``answering`` are settings of
    :class:`Target`. There are up to four times as many replicates if errors have heavy tails. The other
    parameters are those of :class:`ldpflow.practice.planning.PlanOptions`.

    Returns
    -------
    list of dict
        Sorted by quantile, then by users needed (by half width at n if none is wanted). All numbers of a row
        are those of its interval. Keys:

        * protocol, tau, level, n (users asked), users (who answer about this quantile), answers (of each of
          them), epsilon (of a user, for all answers together);
        * interval: ``TR`` or ``TR3`` of LDP-SGD, as a plan recommends; ``fieller`` of rounds; ``outer`` of
          histograms; None, and no number, for a path that does not arrive;
        * bins (k of a histogram, or None), rounds, bits (sent by a user), needs (to be known beforehand);
        * half_width: median of half the simulated lengths, an undefined interval being infinitely long;
        * n_needed, interval_needed: fewest users to ask for the wanted half width, and the interval to use
          then; None if 10^12 are not enough;
        * epsilon_needed: smallest budget in steps of .001 up to 12 with which n users reach it, or None;
        * efficiency: S/(n MSE f^2) of the estimate, simulated; 1 is the best possible;
        * efficiency_formula: S/V from the asymptotic variance V (of the average, for LDP-SGD);
        * coverage, coverage_mcse: of the interval, simulated;
        * median_error: median of the absolute errors over the bound's standard error, .674 for normal
          errors at the bound;
        * lost: share of estimates farther from the truth than five of the bound's standard errors;
        * range_end, undefined: shares of intervals that end at the range, and that are undefined;
        * cautions: in words, separated by semicolons.
    """
    if not taus or len(set(taus)) < len(taus):
        raise InputError("tau", list(taus), "one level or more, each once")
    if not 1e-6 <= epsilon <= 30:
        raise InputError("epsilon", epsilon, "a number in [1e-06, 30]")
    if not 1 <= n <= MOST_USERS:
        raise InputError("n", n, f"an integer in [1, {MOST_USERS:g}]")
    if half_width is not None and not 0 < half_width < math.inf:
        raise InputError("half_width", half_width, "a number > 0")
    found: list[Row] = []
    for tau in sorted(taus):
        target = Target(law, tau, level, together=tuple(sorted(taus)), **answering)
        rows = []
        for forecast in make_forecasts(target, ends, scale, steps or Steps()):
            row = predict_row(forecast, n, epsilon, replicates, seed)
            if half_width is not None:
                add_needs(row, forecast, half_width, replicates, seed)
            if rounds_max is not None and row["rounds"] > rounds_max:
                row["cautions"].append(f"rounds > {rounds_max}")
            if bits_max is not None and row["bits"] > bits_max:
                row["cautions"].append(f"bits > {bits_max:g}")
            rows.append(row | {"cautions": "; ".join(row["cautions"])})
        # Fewest users first, rows that cannot reach the half width last. By half width if none is wanted.
        found += sorted(rows, key=lambda row: (row["n_needed"] or math.inf, row["half_width"] or math.inf))
    return found


def make_forecasts(
    target: Target, ends: tuple[float, float], scale: float | None, steps: Steps
) -> Iterator[Forecast]:
    yield SgdForecast(target, steps)
    yield RoundsForecast(target, ends)
    if target.quantiles > 1 and steps.undeclared is None:
        yield CellsForecast(target, steps)
    for kind in PROTOCOLS.values():
        if issubclass(kind, OneShot):
            yield OneShotForecast(target, kind.model_validate({"range": ends, "scale_guess": scale}))


def predict_row(forecast: Forecast, n: int, epsilon: float, replicates: int, seed: int) -> Row:
    t = forecast.target
    error = forecast.standard_error(n, epsilon)
    unknown = (
        "half_width", "n_needed", "interval_needed", "epsilon_needed", "efficiency", "efficiency_formula",
        "coverage", "coverage_mcse", "median_error", "lost", "range_end", "undefined",
    )  # fmt: skip
    row: Row = {
        "protocol": forecast.name,
        "tau": t.tau,
        "epsilon": epsilon,
        "level": t.level,
        "n": n,
        "users": forecast.users(n),
        "answers": t.answers,
        "interval": forecast.interval(n, epsilon),
        "bins": forecast.bins(n, epsilon),
        "rounds": forecast.rounds(n),
        "bits": forecast.bits(n, epsilon),
        "needs": forecast.needs,
        **dict.fromkeys(unknown),
        "cautions": forecast.cautions(n, epsilon),
    }
    row["efficiency_formula"] = bit_variance(t.tau, epsilon) / t.density**2 / forecast.variance(n, epsilon)
    found = None if row["interval"] is None else simulate_precisely(forecast, n, epsilon, replicates, seed)
    if found is not None:
        add_simulation(row, t, found)
    if t.dropout_bias:
        row["cautions"].append(f"drop-out: bias {t.dropout_bias:+.3g} at every n")
    if t.liars > 0:
        shift = forecast.liars_shift(n, epsilon, seed)
        if shift > error:
            row["cautions"].append(f"liars shift {shift / error:.1f} SE")
    return row


def simulate_precisely(
    forecast: Forecast, n: int, epsilon: float, replicates: int, seed: int
) -> Simulated | None:
    """Simulate until the RMSE is precise, with at most ``forecast.batches`` times ``replicates``."""
    found = forecast.simulate(n, epsilon, replicates, seed)
    for batch in range(1, forecast.batches):
        if found is None or found.rmse_error(forecast.target.truth) <= PRECISE:
            break
        further = forecast.simulate(n, epsilon, replicates, seed + 1000 * batch)
        assert further is not None
        found = found.joined(further)
    return found


def add_simulation(row: Row, t: Target, found: Simulated) -> None:
    half_width = found.half_width()
    coverage = float(np.mean((found.lower <= t.truth) & (t.truth <= found.upper)))  # undefined ones miss
    mcse = math.sqrt(coverage * (1.0 - coverage) / len(found.estimate))
    bound = bit_variance(t.tau, row["epsilon"]) / (t.answering * row["n"]) / t.density**2
    shares = {
        "range_end": float(found.range_end.mean()),
        "undefined": float(np.isnan(found.lower).mean()),
    }
    row |= shares
    row["half_width"] = half_width if math.isfinite(half_width) else None
    row["efficiency"] = bound / found.rmse(t.truth) ** 2
    row["coverage"], row["coverage_mcse"] = coverage, mcse
    row["median_error"] = float(np.median(np.abs(found.defined - t.truth))) / math.sqrt(bound)
    row["lost"] = 1.0 - float(np.mean(np.abs(found.estimate - t.truth) <= FAR * math.sqrt(bound)))
    row["cautions"] += [f"{name} {share:.0%}" for name, share in shares.items() if share > 0.01]
    if coverage + 2.0 * mcse < row["level"] - SHORT:
        row["cautions"].append(f"the interval covers {coverage:.3f}, not {row['level']:g}")


def add_needs(row: Row, forecast: Forecast, half_width: float, replicates: int, seed: int) -> None:
    """Add the users and the budget that a half width needs, and cautions about them."""
    epsilon, cautions = row["epsilon"], row["cautions"]
    needed = find_users(forecast, epsilon, half_width, replicates, seed + 1)
    budget = find_budget(forecast, row["n"], half_width, replicates, seed + 3)
    interval = None if needed is None else forecast.method_at(needed, epsilon)
    row |= {"n_needed": needed, "interval_needed": interval, "epsilon_needed": budget}
    bins = forecast if isinstance(forecast, OneShotForecast) else None
    if needed is None:
        width = 0.0 if bins is None else bins.width(MOST_USERS, epsilon)
        text = f"{half_width:g} not reached with {MOST_USERS:g} users"
        if 0.5 * width > half_width:
            text = f"bins of {width:.3g} cannot give {half_width:g}, whatever n and epsilon"
        elif isinstance(forecast, SgdForecast):
            text = f"no n is known at which its half width is {half_width:g}"
        cautions.append(text)
        return
    width = 0.0 if budget is not None or bins is None else bins.width(row["n"], EPSILONS[-1])
    if 0.5 * width > half_width:
        cautions.append(f"bins of {width:.3g}, the least with {row['n']:,} users, cannot give {half_width:g}")
    found = forecast.simulate(needed, epsilon, replicates, seed + 2)
    if found is None:
        cautions.append(f"n = {needed:,} is not simulated, but from the expected length of {interval}")
    elif (reached := found.half_width()) / half_width - 1.0 > AGREES:
        cautions.append(
            f"n = {needed:,} gives half width {reached:.3g}, not {half_width:g}, when simulated again"
        )


def find_users(
    forecast: Forecast, epsilon: float, half_width: float, replicates: int, seed: int
) -> int | None:
    """Fewest users to ask; None beyond 10^12, or if no interval is recommended at any number."""
    count = min(replicates, REPLICATES)
    if not isinstance(forecast, SgdForecast):
        return first_of(USERS, lambda n: reaches(forecast, n, epsilon, half_width, count, seed))
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
            break  # too few for the method
        users = corrected
    return users


def find_budget(forecast: Forecast, n: int, half_width: float, replicates: int, seed: int) -> float | None:
    """Smallest of EPSILONS with which n users are enough, or None."""
    count = min(replicates, REPLICATES)
    if not isinstance(forecast, SgdForecast):
        return first_of(EPSILONS, lambda epsilon: reaches(forecast, n, epsilon, half_width, count, seed))
    ratio, chosen = 1.0, None
    for _ in range(CORRECTIONS + 1):
        wanted = half_width / ratio
        chosen = first_of(EPSILONS, lambda e, w=wanted: forecast.expected_half_width(n, e) <= w)  # type: ignore[misc]
        found = None if chosen is None else forecast.simulate(n, chosen, count, seed)
        if chosen is None or found is None:
            break
        measured = found.half_width() / forecast.expected_half_width(n, chosen)
        if not math.isfinite(measured) or abs(measured / ratio - 1.0) < CLOSE:
            break
        ratio = measured
    return chosen


def reaches(
    forecast: Forecast, n: int, epsilon: float, half_width: float, replicates: int, seed: int
) -> bool:
    """Whether half of the simulated half widths, and two standard errors more, are at most that wanted.

    Half widths of histograms are multiples of half a bin: without the margin, other replicates could have
    another median.
    """
    found = forecast.simulate(n, epsilon, replicates, seed)
    return found is not None and found.share_within(half_width) >= 0.5 + 1.0 / math.sqrt(replicates)


def first_of(values: Sequence[T], enough: Callable[[T], bool]) -> T | None:
    """Smallest of ascending values that is enough, by bisection; None if the largest is not."""
    low, high = -1, len(values) - 1
    if not enough(values[high]):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(values[middle]) else (middle, high)
    return values[high]
