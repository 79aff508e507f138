"""The comparison with published tables: z and Holm by hand, and the family error rate."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ldpflow.errors import InputError
from ldpflow.results import published
from ldpflow.results.published import METHOD, PROBLEM, STUDY, Comparison, compare, holm, load

NULLS: dict[str, Any] = {name: None for own in (*PROBLEM.values(), *METHOD.values()) for name in own}


def compared(rows: list[dict[str, Any]]) -> Comparison:
    return compare(pa.Table.from_pylist(rows), "dette-graw")


def rows_as_printed() -> list[dict[str, Any]]:
    """Rows of a summary that holds exactly the printed numbers."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number in load("dette-graw"):
        names = {name: getattr(number, name) for name in published.IDENTITY}
        new = {"path": "p" + "0" * 16, "replicates": 500, **names}
        new |= {**PROBLEM[number.problem], **STUDY, **METHOD[number.method]}
        row = rows.setdefault(number.cell, NULLS | new)
        row["coverage" if number.measure == "coverage" else "length_mean"] = number.printed
        row[f"{number.measure}_mcse"] = number.printed_se
    return list(rows.values())


def test_load_reads_every_printed_number() -> None:
    numbers = load("dette-graw")
    assert len(numbers) == len({(*number.cell, number.measure) for number in numbers}) == 84
    cell = (1, "quantile", 0.5, 0, "BB", 1_000_000)
    assert [(n.cell, n.measure, n.printed, n.printed_se, n.half_unit) for n in numbers[:2]] == [
        (cell, "coverage", 0.880, 0.015, 0.0005),
        (cell, "length", 0.0085, 5.2e-5, 5e-5),
    ]
    with pytest.raises(InputError, match=r"against: 'dette-grow' .*Did you mean 'dette-graw'"):
        load("dette-grow")


def test_equal_tables_pass() -> None:
    comparison = compared(rows_as_printed())
    assert comparison.passed and comparison.verdict == "not refuted" and comparison.missing == []
    assert all(row.z == 0.0 and row.p_adjusted == 1.0 for row in comparison.rows)
    assert len(comparison.rows) == 84 and all(row.ours == row.printed for row in comparison.rows)


def test_z_and_p_by_hand() -> None:
    rows = rows_as_printed()
    # Table 1, BB, tau = 0.5, n = 10^6: printed 0.880 (0.015) and 0.0085 (5.2e-5), half unit 5e-5.
    rows[0].update(coverage=0.910, coverage_mcse=0.013, length_mean=0.0084, length_mcse=6e-5)
    result = compared(rows)
    coverage, length = result.rows[:2]
    # 0.030 / sqrt(1.69e-4 + 2.25e-4 + 8.33e-8) = 0.030 / 0.01985153
    assert coverage.z == pytest.approx(1.511219, abs=1e-6)
    # -1e-4 / sqrt(36e-10 + 27.04e-10 + 8.3333e-10) = -1e-4 / 8.448276e-5
    assert length.z == pytest.approx(-1.183674, abs=1e-6)
    for row in (coverage, length):
        assert row.p_value == pytest.approx(math.erfc(abs(row.z) / math.sqrt(2)), rel=1e-12)


@pytest.mark.parametrize(("name", "half_unit"), [("coverage", 0.0005), ("length_mean", 5e-5)])
def test_a_number_off_by_five_standard_errors_fails(name: str, half_unit: float) -> None:
    rows = rows_as_printed()
    row = rows[4]  # BM, tau = 0.5, n = 10^7: rounding matters for the length
    row[name] -= 5 * math.sqrt(2 * row[f"{name.removesuffix('_mean')}_mcse"] ** 2 + half_unit**2 / 3)
    result = compared(rows)
    assert not result.passed and result.verdict == "REFUTED"
    (bad,) = [r for r in result.rows if r.p_adjusted < 0.01]
    assert (bad.method, bad.n) == ("BM", 10**7) and bad.z == pytest.approx(-5)
    # 84 numbers, and this one is the smallest: 84 * 2 * Phi(-5)
    assert bad.p_adjusted == pytest.approx(84 * math.erfc(5 / math.sqrt(2)), rel=1e-9)
    assert replace(result, level_of_test=1e-6).passed


@pytest.mark.parametrize(
    ("p_values", "adjusted"),
    [
        ([], []),
        # sorted: 4 * 0.005, 3 * 0.01, 2 * 0.03, 1 * 0.04 -> raised to 0.06
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.6, 0.02, 0.7], [1.0, 0.06, 1.0]),
    ],
)
def test_holm_by_hand(p_values: list[float], adjusted: list[float]) -> None:
    assert holm(p_values) == pytest.approx(adjusted)


@pytest.mark.parametrize(
    ("name", "value"), [("beta", 0.65), ("law", "laplace"), ("coefficients", "[0.0]"), ("gamma", 0.6)]
)
def test_cells_with_other_settings_or_not_in_the_run_are_missing(name: str, value: object) -> None:
    rows = rows_as_printed()
    (at, *_) = [at for at, row in enumerate(rows) if row[name] is not None]
    changed = rows[at] | {name: value}
    result = compared([*rows[:at], changed, *rows[at + 2 :]])
    assert len(result.missing) == 2 and len(result.rows) == 80 and result.passed
    assert {cell.reason for cell in result.missing} == {published.ABSENT}
    assert result.missing[0].cell[1:] == tuple(rows[at][name] for name in published.IDENTITY)


def test_every_matching_row_is_compared() -> None:
    other = "p" + "1" * 16
    rows = rows_as_printed()
    result = compared([*rows, {**rows[0], "path": other, "coverage": 0.5}])
    assert len(result.rows) == 86 and not result.passed
    assert [row.path for row in result.rows if row.p_adjusted < 0.01] == [other]


def test_unusable_rows_and_empty_runs_do_not_pass() -> None:
    rows = rows_as_printed()
    rows[3].update(length_mean=math.nan, length_mcse=math.nan)
    rows[5].update(coverage=None, coverage_mcse=None)
    result = compared(rows)
    assert [cell.reason == published.ABSENT for cell in result.missing] == [False, False]
    assert not result.passed and result.verdict == "not refuted, and not all can be compared"
    nothing = compare(pa.Table.from_pylist(rows).slice(0, 0), "dette-graw")
    assert len(nothing.missing) == 42 and nothing.verdict == "nothing to compare" and not nothing.passed
    assert list(nothing.power()) == []


def test_a_study_of_another_problem_without_tau_has_no_counterpart() -> None:
    result = compare(pa.Table.from_pylist(rows_as_printed()).drop_columns(["tau"]), "dette-graw")
    assert [cell.reason for cell in result.missing] == [published.ABSENT] * 42 and not result.passed


def test_a_correct_run_fails_about_once_in_a_hundred() -> None:
    """Coverages of 50 replicates are binomial and lengths normal around the printed values, seed fixed."""
    rng = np.random.default_rng(20240520)
    rows = rows_as_printed()
    truth = [(row["coverage"], row["length_mean"], row["length_mcse"]) for row in rows]
    half = [number.half_unit for number in load("dette-graw") if number.measure == "length"]
    failed = 0
    for _ in range(100):
        for row, unit, (p, length, se) in zip(rows, half, truth, strict=True):
            # Printed numbers carry noise of their own: drawn here as a shift of ours.
            hits = rng.binomial(50, np.clip(rng.normal(p, math.sqrt(p * (1 - p) / 500)), 0.0, 1.0)) / 50
            mean = length + rng.uniform(-unit, unit) + rng.normal(0, math.sqrt(11) * se)
            row |= {"replicates": 50, "length_mean": mean, "length_mcse": se * math.sqrt(10)}
            row |= {"coverage": hits, "coverage_mcse": math.sqrt(hits * (1 - hits) / 50)}
        failed += not compared(rows).passed
    assert failed <= 1 + 3 * math.sqrt(0.99), "1% and three of its binomial standard errors"


def test_the_difference_that_is_found_is_found_with_that_probability():
    """The first step of Holm's test finds a difference of `detectable`, in one of 20 numbers, in 80%."""
    row = replace(load("dette-graw")[0], ours_se=0.02, printed_se=0.0, half_unit=0.0)
    comparison = Comparison("x", 0.01, [row] * 20)
    assert comparison.detectable("length") is None
    difference = comparison.detectable("coverage")
    assert stats.norm.sf(stats.norm.isf(0.01 / 40) - difference / 0.02) == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("values", "finished"),
    [
        ({"coverage": 1.0, "coverage_mcse": 0.0}, 500),
        # 49 of 50 finished replicates cover: the binomial formula alone would say 0.0198.
        ({"replicates": 52, "failures": 2, "coverage": 0.98, "coverage_mcse": 0.0198}, 50),
    ],
)
def test_coverages_do_not_pretend_to_be_precise(values: dict[str, Any], finished: int) -> None:
    rows = rows_as_printed()
    rows[0].update(values)
    row = compared(rows).rows[0]
    se = math.sqrt(0.88 * 0.12 / finished)
    assert row.ours_se == pytest.approx(se)
    assert row.z == pytest.approx((row.ours - 0.88) / math.sqrt(se**2 + 0.015**2 + 0.0005**2 / 3))
