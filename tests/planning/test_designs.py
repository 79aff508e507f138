"""Designs of a pilot: their numbers against other code, and the study file that later commands read."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.cli.plan import comparison_sheet
from ldpflow.components.intervals.counts import Fieller, Inversion
from ldpflow.components.problems import column_law as column_law_module
from ldpflow.components.problems.column_law import column_law
from ldpflow.errors import InputError
from ldpflow.numerics.accounting import shuffled_guarantee
from ldpflow.options import PlanOptions
from ldpflow.practice.planning.compare import choose_design, rank_designs, shuffled_budget
from ldpflow.practice.planning.sources import Pilot
from ldpflow.practice.transcripts.methods import regressions
from ldpflow.results.arena import FAILS, HOLDS, UNDECIDED
from ldpflow.study import Study
from tests.planning.conftest import FEW

SALARIES = str(Path(__file__).parents[2] / "examples" / "salary" / "salary_counts.csv")

TAUS = (0.5, 0.75)
SINGLE = ("sgd", "sgd_epsilon", "rounds")  # a collection for each quantile


def column(size=2000):
    """Session lengths in seconds: 7% at 0, 9% at 30, a long tail, whole seconds."""
    rng = np.random.default_rng(34)
    kind = rng.random(size)
    return np.where(kind < 0.07, 0.0, np.where(kind < 0.16, 30.0, np.round(rng.gamma(3.0, 60.0, size))))


def write_pilot(folder, values):
    file = folder / "pilot.csv"
    file.write_text("user,session_s\n" + "".join(f"u{i},{v:g}\n" for i, v in enumerate(values)))
    return file


@pytest.fixture(scope="module")
def pilot(tmp_path_factory):
    return write_pilot(tmp_path_factory.mktemp("pilot"), column())


def compare(pilot, n=12_000, taus=TAUS, **settings):
    given = {"replicates": 1000, "epsilon": 2, "range": (0.0, 1024.0), "column": "session_s"} | settings
    return lf.plan(pilot=pilot, tau=taus, n=n, compare=True, **given)


@pytest.fixture(scope="module")
def plan(pilot):
    return compare(pilot)


@pytest.mark.parametrize("scale", [{"transform": "log1p"}, {"edges": (0, 100, 200, 400, 1024)}])
def test_steps_on_a_scale(pilot, plan, tmp_path, scale):
    """Numbers are in the unit of the values."""
    found = compare(pilot, replicates=50, range=None, **scale)
    bounds = {row["tau"]: row["half_width_bound"] for row in plan.rows}
    for row in found.rows:
        assert row["half_width_bound"] == pytest.approx(bounds[row["tau"]], rel=0.1)
        assert 1.0 < row["half_width"] / row["half_width_bound"] < 2.5 and row["coverage"] > 0.8
    (file,) = found.write_design(tmp_path / "again.toml", protocol="cells")
    problem = tomllib.loads(file.read_text())["problem"]
    assert {name: tuple(v) if name == "edges" else v for name, v in problem.items() if name in scale} == scale
    assert "of its records" not in file.read_text(), "these edges are public"


def test_a_scale_that_is_not_defined_for_all_values_is_refused(pilot):
    with pytest.raises(InputError, match="transform: 'log'"):
        compare(pilot, transform="log")


# --- the best design ------------------------------------------------------------------------------


def test_rows(plan):
    names = {row["protocol"] for row in plan.rows}
    scaled = {f"{name}_{scale}" for name in {*FEW} - {"rounds"} for scale in ("mass", "log")}
    assert names == {"sgd", "sgd_epsilon", "cells", *FEW, *scaled}
    assert len(plan.rows) == 2 * len(names) == len(plan.designs)
    rows = {(row["protocol"], row["tau"]): row for row in plan.rows}
    assert rows["sgd_epsilon", 0.5]["messages"] == 2 and rows["sgd", 0.5]["messages"] == 1
    assert rows["sgd", 0.5]["users"] == 6000 and rows["cells", 0.5]["users"] == 12_000
    assert rows["haar", 0.5]["state_bytes"] == 16 * (rows["haar", 0.5]["bins"] - 1)
    # 1% who always send the lowest cell of three, at eps = 2: C - q q' of all is 1 - q q'.
    level = 0.5 - 0.01 / 0.99 * ((np.exp(2) + 2 - 1) / (np.exp(2) - 1) - 0.5)
    shift = rows["cells", 0.5]["quantile"] - column_law(column()).quantile(level)
    assert rows["cells", 0.5]["liars_shift"] == pytest.approx(shift, rel=0.2)  # or the other direction's
    assert {row["pilot_values"] for row in plan.rows} == {2000}
    samples = {(row["tau"], row["pilot_quantile"]) for row in plan.rows}
    assert samples == {(tau, np.quantile(column(), tau)) for tau in TAUS}
    ratios = [row["half_width"] / row["half_width_bound"] for row in plan.rows]
    assert 1.0 < min(ratios) and max(ratios) < 15.0  # in the unit of the data on every scale
    assert min(row["coverage"] for row in plan.rows) > 0.85
    split = [row["protocol"] for row in plan.rows].index("sgd_epsilon")
    assert plan.designs[split].parts["mechanism"].epsilon == 1.0


def test_a_terminal_shows_the_best_designs(plan, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    sheet = comparison_sheet(plan, None, brief=True)
    sheet.show()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 40 and max(map(len, lines)) <= 80
    assert [line.split()[1:3] for line in lines if " * " in line] == [["cells", "*"]] * 2
    assert sheet.rows == [row for row in plan.rows if row["rank"] in range(1, 6)]
    assert sum(text.startswith("sgd, ") for text in sheet.notes) == 0, "cautions of the best design alone"
    whole = comparison_sheet(plan, None, brief=False)
    assert whole.rows is plan.rows
    whole.show()
    shown = re.findall(r"\w+ \(\w = \d+\)", capsys.readouterr().out)
    assert {"haar (k = 64)", "rounds (T = 5)"} <= set(shown)
    lost = replace(plan, rows=[row | {"rank": None, "best": False} for row in plan.rows])
    assert comparison_sheet(lost, None, brief=True).rows == lost.rows


def row_of(half_width, state=HOLDS, wanted=None, **settings):
    row = {"half_width": half_width, "half_width_bound": 1.0, "wanted": wanted, "state": state}
    return row | {"range_end": 0.0, "interval": "TR", "atoms": False} | settings


def test_a_design_that_is_not_shown_to_hold_its_level_is_not_ranked():
    designs = {
        "short": [row_of(1.0), row_of(1.0, FAILS)],
        "open": [row_of(1.0, UNDECIDED)],
        "end": [row_of(1.0, range_end=0.6)],
        "atom": [row_of(1.0, atoms=True)],
        "outer": [row_of(4.0, atoms=True, interval="outer")],
        "one": [row_of(2.0), row_of(9.0, wanted=10.0)],
        "two": [row_of(1.5), row_of(18.0, wanted=10.0)],
    }
    assert rank_designs(designs) == {"two": 1.8, "one": 2.0, "outer": 4.0}


def test_the_advice_names_users_and_designs_as_short_within_the_error(plan):
    pairs = []
    for name, factor in (("one", 1.0), ("two", 1.04), ("three", 1.06)):
        own = {"protocol": name, "wanted": 100.0, "n_needed": 10}
        design = SimpleNamespace(name=name, simulate=lambda *given: None)
        rows = [row for row in plan.rows if row["protocol"] == "cells"]
        pairs += [(row | own | {"half_width": factor * row["half_width"]}, design) for row in rows]
    _, users, close, *_ = choose_design(pairs)
    assert "take about 10 users" in users and close.endswith("(5%): two")
    pairs[1][0]["n_needed"] = None
    assert choose_design(pairs)[1] == "no n is known for all wanted half widths"


def test_shuffled_budget():
    """The largest, to .001, whose amplified guarantee is at most the epsilon asked for."""
    local = shuffled_budget(0.5, 10**6)
    guarantees = [shuffled_guarantee(each, 0.0, 10**6, 1e-6)[0] for each in (local, local + 0.001)]
    assert guarantees[0] <= 0.5 < guarantees[1]
    assert shuffled_budget(1.0, 100) is None


def test_half_widths_of_each_quantile(pilot):
    found = compare(pilot, taus=(0.75, 0.5), half_width=[5, 3], range=None, replicates=40)
    assert {(row["tau"], row["wanted"]) for row in found.rows} == {(0.5, 3), (0.75, 5)}
    assert {row["protocol"] for row in found.rows} == {"sgd", "sgd_epsilon", "cells"}
    assert any("no public range" in text for text in found.advice)


def heaped(size=4000):
    """Salaries: a lognormal law, rounded to 1,000 by half of the people, and 5% at 50,000, the median."""
    rng = np.random.default_rng(50)
    x = 50_000 * rng.lognormal(0.0, 0.5, size)
    atoms, rounded = rng.random(size) < 0.05, rng.random(size) < 0.5
    return np.where(atoms, 50_000.0, np.where(rounded, np.round(x, -3), np.round(x)))


def test_at_a_value_that_many_share_only_outer_intervals_are_recommended(tmp_path):
    settings = {"range": (0.0, 2**18), "taus": (0.5,), "epsilon": 1, "replicates": 400}
    file = write_pilot(tmp_path, heaped())
    found = compare(file, **settings)
    assert all(row["atoms"] for row in found.rows)
    assert {row["interval"] for row in found.rows if row["best"]} == {"outer"}
    (text,) = [text for text in found.cautions if "50000" in text]
    assert "near the 0.5-quantile" in text and "moves the quantile by at most 500" in text
    narrow = compare(file, jitter=1000, **settings)
    assert all(row["atoms"] for row in narrow.rows)
    assert any("jitter = 1000 is too narrow" in text for text in narrow.cautions)
    jittered = compare(file, jitter=5000, **settings)
    assert not any(row["atoms"] for row in jittered.rows)
    (file,) = jittered.write_design(tmp_path / "public.toml", protocol="haar_log", public=True)
    problem = Study.load(file).simulators()[0].problem
    assert (problem.jitter, problem.transform, problem.file) == (5000, "log1p", None), "clients need them"
    assert {row["protocol"] for row in jittered.rows if row["best"]} == {"sgd"}
    moved = "jitter = 5000 moves the 0.5-quantile by at most 2500"
    assert sum(moved in text for text in jittered.cautions) == 1
    assert abs(jittered.rows[0]["quantile"] - 50_000) <= 2500


# --- the file ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SINGLE, "cells", "haar", "haar_mass", "haar_log"])
def test_design_files_are_studies(plan, tmp_path, pilot, name):
    files = plan.write_design(tmp_path / "design.toml", protocol=name, unit="s")
    expected = [f"design-{tau:g}.toml" for tau in TAUS] if name in SINGLE else ["design.toml"]
    assert [file.name for file in files] == expected
    found = []
    for file in files:
        study = Study.load(file)
        assert Study.from_toml(study.to_toml()) == study and study.collection.unit == "s"
        plain = study.with_fields(collection=type(study.collection)())
        assert plain.plans() == study.plans(), "no result depends on the unit"
        table = tomllib.loads(file.read_text())
        assert table["replicates"] == 2560
        reports = {"reports": len(TAUS)} if name == "sgd_epsilon" else {}
        assert table["collection"] == {"unit": "s"} | reports
        assert table["problem"]["file"] == str(pilot) and "law_table" not in table["problem"]
        assert len(table["problem"]["sha256"]) == 64 and len(study.method) == len(study.n) == 1
        simulators = study.simulators()
        levels = simulators[0].parts()["problem"].levels()
        found += [level for simulator in simulators for level in simulator.parts()["problem"].levels()]
        # With all settings: analyse takes the residual variance for ``cells``.
        regression = name in ("sgd", "sgd_epsilon", "cells")
        own = regressions(len(levels), separate=len(levels) > 1) if regression else [Fieller(), Inversion()]
        assert study.method_settings[0] in own
    assert found == list(TAUS)
    if name == "cells":
        steps = simulators[0].algorithm
        rule = [lf.plan(pilot=pilot, column="session_s", tau=t, epsilon=2, n=12_000).rows[0] for t in TAUS]
        assert steps.step_factors() == tuple(row["c"] for row in rule)
        assert steps.start(2) == tuple(row["theta0"] for row in rule)


def test_a_pilot_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    file = write_pilot(tmp_path, column(500))
    read = column_law_module.read_column

    def change(*given, **options):
        found = read(*given, **options)
        write_pilot(tmp_path, column(600))
        return found

    settings = {"pilot": file, "column": "session_s", "tau": 0.5, "epsilon": 1, "n": 1000}
    monkeypatch.setattr(column_law_module, "read_column", change)
    with pytest.raises(InputError, match="pilot: .* It has changed"):
        lf.plan(**settings)
    monkeypatch.undo()
    first = Pilot(PlanOptions(pilot=file, column="session_s"))
    first.problem(0.5)
    write_pilot(tmp_path, column(700))
    assert first.problem(0.75).sha256 == first.problem(0.5).sha256, "the digest of what was read"


def test_an_existing_file_stays(plan, tmp_path):
    file, other = tmp_path / "design.toml", tmp_path / "design-0.75.toml"
    file.write_text("kept")
    other.write_text("kept")
    with pytest.raises(InputError, match="output"):
        plan.write_design(file, protocol="sgd")
    assert sorted(tmp_path.iterdir()) == [other, file] and other.read_text() == "kept"
    plan.write_design(file, protocol="sgd", force=True)
    assert other.read_text() != "kept" == file.read_text(), "these files have names of their own"
    with pytest.raises(InputError, match="protocol"):
        plan.write_design(file, protocol="cell")


@pytest.mark.parametrize(
    ("output", "taus", "allowed"),
    [
        ("design.toml", ["0.5"], "a new file. It exists"), ("no/x", ["0.5"], "a folder that exists"),
        ("no/x", ["0.5", "0.6"], "a folder that exists"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_new_is_refused_before_the_simulation(tmp_path, capsys, output, taus, allowed):
    (tmp_path / "design.toml").write_text("kept")
    file = str(tmp_path / output)
    asked = ["--pilot", "none.csv", "--tau", *taus, "--epsilon", "1", "--n", "9000", "--compare"]
    assert main(["plan", *asked, "-o", file]) == 2
    assert f"--output: '{file}'" in (said := capsys.readouterr().err) and allowed in said


@pytest.mark.parametrize("name", ["sgd", "cells", "haar"])
def test_a_public_file_has_no_fact_of_the_pilot_but_steps_and_start(plan, tmp_path, name):
    """It is read as a study, and no command simulates it."""
    file, *_ = plan.write_design(tmp_path / "design.toml", protocol=name, public=True)
    text = file.read_text()
    table = tomllib.loads(text)
    assert set(table["problem"]) <= {"kind", "tau", "taus", "law"} and table["problem"]["law"] == "unknown"
    assert "pilot.csv" not in text and "session_s" not in text
    if name == "haar":
        assert set(table["protocol"]) == {"kind", "epsilon", "range", "k"}
    with pytest.raises(InputError, match="problem.law"):
        lf.sweep(Study.load(file), tmp_path / "run", executor="serial")
    assert not (tmp_path / "run").exists()


def test_a_pilot_with_codes_for_no_value(tmp_path):
    """The file of values is not the law: the design has the law's table, and no name of the file."""
    values = np.concatenate([column(), [-1.0] * 40])
    plan = compare(write_pilot(tmp_path, values), missing_value=-1, range=None, replicates=20)
    (file,) = plan.write_design(tmp_path / "design.toml", protocol="cells")
    problem = tomllib.loads(file.read_text())["problem"]
    assert "file" not in problem and problem["law_table"] == column_law(column(), dropped=40).text()
    assert Study.load(file).simulators()[0].problem.truth()[0] == plan.rows[0]["quantile"]
