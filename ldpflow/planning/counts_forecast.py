"""Accuracy of ``rounds`` and of one-shot protocols, simulated from the exact law of their counts."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.planning.forecast import Forecast, Simulated, Target
from ldpflow.protocols import OneShot, Protocol, Rounds
from ldpflow.protocols.runs import Limits, edge_cdf, line_quantile, run_one_shot, run_rounds, variance_at
from ldpflow.random.streams import counter_keys
from ldpflow.theory.private_quantile import repeated_bit_variance

Floats = NDArray[np.float64]


class RoundsForecast(Forecast):
    """Rounds of thresholds: no formula of its own, so the bound's stands in and simulation corrects it."""

    needs = "range"

    def __init__(self, target: Target, ends: tuple[float, float], rounds: int = 5) -> None:
        super().__init__(target)
        self.ends, self.turns = ends, rounds
        self.name = "rounds"

    def protocol(self, epsilon: float, **settings: Any) -> Rounds:
        """The protocol with this budget."""
        answer = self.target.answering
        return Rounds(
            epsilon=epsilon,
            range=self.ends,
            rounds=self.turns,
            answers=self.target.answers,
            answer_below=answer,
            answer_above=answer,
            **settings,
        )

    def rounds(self, n: int) -> int:
        return self.turns

    def interval(self, n: int, epsilon: float) -> str | None:
        return "fieller"

    def users(self, n: int) -> int:
        return super().users(n) // self.target.quantiles

    def bits(self, n: int, epsilon: float) -> float:
        return float(self.target.answers)

    def variance(self, n: int, epsilon: float) -> float:
        """Of the efficiency bound, users split between the quantiles."""
        bound = repeated_bit_variance(self.target.tau, epsilon, self.target.answers)
        return self.target.quantiles * bound / self.target.density**2

    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        protocol = self.protocol(epsilon)
        users = n // self.target.quantiles
        if users < protocol.least_users():
            return None
        keys = keys_of(protocol, users, replicates, seed)
        run = run_rounds(protocol, self.target.law, self.target.tau, users, keys)
        return simulated(run.intervals([self.target.z]))

    def cautions(self, n: int, epsilon: float) -> list[str]:
        t = self.target
        found = outside_range(t, self.ends)
        if self.turns == 3 and (self.ends[1] - self.ends[0]) * t.density > 3.0:
            found.append("three rounds search a wide range poorly")
        return found + too_few(t, n // t.quantiles, epsilon)


class OneShotForecast(Forecast):
    """A histogram or its like, its bins chosen by rule for every n and epsilon."""

    needs = "range"

    def __init__(self, target: Target, template: OneShot) -> None:
        super().__init__(target)
        self.template = template
        self.name = template.kind
        self.at_truth = lru_cache(maxsize=4096)(self.variance_of_cdf)

    def protocol(self, epsilon: float, **settings: Any) -> OneShot:
        """The protocol with this budget."""
        answer = self.target.answering
        update = {"epsilon": epsilon, "answers": self.target.answers, **settings}
        update |= {"answer_below": answer, "answer_above": answer}
        return self.template.model_copy(update=update)

    def rounds(self, n: int) -> int:
        return 1

    def interval(self, n: int, epsilon: float) -> str | None:
        return "outer"

    def width(self, n: int, epsilon: float) -> float:
        """Width of a bin: no outer interval is shorter."""
        low, high = self.template.ends
        return (high - low) / self.protocol(epsilon).bins(n)

    def bits(self, n: int, epsilon: float) -> float:
        return self.protocol(epsilon).bits(n)

    def bins(self, n: int, epsilon: float) -> int | None:
        return self.protocol(epsilon).bins(n)

    def variance_of_cdf(self, k: int, epsilon: float) -> float:
        """Variance of F^ at theta* per answer."""
        t = self.target
        return variance_at(self.protocol(epsilon), t.law, t.tau, k)

    def variance(self, n: int, epsilon: float) -> float:
        k = self.protocol(epsilon).bins(n)
        return float(self.at_truth(k, epsilon)) / self.target.density**2

    def bin_bias(self, k: int) -> float:
        """Bias from drawing F as a line inside the bin, unit of the data."""
        edges = self.template.edges(k)
        cdf = edge_cdf(self.target.law, edges)
        return line_quantile(cdf, edges, self.target.tau) - self.target.truth

    def simulate(self, n: int, epsilon: float, replicates: int, seed: int) -> Simulated | None:
        protocol = self.protocol(epsilon)
        run = run_one_shot(
            protocol, self.target.law, self.target.tau, n, keys_of(protocol, n, replicates, seed)
        )
        return simulated(run.intervals([self.target.tau], [self.target.z], "outer"))

    def liars_shift(self, n: int, epsilon: float, seed: int) -> float:
        """By simulation at a large n, where bins have their final bias and noise is small."""
        shifts = []
        t = self.target
        many = max(n, 10**10)
        k = self.protocol(epsilon).bins(n)
        for push in ("down", "up"):
            found = []
            for share in (0.0, t.liars):
                protocol = self.protocol(epsilon, k=k, liars=share, liars_push=push)
                run = run_one_shot(protocol, t.law, t.tau, many, keys_of(protocol, many, 20, seed))
                limits = run.intervals([t.tau], [], "outer")
                found.append(float(np.median(limits.estimate)))
            shifts.append(abs(found[1] - found[0]))
        return max(shifts)

    def cautions(self, n: int, epsilon: float) -> list[str]:
        t = self.target
        found = outside_range(t, self.template.ends)
        if not found:
            bias = abs(self.bin_bias(self.protocol(epsilon).bins(n)))
            ratio = bias / self.standard_error(n, epsilon)
            if ratio > 0.5:
                found.append(f"bin bias {ratio:.1f} SE: no line interval")
        return found + too_few(t, n, epsilon)


def keys_of(protocol: Protocol, n: int, replicates: int, seed: int) -> NDArray[np.uint64]:
    """Key words of the replicates of a forecast."""
    key = f"forecast/{protocol.model_dump_json()}/n={n}"
    words = [counter_keys(seed, "reports", key, replicate) for replicate in range(replicates)]
    return np.array(words, dtype=np.uint64)


def simulated(limits: Limits) -> Simulated:
    """The replicates of one quantile and one level."""
    return Simulated(limits.estimate[0], limits.lower[0, 0], limits.upper[0, 0], limits.range_end[0, 0])


def outside_range(target: Target, ends: tuple[float, float]) -> list[str]:
    """A caution where the quantile is not inside the range."""
    return [] if ends[0] < target.truth < ends[1] else ["outside range"]


def too_few(target: Target, n: int, epsilon: float) -> list[str]:
    """A caution where the counts of the tail are mostly noise."""
    tail = min(target.tau, 1.0 - target.tau)
    spread = repeated_bit_variance(target.tau, epsilon, target.answers)
    if 9.0 * spread / tail**2 > target.answering * n / 6.0:
        return ["n too small"]
    return []
