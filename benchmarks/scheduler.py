"""Simulate the engine's scheduler: how many cores can one driver keep busy?

    python -m benchmarks.scheduler                                  # the tables of docs/scale.md
    python -m benchmarks.scheduler --driver-ms 2.3 --aggregator-ms 3.4 --cores 4000 --seconds 5
    python -m benchmarks.scheduler --cores 320 --steps 2e14 --n 1e9 --ns 1.72 --price 0.82 --per 16

Batches run on C cores. The driver sends each batch and receives its answer. An aggregator receives its rows.
At most 2 C batches are under way. Driver and aggregator need a fixed time per batch, as benchmarks.scale
measures it. The length of a batch varies by a log-normal factor. Neither Ray nor a kernel runs here.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ldpflow.numerics.streams import LANES

SENT, RUN, STORED = range(3)


@dataclass(frozen=True)
class Parts:
    """Seconds per batch at the driver and the aggregator, and idle seconds of a core between two batches."""

    driver: float
    aggregator: float
    start: float = 0.002
    spread: float = 0.1  # standard deviation of the logarithm of a batch's length


@dataclass(frozen=True)
class Outcome:
    """Result of a simulation.

    ``busy`` is the share of the cores' time in batches, from the first start to the last end.
    """

    seconds: float
    work: float  # core seconds in batches
    busy: float
    driver_busy: float
    aggregator_busy: float
    most_waiting: int  # rows at the aggregator, in batches


def simulate(
    cores: int,
    seconds: float,
    batches: int,
    parts: Parts,
    in_flight: int | None = None,
    seed: int = 1,
) -> Outcome:
    """Simulate a sweep.

    Parameters
    ----------
    cores : int
    seconds : float
        Mean length of a batch.
    batches : int
    parts : Parts
    in_flight : int, optional
        Most batches that are sent and not yet stored, by default 2 * cores.
    seed : int
    """
    chance = random.Random(seed)
    limit = 2 * cores if in_flight is None else in_flight
    events: list[tuple[float, int, int]] = []  # time, what has ended, batch
    now = 0.0
    unsent = batches
    flying = 0
    answers: deque[int] = deque()  # stored batches of which the driver does not know yet
    ready: deque[int] = deque()  # sent batches that wait for a core
    free = cores
    driver_free = True
    line: deque[int] = deque()  # batches whose rows wait at the aggregator
    work = driver_work = aggregator_work = 0.0
    most = 0

    def drive() -> None:
        """Let the driver receive an answer, or send a batch. Answers come first: they allow more batches."""
        nonlocal driver_free, unsent, flying, driver_work
        if not driver_free:
            return
        if answers:
            batch = answers.popleft()
            flying -= 1
            heapq.heappush(events, (now + parts.driver / 2, -1, batch))
        elif unsent and flying < limit:
            unsent -= 1
            flying += 1
            heapq.heappush(events, (now + parts.driver / 2, SENT, batches - unsent - 1))
        else:
            return
        driver_work += parts.driver / 2
        driver_free = False

    def run() -> None:
        nonlocal free, work
        while free and ready:
            free -= 1
            length = seconds * math.exp(parts.spread * chance.gauss(0.0, 1.0))
            work += length
            heapq.heappush(events, (now + length + parts.start, RUN, ready.popleft()))

    def store() -> None:
        nonlocal aggregator_work
        aggregator_work += parts.aggregator
        heapq.heappush(events, (now + parts.aggregator, STORED, line[0]))

    drive()
    first = parts.driver / 2
    last = 0.0
    while events:
        now, what, batch = heapq.heappop(events)
        if what in (-1, SENT):
            driver_free = True
            if what == SENT:
                ready.append(batch)
                run()
        elif what == RUN:
            free += 1
            last = now
            line.append(batch)
            most = max(most, len(line))
            if len(line) == 1:
                store()
            run()
        else:
            answers.append(line.popleft())
            if line:
                store()
        drive()
    assert unsent == 0 and flying == 0
    return Outcome(
        seconds=now,
        work=work,
        busy=work / (cores * (last - first)),
        driver_busy=driver_work / now,
        aggregator_busy=aggregator_work / now,
        most_waiting=most,
    )


def busy_cores(seconds: float, parts: Parts, wanted: float = 0.95, rounds: int = 12) -> int:
    """Largest number of cores of which the share ``wanted`` is busy in the long run, to two digits."""
    low, high = 1, 1
    while steady(high, seconds, parts, rounds) >= wanted and high < 200_000:
        low, high = high, 2 * high
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        if steady(middle, seconds, parts, rounds) >= wanted:
            low = middle
        else:
            high = middle
    return low


def steady(cores: int, seconds: float, parts: Parts, rounds: int) -> float:
    """Share of the cores that is busy in the long run, from the difference of a long and a short run."""
    short, long = rounds * cores, 2 * rounds * cores
    a, b = (simulate(cores, seconds, n, parts) for n in (short, long))
    return (b.work - a.work) / ((b.seconds - a.seconds) * cores)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--driver-ms", type=float, default=2.3)
    parser.add_argument("--aggregator-ms", type=float, default=3.4)
    parser.add_argument("--cores", type=int)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--batches", type=int)
    parser.add_argument("--steps", type=float, help="of the study, all replicates together")
    parser.add_argument("--n", type=float, help="steps of a replicate; a batch has a row of lanes")
    parser.add_argument("--ns", type=float, help="per step and replicate, as sweep --dry-run measures")
    parser.add_argument("--price", type=float, default=0.0, help="of a machine, per hour")
    parser.add_argument("--per", type=int, default=16, help="cores of a machine")
    given = parser.parse_args(arguments)
    parts = Parts(given.driver_ms / 1e3, given.aggregator_ms / 1e3)
    if given.steps is not None:
        seconds = given.n * LANES * given.ns * 1e-9
        count = round(given.steps / (given.n * LANES))
        found = simulate(given.cores, seconds, count, parts)
        core_hours = given.steps * given.ns * 1e-9 / 3600.0
        machine_hours = found.seconds / 3600.0 * given.cores / given.per
        print(
            f"{count:,} batches of {seconds:.0f} s, {core_hours:.1f} core-hours; {found.seconds:.0f} s "
            f"on {given.cores} cores, {found.busy:.1%} of them busy; {machine_hours:.1f} hours of "
            f"machines, {machine_hours * given.price:.2f} at {given.price:g} an hour"
        )
        return
    if given.cores is not None:
        count = given.batches or 20 * given.cores
        print(simulate(given.cores, given.seconds, count, parts))
        return
    print("| batch | cores |\n|---|---|")
    for seconds in (0.1, 0.5, 1.0, 2.0, 5.0):
        print(f"| {seconds:g} s | {busy_cores(seconds, parts):,} |")


if __name__ == "__main__":
    main()
