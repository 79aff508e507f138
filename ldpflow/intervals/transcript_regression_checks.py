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

__all__ = ["CHECKS", "Halves", "VectorFit", "cautions", "scalar_checks", "vector_checks"]

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
"""The diagnostics of TR and TR-BM."""


def scalar_checks(
    fit: PolynomialFit, degree: int, variance: Array, slope: Array, length: float
) -> dict[str, Array]:
    """K = P'(root) sum eta_i, the condition of the fit, and the t statistic of the next power."""
    return {
        "relaxation_times": (slope / fit.sd * length)[None],
        "condition": fit.condition(degree)[None],
        "lack_of_fit": fit.lack_of_fit(degree, variance)[None],
    }


def vector_checks(fit: VectorFit, halves: Halves, variance: Array, length: float) -> dict[str, Array]:
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
    lost, short, poor = (row[k] or 0.0 for k in ("failure_share", "too_short", "poor_fit"))
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
        if vector:
            # A longer burn-in alone would silence the test and leave a bias from curvature in place.
            remedy = "take smaller steps (c), or a larger n"
            if degree < 2:
                remedy += ', or degree = 2 with burn_in = "0.1n" (up to five coordinates)'
            fault = "the slopes seen by the early and the late half of the run differ"
        else:
            remedy = (
                'take degree = 3 with burn_in = "0.01n"'
                if degree < 3
                else "take smaller steps (c) or a larger n; TR-BM has a length free of the fit"
            )
            fault = f"power {degree + 1} is significant at 1%"
        found.append(f"Degree {degree} does not fit in {poor:.0%} of the replicates ({fault}): {remedy}.")
    if (row["condition_median"] or 0.0) > ILL:
        found.append(
            f"The powers of theta are nearly collinear (condition {row['condition_median']:.1e}): start "
            "nearer to the root, or leave out more of the start (burn_in)."
        )
    return found
