"""Arrival of the paths of a run: what was predicted, beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldpflow.intervals import INTERVAL_METHODS
from ldpflow.simulators.simulator import Simulator
from ldpflow.theory.arrival import Arrival, arrivals

__all__ = ["Compared", "compared"]

FACTOR = 2.0  # predicted and measured bias agree if one is at most this times the other
SAME = 1e-6  # of the empirical standard error: sums taken in another order differ by less
BIAS, TIMES = 0.1, 25.0  # standard errors and relaxation times of a run that arrives
MOST_USERS = 100.0  # times the users that a study may be asked to have


@dataclass(frozen=True)
class Compared:
    """Predicted and measured bias of the average in one row of a summary.

    Parameters
    ----------
    arrival : Arrival
    measured : float
        Bias over the standard error of the oracle.
    start, truth : float
        theta0 and theta*, unit of theta.
    scale : float
        The oracle's standard error over the empirical one.
    gamma : float
        Exponent of the steps; NaN where it is not known.
    n : int
        Users.
    """

    arrival: Arrival
    measured: float
    start: float
    truth: float
    scale: float = 1.0
    gamma: float = math.nan
    n: int = 0

    def source(self) -> str | None:
        """``start`` or ``steps``, whichever part of the predicted bias is larger.

        None where predicted and measured bias differ in sign or by more than a factor of 2.
        """
        predicted = self.arrival.bias
        if predicted * self.measured <= 0:
            return None
        ratio = predicted / self.measured
        if not 1 / FACTOR <= ratio <= FACTOR:
            return None
        return "start" if abs(self.arrival.bias_start) >= abs(self.arrival.bias_steps) else "steps"

    def sentence(self) -> str:
        """Where the path came to, for one that does not arrive, and what helps; empty otherwise.

        Biases are in empirical standard errors, as in the sum of effects.
        """
        found = self.arrival
        if not found.refused:
            return ""
        words = found.verdict.replace("_", " ")
        remedy = "a larger n, or a start nearer to the true value"
        if found.verdict == "steps_too_large":
            words += " for the average"
            remedy = self.against_steps()
        k = (
            f"{found.relaxation_times:.1f}"
            if found.relaxation_times < 100
            else f"{found.relaxation_times:,.0f}"
        )
        moved = (
            ""
            if math.isnan(found.last_mean)
            else f", theta went from {self.start:g} to {found.last_mean:.3g} of {self.truth:.3g}"
        )
        start, steps, measured = (
            self.scale * bias for bias in (found.bias_start, found.bias_steps, self.measured)
        )
        return (
            f"{words.capitalize()}: {k} relaxation times{moved}; predicted bias of the average {start:+.2f} "
            f"(start) and {steps:+.2f} (steps) empirical SE, measured {measured:+.2f}: take {remedy}."
        )

    def smaller_steps(self) -> tuple[float, float]:
        """Users from which on smaller steps leave little bias in a run that is long enough, and their c.

        With c times r and m times the users the bias in standard errors is r m^(1/2 - gamma) times what it
        was, and the relaxation times are r m^(1 - gamma) times what they were: the r that leaves a bias of
        .1 leaves 25 relaxation times from m = (250 |bias| / K)^2 on, whatever gamma is.

        Returns
        -------
        users, times : float
            Users, at least those of the run, and c over that of the run.
        """
        bias = abs(self.arrival.bias_steps)
        more = max((TIMES * bias / (BIAS * self.arrival.relaxation_times)) ** 2, 1.0)
        return self.n * more, BIAS / bias * more ** (self.gamma - 0.5)

    def users_alone(self) -> float:
        """Users from which on these steps leave little bias: it falls as n^(1/2 - gamma) standard errors."""
        exponent = self.gamma - 0.5
        if exponent <= 0:
            return math.inf
        powers = math.log(abs(self.arrival.bias_steps) / BIAS) / exponent
        return self.n * math.exp(powers) if powers < 100 else math.inf

    def against_steps(self) -> str:
        """What helps against a bias from the steps."""
        if math.isnan(self.gamma) or abs(self.arrival.bias_steps) <= BIAS:
            return "smaller steps, TR or another centre"
        users, times = self.smaller_steps()
        steps = f"c times {times:.2g}, or a larger gamma"
        # A run that is too short for them alone is not advised to take smaller steps: it would not arrive.
        found = [] if users > self.n else [f"smaller steps ({steps})"]
        found.append("TR or another centre")
        if self.n < users <= MOST_USERS * self.n:
            found.append(f"or about n = {rounded(users)} and {steps}")
        rate = f"in SE this bias falls as n^-{self.gamma - 0.5:.2g}"
        if self.users_alone() <= MOST_USERS * self.n:
            return ", ".join([*found, f"or about n = {rounded(self.users_alone())}: {rate}"])
        return f"{', '.join(found)}; a larger n alone does not help: {rate}"


def rounded(users: float) -> str:
    """Users with two significant digits."""
    return f"{float(f'{users:.1e}'):,.0f}"


def compared(
    rows: Sequence[Mapping[str, Any]], paths: Mapping[str, Simulator[Any, Any]]
) -> list[Compared | None]:
    """Predicted beside measured for rows of a summary.

    Parameters
    ----------
    rows : sequence of mapping
    paths : mapping of str to Simulator
        By the rows' ``path``.

    Returns
    -------
    list of Compared or None
        None for methods that are not around the average, and where nothing is predicted.
    """
    said = {method: says_average(method) for method in {row["method"] for row in rows}}
    may_be = {method for method, says in said.items() if says or (says is None and not is_bundled(method))}
    asked = [row for row in rows if row["method"] in may_be]
    known = dict.fromkeys((row["path"], row["n"]) for row in asked if row["path"] in paths)
    found = dict(zip(known, arrivals([(paths[path], n) for path, n in known]), strict=True))
    sure = [row for row in rows if said[row["method"]] and not row["failures"]]
    # Where there are several, a bundled one.
    averages = {place(row): row for row in sorted(sure, key=lambda row: is_bundled(row["method"]))}
    result: list[Compared | None] = []
    for row in rows:
        at, bias, spread = found.get((row["path"], row["n"])), row["bias"], row["empirical_se"]
        if at is None or bias is None or not spread:
            result.append(None)
            continue
        arrival = at[row["coordinate"]]
        start = row.get("theta0")
        one = Compared(
            arrival,
            bias / arrival.standard_error,
            math.nan if start is None else start,
            row["truth"],
            arrival.standard_error / spread,
            math.nan if row.get("gamma") is None else row["gamma"],
            row["n"],
        )
        result.append(one if around_average(row, averages.get(place(row)), one) else None)
    return result


def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where estimates of two methods are of the same paths at the same time."""
    return row["path"], row["n"], row["coordinate"], row["replicates"]


def around_average(row: Mapping[str, Any], average: Mapping[str, Any] | None, found: Compared) -> bool:
    """Whether a method's estimates are the average of the iterates: as it says, else by the estimates.

    Parameters
    ----------
    row : mapping
        The method's row of the summary.
    average : mapping or None
        That of a method that says so, of the same paths, if the run has one.
    found : Compared
        Without such a row a method that is not bundled counts as one around the average if its bias
        is the predicted one.
    """
    said = says_average(row["method"])
    if said is not None:
        return said
    if average is not None and not row["failures"]:
        slack = SAME * average["empirical_se"]
        return all(abs(row[name] - average[name]) <= slack for name in ("bias", "empirical_se"))
    return not is_bundled(row["method"]) and found.source() is not None


def says_average(method: str) -> bool | None:
    """Whether a method is around the average, as its class says.

    None where it does not: for a plug-in that is not loaded, and for one that inherits from a bundled class
    and may have another centre.
    """
    kind = INTERVAL_METHODS.get(method)
    if kind is None:
        return None
    owner = next(base for base in kind.__mro__ if "around_average" in vars(base))
    return kind.around_average if is_own(owner) == is_own(kind) else None


def is_bundled(method: str) -> bool:
    """Whether an interval method is one of ldpflow's own."""
    found = INTERVAL_METHODS.get(method)
    return found is not None and is_own(found)


def is_own(kind: type) -> bool:
    """Whether a class is one of ldpflow's own."""
    return kind.__module__.startswith("ldpflow.")
