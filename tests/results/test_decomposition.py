"""Coverage as a sum: the printed terms add up, each is what it is called, and the largest is named."""

from __future__ import annotations

import dataclasses
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import ldpflow as lf
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.engine.run import run_study
from ldpflow.results.columns import CellRows
from ldpflow.results.decomposition import BY_CHANCE, CAUSES, decompose, round_terms
from ldpflow.results.explanation import chance_note, explain, extremes, failure_sentences
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study

TERM = r"([+-]\d+\.\d+) ± \d+\.\d+ \(([^()]+)\)"
SUM = re.compile(
    rf"^Coverage (\S+) ± \S+ MCSE at level (\S+), ([^:]+): (\S+) \(level\) ((?:{TERM} )+)= (\S+)\.$"
)


def added_up(sentence):
    """Headline and terms by what they are called; fails if they do not add up to what is printed."""
    found = SUM.match(sentence)
    assert found, sentence
    coverage, level, headline, start, terms = found.groups()[:5]
    amounts = [(Decimal(amount), words) for amount, words in re.findall(TERM, terms)]
    assert Decimal(start) == Decimal(level)
    assert Decimal(start) + sum(amount for amount, _ in amounts) == Decimal(coverage) == Decimal(found[8])
    assert len({words for _, words in amounts}) == len(amounts)
    return headline, {words: float(amount) for amount, words in amounts}


def cell(error, length, lower=None) -> CellRows:
    """Intervals about 0 + error; ``lower`` is the part of the length below the estimate."""
    error, length = np.asarray(error, float), np.asarray(length, float)
    lower = error - (length / 2 if lower is None else lower)
    count = len(error)
    values = {
        "replicate": np.arange(count), "ok": np.ones(count, bool), "truth": np.zeros(count),
        "estimate": error, "lower": lower, "upper": lower + length, "length": length,
        "se": length / 3.29, "covered": ((lower <= 0) & (0 <= lower + length)).astype(float),
    }  # fmt: skip
    return CellRows(**{f.name: values[f.name] for f in dataclasses.fields(CellRows) if f.name in values})


def cells():
    """Cells of every kind: biased, short, skewed, dependent, asymmetric, few replicates."""
    rng = np.random.default_rng(1)
    for count in (12, 50, 333, 2000):
        error = rng.normal(size=count)
        yield cell(error, np.full(count, 3.29))
        yield cell(error + 0.6, 3.29 * np.sqrt(rng.chisquare(4, count) / 4))
        yield cell(rng.exponential(size=count) - 1, 2 + rng.random(count))
        yield cell(error, 1 + np.abs(error) * rng.random(count))
        yield cell(error, np.full(count, 3.0), np.full(count, 0.5))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.9545, 0.999])
def test_printed_terms_add_up(level):
    for rows in cells():
        added_up(decompose(rows, level).sentence())


def test_each_term_is_what_it_is_called():
    """Against the formulas, pair by pair; a bias, lengths that depend on the error, and crooked limits."""
    rng = np.random.default_rng(2)
    error = 0.8 + rng.exponential(size=200)
    length = 0.5 + 1.5 * np.abs(error) * rng.random(200)
    rows = cell(error, length, 0.7 * length)
    found = decompose(rows, 0.9)
    terms = {term.name: term.effect for term in found.terms}
    assert {"joint", "dependence", "limits", *CAUSES} >= set(terms) >= {"dependence", "limits", "bias"}
    pairs = np.mean([abs(e) <= w / 2 for e in error for w in length])
    hits = np.mean(np.abs(error) <= length / 2)
    assert terms["dependence"] == pytest.approx(hits - pairs, abs=1e-12)
    assert terms["limits"] == pytest.approx(rows.covered.mean() - hits, abs=1e-12)
    alone = {c: found.values[f"{c}_effect"] for c in CAUSES}
    assert all(terms[c] == alone[c] for c in CAUSES if c in terms)
    assert terms["joint"] == pytest.approx(pairs - 0.9 - sum(alone.values()), abs=1e-12)


def test_a_gap_within_two_mcse_is_no_gap_and_a_clear_bias_is_told():
    """Twelve replicates, bias of about four MCSE."""
    rng = np.random.default_rng(4)
    found = decompose(cell(1.2 + rng.normal(size=12), np.full(12, 4.5)), 0.9)
    assert abs(found.coverage - 0.9) <= 2 * found.coverage_mcse
    headline, terms = added_up(found.sentence())
    assert headline == "no gap beyond noise" and any(words.startswith("bias of +") for words in terms)


def test_lengths_without_a_value():
    """An interval that ends at a public range has no length."""
    rng = np.random.default_rng(5)
    rows = cell(rng.normal(size=400), np.full(400, 3.0))
    length = rows.length.copy()
    length[:3] = np.nan
    said = decompose(dataclasses.replace(rows, length=length), 0.9).sentence()
    assert said.startswith("Coverage 0.") and "3 intervals end at a public range" in said


def test_chance_names_at_most_the_share_of_effects_that_is_told():
    """Normal estimates with the right standard error, known up to 4%: no effect is there.

    Of 300 cells of 256 replicates the share that is named has a standard error of about .8%: 4 of them.
    """
    rng = np.random.default_rng(12)
    looked, named = 0, 0
    for _ in range(300):
        found = decompose(cell(rng.normal(size=256), 3.29 * np.sqrt(rng.chisquare(400, 256) / 400)), 0.9)
        looked, named = looked + found.looked, named + len(found.terms)
    assert looked == 300 * 6  # limits are symmetric: the seventh is exactly 0
    assert 0.02 < named / looked < BY_CHANCE + 0.032


def test_explain_says_how_many_effects_chance_would_name(runs):
    found = re.match(
        r"Each effect is judged by itself: (\d+) of (\d+) .* about (\d+)\.", chance_note(runs["many"])
    )
    named, looked, chance = map(int, found.groups())
    terms = sum(len(re.findall(TERM, one.sentences[0])) for one in runs["many"])
    rests = sum("within 2 MCSE" in one.sentences[0] for one in runs["many"])
    assert 0 < named == terms - rests < looked and chance == round(BY_CHANCE * looked)
    assert chance_note([]) == ""


def test_rounding_keeps_the_sum():
    """No term is off by a whole last digit, whatever is rounded."""
    rng = np.random.default_rng(6)
    for _ in range(500):
        effects = rng.normal(scale=0.1, size=rng.integers(1, 8))
        shown = round_terms(effects.tolist(), 0.9 + float(effects.sum()), 0.9, 3)
        assert round(0.9 + sum(shown), 9) == round(0.9 + effects.sum(), 3)
        assert np.abs(np.array(shown) - effects).max() < 0.0011


def test_paths_that_explode_and_failures_are_told():
    row = {"length_mean": 1e10, "length_median": 0.2, "failures": 0, "replicates": 500}
    assert "another order of magnitude" in extremes(row)[0] and failure_sentences(row) == []
    row |= {"length_mean": 0.3, "failures": 54, "replicates": 200, "coverage_failures_as_misses": 0.63}
    assert (
        extremes(row) == []
        and "54 of 200" in failure_sentences(row)[0]
        and "0.630" in failure_sentences(row)[0]
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Real runs: methods of every kind at a biased quantile, a vector, and a plug-in alone."""
    lf.load_plugin(str(Path(__file__).with_name("average_plugin.py")))
    base = {
        "name": "sums",
        "seed": 3,
        "replicates": 150,
        "problem": {"kind": "quantile", "tau": 0.9},
        "mechanism": {"kind": "randomized_response", "epsilon": 1},
        "algorithm": {"kind": "ldp_sgd"},
        "grid": {"n": [4000], "level": [0.9]},
    }
    kinds = ("BB", "BM", "SN", "oracle", "TR", "NOL", "LUG", "SUF", "HULC", "PAR", "eight_batches")
    designs = {
        "many": base | {"method": [{"kind": kind} for kind in kinds]},
        "alone": base | {"method": [{"kind": "eight_batches"}]},
        "vector": base
        | {
            "problem": {"kind": "linear_regression", "coefficients": [1.0, 0.5]},
            "mechanism": {"kind": "laplace", "epsilon": 2},
            "method": [{"kind": ["BB", "SN", "eight_batches"]}, {"kind": "TR", "degree": 1}],
        },
    }
    found = {}
    for name, design in designs.items():
        folder = tmp_path_factory.mktemp(name)
        run_study(Study.from_mapping(design), folder, engine="serial")
        store = RunStore(folder)
        found[name] = explain(store, store.read_summary())
    INTERVAL_METHODS.pop("eight_batches")
    return found


@pytest.mark.parametrize("name", ["many", "alone", "vector"])
def test_explanations_of_real_runs_add_up(runs, name):
    for one in runs[name]:
        row, said = one.row, one.sentences[0]
        headline, _ = added_up(said)
        assert said.startswith(f"Coverage {row['coverage']:.3f} ± {row['coverage_mcse']:.3f} MCSE")
        gap = abs(row["coverage"] - row["level"]) > 2 * row["coverage_mcse"]
        assert gap != (headline == "no gap beyond noise")


def test_arrival_is_said_of_averages_whatever_their_name(runs):
    """The plug-in takes its average from batch means: the last digits differ from BB's."""
    said = {one.row["method"]: " ".join(one.sentences) for one in runs["many"]}
    about = {method for method, text in said.items() if "predicted bias of the average" in text}
    assert about == {"BB", "BM", "SN", "oracle", "NOL", "LUG", "eight_batches"}
    assert "predicted bias of the average" in " ".join(runs["alone"][0].sentences)
    # One unit for both biases, and no advice that another method's contradicts.
    measured = re.search(r"measured ([+-]\S+):", said["BB"])[1]
    assert f"bias of {measured} empirical SE" in said["BB"]
    assert "smaller steps" not in said["BB"] and "or larger steps" not in said["TR"]


def test_the_bundled_averages_are_those_whose_estimate_is_one(tmp_path):
    """By the numbers: every bundled method that applies, against the oracle's estimates."""
    kinds = [k for k in INTERVAL_METHODS if k not in ("joint", "TRC", "inversion", "fieller", "PB", "ACS")]
    design = {
        "name": "averages",
        "seed": 3,
        "replicates": 32,
        "problem": {"kind": "quantile", "tau": 0.5},
        "mechanism": {"kind": "randomized_response", "epsilon": 1},
        "algorithm": {"kind": "ldp_sgd"},
        "grid": {"n": [4000], "level": [0.9]},
        "method": [{"kind": kind} for kind in kinds],
    }
    run_study(Study.from_mapping(design), tmp_path, engine="serial")
    rows = RunStore(tmp_path).replicates.read(damaged="refuse")
    estimates = {
        kind: rows.filter(pc.equal(rows["method"], kind)).sort_by("replicate")["estimate"] for kind in kinds
    }
    same = {kind for kind, found in estimates.items() if found.equals(estimates["oracle"])}
    assert same == {kind for kind in kinds if INTERVAL_METHODS[kind].around_average} and len(same) > 7


def test_a_clear_effect_that_is_smaller_than_the_rest_is_not_the_main_one():
    """Lengths that vary take off a little for sure, effects within noise take off more."""
    rng = np.random.default_rng(8)
    checked = 0
    for _ in range(200):
        error, length = rng.normal(size=200), 3.0 * (1 + 0.19 * rng.uniform(-1.7, 1.7, size=200))
        found = decompose(cell(error, length), 0.9)
        if abs(found.coverage - 0.9) <= 2 * found.coverage_mcse or found.rest is None:
            continue
        headline, _ = added_up(found.sentence())
        gap = found.coverage - 0.9
        largest = max((term.effect * np.sign(gap) for term in found.terms), default=0.0)
        small = 0 < largest < found.rest.effect * np.sign(gap)
        assert small == ("within noise" in headline), found.sentence()
        checked += small
    assert checked > 5
