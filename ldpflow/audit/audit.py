"""Audits: outputs on neighbouring inputs, the best test between them, and a bound to hold to the claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldpflow.audit.bounds import Claim, Counts, lower_bound
from ldpflow.audit.distinguishing import Pair, best_test, counted
from ldpflow.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring inputs and a way to draw outputs on them.

    Parameters
    ----------
    name : str
        The inputs in words.
    draw : callable
        ``draw(which, count, stage)``: outputs of shape (count, d) on input 0 or 1; different stages
        use different random numbers.
    centres : tuple of two ndarrays
        Outputs without noise, as far as they are known.
    """

    name: str
    draw: Callable[[int, int, int], Floats]
    centres: tuple[Floats, Floats]


@dataclass(frozen=True)
class Audit:
    """Result of an audit.

    Parameters
    ----------
    name : str
        Kind of the mechanism or algorithm.
    settings : dict
    notion, parameter : str
        ``pure``, ``approximate`` or ``gaussian``; ``epsilon`` or ``mu``.
    claim, delta : float
    bound : float
        Lower bound of the parameter.
    confidence : float
    samples : int
        Outputs on each input that the bound is counted on; as many chose the test.
    inputs, test : str
        The pair of inputs and the event, in words.
    first, second : float
        Share of outputs for which the event happened, on the input where it is the more frequent, and on
        the other.
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
        """Whether the bound does not contradict the claim."""
        return self.bound <= self.claim

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "passed": self.passed}


def audited(
    name: str,
    settings: dict[str, Any],
    claim: Claim,
    neighbours: Sequence[Neighbours],
    samples: int,
    confidence: float,
) -> Audit:
    """Choose the best test among all neighbours, then count it on fresh outputs.

    Parameters
    ----------
    name, settings
        For the result.
    claim : Claim
    neighbours : sequence of Neighbours
    samples : int
        Outputs on each input, once to choose the test and once to count it.
    confidence : float in (0, 1)

    Returns
    -------
    Audit
        With a sound mechanism, ``bound`` exceeds the claim with probability 1 - confidence at most.
    """
    if not 0 < confidence < 1:
        raise InputError("confidence", confidence, "a number in (0, 1)")
    if samples < 100:
        raise InputError("samples", samples, "at least 100")
    pairs = [
        Pair(each.name, each.draw(0, samples, 0), each.draw(1, samples, 0), each.centres)
        for each in neighbours
    ]
    test = best_test(pairs, claim, confidence)
    chosen = next(each for each in neighbours if each.name == test.pair)
    counts = counted(test, chosen.draw(0, samples, 1), chosen.draw(1, samples, 1))
    return Audit(
        name=name,
        settings=settings,
        notion=claim.notion,
        parameter=claim.parameter,
        claim=claim.value,
        delta=claim.delta,
        bound=lower_bound(counts, claim, confidence),
        confidence=confidence,
        samples=samples,
        inputs=test.pair,
        test=test.words(),
        first=share(counts, True),
        second=share(counts, False),
    )


def share(counts: Counts, first: bool) -> float:
    """Share of the outputs in which the event happened."""
    return counts.first / counts.of_first if first else counts.second / counts.of_second
