"""Which protocol for a quantile: accuracy, users, budget, bits and rounds of each, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ldpflow import constants
from ldpflow.errors import InputError
from ldpflow.planning.counts_forecast import OneShotForecast, RoundsForecast
from ldpflow.planning.forecast import Forecast, Simulated, Steps, Target
from ldpflow.planning.needed import EPSILONS, MOST_USERS, fewest_users, least_budget
from ldpflow.planning.path_forecast import CellsForecast, SgdForecast, UndeclaredForecast
from ldpflow.problems.laws import Law
from ldpflow.protocols import PROTOCOLS, OneShot
from ldpflow.theory.private_quantile import bit_variance

SHORT = 0.03  # coverage below the level that needs a caution
AGREES = 0.05  # a half width this close to a simulation with other seeds needs no caution
PRECISE = 0.01  # Monte Carlo error of an RMSE, over the RMSE, that ends a simulation early
FAR = 5.0  # an estimate this many standard errors of the bound away is lost


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
    response: float = 1.0,
    liars: float = 0.0,
    answer_below: float = 1.0,
    answer_above: float = 1.0,
    answers: int = 1,
    steps: Steps | None = None,
    replicates: int = 2000,
    seed: int = 1,
) -> list[ProtocolPlan]:
    """Compare the protocols for one quantile of a law, or for several from the same users.

    For several quantiles ``sgd`` and ``rounds`` split the users evenly, ``cells`` asks every user about
    all of them, and a histogram answers for all.

    Parameters
    ----------
    law : Law
    taus : sequence of float
        Levels of the quantiles, each once.
    epsilon, level : float
    n : int
        Users asked.
    ends : (float, float)
        Public range of the values.
    half_width : float, optional
        Wanted, unit of the data.
    scale : float, optional
        Public guess of the law's scale, for the number of bins.
    rounds_max, bits_max : optional
        Protocols beyond them are kept and carry a caution.
    response : float in (0, 1]
        Probability that a user answers.
    liars : float in [0, 1)
        Share of those who answer that send the worst report.
    answer_below, answer_above : float in (0, 1]
        Probability, beside ``response``, that a user answers whose value is at most the quantile, or
        above it. Where they differ, the bias of the responders' quantile is a caution.
    answers : int in [1, 64]
        Answers of every user to the same question, each with epsilon/answers.
    steps : Steps, optional
        Start and step of LDP-SGD and of ``cells``; from 0 with c = 1 and gamma = .51 where not given.
    replicates, seed : int
        Of the simulations; up to four times as many where the errors have heavy tails.

    Returns
    -------
    list of ProtocolPlan
        By quantile, and for each by users needed, or by half width at n where none is wanted.

    Raises
    ------
    InputError
        If a value is not one that can be planned for.
    """
    shares = {"response": response, "answer_below": answer_below, "answer_above": answer_above}
    check(taus, epsilon, n, level, half_width, shares, liars, answers)
    levels = tuple(sorted(taus))
    z = constants.normal_quantile(0.5 + level / 2)
    found: list[ProtocolPlan] = []
    for tau in levels:
        dropout = (answer_below, answer_above)
        target = Target(law, tau, level, z, response, liars, levels, *dropout, answers)
        rows = []
        for forecast in forecasts(target, ends, scale, steps or Steps()):
            row = at_n(forecast, n, epsilon, replicates, seed)
            if half_width is not None:
                row = with_needs(row, forecast, half_width, replicates, seed)
            rows.append(limited(row, rounds_max, bits_max))
        found += sorted(rows, key=rank)
    return found


def check(
    taus: Sequence[float],
    epsilon: float,
    n: int,
    level: float,
    half_width: float | None,
    shares: dict[str, float],
    liars: float,
    answers: int,
) -> None:
    """Refuse what cannot be planned for."""
    if not taus or len(set(taus)) < len(taus):
        raise InputError("tau", list(taus), "one level or more, each once")
    for name, value in (*(("tau", tau) for tau in taus), ("level", level)):
        if not 0 < value < 1:
            raise InputError(name, value, "a number in (0, 1)")
    if not 1e-6 <= epsilon <= 30:
        raise InputError("epsilon", epsilon, "a number in [1e-06, 30]")
    if not 1 <= n <= MOST_USERS:
        raise InputError("n", n, f"an integer in [1, {MOST_USERS:g}]")
    if half_width is not None and not 0 < half_width < math.inf:
        raise InputError("half_width", half_width, "a number > 0")
    for name, value in shares.items():
        if not 0 < value <= 1:
            raise InputError(name, value, "a number in (0, 1]")
    if not 0 <= liars < 1:
        raise InputError("liars", liars, "a number in [0, 1)")
    if not (isinstance(answers, int) and 1 <= answers <= 64):
        raise InputError("answers", answers, "an integer in [1, 64]")


def forecasts(target: Target, ends: tuple[float, float], scale: float | None, steps: Steps) -> list[Forecast]:
    """Every protocol for a target."""
    path = SgdForecast if steps.undeclared is None else UndeclaredForecast
    found: list[Forecast] = [path(target, steps), RoundsForecast(target, ends)]
    if target.quantiles > 1 and steps.undeclared is None:
        found.append(CellsForecast(target, steps))
    for kind in PROTOCOLS.values():
        if issubclass(kind, OneShot):
            found.append(OneShotForecast(target, kind.model_validate({"range": ends, "scale_guess": scale})))
    return found


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
        row = with_simulation(row, forecast, found)
    if t.dropout_bias:
        row = cautioned(row, f"drop-out: bias {t.dropout_bias:+.3g} at every n")
    if t.liars > 0:
        shift = forecast.liars_shift(n, epsilon, seed)
        if shift > error:
            row = cautioned(row, f"liars shift {shift / error:.1f} SE")
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


def with_simulation(row: ProtocolPlan, forecast: Forecast, found: Simulated) -> ProtocolPlan:
    """The row with what a simulation of it showed."""
    t = forecast.target
    rmse = found.rmse(t.truth)
    coverage = found.coverage(t.truth)
    count = len(found.estimate)
    bound = bit_variance(t.tau, row.epsilon) / (t.answering * row.n) / t.density**2
    undefined = float(1.0 - (found.lower == found.lower).mean())
    row = replace(
        row,
        half_width=half_width if math.isfinite(half_width := found.half_width()) else None,
        efficiency=bound / rmse**2,
        coverage=coverage,
        coverage_mcse=math.sqrt(coverage * (1.0 - coverage) / count),
        median_error=found.median_error(t.truth) / math.sqrt(bound),
        lost=found.far(t.truth, FAR * math.sqrt(bound)),
        range_end=float(found.range_end.mean()),
        undefined=undefined,
    )
    if found.range_end.mean() > 0.01:
        row = cautioned(row, f"range_end {found.range_end.mean():.0%}")
    if undefined > 0.01:
        row = cautioned(row, f"undefined {undefined:.0%}")
    if coverage + 2.0 * (row.coverage_mcse or 0.0) < row.level - SHORT:
        row = cautioned(row, f"the interval covers {coverage:.3f}, not {row.level:g}")
    return row


def cautioned(row: ProtocolPlan, caution: str) -> ProtocolPlan:
    """The row with one more caution."""
    return replace(row, cautions=(*row.cautions, caution))


def limited(row: ProtocolPlan, rounds_max: int | None, bits_max: float | None) -> ProtocolPlan:
    """The row with cautions where it asks for more than is allowed."""
    if rounds_max is not None and row.rounds > rounds_max:
        row = cautioned(row, f"rounds > {rounds_max}")
    if bits_max is not None and row.bits > bits_max:
        row = cautioned(row, f"bits > {bits_max:g}")
    return row


def rank(row: ProtocolPlan) -> tuple[float, ...]:
    """Fewest users first, what cannot reach the half width last; by half width where none is wanted."""
    return tuple(math.inf if value is None else value for value in (row.n_needed, row.half_width))


def with_needs(
    row: ProtocolPlan, forecast: Forecast, half_width: float, replicates: int, seed: int
) -> ProtocolPlan:
    """The row with the users and the budget that a half width takes."""
    needed = fewest_users(forecast, row.epsilon, half_width, replicates, seed + 1)
    row = replace(
        row,
        n_needed=needed,
        interval_needed=None if needed is None else forecast.method_at(needed, row.epsilon),
        epsilon_needed=least_budget(forecast, row.n, half_width, replicates, seed + 3),
    )
    return confirmed(row, forecast, half_width, replicates, seed)


def confirmed(
    row: ProtocolPlan, forecast: Forecast, half_width: float, replicates: int, seed: int
) -> ProtocolPlan:
    """A caution where other replicates at the n found do not give the half width wanted."""
    needed = row.n_needed
    if needed is None:
        width = forecast.width(MOST_USERS, row.epsilon) if isinstance(forecast, OneShotForecast) else 0.0
        if 0.5 * width > half_width:
            return cautioned(row, f"bins of {width:.3g} cannot give {half_width:g}, whatever n and epsilon")
        if isinstance(forecast, SgdForecast):
            return cautioned(row, f"no n is known at which its half width is {half_width:g}")
        return cautioned(row, f"{half_width:g} not reached with {MOST_USERS:g} users")
    if row.epsilon_needed is None and isinstance(forecast, OneShotForecast):
        width = forecast.width(row.n, EPSILONS[-1])
        if 0.5 * width > half_width:
            text = f"bins of {width:.3g}, the least with {row.n:,} users, cannot give {half_width:g}"
            row = cautioned(row, text)
    found = forecast.simulate(needed, row.epsilon, replicates, seed + 2)
    if found is None:
        text = f"n = {needed:,} by the length that {row.interval_needed} has on such paths"
        return cautioned(row, text)
    reached = found.half_width()
    if reached / half_width - 1.0 > AGREES:
        return cautioned(
            row,
            f"n = {needed:,} gives half width {reached:.3g}, not {half_width:g}, when simulated again",
        )
    return row
