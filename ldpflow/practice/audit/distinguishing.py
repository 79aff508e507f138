"""Audit by distinguishing tests: lower bounds of a privacy parameter from outputs on neighbouring inputs.

If an event has probability p on one input and q on a neighbour, then

    eps-DP            =>  p <= e^eps q
    (eps, delta)-DP   =>  p <= e^eps q + delta
    mu-GDP            =>  Phi^-1(p) - Phi^-1(q) <= mu

So every event gives a lower bound of the parameter. p and q are replaced by one-sided Clopper-Pearson limits,
each with error (1 - confidence)/2. Then the bound exceeds the true parameter with probability at most
1 - confidence, for any mechanism. Sources are Jagielski, Ullman and Oprea (2020, Auditing differentially
private machine learning), and for GDP Nasr and others (2023, Tight auditing of differentially private machine
learning).

A test is an event {score(output) > threshold}, or its complement, for one of a few scores. Score and
threshold are chosen by the lower bound that they give on a first set of outputs. Some scores are learnt from
a quarter of these outputs, and compared on the other three quarters, since they may overfit. The reported
bound comes from fresh outputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ldpflow.components.mechanisms import PrivacyStatement
from ldpflow.errors import InputError

Floats = NDArray[np.float64]
Outputs = tuple[Floats, Floats]
"""N outputs with d coordinates on each of two neighbouring inputs, shape (N, d) each."""


class Claim(NamedTuple):
    """Claimed privacy parameter: mu if ``gaussian``, else epsilon. delta is 0 unless ``approximate``."""

    notion: Literal["pure", "approximate", "gaussian"]
    value: float
    delta: float = 0.0


def claim_of(statement: PrivacyStatement) -> Claim:
    if statement.mu is not None:
        return Claim("gaussian", statement.mu)
    if statement.epsilon is not None:
        return Claim("approximate" if statement.delta else "pure", statement.epsilon, statement.delta or 0.0)
    raise InputError("privacy_notion", statement.notion, "a notion with epsilon or mu")


def lower_limit(count: Any, trials: int, error: float) -> Floats:
    """One-sided Clopper-Pearson limit: above the probability in at most a share ``error`` of samples."""
    count = np.asarray(count, dtype=np.float64)
    safe = np.maximum(count, 1.0)
    return np.where(count > 0, special.betaincinv(safe, trials - safe + 1.0, error), 0.0)


def upper_limit(count: Any, trials: int, error: float) -> Floats:
    """One-sided Clopper-Pearson limit: below the probability in at most a share ``error`` of samples."""
    return 1.0 - lower_limit(trials - np.asarray(count, dtype=np.float64), trials, error)


def lower_bounds(
    first: Any, of_first: int, second: Any, of_second: int, claim: Claim, confidence: float
) -> Floats:
    """Lower bound of the parameter for each event. A bound of -inf says nothing.

    ``first`` and ``second`` are counts of events among the outputs on two neighbouring inputs. If the events
    were chosen without these outputs, each bound is wrong with probability at most 1 - confidence.
    """
    error = (1.0 - confidence) / 2.0
    p, q = lower_limit(first, of_first, error), upper_limit(second, of_second, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        if claim.notion == "gaussian":
            bound = special.ndtri(p) - special.ndtri(q)
        else:
            bound = np.log(p - claim.delta) - np.log(q)
    return np.where(np.isnan(bound), -math.inf, bound)


THRESHOLDS = 512
BINS = 64
SELECTION = 1e-4  # factor of the error when events are compared, since the best one may be best by chance
LINEAR = 64  # most coordinates of an output for which a linear score is learnt
COORDINATES = 16  # most coordinates that are scores of their own
REPORTS = 1024  # most distinct outputs whose frequencies are learnt
LEARNT = 4  # a score is learnt from every fourth output


class Neighbours(NamedTuple):
    """Two neighbouring inputs, named in words, and a way to draw outputs on them.

    ``draw(which, count, stage)`` gives outputs of shape (count, d) on input 0 or 1. Different stages have
    different random numbers. ``centres`` are the outputs without noise, or None if they are not known.
    """

    name: str
    draw: Callable[[int, int, int], Floats]
    centres: Outputs | None = None


class Score(NamedTuple):
    """A number for each output: ``values`` maps outputs of shape (N, d) to shape (N,)."""

    name: str
    values: Callable[[Floats], Floats]
    learnt: bool = False


class Event(NamedTuple):
    """Event score > threshold, or score <= threshold if ``above`` is False.

    p is its probability on the second input if ``swapped``, else on the first. q is that on the other input.
    ``bound`` comes from the outputs on which the event was chosen, so it must not be reported.
    """

    score: Score
    threshold: float
    above: bool
    swapped: bool
    bound: float

    def counts(self, first: Floats, second: Floats) -> tuple[int, int, int, int]:
        """Count of the event and number of outputs, on the input of p and then on that of q."""
        p, q = (second, first) if self.swapped else (first, second)
        a, b = (int(((self.score.values(each) > self.threshold) == self.above).sum()) for each in (p, q))
        return a, len(p), b, len(q)


def scores_for(outputs: Outputs, centres: Outputs | None) -> list[Score]:
    """Scores that distinguish the inputs of common mechanisms, and some that are learnt from the outputs.

    For Gaussian noise the likelihood ratio is a function of the projection on the difference of the inputs,
    for Laplace noise one of the difference of the L1 distances to them. A ratio of histograms finds
    likelihood ratios that are not monotone in a score. A ratio of frequencies is for discrete outputs.
    """
    d = outputs[0].shape[1]
    first, second = centres or np.zeros((2, d))
    size = float(np.linalg.norm(first - second))
    direction = (first - second) / size if size > 0 else np.ones(d) / np.sqrt(d)

    def distances(outputs: Floats) -> Floats:
        return np.asarray(np.abs(outputs - second).sum(axis=1) - np.abs(outputs - first).sum(axis=1))

    scores = [Score("projection on the difference of the inputs", lambda outputs: outputs @ direction)]
    if d > 1:
        scores.append(Score("difference of the L1 distances to the inputs", distances))
        for j in range(min(d, COORDINATES)):
            scores.append(Score(f"coordinate {j + 1}", partial(np.take, indices=j, axis=1)))
    sample = outputs[0][::LEARNT], outputs[1][::LEARNT]
    main = scores[0]
    if 1 < d <= LINEAR:
        main = linear_score(sample)
        scores.append(main)
    scores.append(histogram_score(main.values, sample))
    found = repeated_reports(outputs[0][: 2 * REPORTS], sample)
    if 0 < len(found) <= REPORTS:
        scores.append(frequency_score(found, sample))
    return scores


def linear_score(sample: Outputs) -> Score:
    """Fisher's linear discriminant, which gives the likelihood ratio of Gaussian noise of any covariance."""
    first, second = sample
    covariance = 0.5 * (np.cov(first.T) + np.cov(second.T))
    ridge = 1e-9 * np.trace(covariance) / len(covariance)
    difference = first.mean(axis=0) - second.mean(axis=0)
    weights = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), difference)
    return Score("best linear score", lambda outputs: outputs @ weights, learnt=True)


def ratio_score(name: str, classes: Callable[[Floats], NDArray[Any]], size: int, sample: Outputs) -> Score:
    """Log ratio of the frequencies of classes of outputs on the two inputs."""
    counts = [np.bincount(classes(outputs), minlength=size) + 0.5 for outputs in sample]
    ratios = np.log(counts[0] / counts[1])
    return Score(f"log ratio of {name}", lambda outputs: ratios[classes(outputs)], learnt=True)


def histogram_score(score: Callable[[Floats], Floats], sample: Outputs) -> Score:
    values = np.concatenate([score(outputs) for outputs in sample])
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    return ratio_score(
        "histograms", lambda outputs: np.searchsorted(edges, score(outputs)), len(edges) + 1, sample
    )


def repeated_reports(some: Floats, sample: Outputs) -> Floats:
    """Distinct outputs that repeat in the sample, one a row. No row if no output of ``some`` repeats."""
    if len(np.unique(some, axis=0)) == len(some):
        return some[:0]
    found, times = np.unique(np.concatenate(sample), axis=0, return_counts=True)
    return found[times > 1]


def frequency_score(reports: Floats, sample: Outputs) -> Score:
    """Log ratio of the frequencies of reports. All outputs that are not in ``reports`` are one class."""
    names = {report.tobytes(): place for place, report in enumerate(reports)}

    def places(outputs: Floats) -> NDArray[np.int64]:
        distinct, inverse = np.unique(outputs, axis=0, return_inverse=True)
        known = [names.get(report.tobytes(), len(names)) for report in distinct]
        return np.array(known, dtype=np.int64)[inverse.reshape(-1)]

    return ratio_score("frequencies", places, len(names) + 1, sample)


def choose_event(outputs: Outputs, centres: Outputs | None, claim: Claim, confidence: float) -> Event:
    """The test with the largest lower bound among all scores, thresholds and directions."""
    strict = 1.0 - (1.0 - confidence) * SELECTION
    first, second = outputs
    others = np.delete(first, np.s_[::LEARNT], axis=0), np.delete(second, np.s_[::LEARNT], axis=0)
    events = [
        best_threshold(others if score.learnt else outputs, score, claim, strict)
        for score in scores_for(outputs, centres)
    ]
    return max(events, key=lambda event: event.bound)


def best_threshold(outputs: Outputs, score: Score, claim: Claim, confidence: float) -> Event:
    first, second = (np.sort(score.values(each)) for each in outputs)
    both = np.unique(np.concatenate([first, second]))
    if len(both) > THRESHOLDS:
        # Thresholds lie closer in the tails, where ratios are large.
        middle = np.linspace(0.0, 1.0, THRESHOLDS // 2)
        tail = np.geomspace(1.0 / len(both), 0.5, THRESHOLDS // 4)
        both = np.quantile(both, np.unique(np.concatenate([middle, tail, 1.0 - tail])))
    below = [np.searchsorted(values, both, side="right") for values in (first, second)]
    events = []
    for above, swapped in itertools.product((True, False), (False, True)):
        a, b = (len(first) - below[0], len(second) - below[1]) if above else below
        p, q = (a, len(first)), (b, len(second))
        p, q = (q, p) if swapped else (p, q)
        bounds = lower_bounds(*p, *q, claim, confidence)
        place = int(np.argmax(bounds))
        events.append(Event(score, float(both[place]), above, swapped, float(bounds[place])))
    return max(events, key=lambda event: event.bound)


@dataclass(frozen=True)
class Audit:
    """Result of an audit: a lower bound of the parameter, ``epsilon`` or ``mu``, and the claim.

    ``samples`` outputs on each input are counted. The test was chosen on as many others. ``inputs`` and
    ``test`` are the pair of inputs and the event, in words. ``first`` is the share of outputs with the event
    on the input of p, ``second`` the share on that of q.
    """

    name: str
    settings: dict[str, Any]
    notion: str
    parameter: str
    claim: float
    delta: float
    bound: float
    confidence: float
    samples: int
    inputs: str
    test: str
    first: float
    second: float

    @property
    def passed(self) -> bool:
        return self.bound <= self.claim

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


def run_audit(
    component: Any,
    claim: Claim,
    neighbours: Sequence[Neighbours],
    samples: int,
    confidence: float,
    mechanism: Any = None,
) -> Audit:
    """Choose the best test on ``samples`` outputs of each input, and count its event on as many fresh ones.

    If the claim is true, ``bound`` exceeds it with probability at most 1 - confidence. If an algorithm has no
    noise of its own, ``mechanism`` is its mechanism.
    """
    if not 0 < confidence < 1:
        raise InputError("confidence", confidence, "a number in (0, 1)")
    if samples < 100:
        raise InputError("samples", samples, "at least 100")
    tests = []
    for each in neighbours:
        outputs = each.draw(0, samples, 0), each.draw(1, samples, 0)
        tests.append((each, choose_event(outputs, each.centres, claim, confidence)))
    chosen, test = max(tests, key=lambda found: found[1].bound)
    counts = test.counts(chosen.draw(0, samples, 1), chosen.draw(1, samples, 1))
    settings = {
        f"{part.kind}.{name}" if part is mechanism else name: value
        for part in (component, mechanism)
        if part is not None
        for name, value in part.model_dump().items()
        if name != "kind" and value is not None
    }
    return Audit(
        name=component.kind,
        settings=settings,
        notion=claim.notion,
        parameter="mu" if claim.notion == "gaussian" else "epsilon",
        claim=claim.value,
        delta=claim.delta,
        bound=max(0.0, float(lower_bounds(*counts, claim, confidence))),
        confidence=confidence,
        samples=samples,
        inputs=chosen.name,
        test=f"{test.score.name} {'>' if test.above else '<='} {test.threshold:.6g}",
        first=counts[0] / counts[1],
        second=counts[2] / counts[3],
    )
