"""Sentences of a plan: why a row is refused or doubtful, what would do, and which law is the worst."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ldpflow.planning.advice import averages_from, with_length
from ldpflow.planning.practice import PracticeRow
from ldpflow.planning.prediction import Prediction, described
from ldpflow.planning.sources import WorstLaw


def advice_of(found: Sequence[Prediction]) -> dict[str, None]:
    """Texts, one for every path and n, on why rows are refused or doubtful and what settings would do."""
    whole: dict[str, set[int]] = {}
    for row in found:
        whole.setdefault(row.simulator.key, set()).add(row.coordinate)
    same: dict[tuple[str, str, str], dict[int, None]] = {}
    for row in found:
        for reason in reasons(row):
            head = f"{described(row.simulator)}, n {row.n:,}"
            same.setdefault((row.simulator.key, head, reason), {})[row.coordinate] = None
    texts = []
    for (key, head, reason), coordinates in same.items():
        where = "" if set(coordinates) == whole[key] else f", coordinate {', '.join(map(str, coordinates))}"
        texts.append(f"{head}{where}: {reason}")
    return dict.fromkeys(texts)


def reasons(row: Prediction) -> list[str]:
    """Reasons why a row is refused or doubtful, and settings that would do; none where the path arrives."""
    if row.undeclared is not None:
        return [
            f"{row.undeclared} does not declare that step i has size c i^-gamma: no length and no arrival is "
            "computed from its steps, and no method is recommended"
        ]
    if row.arrival is None:
        return []
    advice = row.advice()
    if advice is not None:
        first, *others = advice.sentences(row.level)
        return ["\n  ".join([first, *others])]
    if not row.refused:
        return []
    k, start = row.arrival.relaxation_times, row.arrival.bias_start
    return [
        f"{row.arrival.verdict.replace('_', ' ')}: {k:,.1f} relaxation "
        f"times of the 25 that the slowest direction needs, {abs(start):.1f} SE of bias left from the start: "
        "take a larger n, larger steps (c), or a start nearer to theta*"
    ]


def words_of(row: PracticeRow) -> list[str]:
    """Sentences on a row from a pilot or from bounds."""
    head = f"tau {row.tau:g}, epsilon {row.epsilon:g}, n {row.n:,}"
    found = []
    if row.verdict != "arrived":
        k, bias = row.arrival.relaxation_times, abs(row.arrival.bias)
        covers = f"{row.arrival.coverage(row.level):.2f}"
        if row.worst is not None:
            which = (
                "the worst but 5% of resampled pilots"
                if row.worst_law is None
                else "the worst of the laws tried"
            )
            covers += f" ({row.worst.coverage(row.level):.2f} with {which}, by which the row is judged)"
        remedy = (
            f"use {with_length(row.arrival, row.method, row.level)}"
            if row.method
            else "no interval is recommended: ask more users, or take a larger epsilon"
        )
        found.append(
            f"{head}: {row.verdict.replace('_', ' ')} for an average: "
            f"{k:.0f} relaxation times, {bias:.2f} SE of bias, an interval around it would cover {covers}; "
            f"{remedy}.{averages_from(row.feasible, row.n, row.level)}"
        )
    if row.worst_law is not None:
        found.append(f"{head}: {guess_text(row, row.worst_law)}")
    return found


def guess_text(row: PracticeRow, worst_law: WorstLaw) -> str:
    """What a design from bounds was tried with, and which law is the worst for its method."""
    bias = (
        "too few digits for its fit"
        if math.isinf(worst_law.size)
        else f"{abs(worst_law.bias):.2f} SE of bias in {worst_law.method}'s own root"
    )
    worst = f"the worst is {worst_law.law} ({worst_law.relaxation_times:.0f} relaxation times, {bias})"
    tried = f"the design is a guess from the bounds, tried with {worst_law.laws} laws within them"
    if row.method is None:
        return f"{tried}: no method covers in all, {worst}. A pilot of 200 values says more."
    low, high = row.survives or (1.0, 1.0)
    kept = f", also where they are {low:.2g} to {high:.2g} times as wide"
    if low == high:
        kept = ", but not where they are half or twice as wide"
    return f"{tried}: {row.method} covers in all{kept}; {worst}. A pilot of 200 values says more."
