"""The arena's rule: which methods hold their level, and which is recommended."""

import math
from typing import Literal

import pytest
from scipy import stats

import ldpflow as lf
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.results.arena import (
    FAILS,
    HOLDS,
    TOLERANCE,
    UNDECIDED,
    judge,
    least_replicates,
    probability_to_hold,
    settings_of,
)
from ldpflow.results.measures import wilson


def row(method, coverage, length, n=1000, replicates=4000, failures=0, **more):
    hits = round(coverage * replicates)
    return {
        "path": "p1", "n": n, "level": 0.9, "coordinate": 0, "method": method, "replicates": replicates,
        "failures": failures, "failure_share": failures / replicates,
        "coverage_failures_as_misses": hits / replicates, "length_mean": length, "length_relative": length,
        **more,
    }  # fmt: skip


def names(*entries):
    return [entry.row["method"] for entry in entries]


def test_the_shortest_that_holds_its_level_is_recommended():
    rows = [row("BB", 0.85, 0.8), row("TR", 0.91, 1.2), row("SN", 0.895, 1.1), row("oracle", 0.9, 1.0)]
    (setting,) = settings_of(rows)
    assert names(*setting.entries) == ["oracle", "SN", "TR", "BB"]
    assert names(setting.best, setting.nearest) == ["SN", "TR"]
    assert [entry.state for entry in setting.entries] == [HOLDS] * 3 + [FAILS]
    rows = [row(name, 0.9, length) | {"length_relative": None} for name, length in (("BB", 2), ("SN", 1))]
    (setting,) = settings_of(rows)
    assert names(setting.best) == ["SN"] and setting.best.length == 1, "the mean length, without an oracle"
    # The oracle, and what takes its variance, are never recommended.
    rows = [row("oracle", 0.9, 1.0), row("SUF", 0.9, 1.4, base="oracle", share=0.5), row("BB", 0.5, 0.5)]
    (setting,) = settings_of(rows)
    assert setting.best is None and names(setting.reference) == ["BB"]


def test_failures_are_misses():
    # Nine of ten finished rows cover, but half of them failed.
    rows = [row("TR", 0.45, 1.0, failures=2000), row("BM", 0.895, 1.3)]
    (setting,) = settings_of(rows)
    assert names(setting.best) == ["BM"]
    # A method that is never defined has no length and covers nothing.
    nothing = row("EBS", 0.0, None, failures=4000)
    (setting,) = settings_of([nothing, row("BM", 0.895, 1.3)])
    assert setting.entries[-1].length == math.inf and setting.entries[-1].state == FAILS


@pytest.mark.parametrize(
    ("coverage", "replicates", "state"),
    [
        (0.95, 60, UNDECIDED),  # of 60, so many cover by chance where 88% do
        (0.60, 60, FAILS),
        (0.90, 3000, HOLDS),
        (0.88, 3000, UNDECIDED),
        (0.86, 3000, FAILS),
        (1.0, 60, HOLDS),
    ],
)
def test_a_level_is_held_or_not_or_replicates_are_too_few(coverage, replicates, state):
    assert judge(row("BM", coverage, 1.0, replicates=replicates)) == state


def test_an_observed_coverage_of_the_level_is_enough_from_so_many_replicates_on():
    """The number of docs/report.md; exactly .9 of the replicates cover."""
    low, before = (wilson(0.9 * r, r)[0] for r in (1015, 1014))
    assert low >= 0.9 - TOLERANCE > before


def chance_to_hold(coverage, level, replicates):
    """Exact probability that a method of this coverage is shown to hold its level: a sum over its hits."""
    shown = (hits for hits in range(replicates + 1) if wilson(hits, replicates)[0] >= level - TOLERANCE)
    return math.fsum(stats.binom.pmf([*shown], replicates, coverage))


@pytest.mark.parametrize(("level", "least"), [(0.9, 2014), (0.95, 1206), (0.999, 266), (0.02, 1)])
def test_replicates_from_which_on_a_level_is_mostly_shown_to_be_held(level, least):
    """By a method whose true coverage is the level. The probability jumps as the number grows."""
    counts = [count for count in (1, 200, 1015, least - 1) if 0 < count < least]
    for replicates in [*counts, *range(least, least + 200, 7)]:
        chance = chance_to_hold(level, level, replicates)
        assert probability_to_hold(level, replicates) == pytest.approx(chance, abs=1e-12)
        assert chance >= 0.8 or replicates < least
    assert least == 1 or chance_to_hold(level, level, least - 1) < 0.8
    assert least_replicates(level) == least


def test_error_rate_of_the_rule_in_a_cell():
    """The numbers of docs/reading-results.md, which looked at every tenth number of replicates to 10,000."""
    for level in (0.8, 0.9, 0.95):
        errors = [chance_to_hold(level - TOLERANCE, level, count) for count in range(200, 1200, 40)]
        assert 0.01 < min(errors) and max(errors) <= 0.027
    assert chance_to_hold(0.9, 0.9, 1000) == pytest.approx(0.48, abs=0.005)
    assert chance_to_hold(0.9, 0.9, 2000) == pytest.approx(0.81, abs=0.005)


class Yardstick(lf.Oracle):
    """The oracle of a plug-in."""

    kind: Literal["yardstick"] = "yardstick"


def test_methods_that_read_the_truth_or_are_not_loaded_are_never_recommended(monkeypatch):
    rows = [row("yardstick", 0.9, 0.5), row("BM", 0.895, 1.3)]
    (setting,) = settings_of(rows)
    assert names(setting.best) == ["BM"]
    assert [entry.barred for entry in setting.entries] == ["its plug-in is not loaded", ""]
    monkeypatch.setitem(INTERVAL_METHODS, "yardstick", Yardstick)
    (setting,) = settings_of(rows)
    assert names(setting.best) == ["BM"]
    assert [entry.barred for entry in setting.entries] == ["needs the truth", ""]
