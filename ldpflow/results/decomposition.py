"""Coverage as a sum: the level, the effect of each property of a method alone, and their joint effect.

A cell has the bias b, the empirical standard error S, lengths L_r of R replicates and the level p. Let
z = z_{(1+p)/2}. An interval of half length h around a normal estimate with this bias covers with probability
C(h, b) = Phi((h - b)/S) - Phi((-h - b)/S). Then

    bias alone          C(z S, b) - p
    mean length alone   C(mean L/2, 0) - p
    variability alone   mean_r C(z S L_r/mean L, 0) - p      lengths right on average
    shape alone         #(|estimate - mean| <= z S)/R - p    the estimate is not normal
    together            mean_r C(L_r/2, b)
    left                coverage - together - shape alone    dependence of length on estimate,
                                                             asymmetric limits, noise

The lengths of self-normalised intervals vary by design: their critical value is made for the mixed normal
law, so that mean_r C(L_r/2, 0) = p in the limit. So a method without a standard error of its own has a single
effect of mean length and variability, mean_r C(L_r/2, 0) - p, called length.

Let e_r be the errors of the estimates, A = #(|e_r| <= L_s / 2) / R^2 over all pairs of replicates r and s,
and H = #(|e_r| <= L_r / 2) / R. A depends on bias, shape and spread of the estimates and on size and
variability of the lengths. It does not depend on which error meets which length. Then

    coverage = p + bias + mean length + variability + shape
                 + (A - p - their sum)        several at once: effects on a share do not add
                 + (H - A)                    dependence of error and length
                 + (coverage - H)             limits that are not symmetric about the estimate

is an identity. A term is named if it is beyond two of its Monte Carlo standard errors (MCSE) and beyond
SMALL. The term of a bias is also named if the bias is beyond two of the bias's own MCSE. All other terms are
shown as one, so that the terms shown add up to the coverage shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ldpflow.columns import round_text
from ldpflow.results.columns import CellRows, Floats

# Groups of the jackknife. They are few and large because shape_effect is a count, whose error would be
# overstated by leaving out single replicates. The relative error of an MCSE from twenty groups is a sixth.
GROUPS = 20
CHUNK = 2**17  # values that are computed at a time
SMALL = 0.0025  # largest effect that is not named
TINY = 1e-12  # largest rounding error of terms that are 0
BY_CHANCE = 0.06  # share of zero effects beyond two MCSE: Student's t with 19 degrees of freedom

CAUSES = ("bias", "length", "variability", "shape")
JOINT, DEPENDENCE, LIMITS = "joint", "dependence", "limits"
SINGLE = ("length", "variability", "bias", "shape", DEPENDENCE)
EFFECTS = (*SINGLE, JOINT, LIMITS, "rest")
"""Effects of an explanation. All but the last add up to coverage - level."""

DIAGNOSIS = (
    *("standardised_bias", "length_ratio"),
    *("bias_effect", "length_effect", "variability_effect", "shape_effect"),
    *("coverage_together", "coverage_left"),
)
"""Numbers of a diagnosis (docs/reading-results.md). Their MCSE is by the delete-a-group jackknife."""

DIAGNOSIS_COLUMNS: tuple[str, ...] = (
    *(n for name in DIAGNOSIS for n in (name, f"{name}_mcse")),
    "main_cause",
)


MAIN = {
    "none": "no gap beyond noise",
    "left": "no clear effect",
    JOINT: "several at once",
    "rest": "unclear effects",
}

CLASSES = MAIN | {
    "bias": "biased",
    "variability": "variable lengths",
    "shape": "not normal",
    DEPENDENCE: "dependence",
    LIMITS: "asymmetric limits",
}
"""Words for the classes of main causes. The words for a length are ``too short`` or ``too long``."""


@dataclass(frozen=True)
class Term:
    name: str
    effect: float
    mcse: float


@dataclass(frozen=True)
class Decomposition:
    """The coverage of a cell's finished rows as a sum.

    ``found`` has the values of :func:`effects`: first for all replicates, then without each group of
    :func:`left_out_groups`. Undefined values are NaN.
    """

    level: float
    rows: CellRows
    found: dict[str, Floats]

    @cached_property
    def coverage(self) -> float:
        return float(np.mean(self.rows.covered)) if len(self.rows.ok) else math.nan

    @property
    def coverage_mcse(self) -> float:
        count = len(self.rows.ok)
        return math.sqrt(self.coverage * (1 - self.coverage) / count) if count > 1 else math.nan

    @cached_property
    def diagnosis(self) -> dict[str, Term]:
        return {name: term_of(name, values) for name, values in self.found.items()}

    def main_cause(self) -> str | None:
        """The cause with the largest effect in the direction of the gap, coverage - level.

        ``none`` if both the gap and this effect are within two MCSE of coverage, ``left`` if the effect is
        within two of its own MCSE, None if no effect is defined.
        """
        gap = self.coverage - self.level
        towards = {c: math.copysign(1.0, gap) * self.diagnosis[f"{c}_effect"].effect for c in CAUSES}
        defined = [cause for cause in CAUSES if math.isfinite(towards[cause])]
        if not defined:
            return None
        cause = max(defined, key=towards.__getitem__)
        noise = 2 * self.coverage_mcse
        if abs(gap) <= noise and towards[cause] <= noise:
            return "none"
        return cause if towards[cause] > 2 * self.diagnosis[f"{cause}_effect"].mcse else "left"

    def columns(self) -> dict[str, float | str | None]:
        terms = (self.diagnosis[name] for name in DIAGNOSIS)
        values = [v if math.isfinite(v) else None for term in terms for v in (term.effect, term.mcse)]
        return dict(zip(DIAGNOSIS_COLUMNS, (*values, self.main_cause()), strict=True))

    @cached_property
    def parts(self) -> dict[str, Floats]:
        """Terms that add up to coverage - level, in the form of ``found``. Empty if undefined."""
        if self.main_cause() is None:
            return {}
        rows, kept = self.rows, left_out_groups(len(self.rows.ok))
        error, half = np.abs(rows.estimate - rows.truth), rows.lengths() / 2
        parts = {c: v for c in CAUSES if np.isfinite(v := self.found[f"{c}_effect"]).all()}
        pairs = np.array([all_pairs(error[k], half[k]) for k in kept])
        hits = shares(error <= half, kept)
        parts[JOINT] = pairs - self.level - sum(parts.values())
        parts[DEPENDENCE] = hits - pairs
        parts[LIMITS] = shares(rows.covered, kept) - hits
        return parts

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Named terms: those beyond two of their MCSE and :data:`SMALL`, causes first.

        The term of a bias is also named if the bias is beyond two of its own MCSE. Fewer replicates are
        needed to find a bias than to find its effect.
        """
        bias = self.diagnosis["standardised_bias"]
        biased = {"bias"} if abs(bias.effect) > 2 * bias.mcse else set()
        found = [term_of(name, values) for name, values in self.parts.items()]
        named = [t for t in found if abs(t.effect) > max(2 * t.mcse, SMALL) or t.name in biased]
        causes = sorted((t for t in named if t.name in CAUSES), key=lambda term: -abs(term.effect))
        return (*causes, *(term for term in named if term.name not in CAUSES))

    @cached_property
    def rest(self) -> Term | None:
        """The sum of the terms that are not named. None if it is 0 or nothing is defined."""
        if not self.parts:
            return None
        named = {term.name for term in self.terms}
        others = [values for name, values in self.parts.items() if name not in named]
        left: Floats = np.sum(others or [np.zeros(2)], axis=0)
        return None if named and abs(left[0]) < TINY else term_of("rest", left)

    def sentence(self, source: str | None = None, failed: int = 0, lost: str = "") -> str:
        """The sum in a sentence.

        ``source`` of a bias is ``start`` or ``steps``, or None if unknown. ``failed`` is the number of
        replicates without an interval. ``lost`` is their share in words if they are the main cause, else "".
        """
        digits = max(3, len(f"{self.level:g}".partition(".")[2]))
        head = (
            f"Coverage{' of the finished replicates' if failed else ''} {self.coverage:.{digits}f} ± "
            f"{self.coverage_mcse:.{digits}f} MCSE at level {self.level:g}"
        )
        shown = [*self.terms, *([] if self.rest is None else [self.rest])]
        if not shown:
            return "Nothing can be said: it takes three finished replicates that differ, all with a length."
        main = self.main_words(source)
        if lost:
            main = f"too low with failures as misses, mainly because {lost}"
        elif self.leading()[1] is not None:
            main = f"mainly {main}"
        amounts = round_terms([term.effect for term in shown], self.coverage, self.level, digits)
        added = " ".join(
            f"{amount:+.{digits}f} ± {error_text(term.mcse, digits)} ({self.words(term)})"
            for amount, term in zip(amounts, shown, strict=True)
        )
        return f"{head}, {main}: {self.level:.{digits}f} (level) {added} = {self.coverage:.{digits}f}."

    def leading(self) -> tuple[str, Term | None]:
        """Main cause of the gap, coverage - level, and the largest single effect with the sign of the gap.

        The cause is ``none`` if the gap is within two MCSE, ``left`` if no named single effect has the sign
        of the gap, ``joint`` or ``rest`` if this term exceeds every single effect, or else the name of the
        largest effect. The effect is None for ``none`` and ``left``.
        """
        gap = self.coverage - self.level
        if abs(gap) <= 2 * self.coverage_mcse:
            return "none", None
        sign = math.copysign(1.0, gap)
        single = [term for term in self.terms if term.name != JOINT]
        towards = max(single, key=lambda term: sign * term.effect, default=None)
        if towards is None or sign * towards.effect <= 0:
            return "left", None
        several = [*(term for term in self.terms if term.name == JOINT), *([self.rest] if self.rest else [])]
        larger = [term.name for term in several if sign * term.effect > sign * towards.effect]
        return (*larger, towards.name)[0], towards

    def main_words(self, source: str | None = None) -> str:
        """The main cause with its size in words, such as ``19% too short``."""
        kind, term = self.leading()
        if term is None or kind == JOINT:
            return MAIN[kind]
        if kind == "rest":
            return f"{MAIN[kind]}; in part {self.words(term)}"
        return self.words(term) + (f" from the {source}" if source and kind == "bias" else "")

    def cause_class(self) -> str:
        kind, term = self.leading()
        if term is not None and kind == "length":
            return length_words(term)
        return CLASSES[kind]

    def effect_columns(self) -> dict[str, float]:
        """:data:`EFFECTS` with their MCSE. The rest is coverage - level less the named effects of SINGLE."""
        clear = {term.name for term in self.terms} & {*SINGLE}
        others = [values for name, values in self.parts.items() if name not in clear]
        parts = self.parts | ({"rest": np.sum(others, axis=0)} if others else {})
        terms = [term_of(name, parts[name]) for name in EFFECTS if name in parts]
        effects = {f"{term.name}_effect": term.effect for term in terms}
        return effects | {f"{term.name}_effect_mcse": term.mcse for term in terms}

    def words(self, term: Term) -> str:
        v = {name: found.effect for name, found in self.diagnosis.items()}
        if term.name == "length":
            wrong = v["length_ratio"] - 1.0
            # Lengths that vary by design may differ from those of normal intervals.
            known = math.isfinite(v["variability_effect"]) and (wrong > 0) == (term.effect > 0)
            return (f"{abs(wrong):.0%} " if known else "") + length_words(term)
        return {
            "bias": f"bias of {v['standardised_bias']:+z.2f} SE",
            "variability": f"lengths vary {v['length_cv']:.0%}",
            "shape": f"skewness {v['skewness']:+z.2f}",
            DEPENDENCE: "dependence of error and length",
            JOINT: "several effects at once, beyond their sum",
            LIMITS: "asymmetric limits",
            "rest": f"{'other' if self.terms else 'all'} effects, each within 2 MCSE or {SMALL}",
        }[term.name]


def error_text(error: float, digits: int) -> str:
    """Text of an MCSE. A positive MCSE is not shown as 0."""
    text = f"{error:.{digits}f}"
    return text if float(text) or not error else round_text(error, 1)


def length_words(term: Term) -> str:
    return "too long" if term.effect > 0 else "too short"


def decompose(rows: CellRows, level: float) -> Decomposition:
    rows = rows.finished()
    count = len(rows.ok)
    if not (count > 2 and np.ptp(rows.estimate) > 0 and rows.length.max() > 0):
        undefined = np.full(2, math.nan)
        return Decomposition(level, rows, dict.fromkeys((*DIAGNOSIS, "length_cv", "skewness"), undefined))
    kept = left_out_groups(count)
    chunk = max(1, CHUNK // count)
    with np.errstate(all="ignore"):
        own = rows.estimate - rows.truth, rows.lengths(), rows.covered, rows.has_se()
        parts = [effects(level, kept[g : g + chunk], *own) for g in range(0, len(kept), chunk)]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Decomposition(level, rows, found)


def left_out_groups(count: int) -> NDArray[np.bool_]:
    """Mask of kept replicates, shape (1 + groups, R). Row 0 keeps all, and row g leaves out group g - 1."""
    groups = min(GROUPS, count)
    return np.asarray(np.arange(count)[None, :] % groups != np.arange(-1, groups)[:, None])


def effects(
    level: float, kept: NDArray[np.bool_], error: Floats, length: Floats, covered: Floats, has_se: bool
) -> dict[str, Floats]:
    """Values of a diagnosis, shape (G,): one for each row of the mask ``kept``, shape (G, R)."""
    weights = kept.astype(float)
    weights /= weights.sum(axis=1, keepdims=True)
    size = kept.sum(axis=1)

    def mean(values: Floats | NDArray[np.bool_]) -> Floats:
        return np.asarray(np.sum(weights * values, axis=1))

    bias = mean(error)
    deviation = error - bias[:, None]
    variance = mean(deviation**2)
    s = np.sqrt(variance * size / (size - 1))
    average = mean(length)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    half = length / (2 * s[:, None])
    shift = bias / s

    def centred(half: Floats) -> Floats:
        return np.asarray(1.0 - 2.0 * ndtr(-half))

    def covers(half: Floats | float, shift: Floats) -> Floats:
        return np.asarray(ndtr(half - shift) - ndtr(-half - shift))

    if has_se:
        length_effect = centred(average / (2 * s)) - level
        variability_effect = mean(centred(z * length / average[:, None])) - level
    else:
        length_effect = mean(centred(half)) - level
        variability_effect = np.full(len(s), math.nan)
    shape = mean(np.abs(deviation) <= z * s[:, None]) - level
    together = mean(covers(half, shift[:, None]))
    spread = mean((length - average[:, None]) ** 2) * size / (size - 1)
    return {
        "standardised_bias": shift,
        "length_ratio": average / (2 * z * s),
        "bias_effect": covers(z, shift) - level,
        "length_effect": length_effect,
        "variability_effect": variability_effect,
        "shape_effect": shape,
        "coverage_together": together,
        "coverage_left": mean(covered) - together - shape,
        "length_cv": np.sqrt(spread) / average,
        # As a product: a power takes a hundred times as long.
        "skewness": mean(deviation * deviation * deviation) / variance**1.5,
    }


def shares(hits: Floats | NDArray[np.bool_], kept: NDArray[np.bool_]) -> Floats:
    return np.array([np.mean(hits[k]) for k in kept])


def all_pairs(error: Floats, half: Floats) -> float:
    """Share of the pairs of an error and a half length in which the error is at most the half length."""
    below = np.searchsorted(np.sort(half), error, side="left")
    return float(np.mean(1.0 - below / len(half)))


def term_of(name: str, values: Floats) -> Term:
    left = values[1:]
    return Term(name, float(values[0]), math.sqrt((len(left) - 1) * float(np.var(left))))


def round_terms(effects: Sequence[float], coverage: float, level: float, digits: int) -> list[float]:
    """Effects rounded so that they and the rounded level add up to the rounded coverage.

    All effects are rounded down. Then those that lost most are rounded up until the sum is right.
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
