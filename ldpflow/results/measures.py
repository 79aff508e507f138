"""Performance measures over replicates, each with its Monte Carlo standard error (MCSE).

They follow Table 6 of Morris, White and Crowther (2019), Using simulation studies to evaluate statistical
methods, Statistics in Medicine 38, 2074-2102. Shares and relative errors are fractions of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from ldpflow.columns import Summary
from ldpflow.results.columns import CellRows, Floats, summary_schema
from ldpflow.store.schema import BUNDLED, further_columns

CHUNK = 2**14  # values of a sum that are added at a time: they fit into the cache of a core
FEW = 512  # largest number of values for which math.fsum alone is faster
EXTRACTIONS = 3
HEADROOM = 15  # 2**HEADROOM exceeds CHUNK

Z95 = 1.959963984540054
DOMINATES = 0.5  # share of a sum beyond which one replicate dominates it
EXPLODED = 1e3  # ratio of mean and median length beyond which lengths count as exploded
TINY = 4  # with so few replicates two may make nearly all of a sum, so sums without one are computed directly


def summarise_cells(keys: pa.Table, cells: Sequence[CellRows], null: float | None = None) -> pa.Table:
    """Measures of cells, in the schema :func:`summary_schema`.

    ``null`` is the value of theta whose rejection counts as power. Measures of length are over rows with
    status ok, and most others over finished rows (status ok or range_end). Sums are correctly rounded, so
    that the result depends neither on the order of rows nor on the processor.
    """
    found = [measures(cell, null) for cell in cells]
    checks = [column for cell in cells for column in cell.diagnostics if column.name not in BUNDLED]
    schema = summary_schema(dict.fromkeys([*further_columns(keys.schema), *checks]))
    arrays = [
        keys[field.name].cast(field.type)
        if field.name in keys.column_names
        else pa.array(
            [v if math.isfinite(v := one.get(field.name, math.nan)) else None for one in found], field.type
        )
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def measures(rows: CellRows, null: float | None = None) -> dict[str, float]:
    replicates = len(rows.ok)
    finished = rows.finished()
    count = len(finished.ok)
    hits = int(np.sum(finished.covered))
    truth = float(rows.truth[0])
    result: dict[str, float] = {
        "truth": truth,
        "replicates": replicates,
        "failures": replicates - count,
        **rate("failure_share", replicates - count, replicates),
        **rate("coverage_failures_as_misses", hits, replicates),
    }
    if count == 0:
        return result
    with np.errstate(all="ignore"):
        mean, variance = moments(finished.estimate)
        result |= interval_measures(finished, hits, mean)
        if null is not None:
            excluded = (null < finished.lower) | (finished.upper < null)
            result |= rate("power", int(np.sum(excluded)), count)
        result |= estimate_measures(finished.estimate, truth, mean, variance)
        for column, values in finished.diagnostics.items():
            if len(known := values[~np.isnan(values)]):
                result |= {summary.name: summary_value(summary, known) for summary in column.summaries}
        if finished.has_se():
            result |= model_se_measures(finished.estimate, finished.se, mean, variance)
    return result


def interval_measures(rows: CellRows, hits: int, mean: float) -> dict[str, float]:
    truth, lengths = rows.truth, rows.lengths()
    inside = (rows.lower <= mean) & (mean <= rows.upper)
    result = rate("coverage", hits, len(lengths))
    for name, flags in (
        ("lower_miss", truth < rows.lower),
        ("upper_miss", truth > rows.upper),
        ("bias_eliminated_coverage", inside),
    ):
        result |= rate(name, int(np.sum(flags)), len(lengths))
    length = lengths[~np.isnan(lengths)]
    if not len(length):
        return result
    average, variance = moments(length)
    names = ("length_q05", "length_q25", "length_median", "length_q75", "length_q95")
    quantiles = np.quantile(length, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
    result |= dict(zip(names, quantiles, strict=True))
    result |= {"length_mean": average, "length_mcse": math.sqrt(variance / len(length))}
    return result | {"length_cv": math.sqrt(variance) / average} if average > 0 else result


def summary_value(summary: Summary, values: Floats) -> float:
    if summary.mean:
        mean, variance = moments(values)
        return math.sqrt(variance / len(values)) if summary.error else mean
    if not summary.is_share:
        return float(np.median(values))
    hits = np.abs(values) > summary.beyond if summary.below is None else values < summary.below
    share = rate("share", int(np.sum(hits)), len(values))
    return share["share_mcse" if summary.error else "share"]


def estimate_measures(estimate: Floats, truth: float, mean: float, variance: float) -> dict[str, float]:
    count = len(estimate)
    # The mean of estimates far from 0, less the truth, would lose the digits of a small bias.
    errors = estimate - truth
    bias = total(errors) / count
    mse, mse_variance = moments(errors**2)
    empirical_se = math.sqrt(variance)
    result = {
        "bias": bias,
        "bias_mcse": empirical_se / math.sqrt(count),
        "empirical_se": empirical_se,
        "mse": mse,
        "mse_mcse": math.sqrt(mse_variance / count),
    }
    if truth != 0:
        result["relative_bias"] = bias / truth
        result["relative_bias_mcse"] = result["bias_mcse"] / abs(truth)
    if count > 2 and 0 < variance < math.inf:
        scale = math.sqrt(variance * (count - 1) / count)
        u = (estimate - mean) / scale
        result["skewness"] = total(u * u * u) / count
        result |= errors_of_shape(u, result["skewness"], scale)
    elif count > 2 and variance == 0:
        result["empirical_se_mcse"] = 0.0
    return result


def errors_of_shape(u: Floats, skewness: float, scale: float) -> dict[str, float]:
    """MCSE of the empirical SE and of the skewness by the delete-one jackknife, for three rows or more.

    ``u`` are the R deviations from the mean in units of ``scale``, with mean square 1. Without replicate r
    the sum of squares about the new mean is R - R u_r^2 / (R - 1), and the sum of cubes is, with the skewness
    g, R g - u_r^3 + 3 u_r (R - u_r^2) / (R - 1) - 2 u_r^3 / (R - 1)^2. If r has most of the squares, these
    differences lose most digits, so the sums without r are computed directly.
    """
    count, squares = len(u), u * u
    second = count - count / (count - 1) * squares
    third = count * skewness + 3 / (count - 1) * u * (count - squares)
    third -= (1 + 2 / (count - 1) ** 2) * squares * u
    for r in np.flatnonzero(squares > DOMINATES * count) if count > TINY else range(count):
        kept = np.delete(u, r)
        around = kept - total(kept) / (count - 1)
        second[r], third[r] = total(around * around), total(around * around * around)
    result = {"empirical_se_mcse": scale * spread(np.sqrt(second / (count - 2)))}
    # The skewness of two replicates is 0.
    if count > 3:
        result["skewness_mcse"] = spread(math.sqrt(count - 1) * third / (second * np.sqrt(second)))
    return result


def spread(left_out: Floats) -> float:
    """Delete-one jackknife standard error of a statistic, from its values without each replicate."""
    count = len(left_out)
    return math.sqrt((count - 1) / count * total((left_out - total(left_out) / count) ** 2))


def model_se_measures(estimate: Floats, se: Floats, mean: float, variance: float) -> dict[str, float]:
    """Model SE M, and its relative error M / S - 1 with the empirical SE S, for one row or more.

    The MCSE of M / S in Table 6 of Morris et al. is for normal estimates that are independent of se. Here
    estimates of short paths are skewed, and a path that strays has both a large error and a large se. The
    delete-one jackknife needs neither assumption. It also holds if one replicate makes more than half of a
    sum. In this case linearisation gives a far too small MCSE (.0008 against .50 in one cell).
    """
    count = len(estimate)
    squares = se**2
    mean_square, square_variance = moments(squares)
    model_se = math.sqrt(mean_square)
    result = {"model_se": model_se}
    if model_se > 0:
        result["model_se_mcse"] = math.sqrt(square_variance / (4 * count)) / model_se
    if not (variance > 0 and math.isfinite(variance) and math.isfinite(mean_square)):
        return result
    result["relative_error_model_se"] = model_se / math.sqrt(variance) - 1
    # Without one of two replicates there is no spread.
    if count > 2 and mean_square > 0:
        result["relative_error_model_se_mcse"] = jackknife(squares, mean_square, estimate, mean, variance)
    return result


def has_exploded(row: Mapping[str, Any]) -> bool:
    """Whether the lengths of a cell are finite and differ by orders of magnitude: see :data:`EXPLODED`."""
    mean, median = row.get("length_mean"), row.get("length_median")
    return mean is not None and median is not None and math.inf > mean > EXPLODED * median > 0


def jackknife(squares: Floats, mean_square: float, estimate: Floats, mean: float, variance: float) -> float:
    """Delete-one jackknife standard error of M / S, for three rows or more.

    ``squares`` are the squared standard errors. With the sum SS of squared deviations of the estimates x_r,
    the sum without replicate r is SS - R / (R - 1) (x_r - mean)^2. If r has most of a sum, the difference
    loses most digits, so the sums without r are computed directly.
    """
    count = len(estimate)
    deviations = (estimate - mean) ** 2
    squares_left = mean_square * count - squares
    deviations_left = variance * (count - 1) - count / (count - 1) * deviations
    sums = ((squares, mean_square * count), (deviations, variance * (count - 1)))
    most = {int(np.argmax(values)) for values, whole in sums if values.max() > DOMINATES * whole}
    for r in most if count > TINY else range(count):
        kept = np.delete(estimate, r)
        squares_left[r] = total(np.delete(squares, r))
        deviations_left[r] = total((kept - total(kept) / (count - 1)) ** 2)
    return spread(np.sqrt(squares_left / (count - 1) / (deviations_left / (count - 2))))


def rate(name: str, hits: int, count: int) -> dict[str, float]:
    """A share, its MCSE (NaN for one replicate) and the limits of Wilson's 95% interval."""
    share = hits / count
    mcse = math.sqrt(share * (1 - share) / count) if count > 1 else math.nan
    low, high = wilson(hits, count)
    return {name: share, f"{name}_mcse": mcse, f"{name}_low": low, f"{name}_high": high}


def wilson(hits: int, count: int) -> tuple[float, float]:
    share, z2 = hits / count, Z95**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    # Rounding must not move the ends 0 and 1.
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == count else centre + half)


def moments(values: Floats) -> tuple[float, float]:
    """Mean and variance with divisor R - 1. The variance is NaN for one value, and 0 for equal values."""
    if len(values) > 1 and values.min() == values.max():
        return float(values[0]), 0.0
    mean = total(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, total((values - mean) ** 2) / (len(values) - 1)


def total(values: Floats) -> float:
    """Correctly rounded sum, or infinity if the sum leaves the range of a double."""
    pieces = (values[at : at + CHUNK] for at in range(0, len(values), CHUNK))
    try:
        return math.fsum(chain.from_iterable(map(same_sum, pieces)))
    except (OverflowError, ValueError):
        return math.inf


def same_sum(values: Floats) -> list[float]:
    """Replace at most CHUNK values by few numbers with exactly the same sum.

    Adding and subtracting a power of two, about 2**HEADROOM times the largest value, cuts all values at one
    bit. The upper parts are multiples of one unit. Sums of at most CHUNK of them are exact in any order
    (ExtractVector of Rump, Ogita and Oishi 2008, Accurate floating-point summation I). The lower parts are
    cut again, and the remainders of the last cut are kept.
    """
    found: list[float] = []
    for _ in range(EXTRACTIONS if len(values) > FEW else 0):
        largest = max(float(values.max()), -float(values.min()))
        if not 2.0**-900 < largest < 2.0**900:
            break
        unit = 2.0 ** (math.frexp(largest)[1] + HEADROOM)
        upper = (values + unit) - unit
        found.append(float(upper.sum()))
        values = values - upper
    left: list[float] = (values[values != 0] if found else values).tolist()
    return found + left
