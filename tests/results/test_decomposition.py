"""Coverage as a sum: terms add up, each has its closed form, and the largest is named."""

import math
import re
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

from ldpflow.cli.sheets import explanation_sheet
from ldpflow.components.intervals import INTERVAL_METHODS
from ldpflow.engine.run import run_study
from ldpflow.results.columns import CellRows
from ldpflow.results.decomposition import (
    BY_CHANCE,
    CAUSES,
    DIAGNOSIS_COLUMNS,
    EFFECTS,
    SINGLE,
    SMALL,
    TINY,
    Term,
    decompose,
    error_text,
    term_of,
)
from ldpflow.results.explanation import (
    count_causes,
    explain,
    extremes,
    failures,
    lost_words,
    with_note,
)
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.kernels import uncompiled
from tests.studies import changed

TERM = r"([+-]\d+\.\d+) ± \S+ \(([^()]+)\)"
SUM = re.compile(
    r"^Coverage(?: of the finished replicates)? (\S+) ± \S+ MCSE at level"
    rf" (\S+), ([^:]+): (\S+) \(level\) ((?:{TERM} )+)= (\d\.\d+)\."
)


def added_up(sentence):
    """Headline, and amounts by the words of their terms. Fails if the terms do not add up to the coverage."""
    found = SUM.match(sentence)
    assert found, sentence
    coverage, level, headline, start, terms = found.groups()[:5]
    amounts = [(Decimal(amount), words) for amount, words in re.findall(TERM, terms)]
    assert Decimal(start) == Decimal(level)
    assert Decimal(start) + sum(amount for amount, _ in amounts) == Decimal(coverage) == Decimal(found[8])
    assert len({words for _, words in amounts}) == len(amounts)
    return headline, {words: float(amount) for amount, words in amounts}


def cell(error, length, lower=None, se=1.0) -> CellRows:
    """Intervals about 0 + error; ``lower`` is the part of the length below the estimate."""
    error = np.asarray(error, float)
    length, se = (np.broadcast_to(np.asarray(x, float), error.shape) for x in (length, se))
    lower = error - (length / 2 if lower is None else lower)
    return CellRows(
        replicate=np.arange(len(error)),
        truth=np.zeros(len(error)),
        estimate=error,
        se=se,
        lower=lower,
        upper=lower + length,
        covered=((lower <= 0) & (0 <= lower + length)).astype(float),
        length=length,
        ok=np.ones(len(error), bool),
    )


def cells():
    """Cells of every kind: biased, short, skewed, dependent, asymmetric, few replicates."""
    rng = np.random.default_rng(1)
    for count in (12, 50, 333, 2000):
        error = rng.normal(size=count)
        yield cell(error, 3.29)
        yield cell(error + 0.6, 3.29 * np.sqrt(rng.chisquare(4, count) / 4))
        yield cell(rng.exponential(size=count) - 1, 2 + rng.random(count))
        yield cell(error, 1 + np.abs(error) * rng.random(count))
        yield cell(error, np.full(count, 3.0), np.full(count, 0.5))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.9545, 0.999])
def test_printed_terms_add_up(level):
    for one in cells():
        added_up(decompose(one, level).sentence())


def test_each_term_is_what_it_is_called():
    """Against the formulas, pair by pair; a bias, lengths that depend on the error, and crooked limits."""
    rng = np.random.default_rng(2)
    error = 0.8 + rng.exponential(size=200)
    length = 0.5 + 1.5 * np.abs(error) * rng.random(200)
    skewed = cell(error, length, 0.7 * length)
    found = decompose(skewed, 0.9)
    terms = {term.name: term.effect for term in found.terms}
    assert {"joint", "dependence", "limits", *CAUSES} >= set(terms) >= {"dependence", "limits", "bias"}
    pairs = np.mean([abs(e) <= w / 2 for e in error for w in length])
    hits = np.mean(np.abs(error) <= length / 2)
    assert terms["dependence"] == pytest.approx(hits - pairs, abs=1e-12)
    assert terms["limits"] == pytest.approx(skewed.covered.mean() - hits, abs=1e-12)
    alone = {c: found.diagnosis[f"{c}_effect"].effect for c in CAUSES}
    assert all(terms[c] == alone[c] for c in CAUSES if c in terms)
    assert terms["joint"] == pytest.approx(pairs - 0.9 - sum(alone.values()), abs=1e-12)


def test_a_gap_within_two_mcse_is_no_gap_and_a_clear_bias_is_told():
    """Twelve replicates, bias of about four MCSE."""
    rng = np.random.default_rng(4)
    found = decompose(cell(1.2 + rng.normal(size=12), np.full(12, 4.5)), 0.9)
    assert abs(found.coverage - 0.9) <= 2 * found.coverage_mcse
    headline, terms = added_up(found.sentence())
    assert headline == "no gap beyond noise" and any(words.startswith("bias of +") for words in terms)


def test_chance_names_at_most_the_share_of_effects_that_is_told():
    """Normal estimates with the right standard error, known up to 4%: no effect is there.

    Of 300 cells of 256 replicates the share that is named has a standard error of about .8%: 4 of them.
    """
    rng = np.random.default_rng(12)
    looked, named = 0, 0
    for _ in range(300):
        found = decompose(cell(rng.normal(size=256), 3.29 * np.sqrt(rng.chisquare(400, 256) / 400)), 0.9)
        looked += sum(term_of(name, values).mcse > TINY for name, values in found.parts.items())
        named += len(found.terms)
    assert looked == 300 * 6  # limits are symmetric: the seventh is exactly 0
    assert 0.02 < named / looked < BY_CHANCE + 0.032


def test_paths_that_explode_and_failures_are_told():
    row = {"length_mean": 1e10, "length_median": 0.2, "failures": 0, "replicates": 500}
    assert "orders of magnitude" in extremes(row) and not failures(row)
    row |= {"length_mean": 0.3, "failures": 54, "replicates": 200, "coverage_failures_as_misses": 0.63}
    row |= {"coverage_failures_as_misses_mcse": 0.034}
    assert not extremes(row) and "54 of 200" in failures(row) and "0.630 ± 0.034" in failures(row)


KINDS = [k for k in INTERVAL_METHODS if k not in ("joint", "TRC", "inversion", "fieller", "PB", "ACS")]
"""Bundled methods of a single quantile."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """All methods at a biased quantile: the run, rows of its summary with their sentences, explanation."""
    study = changed(
        replicates=96, problem={"kind": "quantile", "tau": 0.9}, algorithm={"kind": "ldp_sgd"},
        mechanism={"kind": "randomized_response", "epsilon": 1}, grid={"n": [500], "level": [0.9]},
        method=[{"kind": kind} for kind in KINDS],
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("many")
    with pytest.MonkeyPatch.context() as patch:
        uncompiled.use(patch)
        run_study(Study.from_mapping(study), folder, engine="serial")
    store = RunStore(folder)
    table = explain(store, store.read_summary())
    rows = store.read_summary().to_pylist()
    return store, list(zip(rows, table["explanation"].to_pylist(), strict=True)), table


def test_explanations_of_a_real_run_add_up(run):
    """In sentences, and as columns: the effects add up to the gap; those beyond noise and the rest, too."""
    _, texts, table = run
    for (cell, text), row in zip(texts, table.to_pylist(), strict=True):
        headline, _ = added_up(text)
        name = "Coverage of the finished replicates" if cell["failures"] else "Coverage"
        assert text.startswith(f"{name} {cell['coverage']:.3f} ± {cell['coverage_mcse']:.3f} MCSE")
        effects = {part: row[f"{part}_effect"] for part in EFFECTS if row[f"{part}_effect"] is not None}
        rest, gap = effects.pop("rest"), row["coverage"] - row["level"]
        assert sum(effects.values()) == pytest.approx(gap, abs=1e-12)
        clear = [part for part in SINGLE if part in row["clear_effects"].split(", ")]
        assert rest + sum(effects[part] for part in clear) == pytest.approx(gap, abs=1e-12)
        none = abs(gap) <= 2 * row["coverage_mcse"]
        assert none == (headline == "no gap beyond noise") or "failed" in row["cause"]
        assert (row["cause"] == "no gap beyond noise") == (none and "failed" not in row["cause"])
    note = table.schema.metadata[b"note"].decode()
    named, looked, chance = map(int, re.findall(r"(\d+) of (\d+) are named.* about (\d+)\.", note)[0])
    terms = sum(len(re.findall(TERM, text)) for _, text in texts)
    # Variability is negative wherever lengths vary, so that it is no test of 0.
    others = sum(len(re.findall(r"within 2 MCSE|lengths vary \d+%\)", text)) for _, text in texts)
    assert 0 < named == terms - others < looked and chance == round(BY_CHANCE * looked)


def test_every_coordinate_is_explained(tmp_path, monkeypatch):
    uncompiled.use(monkeypatch)
    study = changed(
        replicates=4, problem={"kind": "linear_regression", "coefficients": [1.0, 0.5]},
        mechanism={"kind": "laplace", "epsilon": 2}, grid={"n": [50], "level": [0.9]}, method={"kind": "SN"},
    )  # fmt: skip
    run_study(Study.from_mapping(study), tmp_path, engine="serial")
    table = explain(RunStore(tmp_path), RunStore(tmp_path).read_summary())
    assert table.num_rows == 2 and None not in table["explanation"].to_pylist()


def test_counts_of_causes(run):
    _, _, table = run
    counts = f"Main causes of {table.num_rows} cells: {count_causes(table.to_pylist())}. "
    assert table.schema.metadata[b"note"].decode().startswith(counts)
    for count, words in ((1, b"Each effect is judged by itself"), (0, b"")):
        note = with_note(table.slice(0, count)).schema.metadata[b"note"]
        assert note[:31] == words, "one cell has no counts"
    causes = (("SN", "biased"), ("SN", "too short"), ("SN", "too short"), ("BB", None))
    rows = [{"method": method, "cause_class": cause} for method, cause in causes]
    assert count_causes(rows) == "SN: 2 too short, 1 biased; BB: 1 unknown"


def test_the_main_cause_in_words():
    rng = np.random.default_rng(11)
    error, width = rng.normal(size=2000), 2 * stats.norm.ppf(0.95)
    short = decompose(cell(error, 0.7 * width), 0.9)
    assert re.fullmatch(r"(29|30|31)% too short", short.main_words()) and short.cause_class() == "too short"
    long = decompose(cell(error, 4.0), 0.9)
    assert long.main_words().endswith("too long") and long.cause_class() == "too long"
    biased = decompose(cell(error + 1.0, width), 0.9)
    size = f"{biased.diagnosis['standardised_bias'].effect:+.2f}"
    assert biased.main_words("steps") == f"bias of {size} SE from the steps"
    assert biased.cause_class() == "biased"
    fine = decompose(cell(error, width), 0.9)
    assert "noise" not in fine.sentence(None, 33, "33% failed")
    assert "of the finished" in fine.sentence(None, 1)


@pytest.mark.parametrize(
    ("main", "effect", "coverage", "misses", "failed", "cause"),
    [
        # Lengths alone would cost more than the gap, and failures cost more than all the rest.
        ("length", -0.474, 0.745, 0.350, 106, "53% failed"),
        ("length", -0.474, 0.450, 0.212, 106, ""),
        # No effect is clear: the loss by failures is, unless they are few.
        ("left", None, 0.492, 0.150, 139, "70% failed"),
        ("left", None, 0.500, 0.495, 2, ""),
        # No gap of the finished replicates.
        ("none", None, 0.865, 0.835, 7, "3.5% failed"),
    ],
)
def test_failures_that_cost_most_are_the_main_cause(main, effect, coverage, misses, failed, cause):
    leading = (main, None if effect is None else Term(main, effect, 0.02))
    row = {"coverage": coverage, "coverage_failures_as_misses": misses, "failures": failed}
    row |= {"coverage_failures_as_misses_mcse": math.sqrt(misses * (1 - misses) / 200)}
    row |= {"replicates": 200, "level": 0.9}
    assert lost_words(SimpleNamespace(leading=lambda: leading), row) == cause


def test_an_effect_that_is_clear_and_small_is_in_the_rest():
    """Lengths that vary by 7% cost .002 of coverage, ten times their MCSE."""
    rng = np.random.default_rng(13)
    found = decompose(cell(rng.normal(size=2000), 3.29 * (1 + 0.07 * rng.uniform(-1.7, 1.7, 2000))), 0.9)
    effect = found.diagnosis["variability_effect"]
    assert -SMALL < effect.effect < -4 * effect.mcse < 0
    assert "variability" not in [term.name for term in found.terms] and "2 MCSE or 0.0025" in found.sentence()


def test_no_error_is_rounded_to_0():
    assert [error_text(e, 3) for e in (0.0312, 0.0005001, 0.00032, 2e-5, 0.0)] == [
        "0.031", "0.001", "0.0003", "2e-5", "0.000"
    ]  # fmt: skip


def test_the_printed_table_says_what_its_dashes_and_means_are(run):
    table = run[2].filter(pc.is_in(run[2]["method"], pa.array(["SN", "BM"])))
    lost = {"failures": 150, "coverage": None, "coverage_mcse": None}
    lost |= dict.fromkeys(f"{effect}_effect" for effect in EFFECTS)
    failed = [row | lost for row in table.to_pylist()]
    sheet = explanation_sheet(pa.Table.from_pylist([*table.to_pylist(), *failed], table.schema))
    assert [line["cells"] for line in sheet.methods] == ["1 of 2"] * 2
    assert "failures as misses over all cells" in sheet.legend
    assert "For SN, length contains variability." in sheet.reading


def test_arrival_is_said_of_averages(run):
    said = {row["method"]: text for row, text in run[1]}
    about = {method for method, text in said.items() if "predicted bias of the average" in text}
    assert about == {kind for kind in KINDS if INTERVAL_METHODS[kind].around_average}
    # One unit for both biases, and no advice that another method's contradicts.
    measured = re.search(r"measured ([+-]\S+)\. ", said["BB"])[1]
    assert f"bias of {measured} SE" in said["BB"]
    assert "or larger steps" not in said["TR"]


def test_the_bundled_averages_are_those_whose_estimate_is_one(run):
    table = run[0].replicates.read(damaged="refuse").sort_by("replicate")
    estimates = {kind: table.filter(pc.equal(table["method"], kind))["estimate"] for kind in KINDS}
    same = {kind for kind, found in estimates.items() if found.equals(estimates["oracle"])}
    assert same == {kind for kind in KINDS if INTERVAL_METHODS[kind].around_average} and len(same) > 7


@pytest.mark.parametrize(
    ("seed", "main"),
    [(3, "unclear effects; in part lengths vary 19%"), (8, "13% too short"), (13, "18% too short")],
)
def test_a_clear_effect_that_is_smaller_than_the_rest_is_not_the_main_one(seed, main):
    """Lengths that vary take off a little for sure, effects within noise take off more or less or add."""
    rng = np.random.default_rng(seed)
    error, length = rng.normal(size=200), 3.0 * (1 + 0.19 * rng.uniform(-1.7, 1.7, size=200))
    found = decompose(cell(error, length), 0.9)
    headline, _ = added_up(found.sentence())
    assert headline == f"mainly {main}" and found.main_words() == main
    largest = min(term.effect for term in found.terms)
    assert (found.rest.effect < largest) == (found.cause_class() == "unclear effects")


Z = stats.norm.ppf(0.95)
COUNT = 4000


def effects_alone():
    """Estimates, half lengths and standard errors of cells with one effect, its exact numbers, the cause."""
    normal = np.random.default_rng(1).standard_normal(COUNT)
    exact = stats.norm.cdf(Z - 0.6) - stats.norm.cdf(-Z - 0.6)
    bias = {"standardised_bias": 0.6, "bias_effect": exact - 0.9, "coverage_together": exact}
    yield 0.6 + normal, Z, 1.0, bias | {"variability_effect": 0.0, "length_ratio": 1.0}, "bias"
    for factor in (0.8, 1.3):
        yield normal, factor * Z, 1.0, {"length_effect": 2 * stats.norm.cdf(factor * Z) - 1.9}, "length"
    # Normal critical values where t ones are due: right on average, and yet too few cover.
    se = np.sqrt(np.random.default_rng(3).chisquare(4, COUNT) / 4)
    mean = math.sqrt(2 / 4) * math.gamma(5 / 2) / math.gamma(4 / 2)
    varies = {"variability_effect": 2 * stats.t.cdf(Z / mean, 4) - 1.9, "coverage_left": 0.0}
    yield normal, Z * se / mean, se, varies, "variability"
    # Exact t intervals without a standard error, whose lengths vary by design.
    yield normal, stats.t.ppf(0.95, 4) * se, None, {"length_effect": 0.0}, "none"
    # Two points, each one standard error away: every estimate is inside.
    yield np.where(normal < 0, -1.0, 1.0), Z, 1.0, {"shape_effect": 0.1}, "shape"
    yield np.random.default_rng(5).exponential(size=COUNT) - 1, Z, 1.0, {"skewness": 2.0}, "shape"
    yield stats.norm.ppf((np.arange(COUNT) + 0.5) / COUNT), Z, 1.0, {"coverage_left": 0.0}, "none"


def test_an_effect_alone():
    """Each number fails with probability 6e-5 if all is well."""
    for estimate, half, se, numbers, cause in effects_alone():
        found = decompose(cell(estimate, 2 * half, se=math.nan if se is None else se), 0.9)
        for name, value in numbers.items():
            assert abs(found.diagnosis[name].effect - value) < 4 * found.diagnosis[name].mcse + 1e-12, name
        assert found.main_cause() == cause, numbers
        assert ("(all effects, each within 2 MCSE or 0.0025)" in found.sentence()) == (cause == "none")
        assert math.isnan(found.diagnosis["variability_effect"].effect) == (se is None)


def test_lengths_that_depend_on_the_estimate_are_left():
    estimate = np.random.default_rng(7).standard_normal(COUNT)
    found = decompose(cell(estimate, np.where(np.abs(estimate) > Z, 4 * Z, 16 / 9 * Z)), 0.9)
    assert found.diagnosis["coverage_left"].effect > 4 * found.diagnosis["coverage_left"].mcse


def test_errors_are_the_spread_of_repeated_studies():
    """150 studies know the logarithm of MCSE over spread to .07 at most: 4 of them (each fails for 6e-5).

    A share of hits jumps where the others slide: there the jackknife is too large, by the factors that 3,000
    studies have.
    """
    rng = np.random.default_rng(9)
    found = []
    for _ in range(150):
        se = np.sqrt(rng.chisquare(20, 400) / 20)
        found.append(decompose(cell(0.3 + rng.standard_normal(400), 1.8 * Z * se), 0.9))
    for name in (*(f"{cause}_effect" for cause in CAUSES), "coverage_left", "coverage_together"):
        spread = np.std([f.diagnosis[name].effect for f in found], ddof=1)
        mcse = math.sqrt(np.mean([f.diagnosis[name].mcse ** 2 for f in found]))
        factor = {"shape_effect": 1.47, "coverage_left": 1.22}.get(name, 1.0)
        assert abs(math.log(mcse / spread / factor)) < 0.28, name


def test_too_little_to_say():
    """The last interval ends at a public range."""
    for error in ([], [1.0], [1.0, 2.0], [1.0, 1.0, 1.0], [1.0, 2.0, 4.0]):
        found = decompose(cell(error, [math.nan if e == 4.0 else 2.0 for e in error]), 0.9)
        assert found.main_cause() is None and "Nothing can be said" in found.sentence()
        assert found.columns() == dict.fromkeys(DIAGNOSIS_COLUMNS)
