"""Diagnosis of regression on the transcript, with advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ldpflow.columns import CAUTIOUS, Column, Summary
from ldpflow.intervals.interval import Array
from ldpflow.intervals.transcript_regression_fit import PolynomialFit
from ldpflow.intervals.transcript_regression_linear import LinearFit, diagonal
from ldpflow.intervals.transcript_regression_quadratic import QuadraticFit

__all__ = ["CHECKS", "ROOT_CHECKS", "Halves", "VectorFit", "cautions", "scalar_checks", "vector_checks"]

VectorFit = LinearFit | QuadraticFit
Halves = tuple[VectorFit, VectorFit]

SOURCE = "regression on the transcript alone"
ILL = 1e6  # condition from which on rounding may be seen

CHECKS = (
    Column(
        "relaxation_times",
        "double",
        "1",
        "K, the run's length in relaxation times (TR)",
        summaries=(
            Summary(
                "relaxation_times_median",
                "median of K, the run's length in relaxation times",
                shown=False,
                reference=SOURCE,
            ),
            Summary(
                "too_short",
                "share of finished rows with K < 25",
                below=25.0,
                caution="the run is too short (K < 25 relaxation times)",
                shown=False,
                reference=SOURCE,
            ),
        ),
    ),
    Column(
        "lack_of_fit",
        "double",
        "1",
        "t statistic of the next power in TR's fit; for vectors of the own slope, late half of the run "
        "against early",
        summaries=(
            Summary(
                "poor_fit",
                "share of finished rows with abs(lack_of_fit) > 2.576; .01 where the degree suffices",
                beyond=2.576,
                caution="the degree does not suffice (significant at 1%)",
                shown=False,
                reference=SOURCE,
            ),
        ),
    ),
    Column(
        "condition",
        "double",
        "1",
        "largest over smallest pivot of TR's fit",
        summaries=(
            Summary("condition_median", "median of the condition of the fit", shown=False, reference=SOURCE),
        ),
    ),
)
"""The diagnostics of every regression on the transcript."""

ROOT_CHECKS = (
    *CHECKS,
    Column(
        "early_shift",
        "double",
        "standard errors",
        "root of TR's fit without the first 3 to 6% of the steps, less TR's; not for fits of a vector",
        summaries=(
            Summary(
                "early_steps",
                "share of finished rows with abs(early_shift) > 1; below .04 in most cells where TR covers",
                beyond=1.0,
                caution="the first steps move the estimate by more than a standard error",
                shown=False,
                reference=SOURCE,
            ),
        ),
    ),
)
"""The diagnostics of TR and TR-BM, whose estimate is the root of the fit."""


def scalar_checks(
    fit: PolynomialFit,
    late: PolynomialFit | None,
    degree: int,
    variance: Array,
    root: tuple[Array, Array],
    length: float,
) -> dict[str, Array]:
    """K = P'(root) sum eta_i, the condition of the fit, the t statistic of the next power, and the root's
    move, in its standard errors, to that of the fit to the later steps alone.
    """
    u, slope = root
    shift = np.full_like(u, np.nan)
    if late is not None:
        error = fit.sd * np.sqrt(variance * fit.leverage(u, degree)) / slope
        at, _ = late.sound_root(degree)
        shift = ((late.mean + late.sd * at) - (fit.mean + fit.sd * u)) / error
    return {
        "relaxation_times": (slope / fit.sd * length)[None],
        "condition": fit.condition(degree)[None],
        "lack_of_fit": fit.lack_of_fit(degree, variance)[None],
        "early_shift": shift[None],
    }


def vector_checks(fit: VectorFit, halves: Halves, variance: Array, length: float | Array) -> dict[str, Array]:
    """K by coordinate, length/(J^-1)_jj; the condition of the fit; and its test, dP_j/dx_j at the root
    in the late half of the run against the early: a t statistic, N(0, 1) where the degree suffices.
    """
    relaxation_times = length / diagonal(fit.inverse)
    (early, early_variance), (late, late_variance) = (half.own_slopes(fit.root) for half in halves)
    error = np.sqrt(diagonal(variance) * (early_variance + late_variance))
    return {
        "relaxation_times": relaxation_times,
        "condition": np.broadcast_to(fit.condition, relaxation_times.shape),
        "lack_of_fit": (late - early) / error,
    }


def cautions(row: Mapping[str, Any], vector: bool) -> list[str]:
    """Sentences about a row of the summary: what is wrong with the fit and what would help."""
    degree = row["degree"]
    lost, short, poor, early = (
        row.get(k) or 0.0 for k in ("failure_share", "too_short", "poor_fit", "early_steps")
    )
    found = []
    if lost > CAUTIOUS:
        found.append(
            f"{lost:.0%} of its intervals are undefined (the fit has no root on an increasing branch, or "
            "the interval no end), and the coverage is that of the others: take a larger n"
            + (f", or a degree below {degree}." if degree > 1 else ".")
        )
    if short > CAUTIOUS:
        found.append(
            f"The run is too short in {short:.0%} of the replicates (median of "
            f"{row['relaxation_times_median']:.0f} relaxation times; 25 are needed): take a larger n. "
            "Larger steps (c) help here too, and can bias the averages that other methods are around."
        )
    if poor > CAUTIOUS:
        if vector and not row.get("separate"):
            # A longer burn-in alone would silence the test and leave a bias from curvature in place; a
            # larger n leaves it too, in standard errors, where steps fall like i^-.51.
            remedy = "take smaller steps (c)"
            if degree < 2:
                remedy += ', or degree = 2 with burn_in = "0.1n" (up to five coordinates)'
            fault = "the slopes seen by the early and the late half of the run differ"
        else:
            remedy = (
                'take degree = 3 with burn_in = "0.01n"'
                if degree < 3
                else "take smaller steps (c); TR-BM has a length free of the fit"
            )
            fault = f"power {degree + 1} is significant at 1%"
        found.append(f"Degree {degree} does not fit in {poor:.0%} of the replicates ({fault}): {remedy}.")
    if early > CAUTIOUS:
        found.append(
            f"Without the first 3 to 6% of the steps the estimate moves by more than a standard error in "
            f"{early:.0%} of the replicates: a polynomial of degree {degree} does not describe where they "
            'went. Take burn_in = "0.1n".'
        )
    if (row["condition_median"] or 0.0) > ILL:
        found.append(
            f"The powers of theta are nearly collinear (condition {row['condition_median']:.1e}): start "
            "nearer to the root, or leave out more of the start (burn_in)."
        )
    return found
