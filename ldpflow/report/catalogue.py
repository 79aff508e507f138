"""The figures by name, with what a reader should know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ldpflow.report import pictures
from ldpflow.report.charts import MAX_RANKED
from ldpflow.report.figures import CURVES, MAX_SINGLE, Curves, curves_of, measure, rates, risk, trajectory
from ldpflow.report.results import Results


@dataclass(frozen=True)
class Figure:
    """A figure: how it is drawn, its heading and its explanation on the report.

    ``over_x`` says whether it takes the factor on its axis.
    """

    draw: Callable[..., Any]
    heading: str
    caption: str
    over_x: bool = True

    def chart(self, results: Results, x: str = "n") -> Any:
        """The Altair chart."""
        return self.draw(results, x) if self.over_x else self.draw(results)


BARS = "Bars are 95% Monte Carlo intervals."
RANKED = (
    f"{BARS} Up to {MAX_RANKED} values on the axis stand at equal distances, with the series of each side by "
    "side."
)


def of_cells(name: str, heading: str, caption: str) -> Figure:
    """The figure of a measure of the cells."""
    return Figure(partial(measure, name=name), heading, caption)


def along_a_path(name: str, curves: Curves) -> Figure:
    """The figure of a statistic of trajectories."""
    return Figure(
        partial(trajectory, name=name),
        curves.heading,
        f"Mean over replicates of {curves.axis}, with a 95% Monte Carlo band (of at most {MAX_SINGLE} "
        "replicates: each by itself). Dashed lines are proved upper bounds of the mean, dotted ones the "
        "leading term of its expansion, where theory has them.",
    )


FIGURES: dict[str, Figure] = {
    "coverage": of_cells(
        "coverage",
        "Coverage",
        "Share of replicates whose interval contains the true value. The dashed line is the nominal "
        "level; in the grey band a method with exactly that coverage would lie 95 times in 100, given "
        "this many replicates. Failed replicates, without an interval, count as misses. " + RANKED,
    ),
    "choice": Figure(
        pictures.choice,
        "Coverage against length",
        "All methods of a setting, failures counted as misses: the shortest of those that hold their level "
        "is recommended. Named are the methods that no other beats in coverage and length at once. "
        "The dashed line is the nominal level. " + BARS,
        over_x=False,
    ),
    "length": of_cells(
        "length",
        "Length",
        "Mean length of the intervals, in the unit of θ, on a logarithmic axis. The dashed line is the "
        "oracle's: the interval with the true asymptotic variance, which cannot be computed from data. "
        + BARS,
    ),
    "relative-length": of_cells(
        "relative-length",
        "Length relative to the oracle",
        "The same lengths divided by the oracle's. Below 1 with coverage below nominal: too short. "
        "Above 1 at nominal coverage: the price of not knowing the variance. " + RANKED,
    ),
    "protocols": of_cells(
        "protocols",
        "Protocols",
        "Mean length of every protocol's default interval, in the unit of θ. The dashed line is the "
        "efficiency bound's: no protocol under the same budget has a shorter honest interval for large n. "
        "Intervals that end at the public range are left out. " + BARS,
    ),
    "zip": Figure(
        pictures.zip_plot,
        "The intervals themselves (zip plots)",
        "Each line is the interval of one replicate; the truth is the vertical line. Intervals are "
        "ranked by error over half length, the worst on top (of many replicates, evenly spaced ranks). "
        "A method keeps its level when coloured intervals, the misses, fill the space above the dashed "
        "line and no more. Its tails are balanced when both colours are equally frequent: a biased estimate "
        "can have balanced tails, and an unbiased one of a skewed law need not.",
        over_x=False,
    ),
    "heat-map": Figure(
        pictures.heat_map,
        "Every cell at once",
        "Coverage in percent, coloured by its distance from the nominal level: orange is too low, blue "
        "too high. Replicates without an interval count as misses.",
    ),
    "bias": of_cells(
        "bias",
        "Bias of the estimate",
        "Bias in units of the estimate's empirical standard error. At 0.5 a 90% interval of the right "
        "length covers 86% instead of 90%: intervals centred at a biased estimate miss for that reason "
        "alone. " + RANKED,
    ),
    "standard-error": of_cells(
        "standard-error",
        "Standard errors",
        "The methods' own standard errors against the standard deviation of the estimate over "
        "replicates: 0 is right, -0.1 is 10% too small. Methods without a standard error (SN) are "
        "absent. " + RANKED,
    ),
    "paper": Figure(
        pictures.beside_published,
        "Beside the published tables",
        "Numbers of this run and as printed, with 95% intervals (of lengths including rounding). "
        "Lengths are divided by the printed one.",
        over_x=False,
    ),
    "rates": Figure(
        rates,
        "Rates",
        "The gradient's norm, averaged along each path, on logarithmic axes: a rate is a straight line. "
        "Dotted lines have the slope of the theorem's rate and start at the first point; its constants "
        "mean nothing at these sizes. Bars are 95% Monte Carlo intervals.",
    ),
    "risk": Figure(
        risk,
        "Excess risk at the end",
        "Mean excess loss of what each algorithm puts out, at the last checkpoint of its path. Bars are 95% "
        "Monte Carlo intervals; dotted lines are the leading term, or the exact mean, where theory has it.",
    ),
    **{name: along_a_path(name, curves) for name, curves in CURVES.items()},
}


def figures_of(results: Results) -> dict[str, Figure]:
    """The figures that a run may have: FIGURES, and one for every further statistic of its trajectories."""
    further = {name: curves for name, curves in curves_of(results).items() if name not in FIGURES}
    return FIGURES | {name: along_a_path(name, curves) for name, curves in further.items()}
