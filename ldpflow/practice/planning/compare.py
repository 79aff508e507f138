"""Comparison of protocols for a quantile: accuracy, users, budget, bits and rounds of each.

A row has the fewest users at its epsilon, and the smallest budget at its n, with which the simulated median
half width of the protocol's default interval is at most the wanted one. For a histogram, all numbers of users
and all budgets of a grid are candidates. LDP-SGD is slow to simulate: the search takes its expected half
width, and two simulations correct it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ldpflow.columns import round_text
from ldpflow.components.algorithms import Algorithm
from ldpflow.components.algorithms.ldp_sgd import LdpSgd
from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.quantile import Quantile, Quantiles
from ldpflow.components.problems.transform import forward
from ldpflow.components.protocols import PROTOCOLS, OneShot, Protocol
from ldpflow.components.protocols.round_counts import CODES
from ldpflow.components.protocols.rounds import Rounds
from ldpflow.errors import InputError
from ldpflow.numerics.accounting import largest_local_epsilon, shuffled_guarantee
from ldpflow.options import MOST_USERS, PlanOptions
from ldpflow.practice.planning.forecasts import (
    DECIDING,
    ROUNDS,
    CellsForecast,
    Forecast,
    OneShotForecast,
    RoundsForecast,
    SgdForecast,
    Simulated,
    SplitBudgetForecast,
    Target,
)
from ldpflow.practice.planning.method import Number, first_of
from ldpflow.practice.planning.sources import OwnSteps, undeclared_steps
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED, judge
from ldpflow.results.protocol_curves import bit_variance

if TYPE_CHECKING:
    from ldpflow.study import Study

SHORT = 0.03  # an interval holds its level if its coverage is above the level less this
LEAST_SHIFT = 0.25
"""A row warns if half the distance between neighbouring values exceeds this many standard errors. If it
exceeds one, the row has no rank."""

RULE = f"the 95% interval of the coverage, undefined intervals as misses, is above level - {SHORT:g}"
LIARS = 0.01  # share of adversarial users in a comparison from a pilot
DELTA = 1e-6  # delta of the guarantee with a shuffler
AGREES = 0.05  # a caution says so if half widths of two simulations differ by more than this share

EPSILONS: tuple[float, ...] = tuple(dict.fromkeys(round(12.0 * 10.0 ** (i / 200), 3) for i in range(-476, 1)))
"""Budgets that a search tries: 200 in each decade up to 12, rounded to three decimals."""

USERS: tuple[int, ...] = tuple(
    dict.fromkeys(math.floor(10.0 ** (i / 100) * (1 + 1e-12)) for i in range(1201))
)
"""Numbers of users that a search tries: 100 in each decade up to 10^12."""

CHECKING = 400  # replicates that check the number of users found by a search

Row = dict[str, Any]
Pair = tuple[Row, Forecast]
Point = tuple[Law, Sequence[float], float, int, float]
"""Law, levels of its quantiles, epsilon, users and nominal coverage."""


def study_points(study: Study, given: PlanOptions) -> tuple[list[Point], dict[str, Any]]:
    """Points of a study, and settings of :func:`compare_designs`.

    The problems must be quantiles of one value. Mechanisms and protocols give epsilon, the algorithms give
    start and steps of LDP-SGD, and the protocols give the guessed scale, and the range if no option does.
    """
    simulators = study.simulators()
    parts = [simulator.parts() for simulator in simulators]
    epsilons = list(dict.fromkeys(e for s in simulators if (e := s.privacy().epsilon) is not None))
    if not epsilons:
        raise InputError("mechanism.epsilon", None, "a study with a pure local budget")
    points: list[Point] = []
    for problem in dict.fromkeys(found["problem"] for found in parts):
        if not isinstance(problem, (Quantile, Quantiles)):
            raise InputError("problem.kind", problem.kind, "quantile or quantiles, to compare protocols")
        law, taus = problem.data_law(), problem.levels() or ()
        if law.own is not None:
            raise InputError("problem.law", law.name, f"one of {', '.join(CODES)}, or a mixture")
        if problem.ties is not None:
            raise InputError("problem.ties", problem.ties, "a smooth law, to compare protocols")
        points += [(law, taus, *point) for point in product(epsilons, study.n, study.level)]
    protocols = [found["protocol"] for found in parts if isinstance(found.get("protocol"), Protocol)]
    if given.ends is None and not protocols:
        hint = "It is known before any report: values outside are moved to its ends."
        raise InputError("range", None, "the public range of the values, two numbers", hint)
    guesses = (getattr(protocol, "scale_guess", None) for protocol in protocols)
    scale = next((guess for guess in guesses if guess is not None), None)
    return points, {"ends": given.ends or protocols[0].range, "scale": scale, "steps": steps_of(parts)}


def source_points(
    source: OwnSteps, axes: Mapping[str, Sequence[Any]], given: PlanOptions
) -> tuple[list[Point], dict[str, Any]]:
    """Points of a pilot, and settings of :func:`compare_designs`."""
    law, *_ = [source.problem(tau).data_law() for tau in axes["tau"]]
    points = [(law, axes["tau"], *point) for point in product(axes["epsilon"], axes["n"], axes["level"])]
    return points, {"ends": given.ends, "source": source, "liars": LIARS}


def steps_of(parts: list[dict[str, Any]]) -> Algorithm:
    """The first algorithm that asks user by user with decreasing steps, or LDP-SGD with its defaults."""
    algorithms: list[Algorithm] = [found["algorithm"] for found in parts if "algorithm" in found]
    found = [a for a in algorithms if a.step_exponent() != 0.0 or math.isnan(a.step_constant())]
    declared = [a for a in found if undeclared_steps(a) is None]
    suitable = [a for a in declared if a.records_per_step() == 1 and not a.by_coordinate()]
    if found and not suitable:
        allowed = "an algorithm that asks user by user, with steps c i^-gamma, one c and one theta0"
        raise InputError("algorithm", found[0].kind, allowed)
    return suitable[0] if suitable else LdpSgd()


def compare_designs(
    law: Law,
    taus: Sequence[float],
    epsilon: float,
    n: int,
    level: float = 0.9,
    *,
    ends: tuple[float, float] | None,
    scale: float | None = None,
    steps: Algorithm | None = None,
    half_width: float | Sequence[float] | None = None,
    replicates: int = 1000,
    seed: int = 1,
    **target_settings: Any,
) -> list[Pair]:
    """Compare the protocols for one quantile of a law, or for several quantiles from the same users.

    For several quantiles, ``sgd`` and ``rounds`` split the users evenly between the quantiles. Every user of
    ``sgd_epsilon`` answers about each quantile with an equal part of epsilon. ``cells`` asks every user about
    all quantiles at once, and the reports of a histogram serve all quantiles.

    n counts the users asked. ``ends`` is the public range of the values. If it is None, protocols that need a
    range have no rows. ``half_width`` is one number for all quantiles, or one for each in the order of
    ``taus``. ``replicates`` is the size of a batch of replicates. A row takes up to six batches. Other
    settings are those of :class:`Target` and :class:`PlanOptions`.

    Returns
    -------
    list of (dict, Forecast)
        Sorted by quantile, then by users needed, or by half width if none is wanted. Half widths
        and coverage of a row are those of its interval. docs/pilot_to_plan.md describes the keys.
    """
    if len(set(taus)) < len(taus):
        raise InputError("tau", list(taus), "each level once")
    wanted: list[Any] = list(half_width) if isinstance(half_width, Sequence) else [half_width] * len(taus)
    if len(wanted) != len(taus):
        raise InputError("half_width", wanted, f"one number, or one for each of the {len(taus)} quantiles")
    goals = dict(zip(taus, wanted, strict=True))
    targets = [Target(law, tau, level, tuple(sorted(taus)), **target_settings) for tau in sorted(taus)]
    if min(int(target.answering * n) for target in targets) < len(taus):
        raise InputError("n", n, "at least one answering user for each quantile")
    pairs: list[Pair] = []
    # The quantiles of a design follow each other, since they share its simulations.
    forecasts = [[*make_forecasts(target, ends, scale, steps)] for target in targets]
    for design in zip(*forecasts, strict=True):
        for forecast in design:
            row = predict_row(forecast, n, epsilon, replicates, seed, goals[forecast.target.tau])
            pairs.append((row | {"cautions": "; ".join(row["cautions"])}, forecast))
    lengths = ("n_needed", "half_width")
    return sorted(pairs, key=lambda pair: (pair[0]["tau"], *(pair[0][name] or math.inf for name in lengths)))


def choose_design(pairs: Sequence[Pair]) -> list[str]:
    """Mark the rows of the best design. Say why it is the best, and what would change the answer.

    Designs that hold the level for every quantile are ranked by their largest ratio of a half width to the
    wanted one. If none is wanted, the ratio is to the half width of the least possible variance. A design is
    not ranked if most of its intervals end at the range, since their length measures nothing. Near values
    that many records share, only outer intervals are ranked: others are simulated with a smooth law.
    """
    designs: dict[str, list[Row]] = {}
    for row, forecast in pairs:
        designs.setdefault(forecast.name, []).append(row)
    ranked = rank_designs(designs)
    best = next(iter(ranked), None)
    places = {name: place for place, name in enumerate(ranked, 1)}
    for row, _ in pairs:
        row |= {"best": row["protocol"] == best, "rank": places.get(row["protocol"])}
    first = pairs[0][0]
    epsilon, n, level = first["epsilon"], first["n"], first["level"]
    taus = ", ".join(f"{row['tau']:g}" for row in designs[first["protocol"]])
    head = f"tau {taus}, epsilon {epsilon:g}, n {n:,}"
    if best is None:
        text = f"none is shown to hold level {level:g} ({RULE}) with most intervals inside the range"
        return [f"{head}: no design is recommended, since {text}"]
    measure = "the shortest possible at n" if first["wanted"] is None else "the wanted one"
    others = [f"{name} {ratio:.3g}" for name, ratio in list(ranked.items())[1:3]]
    why = f"Only {best} holds level {level:g}: {RULE}. It has a"
    if others:
        why = f"{len(ranked)} designs hold level {level:g}: {RULE}. Of these, {best} has the smallest"
    found = [
        f"{head}: take {describe_design(best, designs)}. {why} ratio of half width to {measure} "
        f"in its worst quantile: {ranked[best]:.3g}" + (f" ({', '.join(others)})" if others else "")
    ]
    if first["wanted"] is not None:
        needed, goals = [row["n_needed"] for row in designs[best]], "all wanted half widths"
        about = (
            f"no n is known for {goals}" if None in needed else f"{goals} take about {max(needed):,} users"
        )
        found.append(about)
    close = [name for name, ratio in ranked.items() if ranked[best] < ratio <= (1 + AGREES) * ranked[best]]
    if close:
        found.append(f"as short within the error of the simulations ({AGREES:.0%}): {', '.join(close)}")
    limits = [("in one round", "rounds", 1), (f"in {ROUNDS} rounds", "rounds", ROUNDS)]
    if (bits := designs[best][0]["bits"]) > 2.0:
        limits.append((f"with 2 bits less than {bits:.3g}", "bits", bits - 2.0))
    named: set[str | None] = {best}
    for text, name, most in limits:
        other = next((one for one in ranked if designs[one][0][name] <= most), None)
        if other not in named:
            found.append(f"{text}: {'no design' if other is None else describe_design(other, designs)}")
        named |= {other} - {None}
    if local := shuffled_budget(epsilon, min(row["users"] for row in designs[best])):
        again = [f.simulate(n, local, 500, 5) for row, f in pairs if row["best"]]
        widths = ", ".join(round_text(one.half_width(), 3) for one in again if one is not None)
        found.append(
            "with a trusted shuffler that puts users in a secret random order, "
            f"{best} with epsilon {local:g} on each device is ({epsilon:g}, {DELTA:g})-DP "
            f"for an adversary who sees shuffled reports alone: half width {widths}"
        )
    return found


def rank_designs(designs: Mapping[str, list[Row]]) -> dict[str, float]:
    """Largest ratio of half widths of each design that is ranked, the smallest first."""

    def suits(row: Row) -> bool:
        measured = row["state"] == HOLDS and row["half_width"] and row["range_end"] <= 0.5
        return bool(measured and (row["interval"] == "outer" or not row["atoms"]))

    found = {
        name: max(row["half_width"] / (row["wanted"] or row["half_width_bound"]) for row in rows)
        for name, rows in designs.items()
        if all(map(suits, rows))
    }
    return dict(sorted(found.items(), key=lambda item: item[1]))


def describe_design(name: str, designs: Mapping[str, list[Row]]) -> str:
    return f"{name} (half width {', '.join(round_text(row['half_width'], 3) for row in designs[name])})"


def shuffled_budget(epsilon: float, users: int) -> float | None:
    """Largest budget of a report, to .001, with which shuffled reports are (epsilon, DELTA)-DP.

    None if :func:`ldpflow.numerics.accounting.shuffled_guarantee` proves it for no budget above ``epsilon``.
    """
    most = min(largest_local_epsilon(users, DELTA), EPSILONS[-1])
    larger = [k / 1000 for k in range(math.floor(most * 1000), math.floor(epsilon * 1000), -1)]
    return first_of(larger, lambda local: shuffled_guarantee(local, 0.0, users, DELTA)[0] <= epsilon)


def make_forecasts(
    target: Target,
    ends: tuple[float, float] | None,
    scale: float | None = None,
    steps: Algorithm | None = None,
) -> Iterator[Forecast]:
    yield SgdForecast(target, steps)
    if target.quantiles > 1:
        yield SplitBudgetForecast(target, steps)
        if target.answers == 1:
            yield CellsForecast(target, steps)
    if ends is None:
        return
    source = target.source
    on_scale = [("", target, scale)]
    for name, other in source.scales(ends).items():
        on_scale.append((name, replace(target, source=other, law=other.law), None))
    for name, one, guess in on_scale:
        try:
            low, high = forward(one.source.transform, ends).tolist()
        except InputError:
            allowed = f"two numbers for which the scale {one.source.transform} is defined"
            raise InputError("range", list(ends), allowed) from None
        if one is target:
            yield RoundsForecast(target, Rounds(range=(low, high), rounds=ROUNDS))
        for kind in PROTOCOLS.values():
            if issubclass(kind, OneShot):
                yield OneShotForecast(
                    one, kind.model_validate({"range": (low, high), "scale_guess": guess}), name
                )


def predict_row(
    forecast: Forecast, n: int, epsilon: float, replicates: int, seed: int, wanted: float | None = None
) -> Row:
    t = forecast.target
    unknown = (
        "half_width", "n_needed", "interval_needed", "epsilon_needed", "efficiency", "coverage",
        "coverage_mcse", "state", "liars_shift", "range_end", "undefined",
    )  # fmt: skip
    smooth = not isinstance(forecast, OneShotForecast)
    grid_shift = t.grid / 2 / forecast.standard_error(n, epsilon) if smooth and t.grid else 0.0
    best = bit_variance(t.tau, epsilon) / t.density**2
    row: Row = {
        "protocol": forecast.name,
        "tau": t.tau,
        "epsilon": epsilon,
        "level": t.level,
        "n": n,
        "users": forecast.users(n),
        "messages": forecast.messages(),
        "quantile": t.truth,
        "atoms": bool(t.source.near_atoms(t.tau)) or grid_shift > 1.0,
        **t.source.columns(t.tau),
        "interval": forecast.interval(n, epsilon),
        "bins": forecast.bins(n, epsilon),
        "rounds": forecast.rounds(n),
        "bits": forecast.bits(n, epsilon),
        "needs": forecast.needs,
        "state_bytes": None,
        **dict.fromkeys(unknown),
        "cautions": forecast.cautions(n, epsilon),
        "half_width_bound": t.z * math.sqrt(best / (t.answering * n)),
        "wanted": wanted,
    }
    if grid_shift > LEAST_SHIFT:
        row["cautions"].append(
            f"values lie {t.grid:g} apart: the interval is about the quantile of a smooth law, up to "
            f"{t.grid / 2:g} ({grid_shift:.2f} SE) from that of the rounded values. It may cover the "
            "quantile of the rounded values less often"
        )
    found = None if row["interval"] is None else simulate_precisely(forecast, n, epsilon, replicates, seed)
    if found is not None:
        add_simulation(row, t, found)
        row["state_bytes"] = forecast.state(n, epsilon)
    if t.dropout_bias:
        row["cautions"].append(f"drop-out: bias {t.dropout_bias:+.3g} at every n")
    if t.liars > 0:
        shift = forecast.liars_shift(n, epsilon, seed)
        row["liars_shift"] = shift if math.isfinite(shift) else None
        if not math.isfinite(shift):
            row["cautions"].append("liars decide the estimate")
    if wanted is not None:
        add_needs(row, forecast, wanted, replicates, seed)
    return row


def simulate_precisely(
    forecast: Forecast, n: int, epsilon: float, replicates: int, seed: int
) -> Simulated | None:
    """Simulate ``forecast.batches`` batches of replicates, and more if the coverage is undecided."""
    t = forecast.target
    found = forecast.simulate(n, epsilon, replicates, seed)
    for batch in range(1, DECIDING):
        if found is None:
            break
        state = level_state(t.level, found.coverage(t.truth), len(found.estimate))
        if batch >= forecast.batches and state != UNDECIDED:
            break
        further = forecast.simulate(n, epsilon, replicates, seed + 1000 * batch)
        assert further is not None
        parts: Any = zip(found, further, strict=True)
        found = Simulated(*map(np.concatenate, parts))
    return found


def add_simulation(row: Row, t: Target, found: Simulated) -> None:
    half_width, coverage = found.half_width(), found.coverage(t.truth)
    errors = found.estimate[np.isfinite(found.estimate)] - t.truth
    shares = {"range_end": float(found.range_end.mean()), "undefined": float(np.isnan(found.lower).mean())}
    row |= shares | {
        "half_width": half_width if math.isfinite(half_width) else None,
        "efficiency": (row["half_width_bound"] / t.z) ** 2 / float(np.mean(errors**2)),
        "coverage": coverage,
        "coverage_mcse": math.sqrt(coverage * (1.0 - coverage) / len(found.estimate)),
        "state": level_state(row["level"], coverage, len(found.estimate)),
    }
    row["cautions"] += [f"{name} {share:.0%}" for name, share in shares.items() if share > 0.01]
    if row["state"] == FAILS:
        row["cautions"].append(f"the interval covers {coverage:.3f}, not {row['level']:g}")


def level_state(level: float, coverage: float, replicates: int) -> str:
    """Whether an interval holds its level less SHORT, as :func:`ldpflow.results.arena.judge` decides."""
    row = {"level": level, "coverage_failures_as_misses": coverage, "replicates": replicates}
    return judge(row, SHORT)


def add_needs(row: Row, forecast: Forecast, half_width: float, replicates: int, seed: int) -> None:
    """Add the users and the budget that a half width needs, and cautions about them."""
    epsilon, cautions = row["epsilon"], row["cautions"]
    needed = find_users(row, forecast, half_width, replicates, seed + 1)
    budget = find_budget(row, forecast, half_width, replicates, seed + 3)
    interval = None if needed is None else forecast.interval(needed, epsilon)
    row |= {"n_needed": needed, "interval_needed": interval, "epsilon_needed": budget}
    if needed is None:
        text = f"no n is known at which its half width is {half_width:g}"
        if isinstance(forecast, OneShotForecast):
            low, high = forecast.template.range
            width = (high - low) / forecast.bins(MOST_USERS, epsilon) * forecast.target.slope
            if 0.5 * width > half_width:
                text = f"bins of {width:.3g} cannot give {half_width:g}, whatever n and epsilon"
        cautions.append(text)
        return
    if budget is None:
        cautions.append(f"no epsilon is known at which {row['n']:,} users reach {half_width:g}")
    found = forecast.simulate(needed, epsilon, min(replicates, CHECKING), seed + 2)
    if found is None:
        cautions.append(
            f"n = {needed:,} follows from the expected length of {interval}, without a simulation"
        )
    elif (reached := found.half_width()) / half_width - 1.0 > AGREES:
        cautions.append(f"n = {needed:,} gives {reached:.3g}, not {half_width:g}, when simulated again")
    elif level_state(row["level"], covered := found.coverage(row["quantile"]), len(found.estimate)) == FAILS:
        cautions.append(f"with n = {needed:,} the interval covers {covered:.3f}")


def find_users(row: Row, forecast: Forecast, half_width: float, replicates: int, seed: int) -> int | None:
    """Fewest users to ask; None if more than 10^12 are needed, or no method is recommended at any number."""
    epsilon, count = row["epsilon"], min(replicates, forecast.searched)
    if not isinstance(forecast, SgdForecast):
        return first_of(USERS, lambda n: reaches(forecast, n, epsilon, half_width, count, seed))
    search = lambda wanted: forecast.expected_users(epsilon, wanted)  # noqa: E731
    return search_path(row, forecast, half_width, search, lambda n: (n, epsilon), count, seed)


def find_budget(row: Row, forecast: Forecast, half_width: float, replicates: int, seed: int) -> float | None:
    """Smallest of EPSILONS with which n users are enough, or None."""
    n, count = row["n"], min(replicates, forecast.searched)
    if not isinstance(forecast, SgdForecast):
        return first_of(EPSILONS, lambda e: reaches(forecast, n, e, half_width, count, seed))
    budgets = EPSILONS
    # A method may be recommended at the row's budget, although none is recommended at the largest.
    if math.isinf(forecast.expected_half_width(n, EPSILONS[-1])):
        budgets = EPSILONS[: bisect_right(EPSILONS, row["epsilon"])]

    def search(wanted: float) -> float | None:
        return first_of(budgets, lambda e: forecast.expected_half_width(n, e) <= wanted)

    return search_path(row, forecast, half_width, search, lambda e: (n, e), count, seed)


def search_path(
    row: Row,
    forecast: SgdForecast,
    half_width: float,
    search: Callable[[float], Number | None],
    place: Callable[[Number], tuple[int, float]],
    replicates: int,
    seed: int,
) -> Number | None:
    """Search for users or a budget by the expected half width, which simulations correct.

    The ratio of simulated to expected half width is that of the row in the first search. In the second search
    it is that at the value found.
    """
    expected = forecast.expected_half_width(row["n"], row["epsilon"])
    known = row["half_width"] is not None and math.isfinite(expected)
    found = search(half_width * expected / row["half_width"] if known else half_width)
    simulated = None if found is None else forecast.simulate(*place(found), replicates, seed)
    if found is None or simulated is None:
        return found
    ratio = simulated.half_width() / forecast.expected_half_width(*place(found))
    return search(half_width / ratio) if math.isfinite(ratio) else found


def reaches(
    forecast: Forecast, n: int, epsilon: float, half_width: float, replicates: int, seed: int
) -> bool:
    """Whether the median of simulated half widths is at most the wanted one, with a margin.

    The share of half widths up to the wanted one has to be at least 1/2 plus two standard errors. Half widths
    of histograms are multiples of half a bin. Without the margin, other replicates could have another median.
    If the share among a fifth of the replicates is four standard errors away, it decides.
    """
    least = min(0.5 + 1.0 / math.sqrt(replicates), 1.0)
    share = 0.0
    for count in (-(-replicates // 5), replicates):
        found = forecast.simulate(n, epsilon, count, seed)
        if found is None:
            return False
        share = float(np.mean(found.upper - found.lower <= 2.0 * half_width * (1 + 1e-9)))
        if abs(share - least) > 2.0 / math.sqrt(count):
            break
    return share >= least
