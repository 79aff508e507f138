"""Performance measures over replicates, each with its Monte Carlo standard error (MCSE).

After Morris, White and Crowther (2019), Using simulation studies to evaluate statistical methods,
Statistics in Medicine 38, 2074-2102, Table 6. Shares and relative errors are fractions of one, not
percentages.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldpflow.store.schema import CELL_KEYS, DIAGNOSIS, REPLICATES, key_codes

__all__ = ["COLUMNS", "GROUP_KEYS", "SUMMARY", "Measure", "summarise"]

GROUP_KEYS: tuple[str, ...] = ("path", *CELL_KEYS, "coordinate")
"""What one row of the summary is about."""

Floats = NDArray[np.float64]

Z95 = 1.959963984540054


class Measure(NamedTuple):
    """How a column of the summary is computed, its unit, and where the formula comes from."""

    formula: str
    unit: str
    reference: str


MORRIS = "Morris et al. 2019, Table 6"
SHARE = "share"
THETA = "unit of theta"
TR = "ldpflow.intervals.transcript_regression"

COLUMNS: dict[str, Measure] = {
    "truth": Measure("theta", THETA, "the problem"),
    "replicates": Measure("rows, failures included", "count", "-"),
    "failures": Measure("rows whose status is not ok; R = replicates - failures", "count", "-"),
    "coverage": Measure("p = #(lower <= theta <= upper) / R", SHARE, MORRIS),
    "coverage_mcse": Measure("sqrt(p (1 - p) / R)", SHARE, MORRIS),
    "coverage_low": Measure("lower end of Wilson's 95% interval for p", SHARE, "Wilson 1927"),
    "coverage_high": Measure("upper end of Wilson's 95% interval for p", SHARE, "Wilson 1927"),
    "coverage_failures_as_misses": Measure(
        "q = #(lower <= theta <= upper) / replicates", SHARE, f"{MORRIS}, on all rows"
    ),
    "coverage_failures_as_misses_mcse": Measure(
        "sqrt(q (1 - q) / replicates)", SHARE, f"{MORRIS}, on all rows"
    ),
    "lower_miss": Measure("#(theta < lower) / R: the interval lies too high", SHARE, MORRIS),
    "lower_miss_mcse": Measure("sqrt(p (1 - p) / R) with p = lower_miss", SHARE, MORRIS),
    "upper_miss": Measure("#(theta > upper) / R: the interval lies too low", SHARE, MORRIS),
    "upper_miss_mcse": Measure("sqrt(p (1 - p) / R) with p = upper_miss", SHARE, MORRIS),
    "bias_eliminated_coverage": Measure("#(lower <= mean(estimate) <= upper) / R", SHARE, MORRIS),
    "bias_eliminated_coverage_mcse": Measure(
        "sqrt(p (1 - p) / R) with p = bias_eliminated_coverage", SHARE, MORRIS
    ),
    "length_mean": Measure("mean(upper - lower)", THETA, "mean of R values"),
    "length_mcse": Measure("sd(length) / sqrt(R)", THETA, "mean of R values"),
    "length_q05": Measure("5% quantile of length", THETA, "Hyndman and Fan 1996, type 7"),
    "length_q25": Measure("25% quantile of length", THETA, "Hyndman and Fan 1996, type 7"),
    "length_median": Measure("median of length", THETA, "Hyndman and Fan 1996, type 7"),
    "length_q75": Measure("75% quantile of length", THETA, "Hyndman and Fan 1996, type 7"),
    "length_q95": Measure("95% quantile of length", THETA, "Hyndman and Fan 1996, type 7"),
    "bias": Measure("mean(estimate) - theta", THETA, MORRIS),
    "bias_mcse": Measure("empirical_se / sqrt(R)", THETA, MORRIS),
    "relative_bias": Measure("bias / theta, where theta is not 0", "1", MORRIS),
    "relative_bias_mcse": Measure("bias_mcse / |theta|", "1", MORRIS),
    "empirical_se": Measure("S = sqrt(sum (estimate - mean)^2 / (R - 1))", THETA, MORRIS),
    "empirical_se_mcse": Measure("S / sqrt(2 (R - 1)): normal estimates", THETA, MORRIS),
    "mse": Measure("mean((estimate - theta)^2)", f"({THETA})^2", MORRIS),
    "mse_mcse": Measure(
        "sqrt(sum ((estimate - theta)^2 - mse)^2 / (R (R - 1)))", f"({THETA})^2", MORRIS
    ),
    "model_se": Measure("M = sqrt(mean(se^2))", THETA, MORRIS),
    "model_se_mcse": Measure("sqrt(var(se^2) / (4 R M^2))", THETA, MORRIS),
    "relative_error_model_se": Measure("M / S - 1", "1", MORRIS),
    "relative_error_model_se_mcse": Measure(
        "(M / S) sqrt(sum psi^2 / (R (R - 1))), psi = (se^2 / M^2 - (estimate - mean)^2 / V) / 2, "
        "V = mean((estimate - mean)^2)",
        "1",
        "delta method; Morris et al. 2019, Table 6 is the case of normal estimates independent of "
        "se",
    ),
    "relaxation_times_median": Measure("median of K, the run's length in relaxation times", "1", TR),
    "too_short": Measure("#(K < 25) / R", SHARE, TR),
    "poor_fit": Measure("#(|lack_of_fit| > 2.576) / R: .01 where the degree suffices", SHARE, TR),
    "condition_median": Measure("median of the fit's condition", "1", TR),
}
"""Formula, unit and reference of every measure, in the order of the summary's columns. Measures
without a value (R = 0, an MCSE at R = 1, a model SE of a method without standard error) are null.
"""

COUNTS = ("replicates", "failures")

SUMMARY = pa.schema(
    [
        ("path", pa.string()),
        *(REPLICATES.field(name) for name in (*CELL_KEYS, "coordinate")),
        *((name, pa.int64() if name in COUNTS else pa.float64()) for name in COLUMNS),
    ]
)
"""Schema of what :func:`summarise` returns."""

ROW_COLUMNS = ("truth", "estimate", "se", "lower", "upper", "covered", "length", *DIAGNOSIS)


def summarise(rows: pa.Table) -> pa.Table:
    """Performance measures per (path, cell, coordinate).

    Parameters
    ----------
    rows : pyarrow.Table
        Columns of the store's replicates and ``path``, each row once, in any order.

    Returns
    -------
    pyarrow.Table
        Schema :data:`SUMMARY`: key columns, then :data:`COLUMNS`; sorted by the keys. Measures are
        over rows with status ok unless their formula says otherwise.

    Raises
    ------
    ValueError
        If the truth of a cell differs between replicates.

    Notes
    -----
    Sums are exactly rounded (:func:`math.fsum`) over rows sorted by replicate, so that the result
    depends neither on the order of arrival nor on the processor.
    """
    rows = rows.sort_by([(name, "ascending") for name in (*GROUP_KEYS, "replicate")])
    codes = [key_codes(rows[name]) for name in GROUP_KEYS]
    starts = np.zeros(rows.num_rows, dtype=bool)
    starts[:1] = True
    for code in codes:
        starts[1:] |= code[1:] != code[:-1]
    bounds = [*np.flatnonzero(starts).tolist(), rows.num_rows]
    columns = {
        name: floats(rows[name])
        if name in rows.column_names
        else np.full(rows.num_rows, np.nan)
        for name in ROW_COLUMNS
    }
    ok = np.asarray(rows["status"].to_numpy() == "ok", dtype=bool)
    found = []
    for first, last in pairwise(bounds):
        here = slice(first, last)
        found.append(measures({name: values[here] for name, values in columns.items()}, ok[here]))
    keys = rows.select(GROUP_KEYS).take(pa.array(bounds[:-1], pa.int64()))
    arrays = [keys[field.name].cast(field.type) for field in SUMMARY if field.name in GROUP_KEYS]
    for name in COLUMNS:
        values = [usable(result.get(name)) for result in found]
        arrays.append(pa.array(values, SUMMARY.field(name).type))
    return pa.Table.from_arrays(arrays, schema=SUMMARY)


def floats(column: pa.ChunkedArray) -> Floats:
    """The column as float64, null as NaN."""
    cast = column.combine_chunks().cast(pa.float64())
    values: Floats = cast.to_numpy(zero_copy_only=False)
    return values


def usable(value: float | None) -> float | None:
    """None for what has no value: absent, infinite or not a number."""
    return value if value is not None and math.isfinite(value) else None


def measures(rows: dict[str, Floats], ok: NDArray[np.bool_]) -> dict[str, float]:
    """All measures of one cell and coordinate; those without a value are absent or NaN.

    Parameters
    ----------
    rows : dict of str to ndarray, shape (replicates,)
        :data:`ROW_COLUMNS`, sorted by replicate.
    ok : ndarray of bool, shape (replicates,)
    """
    if np.any(rows["truth"] != rows["truth"][0]):
        raise ValueError("the truth of a cell differs between replicates")
    truth = float(rows["truth"][0])
    replicates = len(ok)
    finished = {name: values[ok] for name, values in rows.items()}
    hits = int(np.sum(finished["covered"]))
    result: dict[str, float] = {
        "truth": truth,
        "replicates": replicates,
        "failures": replicates - int(np.sum(ok)),
    }
    result.update(rate("coverage_failures_as_misses", hits, replicates))
    if not ok.any():
        return result
    with np.errstate(all="ignore"):
        result.update(interval_measures(finished, truth, hits))
        result.update(estimate_measures(finished["estimate"], truth))
        result.update(diagnosis_measures(finished))
        if not np.isnan(finished["se"]).any():
            result.update(model_se_measures(finished["estimate"], finished["se"]))
    return result


def interval_measures(rows: dict[str, Floats], truth: float, hits: int) -> dict[str, float]:
    """Coverage, misses and length; at least one row."""
    lower, upper, length = rows["lower"], rows["upper"], rows["length"]
    count = len(length)
    centre = total(rows["estimate"]) / count
    result = rate("coverage", hits, count)
    result["coverage_low"], result["coverage_high"] = wilson(hits, count)
    result.update(rate("lower_miss", int(np.sum(truth < lower)), count))
    result.update(rate("upper_miss", int(np.sum(truth > upper)), count))
    inside = int(np.sum((lower <= centre) & (centre <= upper)))
    result.update(rate("bias_eliminated_coverage", inside, count))
    mean, variance = moments(length)
    result["length_mean"] = mean
    result["length_mcse"] = math.sqrt(variance / count)
    names = ("length_q05", "length_q25", "length_median", "length_q75", "length_q95")
    quantiles = np.quantile(length, [0.05, 0.25, 0.5, 0.75, 0.95])
    result.update(zip(names, quantiles.tolist(), strict=True))
    return result


def diagnosis_measures(rows: dict[str, Floats]) -> dict[str, float]:
    """What a method says of its own soundness; nothing where it says nothing."""
    known = {name: rows[name][~np.isnan(rows[name])] for name in DIAGNOSIS}
    result = {}
    if len(times := known["relaxation_times"]):
        result["relaxation_times_median"] = float(np.median(times))
        result["too_short"] = int(np.sum(times < 25.0)) / len(times)
    if len(t := known["lack_of_fit"]):
        result["poor_fit"] = int(np.sum(np.abs(t) > 2.576)) / len(t)
    if len(condition := known["condition"]):
        result["condition_median"] = float(np.median(condition))
    return result


def estimate_measures(estimate: Floats, truth: float) -> dict[str, float]:
    """Bias, empirical SE and MSE; at least one row."""
    count = len(estimate)
    _, variance = moments(estimate)
    # Errors first: the mean of estimates far from 0 would lose the digits of a small bias.
    errors = estimate - truth
    bias = total(errors) / count
    mse, mse_variance = moments(errors**2)
    empirical_se = math.sqrt(variance)
    result = {
        "bias": bias,
        "bias_mcse": empirical_se / math.sqrt(count),
        "empirical_se": empirical_se,
        "empirical_se_mcse": empirical_se / math.sqrt(2 * (count - 1)) if count > 1 else math.nan,
        "mse": mse,
        "mse_mcse": math.sqrt(mse_variance / count),
    }
    if truth != 0:
        result["relative_bias"] = bias / truth
        result["relative_bias_mcse"] = result["bias_mcse"] / abs(truth)
    return result


def model_se_measures(estimate: Floats, se: Floats) -> dict[str, float]:
    """Model SE and its relative error; at least one row.

    Notes
    -----
    Let V_r = se_r^2 with mean Vbar, and S^2 the empirical variance. Then
    log(M / S) = (log Vbar - log S^2) / 2, and to first order

        var log(M / S) = (var(Vbar) / Vbar^2 + var(S^2) / S^4 - 2 cov(Vbar, S^2) / (Vbar S^2)) / 4.

    Table 6 of Morris et al. puts var(S^2) = 2 S^4 / (R - 1), which holds for normal estimates, and
    cov = 0, which holds for an se independent of the estimate. Neither is safe here: estimates of
    short paths are skewed, and a path that strays has a large error and a large se. Both terms come
    for nothing from the influence values psi_r = (V_r / Vbar - (estimate_r - mean)^2 / V) / 2,
    whose mean is 0: the variance of their mean is the whole bracket. It is the infinitesimal
    jackknife, and reduces to Table 6 where its assumptions hold. Like every delta method it is low
    for few replicates: by a tenth at R = 20 to 50, by a fortieth at R = 200, in simulations.
    """
    count = len(estimate)
    squares = se**2
    mean_square, square_variance = moments(squares)
    model_se = math.sqrt(mean_square)
    result = {"model_se": model_se}
    if model_se > 0:
        result["model_se_mcse"] = math.sqrt(square_variance / (4 * count)) / model_se
    mean, variance = moments(estimate)
    if not (variance > 0 and math.isfinite(variance) and math.isfinite(mean_square)):
        return result
    ratio = model_se / math.sqrt(variance)
    result["relative_error_model_se"] = ratio - 1
    # At R = 2 both deviations are equal in size, whatever S is: nothing is known of its error.
    if count > 2 and mean_square > 0:
        deviations = (estimate - mean) ** 2
        psi = (squares / mean_square - deviations / (total(deviations) / count)) / 2
        result["relative_error_model_se_mcse"] = ratio * math.sqrt(
            total(psi**2) / (count * (count - 1))
        )
    return result


def rate(name: str, hits: int, count: int) -> dict[str, float]:
    """A share and its MCSE; the latter needs two replicates, or it would be 0 always."""
    share = hits / count
    mcse = math.sqrt(share * (1 - share) / count) if count > 1 else math.nan
    return {name: share, f"{name}_mcse": mcse}


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Wilson's 95% interval for a share."""
    share, z2 = hits / count, Z95**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    half = Z95 / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    # The ends are 0 and 1 exactly where no, or every, replicate is a hit.
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == count else centre + half)


def moments(values: Floats) -> tuple[float, float]:
    """Mean and variance with divisor R - 1 (NaN for one value)."""
    mean = total(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    return mean, total((values - mean) ** 2) / (len(values) - 1)


def total(values: Floats) -> float:
    """Exactly rounded sum; infinite where it leaves the range of a double."""
    try:
        return math.fsum(values.tolist())
    except (OverflowError, ValueError):
        return math.inf
