"""Figures: what they are drawn from, and that they can be drawn."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ldpflow.errors import InputError
from ldpflow.report import charts
from ldpflow.report.answers import findings
from ldpflow.report.charts import FORMATS
from ldpflow.report.figures import CURVES, MEASURES, cells_of
from ldpflow.report.pictures import FIGURES, intervals
from ldpflow.report.results import Results
from ldpflow.store.run_store import RunStore
from tests.cli.conftest import cell


def values(spec: Any) -> list[dict[str, Any]]:
    """Every row of data in a chart, wherever it stands."""
    if isinstance(spec, list):
        return list(chain.from_iterable(map(values, spec)))
    if not isinstance(spec, dict):
        return []
    found = list(chain.from_iterable(spec.get("datasets", {}).values()))
    data = spec.get("data")
    found += data.get("values", []) if isinstance(data, dict) else []
    return found + [row for part in ("layer", "concat") for row in values(spec.get(part, []))]


NEED_MORE = ("paper", "protocols", "rates", "risk", *CURVES)  # than the run of this file holds


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in FIGURES if name not in NEED_MORE])
def test_every_figure_is_a_chart_with_a_text(results: Results, name: str) -> None:
    spec = FIGURES[name].chart(results).to_dict()
    assert len(spec["description"]) > 60
    assert "NaN" not in json.dumps(spec)


def test_coverage_is_the_summarys(results: Results) -> None:
    spec = FIGURES["coverage"].chart(results).to_dict()
    data = [row for row in values(spec) if row.get("series") == "SN"]
    expected = {round(r["coverage"], 6) for r in results.rows if r["method"] == "SN"}
    assert {round(row["y"], 6) for row in data} == expected
    panels = {", ".join(sorted(row["panel"].split(", "))) for row in data}
    assert panels == {f"ε = {epsilon}, τ = {tau}" for tau in (0.5, 0.9) for epsilon in (0.5, 1)}


def tick_labels(chart: Any) -> set[str]:
    """The texts at the ticks of the horizontal axes, as they are drawn."""
    drawn = FORMATS[".svg"](chart.to_json())
    axes = re.findall(r'aria-label="X-axis.*?role-axis-label.*?</g>', drawn, flags=re.S)
    assert axes
    return {text for axis in axes for text in re.findall(r"<text[^>]*>([^<]+)</text>", axis)}


@pytest.mark.parametrize("figure", ["coverage", "length"])
def test_ticks_are_labelled_with_the_values_themselves(results: Results, figure: str) -> None:
    only_coverage = set() if figure == "coverage" else {"0.95"}  # no interval: too few blocks
    labels = tick_labels(FIGURES[figure].chart(results, "beta"))
    assert labels == {"0.6", "0.75", "0.95"} - only_coverage


def with_n(results: Results, users: Sequence[int]) -> Results:
    """The results with every cell repeated at each of these n."""
    cells = [row for row in results.rows if row["n"] == 100]
    return dataclasses.replace(results, rows=[row | {"n": n} for n in users for row in cells])


@pytest.mark.parametrize("name", [name for name in MEASURES if name != "protocols"])
def test_every_mean_has_its_monte_carlo_interval(results: Results, name: str) -> None:
    column = MEASURES[name].column
    error = MEASURES[name].error
    drawn = [row for row in values(FIGURES[name].chart(results).to_dict()) if "y" in row]
    assert drawn and all(row["low"] <= row["y"] <= row["high"] for row in drawn)
    if name != "coverage":
        halves = [1.959964 * row[error] for row in cells_of(results, name) if row.get(column) is not None]
        for row in drawn:
            assert min(abs(row["high"] - row["y"] - half) for half in halves) < 1e-5 * (1 + abs(row["y"]))


def test_coverages_stand_side_by_side_at_the_rank_of_their_n_and_lengths_at_their_n(
    results: Results,
) -> None:
    users = (100, 1000, 500_000)
    drawn = values(FIGURES["coverage"].chart(with_n(results, users)).to_dict())
    assert all(round(row["place"]) == users.index(row["x"]) for row in drawn)
    assert len({(row["panel"], row["place"]) for row in drawn}) == len(drawn)
    many = [100 * 2**i for i in range(9)]
    for figure, place in (("coverage", many), ("length", many), ("length", users)):
        drawn = [r for r in values(FIGURES[figure].chart(with_n(results, place)).to_dict()) if "x" in r]
        assert {row["x"] for row in drawn} == {*place} and not any("place" in row for row in drawn)


def test_what_cannot_be_drawn_is_refused(results: Results) -> None:
    with pytest.raises(InputError, match="^x: "):
        FIGURES["coverage"].chart(results, "multiplier")
    with pytest.raises(InputError, match="published"):
        FIGURES["paper"].chart(results)


def test_bias_of_methods_that_share_an_estimate_is_drawn_once(results: Results) -> None:
    spec = FIGURES["bias"].chart(results).to_dict()
    assert {row["series"] for row in values(spec) if "series" in row} == {"average (all methods)"}


def test_zip_intervals_agree_with_the_coverage(results: Results) -> None:
    chosen = findings(results).cells
    assert 1 <= len(chosen) <= 4
    for _, row in chosen:
        drawn = intervals(results, row)
        if row["coverage"] is None:
            assert drawn == [] and "No zip plot of" in FIGURES["zip"].chart(results).usermeta["left_out"]
            continue
        assert len(drawn) == row["replicates"] - row["failures"]
        covering = sum(line["kind"] == "covers" for line in drawn)
        assert covering / len(drawn) == pytest.approx(row["coverage"])
        assert [line["rank"] for line in drawn] == sorted(line["rank"] for line in drawn)


def test_published_numbers_stand_beside_ours(tmp_path: Path) -> None:
    RunStore(tmp_path).write_summary(pa.Table.from_pylist([full_row()]))
    spec = FIGURES["paper"].chart(Results.load(tmp_path)).to_dict()
    assert {row["who"] for row in values(spec)} == {"this run", "published"}


def full_row() -> dict[str, Any]:
    """A cell of Table 1 as a summary has it."""
    items = list(cell().items())
    items.insert(list(cell()).index("replicates"), ("truth", 0.0))
    more = {"coverage_low": 0.85, "coverage_high": 0.91, "relative_error_model_se": None}
    return dict(items) | more | {"coverage_failures_as_misses": 0.88, "oracle_length": 0.009}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_seen_on_both_pages() -> None:
    used = [*charts.METHODS.values(), *charts.OTHERS, charts.GREY, *charts.MISSES.values(), *charts.ramp(10)]
    for colour in used:
        for page in ("#ffffff", "#14171c"):
            light, dark = sorted((luminance(colour), luminance(page)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3.0, (colour, page)


@pytest.mark.parametrize("count", [1, 5, 6, 14])
def test_no_two_series_have_the_same_colour(count: int) -> None:
    names = ["BB", "TR", *(f"dp_{i}" for i in range(count))]
    found = charts.colours(names)
    assert set(found) == set(names) and len(set(found.values())) == len(names)
