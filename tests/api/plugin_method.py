"""A plug-in of the tests: an interval method with a setting and a diagnostic of its own."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

import ldpflow as lf
from ldpflow.columns import Column, Summary
from ldpflow.settings import Setting

FACTOR = 2.0


def twice(value):
    return FACTOR * value


@lf.register
class FixedWidth(lf.PathIntervalMethod):
    """The average of all iterates, give or take a fixed half width."""

    kind: Literal["fixed_width"] = "fixed_width"
    half: Annotated[float, Field(gt=0), Setting("unit of theta", "half width of the interval")] = 0.1

    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column(
            "whole_width", "double", "unit of theta", "width of the interval",
            summaries=(Summary("whole_width_median", "median width", unit="unit of theta"),),
        ),
    )  # fmt: skip

    def times(self, steps, algorithm):
        return np.array([steps], dtype=np.int64)

    def intervals(self, record, n, levels):
        steps = record.steps(n)
        estimate = record.origin[:, None] + record.sums_at(np.array([steps]))[0] / steps
        widths = np.array([np.full_like(estimate, self.half) for _ in levels])
        whole = {"whole_width": np.full_like(estimate, twice(self.half))}
        return lf.Intervals(estimate, None, estimate - widths, estimate + widths, whole)
