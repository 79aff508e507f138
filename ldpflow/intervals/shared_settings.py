"""Settings that several interval methods have: their types and what they mean."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ldpflow.settings import Setting

__all__ = [
    "BASE",
    "BETA",
    "BLOCK_C",
    "BURN_IN",
    "DEGREE",
    "MULTIPLIER",
    "QUANTILE",
    "REPLICATIONS",
    "SEPARATE",
    "SMALL_RUN",
    "VARIANCE",
    "BatchRule",
    "Quantile",
]

BASE = Setting("-", "method whose variance or standard error is used")
BETA = Setting("1", "block exponent of BB; null elsewhere", symbol="β", title="block exponent")
BLOCK_C = Setting("1", "factor c of the rule for block lengths", logarithmic=True)
BURN_IN = Setting("-", "steps that TR leaves out: `n^0.4`, `0.01n`")
DEGREE = Setting("-", "degree of TR's polynomial")
MULTIPLIER = Setting("-", "law of BB's multipliers; null elsewhere")
QUANTILE = Setting("-", "law of the critical values: `t` for Student's, `F` for Hotelling's")
REPLICATIONS = Setting("count", "bootstrap replications of BB; null elsewhere", logarithmic=True)
SEPARATE = Setting("-", "whether every quantile has a fit of TR of its own")
SMALL_RUN = Setting("-", "whether half widths have the factor K/(K - 4) for short runs")
VARIANCE = Setting("-", "S of TR: `known` or `residual`")

Quantile = Annotated[Literal["normal", "t"], QUANTILE]

BatchRule = Annotated[
    str,
    Field(
        pattern=r"^(half|third|[1-9][0-9]{0,3}n\^0?\.[0-9]{1,6}|n\^0?\.[0-9]{1,6}|[1-9][0-9]{0,11})$",
        description="half, third, a power of n such as n^0.75 or 3n^0.75, or a number of steps",
    ),
    Setting("-", "length of equal batches: `half`, `third`, `3n^0.75` or a number of steps"),
]
