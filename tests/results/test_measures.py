"""Performance measures against closed forms, literal formulas and the jackknife."""

import math
import re
import statistics
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldpflow.results.columns import BUNDLED_SUMMARIES, COLUMNS
from ldpflow.results.measures import CHUNK, FEW, HEADROOM, total
from ldpflow.store.schema import REPLICATES
from tests.oracles.rows_in_cells import summarise


def rows(estimate, se=None, half=1.0, truth: float = 0.0, failed: Sequence[int] = ()) -> pa.Table:
    """Intervals estimate +- half of one cell."""
    estimate = np.asarray(estimate, float)
    count = len(estimate)
    lower, upper = estimate - half, estimate + half
    lost = np.isin(np.arange(count), failed)
    lower[lost] = upper[lost] = np.nan
    columns = {
        "path": ["p0"] * count,
        "replicate": np.arange(count),
        "n": [100] * count,
        "method": ["BM"] * count,
        "level": [0.95] * count,
        "coordinate": np.zeros(count, np.int32),
        "truth": np.full(count, truth),
        "estimate": estimate,
        "se": pa.nulls(count, pa.float64()) if se is None else np.broadcast_to(se, count),
        "lower": lower,
        "upper": upper,
        "covered": pa.array((lower <= truth) & (truth <= upper), mask=lost),
        "length": upper - lower,
        "status": np.where(lost, "undefined", "ok").tolist(),
    }
    schema = pa.schema([pa.field("path", pa.string()), *REPLICATES])
    return pa.table(
        {name: columns.get(name, pa.nulls(count, schema.field(name).type)) for name in schema.names}
    ).cast(schema)


RATES = (
    "coverage", "failure_share", "coverage_failures_as_misses", "lower_miss", "upper_miss",
    "bias_eliminated_coverage",
)  # fmt: skip


def one(table: pa.Table) -> dict[str, float]:
    (row,) = summarise(table).to_pylist()
    return row


def test_by_hand():
    """Estimates 1, 2, 6 of 2 with half lengths 2, 0.5, 1 and a failure."""
    got = one(rows([1, 2, 6, 9], [1.0, 0.5, 2.0, 7.0], [2, 0.5, 1, 1], truth=2.0, failed=[3]))
    s = math.sqrt(7)
    model = math.sqrt((1 + 0.25 + 4) / 3)
    squares = [1, 0.25, 4]
    expected = {
        "truth": 2.0,
        "replicates": 4,
        "failures": 1,
        "failure_share": 0.25,
        "length_cv": statistics.stdev([4, 1, 2]) / (7 / 3),
        "coverage": 2 / 3,
        "coverage_failures_as_misses": 0.5,
        "lower_miss": 1 / 3,
        "upper_miss": 0.0,
        "bias_eliminated_coverage": 1 / 3,  # the mean, 3, lies in [-1, 3] alone
        "length_mean": 7 / 3,
        "length_mcse": statistics.stdev([4, 1, 2]) / math.sqrt(3),
        "length_q05": 1.1,
        "length_q25": 1.5,
        "length_median": 2.0,
        "length_q75": 3.0,
        "length_q95": 3.8,
        "bias": 1.0,
        "bias_mcse": s / math.sqrt(3),
        "relative_bias": 0.5,
        "relative_bias_mcse": s / math.sqrt(3) / 2,
        "empirical_se": s,
        "mse": 17 / 3,
        "mse_mcse": statistics.stdev([1, 0, 16]) / math.sqrt(3),
        "model_se": model,
        "model_se_mcse": math.sqrt(statistics.variance(squares) / (4 * 3 * model**2)),
        "relative_error_model_se": model / s - 1,
    }
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-13), name
    for name in RATES:
        hits, of = {"failure_share": (1, 4), "coverage_failures_as_misses": (2, 4)}.get(
            name, (round(3 * got[name]), 3)
        )
        low, high = stats.binomtest(hits, of).proportion_ci(method="wilson")
        assert (got[f"{name}_low"], got[f"{name}_high"]) == pytest.approx((low, high))
        assert got[f"{name}_mcse"] == pytest.approx(math.sqrt(hits * (of - hits) / of**3))


def test_power_is_the_share_that_excludes_the_null():
    table = rows([1, 2, 6, 9], half=[2, 0.5, 1, 1], failed=[3])
    assert one(table)["power"] is None
    for null, hits in ((0.0, 2), (3.0, 2), (2.0, 1), (5.0, 2)):
        (row,) = summarise(table, null).to_pylist()
        assert row["power"] == pytest.approx(hits / 3)


def test_lengths_that_differ_by_rounding_alone_have_no_error():
    """The oracle's: upper - lower of one half width around estimates that differ."""
    estimate = 0.3 * np.random.default_rng(3).standard_normal(500)
    table = rows(estimate, 0.006, 0.0123456789)
    assert len(set(table["length"].to_pylist())) > 1, "the test can tell"
    got = one(table)
    assert got["length_mcse"] == 0.0 and got["length_cv"] == 0.0 and got["model_se_mcse"] == 0.0
    assert got["length_mean"] == pytest.approx(2 * 0.0123456789, rel=1e-14)


JACKKNIFED = {
    "empirical_se": lambda estimate, se: np.std(estimate, ddof=1),
    "skewness": lambda estimate, se: stats.skew(estimate),
    "relative_error_model_se": lambda estimate, se: math.sqrt(np.mean(se**2)) / np.std(estimate, ddof=1),
}
"""Statistics whose standard error is that of the delete-one jackknife."""

LAWS = ["normal", "exponential", "cauchy", "means", "scale", "stray"]


def draw(law, rng, count):
    """Estimates and standard errors of a study."""
    se = np.sqrt(rng.chisquare(8, count) / 8)
    if law == "means":  # mean and standard error rise and fall together
        sample = rng.exponential(size=(count, 5))
        return sample.mean(axis=1), sample.std(axis=1, ddof=1) / math.sqrt(5)
    if law == "scale":  # a path that strays knows it
        return rng.standard_normal(count) / se, 1 / se
    if law == "stray":  # one replicate has nearly all of both sums
        decides = np.arange(count) == count // 2
        return np.where(decides, 1e6, rng.standard_normal(count)), np.where(decides, 2e5, se)
    return 3.0 + 1e-3 * getattr(rng, f"standard_{law}")(count), 1e-3 * se


def without_one(name, estimate, se):
    """Delete-one jackknife standard error of a statistic, literally."""
    samples = [(np.delete(estimate, out), np.delete(se, out)) for out in range(len(estimate))]
    values = np.array([JACKKNIFED[name](*sample) for sample in samples])
    return math.sqrt((len(values) - 1) / len(values) * np.sum((values - values.mean()) ** 2))


@pytest.mark.filterwarnings("ignore:Precision loss")
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("count", [3, 4, 5, 60])
def test_errors_of_statistics_are_the_jackknife_at_any_size(law, count):
    rng = np.random.default_rng([count, LAWS.index(law)])
    for _ in range(3):
        estimate, se = draw(law, rng, count)
        found = one(rows(estimate, se))
        for name in JACKKNIFED:
            if (name, count) != ("skewness", 3):
                assert found[f"{name}_mcse"] == pytest.approx(without_one(name, estimate, se), rel=1e-7)


@pytest.mark.parametrize(
    ("table", "null"),
    [
        (
            rows([1.0, np.inf, np.nan], [1.0, np.nan, 1.0], truth=1.0, failed=[0, 1, 2]),
            "^(?!truth|replicates|failure|coverage_failures)",
        ),
        (rows([1.5], [0.5], truth=1.0), "mcse$|^empirical_se|^relative_error|length_cv|skewness"),
        # Without one of two there is no spread; of two that are left the skewness is always 0.
        (rows([1.0, 2.0], [0.5, 0.5], truth=1.0), "(empirical_se|error_model_se)_mcse|skewness"),
        (rows([1.0, 2.0, 4.0], [0.5] * 3, truth=1.0), "skewness_mcse"),
        (rows([1.0, 2.0, 4.0, 9.0], [0.5] * 4, truth=0.0), "relative_bias"),
        (rows([1.0, 2.0, 4.0, 9.0], truth=1.0), "model_se"),
        (rows([1.0] * 3, [0.0] * 3, truth=1.0), "relative_error|model_se_mcse|skewness"),
    ],
)
def test_what_has_no_value_is_null(table, null):
    got = one(table)
    names = [name for name in COLUMNS if name not in BUNDLED_SUMMARIES and not name.startswith("power")]
    assert [name for name in names if got[name] is None] == [name for name in names if re.search(null, name)]


def test_squares_beyond_the_range_of_a_double_are_null():
    huge = one(rows([1e308, 1e308, -1e308], [1e300, 1e300, 1e300], truth=1.0))
    assert huge["coverage"] == 0.0 and huge["mse"] is None


def exact_sum(values):
    """math.fsum of all values; infinite where it has none."""
    try:
        return math.fsum(values.tolist())
    except (OverflowError, ValueError):
        return math.inf


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(width=64), max_size=40), st.integers(-1080, 1021))
def test_sums_are_those_of_fsum(values, exponent):
    small = [math.fmod(value, 3.0) for value in values if math.isfinite(value)]
    for found in (np.array(values), np.tile(np.ldexp(small, exponent), 1 + FEW // max(len(small), 1))):
        assert math.copysign(1.0, total(found)) == math.copysign(1.0, exact_sum(found))
        assert total(found) == exact_sum(found) or math.isnan(exact_sum(found))


@pytest.mark.parametrize("count", [CHUNK - 1, CHUNK, 2 * CHUNK + 7])
def test_sums_of_many_values_are_those_of_fsum(count):
    assert CHUNK < 2**HEADROOM
    rng = np.random.default_rng(count)
    normal = rng.standard_normal(count)
    for values in (
        normal,
        normal**2,
        1.6 + 0.01 * normal,
        np.full(count, np.nextafter(1.0, 0.0)),  # the largest sum of numbers below a power of two
        rng.standard_cauchy(count),
        np.exp(40 * normal),  # more bits than a few cuts take
        np.concatenate([normal, -normal, [2.0**-60]]),
    ):
        assert total(values) == math.fsum(values.tolist())
        assert total(values[::-1]) == total(values)
    assert math.isnan(total(np.where(normal > 3, np.nan, normal)))
    assert total(np.where(normal > 3, np.inf, normal)) == math.inf


def test_a_small_bias_of_a_large_truth_keeps_its_digits():
    got = one(rows(1e8 + np.array([1.0, 2.0, 3.0]) * 2**-20, truth=1e8))
    assert got["bias"] == 2.0**-19


def test_intervals_of_no_length_cover_the_mean_of_equal_estimates():
    """The sum of equal estimates, divided by their number, may be another double."""
    assert one(rows([0.1] * 3, half=0.0))["bias_eliminated_coverage"] == 1.0
