"""Names of columns that no component may take for a setting, a diagnostic or a summary of its own."""

from __future__ import annotations

from ldpflow.store.schema import CORE, TRAJECTORY_CORE

__all__ = ["RESERVED"]

RATES = (
    "coverage", "failure_share", "coverage_failures_as_misses", "lower_miss", "upper_miss",
    "bias_eliminated_coverage", "power",
)  # fmt: skip
"""Shares of the summary, each with its MCSE and the ends of its interval."""

MEANS = (
    "length", "bias", "relative_bias", "empirical_se", "skewness", "mse", "model_se",
    "relative_error_model_se", "length_relative", "standardised_bias", "length_ratio", "bias_effect",
    "length_effect", "variability_effect", "shape_effect", "coverage_together", "coverage_left",
)  # fmt: skip
"""Measures of the summary, each with its MCSE."""

OTHERS = (
    "path", "problem", "mechanism", "algorithm", "protocol", "dimension", "privacy_notion", "privacy_unit",
    "neighbouring",
    "horizon", "replicates", "failures", "null", "length_mean", "length_cv", "length_q05", "length_q25",
    "length_median", "length_q75", "length_q95", "oracle_length", "main_cause", "explanation", "kind", "stat",
    "mean", "mcse", "q05", "q50", "q95", "max", "theory_bound", "theory_limit",
)  # fmt: skip

RESERVED = frozenset(
    {
        *(column.name for column in (*CORE, *TRAJECTORY_CORE)),
        *(f"{name}{end}" for name in RATES for end in ("", "_mcse", "_low", "_high")),
        *(f"{name}{end}" for name in MEANS for end in ("", "_mcse")),
        *OTHERS,
    }
)
"""Columns of rows, of trajectories and of their summaries, whatever the components."""
