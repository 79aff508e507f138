"""The step sizes and block lengths of the best interval, found by simulation.

Best is the shortest mean length among the candidates (gamma, c, beta) whose coverage is within a
tolerance of nominal. Successive halving (Jamieson and Talwalkar 2016): every rung doubles the
replicates and keeps the better half of the candidates; those within the tolerance go by length,
the others, after them, by how far outside they are. Coverage is judged by ``coverage_together`` (see
ldpflow.results.diagnosis), which is smooth in the replicates where the share of hits is a count. All rungs
are sweeps in one run directory, each of which continues the one before. The winner is the best of
many on the replicates that chose it, so what is reported comes from a run on another seed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from ldpflow.engine import run_study
from ldpflow.engine.choice import chosen_engine, cores_of
from ldpflow.engine.events import Listener
from ldpflow.engine.run import executor_for
from ldpflow.errors import InputError
from ldpflow.results import CellRows, Contrast, compare_cells, stored_cells
from ldpflow.results.arena import judge
from ldpflow.store import CELL_KEYS, RunStore, cell_id
from ldpflow.study import Entry, Study

__all__ = ["Candidate", "TuneResult", "tune"]

FIRST_RUNG = 64
DEFAULT = (0.51, 1.0, 0.75)  # of the paper


class Candidate(NamedTuple):
    """Step-size exponent and constant, block exponent."""

    gamma: float
    c: float
    beta: float


@dataclass(frozen=True)
class TuneResult:
    """Result of a search.

    Parameters
    ----------
    rungs : list of (int, int, Candidate)
        Replicates, candidates and the best of them, by rung.
    winner : Candidate
    confirmed, default : dict
        Rows of the confirmation's summary: the winner's, and the paper's default's.
    comparison : Contrast
        Winner against default on the same users.
    tolerance : float
    """

    rungs: list[tuple[int, int, Candidate]]
    winner: Candidate
    confirmed: dict[str, Any]
    default: dict[str, Any]
    comparison: Contrast
    tolerance: float

    @property
    def state(self) -> str:
        """Whether the winner holds its level up to the tolerance, by the rule of ldpflow.results.arena."""
        return judge(self.confirmed, self.tolerance)

    @property
    def within(self) -> bool:
        """Whether the confirmed coverage is compatible with the tolerance: that of few replicates is."""
        row = self.confirmed
        gap = abs(row["coverage_failures_as_misses"] - row["level"])
        return bool(gap <= self.tolerance + 2 * row["coverage_failures_as_misses_mcse"])


def tune(
    study: Study,
    out: str | os.PathLike[str],
    *,
    gamma: Sequence[float],
    c: Sequence[float],
    beta: Sequence[float],
    tolerance: float = 0.01,
    confirm: int = 4096,
    engine: str = "auto",
    address: str | None = None,
    num_cpus: int | None = None,
    on_event: Listener | None = None,
    on_rung: Callable[[int, int, Candidate], None] = lambda *rung: None,
) -> TuneResult:
    """Search gamma, c and beta for the best interval of the multiplier block bootstrap.

    Parameters
    ----------
    study : Study
        One problem, mechanism, algorithm, n and level; its gamma, c and methods are replaced.
    out : path
        Where the runs go: ``search`` and ``confirm``.
    gamma, c, beta : sequence of float
        The candidates are their product.
    tolerance : float
        How far coverage may be from nominal, a share.
    confirm : int
        Replicates of the confirmation.
    engine, address, num_cpus, on_event
        As in :func:`ldpflow.engine.run_study`.
    on_rung : callable
        Called with replicates, candidates and the best of them after every rung.

    Raises
    ------
    InputError
        If the study has more than one of what is held fixed, or the tolerance is no share.
    """
    check(study, tolerance, confirm)
    candidates = [Candidate(*settings) for settings in product(gamma, c, beta)]
    rungs: list[tuple[int, int, Candidate]] = []
    search = f"{os.fspath(out)}/search"
    if engine == "auto":
        engine = "ray" if address is not None else engine_for(study, candidates, confirm, num_cpus)
    options: dict[str, Any] = {"engine": engine, "address": address, "num_cpus": num_cpus}
    # Held open, so that Ray starts once and not with every rung.
    cluster = {"address": address, "num_cpus": num_cpus}
    held = executor_for(engine, RunStore(search), None, cluster, 0.0)
    try:
        replicates = FIRST_RUNG
        while True:
            run = of_candidates(study, candidates, replicates, study.seed)
            run_study(run, search, on_event=on_event, **options)
            found = results(search)
            candidates.sort(key=lambda candidate: rank(found[candidate], tolerance))
            rungs.append((replicates, len(candidates), candidates[0]))
            on_rung(*rungs[-1])
            if len(candidates) <= 2:
                break
            candidates = candidates[: math.ceil(len(candidates) / 2)]
            replicates *= 2
        winner = candidates[0]
        default = Candidate(*DEFAULT)
        fresh = of_candidates(study, [winner, default], confirm, study.seed + 1)
        run_study(fresh, f"{os.fspath(out)}/confirm", on_event=on_event, **options)
    finally:
        held.close()
    confirmed = results(f"{os.fspath(out)}/confirm")
    return TuneResult(
        rungs,
        winner,
        confirmed[winner],
        confirmed[default],
        paired(f"{os.fspath(out)}/confirm", confirmed[winner], confirmed[default]),
        tolerance,
    )


def engine_for(study: Study, candidates: Sequence[Candidate], confirm: int, num_cpus: int | None) -> str:
    """The engine for all rungs, which take about the same time each, and the confirmation."""
    plans = of_candidates(study, candidates, FIRST_RUNG, study.seed).plans()
    first = sum(plan.simulator.cost(plan.request(), FIRST_RUNG).seconds for plan in plans)
    rungs = math.ceil(math.log2(max(2, len(candidates))))
    seconds = first * (rungs + 2 * confirm / (FIRST_RUNG * len(candidates)))
    return chosen_engine(seconds, cores_of("auto", num_cpus))[0]


def check(study: Study, tolerance: float, confirm: int) -> None:
    """Refuse what cannot be searched."""
    for name, count in (
        ("problem", sum(entry.size() for entry in study.problem)),
        ("mechanism", sum(entry.size() for entry in study.mechanism)),
        ("algorithm", len(study.algorithm)),
        ("n", len(study.n)),
        ("level", len(study.level)),
    ):
        if count != 1:
            raise InputError(name, f"{count} of them", "one, for which to search", "Give one value of it.")
    if not 0 < tolerance < 1:
        raise InputError("tolerance", tolerance, "a share in (0, 1)")
    if confirm < 2:
        raise InputError("confirm", confirm, "at least 2 replicates")
    if study.plans()[0].simulator.dimension != 1:
        raise InputError("problem", study.problem[0].kind, "a problem with one coordinate")


def of_candidates(study: Study, candidates: Sequence[Candidate], replicates: int, seed: int) -> Study:
    """The study that runs the candidates, and every beta on every path: blocks cost little."""
    (algorithm,) = study.algorithm
    steps = dict.fromkeys((candidate.gamma, candidate.c) for candidate in candidates)
    betas = tuple(dict.fromkeys(candidate.beta for candidate in candidates))
    bootstrap = next((e for e in study.method if e.kind == "BB"), Entry.of("method", "BB", {}))
    return study.with_fields(
        seed=seed,
        replicates=replicates,
        algorithm=tuple(
            replace(algorithm, axes=algorithm.axes | {"gamma": (gamma,), "c": (c,)}) for gamma, c in steps
        ),
        method=(replace(bootstrap, axes=bootstrap.axes | {"beta": betas}),),
    )


def results(run: str) -> dict[Candidate, dict[str, Any]]:
    """The rows of a run's summary by candidate."""
    summary = RunStore(run).read_summary()
    assert summary is not None
    return {Candidate(row["gamma"], row["c"], row["beta"]): row for row in summary.to_pylist()}


def rank(row: dict[str, Any], tolerance: float) -> tuple[float, float]:
    """Lower is better; what has failures or no coverage comes last."""
    together = row["coverage_together"]
    if together is None or row["failures"]:
        return math.inf, math.inf
    return max(abs(together - row["level"]) - tolerance, 0.0), row["length_mean"]


def paired(run: str, first: dict[str, Any], second: dict[str, Any]) -> Contrast:
    """Two rows of a summary compared replicate by replicate."""
    store = RunStore(run)

    def rows_of(row: dict[str, Any]) -> CellRows:
        wanted = {cell_id({name: row.get(name) for name in CELL_KEYS})}
        ((_, (cell,)),) = stored_cells(store, row["path"].removeprefix("p"), wanted, damaged="refuse")
        return cell

    return compare_cells(rows_of(first), rows_of(second))
