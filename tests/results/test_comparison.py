"""What can be compared with what in a run; contrasts by hand, by McNemar and against repeated studies."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from ldpflow.cli.sheets import comparison_sheet
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError
from ldpflow.report.results import Results
from ldpflow.results import comparison
from ldpflow.results.arena import short_rows
from ldpflow.results.comparison import SHORT, length_ratio, stored_comparisons
from ldpflow.store.run_store import RunStore
from ldpflow.study import Study
from tests.kernels import uncompiled
from tests.oracles.rows_in_cells import cells_of
from tests.results.test_measures import rows
from tests.studies import changed


def compared(run, by, baseline=None):
    return stored_comparisons(run, by, baseline).to_pylist()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    study = changed(
        replicates=32, algorithm={"kind": "ldp_sgd", "gamma": [0.6, 0.7]},
        grid={"n": [200, 400], "level": 0.9},
        method=[{"kind": "BB", "beta": [0.75, 0.85], "B": 20}, {"kind": "SN"}],
    )  # fmt: skip
    out = tmp_path_factory.mktemp("comparison") / "run"
    run_study(Study.from_mapping(study), out, engine="serial")
    return RunStore(out)


def test_a_difference_is_the_difference_of_the_summaries(run):
    summary = run.read_summary().to_pylist()
    names = ("tau", "gamma", "n", "method", "beta")
    cells = {(*(row[name] for name in names), row["epsilon"]): row for row in summary}
    found = compared(run, "epsilon")
    for row in found:
        mine, other = (cells[*(row[name] for name in names), epsilon] for epsilon in (1.0, 0.5))
        assert (row["epsilon"], row["vs"]) == (1.0, "0.5")
        assert row["coverage_difference"] == pytest.approx(mine["coverage"] - other["coverage"])
        assert row["length_ratio"] == pytest.approx(mine["length_mean"] / other["length_mean"])
    assert len(found) == 24


def test_the_ratio_of_constant_lengths_has_no_error():
    for length in (0.1, 0.0704, 1 / 3):
        assert length_ratio(np.full(200, length), np.full(200, 0.7)) == (length / 0.7, 0.0)
    lengths = np.random.default_rng(1).random(40)
    assert length_ratio(1.28 * lengths, lengths) == (pytest.approx(1.28), 0.0)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("method", [("SN", 1.0, "BM"), ("SN", 2.0, "BM")]),
        ("mu", [("BM", 2.0, "1"), ("SN", 2.0, "1")]),
    ],
)
def test_budgets_that_are_settings_are_not_mixed(tmp_path, monkeypatch, by, expected):
    """A method at mu = 2 is compared with another at mu = 2."""
    uncompiled.use(monkeypatch)
    tables = {"mechanism": {"kind": "gaussian", "mu": [1.0, 2.0]}, "method": [{"kind": ["BM", "SN"]}]}
    study = changed(replicates=1, problem__tau=0.5, grid={"n": 20, "level": 0.9}, **tables)
    run_study(Study.from_mapping(study), tmp_path, engine="serial")
    found = compared(RunStore(tmp_path), by)
    assert [(row["method"], row["mu"], row["vs"]) for row in found] == expected


@pytest.fixture(scope="module")
def degrees(tmp_path_factory):
    """One replicate of a method with two values of a setting, and of another method."""
    out = tmp_path_factory.mktemp("degrees")
    methods = [{"kind": "TR", "degree": [2, 3]}, {"kind": "SN"}]
    parts = {"problem__tau": 0.5, "mechanism__epsilon": 1.0, "grid": {"n": [200], "level": 0.9}}
    with pytest.MonkeyPatch.context() as patch:
        uncompiled.use(patch)
        run_study(Study.from_mapping(changed(replicates=1, method=methods, **parts)), out, engine="serial")
    return out


@pytest.mark.parametrize(("baseline", "named"), [("TR", 2), ("TR degree=3", 3), ("TR, degree = 3", 3)])
def test_settings_that_vary_name_a_baseline_and_are_columns(degrees, baseline, named):
    """Of any type. A baseline may be named by some of them, as terminal or report write them."""
    table = stored_comparisons(RunStore(degrees), "method", baseline)
    assert {*table["vs"].to_pylist()} == {f"TR degree={named}"}
    sheet = comparison_sheet(table, "method")
    assert sheet.heading[0].startswith(f"Differences from TR degree={named},")
    assert "degree" in [title for title, _ in sheet.settings] and "degree" not in sheet.constants
    assert "degree" in short_rows(table, SHORT, "vs").column_names
    assert Results.load(degrees).with_baseline(baseline).baseline == f"TR, degree = {named}"


def test_what_no_row_has_is_a_number_or_a_setting_without_a_type(degrees):
    """One replicate has no error. Settings stay null: the column is a text in tables of other runs."""
    schema = stored_comparisons(RunStore(degrees), "method").schema
    names = ("coverage_difference_mcse", "length_ratio_mcse", "column")
    assert [str(schema.field(name).type) for name in names] == ["double", "double", "null"]


@pytest.mark.parametrize(
    ("by", "baseline", "count", "vs"),
    [
        ("method", None, 32, "BB beta=0.75"),  # tau, epsilon, gamma, n; two against the first
        ("gamma", None, 24, "0.6"),
        ("n", "4e2", 24, "400"),
        ("method", "SN", 32, "SN"),
    ],
)
def test_by_one_setting_and_with_a_baseline(run, by, baseline, count, vs):
    found = compared(run, by, baseline)
    assert [(row["vs"], row["pairs"]) for row in found] == [(vs, 32)] * count


@pytest.mark.parametrize(
    ("by", "baseline", "field"),
    [
        ("tau", None, "by"),  # other problems have other users
        ("level", None, "by"),  # one only
        ("epsilno", None, "by: .* Did you mean 'epsilon'"),
        ("method", "bb", "baseline: .* Did you mean 'BB'"),
        ("method", 3, "baseline: 3"),
        ("epsilon", "x", "baseline"),
    ],
)
def test_refused(run, by, baseline, field):
    with pytest.raises(InputError, match=field):
        compared(run, by, baseline)


def test_private_bits_drawn_directly_have_no_users_to_share():
    for sampling, users in (("data", 1), ("private_bit", 2)):
        mechanism = {"kind": "randomized_response", "epsilon": [1, 2], "sampling": sampling}
        plans = Study.from_mapping(changed(mechanism=mechanism, problem__tau=0.5)).plans()
        assert len({plan.simulator.users_key() for plan in plans}) == users


def contrast(first, second):
    """Contrast of the tables of two cells."""
    (a,), (b,) = (cells_of(table)[1] for table in (first, second))
    return SimpleNamespace(**comparison.contrast(a, b))


def test_by_hand():
    """Five replicates; the first has failed in one of the two, which is a miss; the last is in one only."""
    a = rows([0.0, 0.0, 3.0, 0.0], half=[1.0, 1.0, 2.0, 3.0], failed=[0])
    b = rows([0.0, 3.0, 3.0, 0.0, 0.0], half=[1.0, 2.0, 1.0, 2.0, 1.0])
    got = contrast(a, b)
    # Pairs 0 to 3: covered (-, 1, 0, 1) and (1, 0, 0, 1); lengths (-, 2, 4, 6) and (2, 4, 2, 4).
    assert (got.pairs, got.length_pairs, got.only_this, got.only_baseline) == (4, 3, 1, 1)
    assert got.coverage_difference == 0.0
    assert got.coverage_difference_mcse == pytest.approx(np.std([-1, 1, 0, 0], ddof=1) / math.sqrt(4))
    assert (got.undefined, got.undefined_baseline) == (0.25, 0.0)
    assert got.length_ratio == pytest.approx(12 / 10)
    psi = np.array([2, 4, 6]) / 4 - np.array([4, 2, 4]) / (10 / 3)
    assert got.length_ratio_mcse == pytest.approx(1.2 * math.sqrt(np.sum(psi**2) / 6))


def test_mcse_against_repeated_studies():
    """100 studies: the spread is known to 7%, and 30% are four standard errors. Pairs share most noise."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(100):
        x, (width, other) = rng.standard_normal(300), np.sqrt(rng.chisquare(9, (2, 300)) / 9)
        found.append(contrast(rows(x, half=1.6 * width), rows(x, half=0.85 * (width + other))))
    assert {c.pairs for c in found} == {300}
    for name in ("coverage_difference", "length_ratio"):
        spread = np.std([getattr(c, name) for c in found], ddof=1)
        mcse = np.sqrt(np.mean([getattr(c, f"{name}_mcse") ** 2 for c in found]))
        assert mcse == pytest.approx(spread, rel=0.3), name


def test_no_pairs():
    table = rows([1.0, 2.0])
    got = contrast(table.slice(0, 1), table.slice(1, 1))
    assert got.pairs == 0 and got.coverage_difference is None, "null in a table"


def test_a_baseline_without_any_interval():
    steady = rows(np.where(np.arange(200) < 20, 3.0, 0.0), half=1.0)
    got = contrast(steady, rows(np.zeros(200), failed=list(range(200))))
    assert got.undefined_baseline == 1.0 and got.length_ratio is None
    assert (got.only_this, got.only_baseline) == (180, 0)


@pytest.mark.parametrize(
    ("by", "differs"),
    [
        ("algorithm", {"algorithm": "ldp_sgd", "c_factors": "[1.0, 2.0]", "gamma": 0.5}),
        ("method", {"method": "TR", "column": "age, in years", "degree": 2}),
    ],
)
def test_a_baseline_is_found_by_the_name_that_is_printed(by, differs):
    """Also with a list or a text of several words."""
    printed = comparison.label(differs, by, {(differs[by], name) for name in differs})
    assert comparison.matches(differs, by, printed)
    assert comparison.matches(differs, by, printed.replace("=", " = "))
    assert not comparison.matches(differs, by, printed + "1")
    assert not comparison.matches({"epsilon": 1.0}, "epsilon", ["x"])
