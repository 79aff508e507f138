"""The route of docs/tutorials/deployment.md, and whether its intervals cover the population's quantiles."""

import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.cli import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "deployment.md"
COMMANDS = re.findall(r"^ {4}((?:ldpflow|python) .*)$", PAGE.read_text(), re.MULTILINE)


# Collections by clients and a collector in NumPy, which share no code with ldpflow


def population(users, rng):
    """Session lengths in whole seconds: 7% at 0, 9% at 30, and a long tail."""
    u = rng.random(users)
    tail = np.rint(np.exp(rng.normal(4.5, 1.0, users)))
    return np.where(u < 0.07, 0.0, np.where(u < 0.16, 30.0, tail))


def single(value):
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def collect(design, values, rng):
    """Tables of independent collections; shape of ``values``: (collections, users)."""
    with open(design, "rb") as file:
        tables = tomllib.load(file)
    if "protocol" in tables:
        assert tables["protocol"]["kind"] == "haar"
        edges = np.array(tables["problem"].get("edges", tables["protocol"]["range"]), dtype=float)
        return [collect_signs(tables["protocol"], edges, row, rng) for row in values]
    return collect_paths(tables, values, rng)


def collect_signs(protocol, edges, values, rng):
    """A table of the Haar protocol: sign of the user's half of a node, times an entry of a Hadamard matrix.

    ``edges`` are mapped to equal distances of the range, and values between them linearly.
    """
    k, keep = protocol["k"], 1.0 / (1.0 + np.exp(-protocol["epsilon"]))
    scaled = np.interp(values, edges, np.linspace(0.0, 1.0, len(edges)))
    bins = np.minimum((scaled * k).astype(np.int64), k - 1)
    nodes = 2 ** rng.integers(0, int(np.log2(k)), len(values))
    row = rng.integers(0, nodes)
    node, place = np.divmod(bins, k // nodes)
    left = place < k // nodes // 2
    odd = np.bitwise_count(row & node) % 2 == 1
    true = left ^ odd  # the sign is +1 in the left half where the entry of the matrix is +1
    report = np.where(rng.random(len(values)) < keep, true, ~true)
    return {"question": nodes + row, "report": report.astype(np.int64)}


def collect_paths(tables, values, rng):
    """Tables of LDP-SGD or cells, one user at a time in all collections."""
    problem, mechanism, algorithm = (tables[name] for name in ("problem", "mechanism", "algorithm"))
    taus = np.atleast_1d(np.array(problem.get("taus", problem.get("tau")), dtype=float))
    gamma, epsilon = float(single(algorithm["gamma"])), float(single(mechanism["epsilon"]))
    c = np.broadcast_to(np.array(single(algorithm["c"]), dtype=float), taus.shape)
    theta0 = np.broadcast_to(np.array(single(algorithm["theta0"]), dtype=float), taus.shape)
    collections, users = values.shape
    theta = np.tile(theta0, (collections, 1))
    asked = np.empty((users, collections, len(taus)))
    reports = np.empty((users, collections), dtype=np.int64)
    cells = len(taus) + 1
    keep = np.exp(epsilon) / (np.exp(epsilon) + cells - 1)
    other = (1.0 - keep) / (cells - 1)
    for i in range(users):
        asked[i] = theta
        own = (values[:, i, None] > theta).sum(axis=1)  # 0: at or below the lowest threshold
        moved = (own + rng.integers(1, cells, collections)) % cells
        reports[i] = np.where(rng.random(collections) < keep, own, moved)
        below = reports[i][:, None] <= np.arange(len(taus))
        debiased = (below - other * np.arange(1, cells)) / (keep - other)
        theta = np.sort(theta - c * (i + 1) ** -gamma * (debiased - taus), axis=1)
    if len(taus) == 1:  # randomised response reports 1 for a value at or below theta
        return [{"theta": asked[:, r, 0], "report": 1 - reports[:, r]} for r in range(collections)]
    columns = [f"theta_{q}" for q in range(len(taus))]
    return [
        dict(zip(columns, asked[:, r].T, strict=True)) | {"report": reports[:, r]} for r in range(collections)
    ]


def run(command, monkeypatch):
    """Run a command of the page in this process; its exit code."""
    name, *arguments = shlex.split(command)
    if name == "ldpflow":
        return main(arguments)
    script, *arguments = arguments
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    monkeypatch.syspath_prepend(str(ROOT / Path(script).parent))
    runpy.run_path(str(ROOT / script), run_name="__main__")
    return 0


@pytest.mark.thorough
def test_the_commands_of_the_page_lead_to_two_intervals(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    printed = {}
    for command in COMMANDS:
        code = run(command.replace("200000", "20000"), monkeypatch)
        printed[command] = capsys.readouterr()
        assert code == 0, (command, printed[command])
    assert len(COMMANDS) == 9  # the pilot, and eight
    assert (tmp_path / "page.html").stat().st_size > 10_000
    settings = [word for command in COMMANDS[2:] for word in shlex.split(command) if word.startswith("--")]
    first = {word for word in shlex.split(COMMANDS[1]) if word.startswith("--")}
    assert not first & set(settings)  # no setting is typed twice


def intervals(tables, design):
    """Limits that are reported for collections, shape (collections, quantiles, 2)."""
    found = [lf.analyse(table, str(design)) for table in tables]
    rows = [[one.reported(q) for q in range(len(one.verdicts))] for one in found]
    return np.array([[(row["lower"], row["upper"]) for row in own] for own in rows], dtype=float)


TRUTH = {0.5: 71.0, 0.9: 293.0}
"""Quantiles of the population: the smallest value with at least this share of users up to it."""


@pytest.mark.slow
def test_three_hundred_collections_cover(tmp_path, monkeypatch, capsys):
    """Clients and collector are NumPy alone; the error rate of coverage is 2e-4 for each quantile."""
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS[:2]:
        assert run(command, monkeypatch) == 0
    printed, text = capsys.readouterr().out, PAGE.read_text()
    shown = re.findall(r"```text\n(.*?)```", text, re.DOTALL)[0].splitlines()
    assert len(shown) == 3 and set(shown) <= set(printed.splitlines())
    assert (tmp_path / "design.toml").read_text() == re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    # The page's pilot of 3,000 rows knows 1/f(.9-quantile), and so half widths, to some 8% only.
    rng = np.random.default_rng(20261123)
    plan = lf.plan(
        pilot={"session_s": population(100_000, rng)},
        column="session_s",
        tau=[0.5, 0.9],
        epsilon=1,
        n=200_000,
        range=(0, 3600),
        compare=True,
    )
    for design in sorted(tmp_path.glob("design*.toml")):
        tables = tomllib.loads(design.read_text())
        kind = tables.get("protocol", tables.get("mechanism"))["kind"]
        users = int(np.atleast_1d(tables["grid"]["n"])[0])
        parts = (population(50 * users, rng).reshape(50, users) for _ in range(6))
        found = [intervals(collect(design, values, rng), design) for values in parts]
        lower, upper = np.moveaxis(np.concatenate(found), -1, 0)
        taus = np.atleast_1d(tables["problem"].get("taus", tables["problem"].get("tau")))
        for q, tau in enumerate(taus):
            covered = (lower[:, q] <= TRUTH[tau]) & (TRUTH[tau] <= upper[:, q])
            half_width = np.median(upper[:, q] - lower[:, q]) / 2
            planned = next(row for row in plan.rows if row["tau"] == tau and row["protocol"] in (kind, "sgd"))
            assert covered.sum() >= 251  # binomial (300, .9): smaller with probability 2e-4
            assert abs(half_width / planned["half_width"] - 1) < 0.05


def check_collections(plan, protocol, design, draw, truth, rng):
    """Half widths of 200 collections within 5% beyond their error, at a rate of 1% for each quantile."""
    plan.write_design(design, protocol=protocol)
    parts = (collect(design, draw(rng, (50, 50_000)), rng) for _ in range(4))
    lower, upper = np.moveaxis(np.concatenate([intervals(part, design) for part in parts]), -1, 0)
    covered = np.mean((lower <= truth) & (truth <= upper), axis=0)
    # The error of a median is that of the quantiles 1/2 +- 2.58 sqrt(1/4/200); limits of histograms are edges
    # of bins.
    least, most = np.quantile((upper - lower) / 2, [0.409, 0.591], axis=0)
    for q, row in enumerate(row for row in plan.rows if row["protocol"] == protocol):
        assert 0.95 * least[q] <= row["half_width"] <= 1.05 * most[q]
        error = np.hypot(row["coverage_mcse"], np.sqrt(row["coverage"] * (1 - row["coverage"]) / 200))
        assert abs(covered[q] - row["coverage"]) <= 4 * error + 0.005


DESIGN = {"tau": [0.5, 0.9], "epsilon": 1, "n": 50_000, "compare": True}
SALARIES = ROOT / "examples" / "salary" / "salary_counts.csv"


@pytest.mark.thorough
def test_half_widths_at_an_atom_are_those_of_collections(tmp_path):
    """The whole column is the pilot, so that a plan and collections of its records have one law."""
    salary, people = np.loadtxt(SALARIES, delimiter=",", skiprows=1, unpack=True)
    columns = {"column": "salary", "count_column": "people", "range": (0, 1e6)}
    plan = lf.plan(pilot=str(SALARIES), replicates=400, **columns, **DESIGN)
    design = tmp_path / "design.toml"

    def draw(rng, size):
        return rng.choice(salary, size, p=people / people.sum())

    check_collections(plan, "haar_mass", design, draw, (5e4, 1e5), np.random.default_rng(7))
    assert 'ties = "keep"' in design.read_text()  # sweep draws the records too


LAWS = {
    "normal": ((0.0, 200.0), lambda rng, size: 100.0 + 15.0 * rng.standard_normal(size)),
    "student": ((-2000.0, 2200.0), lambda rng, size: 100.0 + 10.0 * rng.standard_t(3.0, size)),
    "lognormal": ((0.0, 20_000.0), lambda rng, size: np.exp(4.5 + rng.standard_normal(size))),
    "exponential": ((0.0, 2000.0), lambda rng, size: 60.0 * rng.standard_exponential(size)),
    "uniform": ((0.0, 100.0), lambda rng, size: 100.0 * rng.random(size)),
    "bimodal": (
        (-50.0, 200.0),
        lambda rng, size: np.where(
            rng.random(size) < 0.3,
            20.0 + 5.0 * rng.standard_normal(size),
            80.0 + 15.0 * rng.standard_normal(size),
        ),
    ),
}
"""Ranges and draws of six laws: light and heavy tails, skewed, bounded, with two modes."""


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_planned_half_widths_are_those_of_collections(tmp_path, law):
    ends, draw = LAWS[law]
    rng = np.random.default_rng(5)
    pilot = tmp_path / "pilot.csv"
    np.savetxt(pilot, draw(rng, 100_000), header="x", comments="")
    truth = np.quantile(draw(rng, 4_000_000), [0.5, 0.9])
    plan = lf.plan(pilot=str(pilot), column="x", range=ends, **DESIGN)
    for protocol in ("cells", "haar_mass"):
        check_collections(plan, protocol, tmp_path / f"{protocol}.toml", draw, truth, rng)
