"""Coverage as a sum: the level, the effect of each property of a method alone, and what they do at once.

Let e_r be the errors of the estimates, L_r the lengths, p the level, and

    A = #(|e_r| <= L_s / 2) / R^2          over all pairs of replicates r and s
    H = #(|e_r| <= L_r / 2) / R

A has the bias, the shape and the spread of the estimates and the size and variability of the lengths,
and no dependence between the two. With the effects of :mod:`ldpflow.results.diagnosis`, each that of one
property alone,

    coverage = p + bias + mean length + variability + shape
                 + (A - p - their sum)        several at once: effects on a share do not add
                 + (H - A)                    dependence of error and length
                 + (coverage - H)             limits that are not symmetric about the estimate

is an identity. What is within two of its Monte Carlo standard errors is one term: the terms that are
shown add up to the coverage that is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldpflow.results.cells import CellRows, Floats
from ldpflow.results.diagnosis import CAUSES, SMALL, Diagnosis, diagnosis_of, leave_out, left_out_groups

__all__ = ["Decomposition", "Term", "decompose", "rounded"]

JOINT, DEPENDENCE, LIMITS = "joint", "dependence", "limits"
TINY = 1e-12  # what rounding leaves of terms that are 0
BY_CHANCE = 0.06  # of the effects that are 0, those beyond two MCSE: Student's t with 19 degrees of freedom


@dataclass(frozen=True)
class Term:
    """One term of the sum: its effect on coverage, with one MCSE by the delete-a-group jackknife."""

    name: str
    effect: float
    mcse: float

    @property
    def real(self) -> bool:
        """Whether it exceeds two of its MCSE and a quarter of a percentage point."""
        return abs(self.effect) > max(2 * self.mcse, SMALL)


@dataclass(frozen=True)
class Decomposition:
    """The coverage of a cell as a sum.

    Parameters
    ----------
    diagnosis : Diagnosis
    terms : tuple of Term
        With the level they add up to the coverage; empty where nothing can be said.
    rest : Term or None
        The sum of the terms within noise.
    correlation : float
        Of ``|error|`` and length; NaN where one of them does not vary.
    unmeasured : int
        Intervals that end at a public range, so that they have no length, and no effect can be told.
    looked : int
        Effects that were compared with two of their MCSE.
    """

    diagnosis: Diagnosis
    terms: tuple[Term, ...]
    rest: Term | None
    correlation: float
    unmeasured: int = 0
    looked: int = 0

    def sentence(self, source: str | None = None) -> str:
        """The sum in a sentence.

        ``source`` says where a bias comes from: ``start`` or ``steps``, None where that is not known.
        """
        found = self.diagnosis
        if self.unmeasured:
            return (
                f"Coverage {found.coverage:.3f} ± {found.coverage_mcse:.3f} MCSE at level {found.level:g}: "
                f"{self.unmeasured:,} intervals end at a public range and have no length, so that effects "
                "cannot be told apart."
            )
        if not self.terms and self.rest is None:
            return "Nothing can be said: it takes three finished replicates that differ."
        shown = [*self.terms, *([] if self.rest is None else [self.rest])]
        words = [*map(self.words, self.terms), *([] if self.rest is None else [self.words_of_rest()])]
        digits = max(3, len(f"{found.level:g}".partition(".")[2]))
        amounts = rounded([term.effect for term in shown], found.coverage, found.level, digits)
        added = " ".join(
            f"{amount:+.{digits}f} ± {term.mcse:.{digits}f} ({word})"
            for amount, term, word in zip(amounts, shown, words, strict=True)
        )
        return (
            f"Coverage {found.coverage:.{digits}f} ± {found.coverage_mcse:.{digits}f} MCSE at level "
            f"{found.level:g}, {self.headline(source)}: {found.level:.{digits}f} (level) {added} = "
            f"{found.coverage:.{digits}f}."
        )

    def headline(self, source: str | None = None) -> str:
        """The property that works most towards the gap, if the gap is more than two MCSE."""
        found = self.diagnosis
        gap = found.coverage - found.level
        if abs(gap) <= 2 * found.coverage_mcse:
            return "no gap beyond noise"
        sign = math.copysign(1.0, gap)
        single = [term for term in self.terms if term.name != JOINT]
        towards = max(single, key=lambda term: sign * term.effect, default=None)
        if towards is None or sign * towards.effect <= 0:
            return "a gap that no single effect explains"
        said = self.cause(towards, source)
        joint = next((term.effect for term in self.terms if term.name == JOINT), 0.0)
        if sign * joint > sign * towards.effect:
            return f"mainly several effects at once, the largest alone {said}"
        if self.rest is not None and sign * self.rest.effect > sign * towards.effect:
            return f"mainly effects that one by one are within noise, the largest clear one {said}"
        against = min(single, key=lambda term: sign * term.effect)
        if -sign * against.effect > sign * towards.effect / 2:
            return f"mainly {said}, and against it {self.cause(against, source)}"
        return f"mainly {said}"

    def cause(self, term: Term, source: str | None) -> str:
        """A property in a word or two."""
        if term.name == "bias":
            return "bias" + {"start": " from the start", "steps": " from the size of the steps"}.get(
                source or "", ""
            )
        return {
            "length": f"{'short' if term.effect < 0 else 'long'} intervals",
            "variability": "lengths that vary",
            "shape": "the shape of the estimates' distribution",
            DEPENDENCE: "the dependence of error and length",
            LIMITS: "limits that are not symmetric about the estimate",
        }[term.name]

    def words(self, term: Term) -> str:
        """Text that names the effect of a term."""
        v = self.diagnosis.values
        if term.name == JOINT:
            return "several effects at once, beyond their sum"
        if term.name == "length":
            by_design = not math.isfinite(v["variability_effect"])
            what = "lengths, which vary by design," if by_design else "mean length"
            return f"{what} {v['length_ratio']:.3f} of 2 z empirical SE"
        return {
            "bias": f"bias of {v['standardised_bias']:+.2f} empirical SE",
            "variability": f"lengths vary by {v['length_cv']:.0%}",
            "shape": f"shape of the estimates' distribution, skewness {v['skewness']:+.2f}",
            DEPENDENCE: f"dependence of error and length, correlation {self.correlation:+.2f}",
            LIMITS: "limits not symmetric about the estimate",
        }[term.name]

    def words_of_rest(self) -> str:
        """Text that names the terms within noise."""
        return "other effects, each within 2 MCSE" if self.terms else "no effect beyond 2 MCSE"


def decompose(rows: CellRows, level: float) -> Decomposition:
    """The coverage of a cell as a sum.

    Parameters
    ----------
    rows : CellRows
        Of one cell and coordinate.
    level : float in (0, 1)
    """
    rows = rows.finished()
    found = leave_out(rows, level)
    diagnosis = diagnosis_of(rows, level, found)
    if found is None or not diagnosis.effects():
        return Decomposition(diagnosis, (), None, math.nan, int(np.isnan(rows.length).sum()))
    kept = left_out_groups(len(rows.ok))
    error, half = np.abs(rows.estimate - rows.truth), rows.lengths() / 2
    coverage = shares(rows.covered, kept)
    # The first value of each is that of all replicates, the others leave a group out.
    parts = {c: v for c in CAUSES if np.isfinite(v := found[f"{c}_effect"]).all()}
    pairs = np.array([all_pairs(error[k], half[k]) for k in kept])
    hits = shares(error <= half, kept)
    parts[JOINT] = pairs - level - sum(parts.values())
    parts[DEPENDENCE] = hits - pairs
    parts[LIMITS] = coverage - hits
    terms = [term_of(name, values) for name, values in parts.items()]
    clear = {"bias"} if diagnosis.biased() else set()
    named = [term for term in terms if term.real or term.name in clear]
    left = coverage - level - sum(parts[term.name] for term in named)
    rest = None if named and abs(left[0]) < TINY else term_of("rest", left)
    causes = sorted((t for t in named if t.name in CAUSES), key=lambda term: -abs(term.effect))
    others = [term for term in named if term.name not in CAUSES]
    both = np.ptp(error) > 0 and np.ptp(half) > 0
    with np.errstate(all="ignore"):
        correlation = float(np.corrcoef(error, half)[0, 1]) if both else math.nan
    looked = sum(term.mcse > TINY for term in terms)
    return Decomposition(diagnosis, (*causes, *others), rest, correlation, looked=looked)


def shares(hits: Floats | NDArray[np.bool_], kept: NDArray[np.bool_]) -> Floats:
    """Share of hits among the replicates kept, a value for each row of ``kept``."""
    result: Floats = np.array([np.mean(hits[k]) for k in kept])
    return result


def all_pairs(error: Floats, half: Floats) -> float:
    """Share of all pairs of an error and a half length in which the error is not the larger one."""
    below = np.searchsorted(np.sort(half), error, side="left")
    return float(np.mean(1.0 - below / len(half)))


def term_of(name: str, values: Floats) -> Term:
    """A term from its value and those without one group of replicates."""
    left = values[1:]
    return Term(name, float(values[0]), math.sqrt((len(left) - 1) * float(np.var(left))))


def rounded(effects: Sequence[float], coverage: float, level: float, digits: int) -> list[float]:
    """Effects rounded so that with the rounded level they add up to the rounded coverage.

    Each is rounded down, and those that lose most are rounded up instead, until the sum is right.
    """
    unit = 10**digits
    coverage, level = (float(f"{value:.{digits}f}") for value in (coverage, level))  # as they are printed
    wanted = round((coverage - level) * unit)
    low = [math.floor(effect * unit) for effect in effects]
    lost = sorted(range(len(effects)), key=lambda at: low[at] - effects[at] * unit)
    missing = wanted - sum(low)
    for at in lost[:missing] if missing >= 0 else lost[missing:]:
        low[at] += 1 if missing > 0 else -1
    return [value / unit for value in low]
