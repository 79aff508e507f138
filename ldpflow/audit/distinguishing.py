"""The best test between two neighbouring inputs, chosen on one half of the outputs, counted on the other.

A test is an event {score(output) > threshold}, or its complement, for one of a few scores. Scores and
thresholds are compared by the lower bound that they give on the outputs they are chosen on. A score that is
learnt from a quarter of them is compared on the others, since it may know that quarter by heart. The bound
that is reported is counted on fresh outputs, so that choosing costs no confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ldpflow.audit.bounds import Claim, Counts, bounds_of_counts

Floats = NDArray[np.float64]

THRESHOLDS = 512
BINS = 64
SELECTION = 1e-4
"""Events are compared at limits this much stricter: among thousands the luckiest is not the best."""

LINEAR = 64
"""Largest number of coordinates for which the best linear score is learnt."""

COORDINATES = 16
"""Largest number of coordinates that are each a score of their own."""

REPORTS = 1024
"""Largest number of different outputs whose frequencies are learnt."""

LEARNT = 4
"""Every fourth output is learnt from, where a score is learnt."""


@dataclass(frozen=True)
class Score:
    """A number computed from an output.

    Parameters
    ----------
    name : str
        In words.
    values : callable
        From outputs of shape (N, d) to shape (N,).
    learnt : bool
        Whether every fourth output has taught it.
    """

    name: str
    values: Callable[[Floats], Floats]
    learnt: bool = False


@dataclass(frozen=True)
class Pair:
    """Outputs on two neighbouring inputs.

    Parameters
    ----------
    name : str
        The inputs in words.
    first, second : ndarray, shape (N, d)
    centres : tuple of two ndarrays, shape (d,)
        Where the outputs would lie without noise: their difference is the natural direction to look in.
    """

    name: str
    first: Floats
    second: Floats
    centres: tuple[Floats, Floats]


@dataclass(frozen=True)
class Test:
    """An event: score > threshold (or not), more probable on the first input (or on the second).

    Parameters
    ----------
    pair : str
    score : Score
    threshold : float
    above : bool
        Whether the event is score > threshold; else score <= threshold.
    swapped : bool
        Whether p is the event's probability on the second input.
    bound : float
        The lower bound on the outputs that it was chosen on: not to be reported.
    """

    __test__ = False  # not a class of tests for pytest

    pair: str
    score: Score
    threshold: float
    above: bool
    swapped: bool
    bound: float

    def event(self, outputs: Floats) -> NDArray[np.bool_]:
        """For which outputs it happened."""
        over = self.score.values(outputs) > self.threshold
        return over if self.above else ~over

    def words(self) -> str:
        """The event in words."""
        return f"{self.score.name} {'>' if self.above else '<='} {self.threshold:.6g}"


def scores_for(pair: Pair) -> list[Score]:
    """Scores that tell common mechanisms apart, and one that is learnt from the outputs.

    The projection on the difference of the inputs is the likelihood ratio of Gaussian noise, the
    difference of L1 distances that of Laplace noise; the ratio of histograms of the projection finds
    what is not monotone.
    """
    first, second = pair.centres
    d = len(first)
    direction = first - second
    size = float(np.sqrt(np.sum(direction * direction)))
    direction = direction / size if size > 0 else np.ones(d) / np.sqrt(d)

    def projection(outputs: Floats) -> Floats:
        result: Floats = outputs @ direction
        return result

    def distances(outputs: Floats) -> Floats:
        result: Floats = np.abs(outputs - second).sum(axis=1) - np.abs(outputs - first).sum(axis=1)
        return result

    scores = [Score("projection on the difference of the inputs", projection)]
    if d > 1:
        scores.append(Score("difference of the L1 distances to the inputs", distances))
        scores += [
            Score(f"coordinate {j + 1}", partial(coordinate, place=j)) for j in range(min(d, COORDINATES))
        ]
    if 1 < d <= LINEAR:
        scores.append(linear_score(pair))
    scores.append(histogram_score(scores[-1].values if d > 1 else projection, pair))
    found = repeated_reports(pair)
    if 0 < len(found) <= REPORTS:
        scores.append(frequency_score(found, pair))
    return scores


def repeated_reports(pair: Pair) -> Floats:
    """Different outputs that occur more than once among those that are learnt from, shape (K, d).

    None of continuous noise: how often its outputs were seen says nothing about further ones.
    """
    sample = pair.first[: 2 * REPORTS]
    if len(np.unique(sample, axis=0)) == len(sample):
        return sample[:0]
    learnt = np.concatenate([pair.first[::LEARNT], pair.second[::LEARNT]])
    found, times = np.unique(learnt, axis=0, return_counts=True)
    result: Floats = found[times > 1]
    return result


def coordinate(outputs: Floats, place: int) -> Floats:
    """One coordinate of the outputs."""
    return outputs[:, place]


def linear_score(pair: Pair) -> Score:
    """Fisher's linear discriminant, learnt from a quarter of the outputs.

    The likelihood ratio where noise is Gaussian, whatever its covariance.
    """
    first, second = pair.first[::LEARNT], pair.second[::LEARNT]
    covariance = 0.5 * (np.cov(first.T) + np.cov(second.T))
    ridge = 1e-9 * np.trace(covariance) / len(covariance)
    difference = first.mean(axis=0) - second.mean(axis=0)
    weights = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), difference)

    def values(outputs: Floats) -> Floats:
        result: Floats = outputs @ weights
        return result

    return Score("best linear score", values, learnt=True)


def frequency_score(reports: Floats, pair: Pair) -> Score:
    """log ratio of the frequencies of every report, learnt from a quarter of the outputs."""
    names = {report.tobytes(): place for place, report in enumerate(reports)}

    def places(outputs: Floats) -> NDArray[np.int64]:
        distinct, inverse = np.unique(outputs, axis=0, return_inverse=True)
        known = [names.get(report.tobytes(), len(names)) for report in distinct]
        result: NDArray[np.int64] = np.array(known, dtype=np.int64)[inverse.reshape(-1)]
        return result

    size = len(names) + 1  # the last one for all other reports
    counts = [
        np.bincount(places(outputs[::LEARNT]), minlength=size) + 0.5 for outputs in (pair.first, pair.second)
    ]
    ratios = np.log(counts[0] / counts[1])
    return Score("log ratio of frequencies", lambda outputs: ratios[places(outputs)], learnt=True)


def histogram_score(score: Callable[[Floats], Floats], pair: Pair) -> Score:
    """log ratio of the frequencies of a score, learnt from a quarter of the outputs."""
    first = score(pair.first[::LEARNT])
    second = score(pair.second[::LEARNT])
    edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, BINS + 1)[1:-1]))
    counts = [
        np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1) + 0.5
        for values in (first, second)
    ]
    ratios = np.log(counts[0] / counts[1])

    def values(outputs: Floats) -> Floats:
        result: Floats = ratios[np.searchsorted(edges, score(outputs))]
        return result

    return Score("log ratio of histograms", values, learnt=True)


def best_test(pairs: Sequence[Pair], claim: Claim, confidence: float) -> Test:
    """The test with the largest lower bound among all pairs, scores, thresholds and directions."""
    strict = 1.0 - (1.0 - confidence) * SELECTION
    best: Test | None = None
    for pair in pairs:
        others = replace(pair, first=unlearnt(pair.first), second=unlearnt(pair.second))
        for score in scores_for(pair):
            found = best_threshold(others if score.learnt else pair, score, claim, strict)
            if best is None or found.bound > best.bound:
                best = found
    assert best is not None
    return best


def unlearnt(outputs: Floats) -> Floats:
    """Outputs that no score has learnt from."""
    result: Floats = outputs[np.arange(len(outputs)) % LEARNT > 0]
    return result


def best_threshold(pair: Pair, score: Score, claim: Claim, confidence: float) -> Test:
    """The best event of one score."""
    first = np.sort(score.values(pair.first))
    second = np.sort(score.values(pair.second))
    both = np.unique(np.concatenate([first, second]))
    if len(both) > THRESHOLDS:
        # Close together in the tails, where large ratios are.
        middle = np.linspace(0.0, 1.0, THRESHOLDS // 2)
        tail = np.geomspace(1.0 / len(both), 0.5, THRESHOLDS // 4)
        both = np.quantile(both, np.unique(np.concatenate([middle, tail, 1.0 - tail])))
    above_first = len(first) - np.searchsorted(first, both, side="right")
    above_second = len(second) - np.searchsorted(second, both, side="right")
    best = Test(pair.name, score, float(both[0]), True, False, -np.inf)
    for above in (True, False):
        a = above_first if above else len(first) - above_first
        b = above_second if above else len(second) - above_second
        for swapped in (False, True):
            p, q = (b, a) if swapped else (a, b)
            of_p, of_q = (len(second), len(first)) if swapped else (len(first), len(second))
            bounds = bounds_of_counts(p, of_p, q, of_q, claim, confidence)
            place = int(np.argmax(bounds))
            if bounds[place] > best.bound:
                bound = float(bounds[place])
                best = Test(pair.name, score, float(both[place]), above, swapped, bound)
    return best


def counted(test: Test, first: Floats, second: Floats) -> Counts:
    """Counts of the event in fresh outputs, those of p's input first."""
    a, b = int(test.event(first).sum()), int(test.event(second).sum())
    if test.swapped:
        return Counts(b, len(second), a, len(first))
    return Counts(a, len(first), b, len(second))
