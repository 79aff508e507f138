"""Simulators of protocols. They draw the server's counts of reports from the exact law of these counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldpflow.components.intervals import IntervalMethod
from ldpflow.components.intervals.counts import CountsRecord, HistogramRecord, SearchRecord
from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.components.problems.laws import Law
from ldpflow.components.problems.quantile import Quantile
from ldpflow.components.problems.transform import slope
from ldpflow.components.protocols import OneShot, Protocol
from ldpflow.components.protocols.protocol import budget
from ldpflow.components.protocols.rounds import Rounds
from ldpflow.errors import InputError
from ldpflow.numerics.streams import LANES, counter_keys
from ldpflow.simulators.simulator import Cell, Cost, Request, Simulator

ROLE = "reports"
"""Role of the random streams. One draw stands for the users' values and their noise together."""

MOST_USERS = 10**12
SECONDS_PER_COUNT = 1e-7
"""Rough CPU time of one count."""

COUNTS_OF_A_SEARCH = 3000
"""Number of counts that take as long as a replicate of the protocol ``rounds``."""


@dataclass(frozen=True)
class Counts(Simulator[Request, CountsRecord]):
    """Problem and protocol with n = ``horizon`` users."""

    family: ClassVar[str] = "counts"
    tables: ClassVar[tuple[str, ...]] = ("problem", "protocol")

    problem: Quantile
    protocol: Protocol
    horizon: int

    def truth(self) -> NDArray[np.float64]:
        return np.array(self.problem.truth())

    def privacy(self) -> PrivacyStatement:
        return self.protocol.privacy()

    def derived(self) -> dict[str, Any]:
        tau = self.problem.tau
        bound = budget(self.protocol.epsilon).bit_variance(tau) / self.horizon
        density = self.law.density_at_quantile(tau)
        in_rows = float(slope(self.problem.own_scale(), self.truth())[0])
        columns: dict[str, Any] = {
            "bits": self.protocol.bits(self.horizon),
            "interaction_rounds": self.protocol.interaction_rounds(),
            "efficient_se": None if math.isnan(density) else math.sqrt(bound) / density * in_rows,
        }
        if isinstance(self.protocol, OneShot):
            columns["bins"] = self.protocol.bins(self.horizon)
        return columns

    @classmethod
    def of_study(
        cls, parts: dict[str, Any], users: tuple[int, ...], independent_n: bool
    ) -> Iterator[tuple[Self, tuple[int, ...]]]:
        problem, protocol = parts["problem"], parts["protocol"]
        if not isinstance(problem, Quantile):
            raise InputError("protocol.kind", protocol.kind, "no protocol, unless the problem is a quantile")
        if problem.units is not None:
            raise InputError("problem.units", problem.units.model_dump(), "no units with a protocol")
        if problem.ties is not None and isinstance(protocol, Rounds):
            raise InputError("problem.ties", problem.ties, f"a smooth law, for {protocol.kind}")
        if problem.used_components():
            raise InputError("problem.law", problem.law, "a bundled law, for a protocol")
        least = protocol.least_users()
        if users[0] < least:
            raise InputError("grid.n", users[0], f"at least {least:,}", f"{protocol.kind} splits its users.")
        if users[-1] > MOST_USERS:
            raise InputError("grid.n", users[-1], f"at most {MOST_USERS:,}")
        for n in users:
            yield cls(problem, protocol, n), (n,)

    def interval_record(self) -> type[CountsRecord]:
        return SearchRecord if isinstance(self.protocol, Rounds) else HistogramRecord

    def check(self, methods: Sequence[IntervalMethod], cells: tuple[Cell, ...], followed: bool) -> None:
        if not cells:
            allowed = "fieller" if isinstance(self.protocol, Rounds) else "inversion"
            kinds = ", ".join(dict.fromkeys(method.kind for method in methods))
            hint = f"It is the interval of {self.protocol.kind}, which makes no trajectory."
            raise InputError("method.kind", kinds or None, f"{allowed} among the methods", hint)

    def counts(self) -> int:
        """Rough number of counts of a replicate."""
        if isinstance(self.protocol, OneShot):
            return 3 * self.protocol.bins(self.horizon)
        return COUNTS_OF_A_SEARCH

    def cost(self, request: Request, replicates: int) -> Cost:
        counts = self.counts() * replicates
        return Cost(counts, counts * SECONDS_PER_COUNT, 16 * LANES * self.counts())

    def prepare(self, request: Request) -> None:
        self.run(0, range(2), request)

    def run(self, seed: int, replicates: Sequence[int], request: Request) -> CountsRecord:
        from ldpflow.components.protocols.collections import run_one_shot, run_rounds

        keys = np.array([counter_keys(seed, ROLE, self.key, r) for r in replicates], dtype=np.uint64)
        simulate: Any = run_rounds if isinstance(self.protocol, Rounds) else run_one_shot
        found = simulate(self.protocol, self.law, self.problem.tau, self.horizon, keys)
        numbers = np.array(replicates, dtype=np.int64)
        return self.interval_record()(seed, numbers, self.truth(), (self.problem.tau,), found)

    @cached_property
    def law(self) -> Law:
        return self.problem.data_law()
