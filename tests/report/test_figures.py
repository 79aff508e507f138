"""Figures: what they are drawn from, and that they can be drawn."""

import dataclasses
import json
import re

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import vl_convert

from ldpflow.cli import main
from ldpflow.errors import InputError
from ldpflow.report import charts
from ldpflow.report.answers import findings, followed_table
from ldpflow.report.charts import FORMATS
from ldpflow.report.export import export_duckdb
from ldpflow.report.figures import CURVES, MEASURES, cells_of, default_rows
from ldpflow.report.pictures import FIGURES, intervals
from ldpflow.report.results import Results
from ldpflow.store.schema import STATISTICS
from tests.kernels import uncompiled
from tests.published.test_compare import rows_as_printed
from tests.report.conftest import sweep
from tests.studies import changed


def values(spec):
    return list(spec["data"]["values"])


def test_a_method_has_one_colour_and_symbol_in_all_figures(results):
    """Figures lack some methods: SN has no standard error, the baseline no difference to itself."""
    found = {}
    for name in ("coverage", "length", "standard-error", "coverage-difference", "choice"):
        for layer in FIGURES[name].chart(results).to_dict()["spec"]["layer"]:
            for channel in layer["encoding"].keys() & {"color", "stroke", "fill", "shape"}:
                scale = layer["encoding"][channel].get("scale") or {}
                for series, look in zip(scale.get("domain", ()), scale.get("range", ()), strict=True):
                    found.setdefault((series, channel == "shape"), set()).add(look)
    assert len(found) == 2 * 6 and all(len(looks) == 1 for looks in found.values())
    assert len(set.union(*(looks for (_, is_shape), looks in found.items() if is_shape))) == 6


def test_ticks_are_labelled_with_the_values_themselves(results):
    drawn = FORMATS[".svg"](FIGURES["length"].chart(results, "beta").to_json())
    axes = re.findall(r'aria-label="X-axis.*?role-axis-label.*?</g>', drawn, flags=re.S)
    labels = {text for axis in axes for text in re.findall(r"<text[^>]*>([^<]+)</text>", axis)}
    assert labels == {"0.6", "0.75"}  # 0.95 has no interval: too few blocks


@pytest.mark.parametrize("name", [name for name in MEASURES if name != "protocols"])
def test_every_mean_has_its_monte_carlo_interval(results, name):
    what = MEASURES[name]
    drawn = values(FIGURES[name].chart(results).to_dict())
    assert all(row["low"] <= row["y"] <= row["high"] for row in drawn)
    rows = [row for row in cells_of(results, name) if row.get(what.column) is not None]
    assert {row["y"] for row in drawn} == {float(f"{row[what.column]:.6g}") for row in rows}
    panels = {", ".join(sorted(row["panel"].split(", "))) for row in drawn}
    assert panels == {f"ε = {epsilon}, τ = {tau}" for tau in (0.5, 0.9) for epsilon in (0.5, 1)}
    halves = [1.959964 * row[what.error] for row in rows if name != "coverage"]
    for row in drawn if halves else []:
        assert min(abs(row["high"] - row["y"] - half) for half in halves) < 1e-5 * (1 + abs(row["y"]))


@pytest.mark.parametrize(
    ("figure", "users", "ranked"),
    [
        ("coverage", (100, 1000, 500_000), True),
        ("coverage", [100 * 2**i for i in range(9)], False),
        ("length", (100,), True),
        ("length", (100, 1000, 500_000), False),
    ],
)
def test_coverages_stand_side_by_side_and_several_lengths_at_their_n(results, figure, users, ranked):
    cells = [row for row in results.rows if row["n"] == 100]
    rows = [row | {"n": n} for n in users for row in cells]
    spec = FIGURES[figure].chart(dataclasses.replace(results, rows=rows)).to_dict()
    drawn = values(spec)
    assert {row["x"] for row in drawn} == {*users}
    assert all(("place" in row) == ranked for row in drawn)
    if ranked:
        assert all(round(row["place"]) == users.index(row["x"]) for row in drawn)
        assert len({(row["panel"], row["place"]) for row in drawn}) == len(drawn)
        axis = spec["spec"]["layer"][-1]["encoding"]["x"]["axis"]
        assert axis["values"] == [at / 2 for at in range(2 * len(users) - 1)]
        assert '["100"' in axis["labelExpr"] and not axis["labelOverlap"], "a name is never left out"


@pytest.mark.parametrize(
    ("runs", "figure", "asked", "said"),
    [
        ("results", "coverage", {"x": "multiplier"}, "^x: "),
        ("results", "coverage", {"rows": 3}, "^rows: 3 is not allowed"),
        ("results", "coverage", {"rows": "taus"}, "one of method, epsilon, tau, n, beta. Did"),
        ("results", "coverage", {"rows": "tau", "cols": "tau"}, "^cols: "),
        ("results", "coverage", {"color": "n"}, "^color: "),
        ("results", "zip", {"rows": "tau"}, "^rows: "),
        ("results", "explanation", {"color": "tau"}, "^color: "),
        ("results", "paper", {}, "published"),
        ("results", "protocols", {}, "protocol"),
        ("followed", "loss", {}, "statistic"),
        ("followed", "choice", {}, "a run with intervals"),
        ("followed", "distance", {"x": "mu"}, "n or step"),
    ],
)
def test_what_cannot_be_drawn_is_refused(request, runs, figure, asked, said):
    with pytest.raises(InputError, match=said):
        FIGURES[figure].chart(request.getfixturevalue(runs), **asked)


def test_zip_intervals_agree_with_the_coverage(results):
    chosen = findings(results).cells
    assert 1 <= len(chosen) == len({(state, row["series"]) for state, row in chosen})
    for _, row in chosen:
        if row["coverage"] is None:
            assert intervals(results, row) == []
            continue
        drawn = pa.Table.from_pylist(intervals(results, row)).to_pydict()
        assert len(drawn["kind"]) == row["replicates"] - row["failures"]
        assert drawn["kind"].count("covers") / len(drawn["kind"]) == pytest.approx(row["coverage"])
        assert drawn["rank"] == sorted(drawn["rank"])
        ends = np.abs([drawn["lower"], drawn["upper"]])
        assert ends.max() <= 3 * np.quantile(ends, 0.9) * (1 + 1e-4)  # one long interval flattens no others


def test_zip_plots_count_the_cells_that_are_not_drawn(results):
    chart, cells = FIGURES["zip"].chart(results), len(findings(results).cells)
    absent = chart.usermeta["left_out"]
    assert f"Not drawn: {len(results.rows) - cells} of {len(results.rows)} cells" in absent
    panels = {str(row["row"]) for row in values(chart.to_dict())}
    assert len(panels) + absent.count("No zip plot of") == cells


def test_published_numbers_stand_beside_ours(results):
    printed = dataclasses.replace(results, table=pa.Table.from_pylist(rows_as_printed()))
    vars(printed)["picked"] = {}  # its table has few columns
    drawn = values(FIGURES["paper"].chart(printed).to_dict())
    ours, published = ([r for r in drawn if r["series"] == name] for name in ("this run", "published"))
    assert len(ours) == len(published) == 84
    for row, other in zip(ours, published, strict=True):
        assert (row["panel"], row["x"]) == (other["panel"], other["x"])
        assert row["y"] == pytest.approx(other["y"], abs=1e-5) and row["low"] <= row["y"] <= row["high"]


def test_two_values_of_a_second_setting_are_two_lines(results):
    rows = [row | {"B": size} for row in results.rows for size in (50, 100) if row["n"] == 1000]
    rows = [row | {"B": row["B"] if row["method"] == "BB" else None} for row in rows if row["coverage"]]
    chart = FIGURES["coverage"].chart(dataclasses.replace(results, rows=rows), "beta")
    data = values(chart.to_dict())
    assert {row["series"] for row in data} == {"n = 1000, B = 50", "n = 1000, B = 100"}
    assert len({(row["panel"], row["series"], row["x"]) for row in data}) == len(data) == 16
    assert chart.usermeta["left_out"] == "Left out: BM, SN, oracle, which have no beta."
    assert "left_out" not in FIGURES["coverage"].chart(results, "n").usermeta


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_seen_on_both_pages_and_told_apart():
    used = [*charts.METHODS.values(), *charts.OTHERS, charts.GREY, *charts.MISSES.values(), *charts.ramp(10)]
    for colour in used:
        assert (luminance("#ffffff") + 0.05) / (luminance(colour) + 0.05) >= 3.0, colour
        assert (luminance(colour) + 0.05) / (luminance("#14171c") + 0.05) >= 3.0, colour
    for count in (1, 5, 6, 14):
        names = ["BB", "TR", *(f"dp_{i}" for i in range(count))]
        assert len({*charts.colours(names).values()}) == len(charts.colours(names)) == len(names)


# Trajectories: the store's numbers, theory's lines, and runs without intervals

FOLLOWED = changed(
    replicates=6, algorithm={"kind": "ldp_sgd", "gamma": [0.3, 0.6], "c": 0.4}, grid={"n": 80}, method=...,
    problem={"kind": "linear_regression", "coefficients": [[1, -1]]}, trajectory={"points": 4},
    mechanism={"kind": "gaussian", "mu": [1.0, 2.0]},
)  # fmt: skip


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        uncompiled.use(patched)
        return Results.load(sweep(tmp_path_factory, FOLLOWED))


def invented(followed, stat):
    """Two algorithms at two epsilons over many epochs of one data set: n stays, the step moves."""
    rows = [
        dict.fromkeys(followed.trajectories.column_names)
        | {"path": f"p{algorithm}{epsilon}", "algorithm": algorithm, "epsilon": epsilon, "gamma": momentum}
        | {"n": 500, "step": step, "stat": stat, "mean": 1.0 / step, "mcse": 0.01}
        | {"replicates": 20, "failures": 0}
        for algorithm, momentum in (("dp_gd", None), ("dp_nsgd", 0.9))
        for epsilon in (1.0, 4.0)
        for step in (1, 10, 100)
    ]
    return dataclasses.replace(followed, trajectories=pa.Table.from_pylist(rows))


def test_every_statistic_has_one_figure():
    drawn = [stat for curves in CURVES.values() for stat in curves.statistics]
    assert sorted([*drawn, "avg_pre_sq"]) == sorted(STATISTICS)


@pytest.mark.parametrize(("name", "kind"), [("distance", "leading term"), ("excess-loss", "proved bound")])
def test_theory_is_drawn_beside(followed, name, kind):
    spec = FIGURES[name].chart(followed).to_dict()
    text = json.dumps(spec)
    assert f"'{kind}'" in text and "NaN" not in text
    stored = {r["mean"] for r in followed.followed if r["stat"] in CURVES[name].statistics}
    points = values(spec)
    words = CURVES[name].statistics.values() if name == "distance" else ["last iterate", "average"]
    assert {p["y"] for p in points} == {float(f"{mean:.6g}") for mean in stored}
    assert {p["series"] for p in points} == {f"μ = {mu}, {word}" for mu in (1, 2) for word in words}
    assert all(p["low"] < p["y"] < p["high"] for p in points)
    dashes = spec["spec"]["layer"][1]["encoding"]["strokeDash"]
    assert dashes["legend"]["values"] == ["simulated", kind]


def test_steps_where_n_stays_and_what_colours_tell(followed):
    results = invented(followed, "gradient_norm")
    points = values(FIGURES["gradient-norm"].chart(results).to_dict())
    assert {p["x"] for p in points} == {1, 10, 100}
    assert {p["series"] for p in points} == {"dp_gd", "dp_nsgd"}
    assert {p["panel"] for p in points} == {"ε = 1", "ε = 4"}
    share = FIGURES["clipped"].chart(invented(followed, "clipped")).to_dict()
    assert "type" not in share["spec"]["layer"][-1]["encoding"]["y"]["scale"]  # linear: it may touch 0


def test_a_report_without_intervals(followed, tmp_path, capsys):
    table = followed_table(followed)
    means = [row[table["head"].index("mean ± MCSE")] for row in table["rows"]]
    assert means and not any(text.endswith("± -") for text in means)
    file, notes = tmp_path / "a.html", tmp_path / "notes.md"
    notes.write_text("# Excess loss\n\nOur words.\n")
    assert main(["report", followed.store.root, "-o", str(file), "--notes", str(notes)]) == 0
    assert "a.html: written" in capsys.readouterr().out
    shell = re.sub(r"<script.*?</script>", "", file.read_text(), flags=re.S)
    for said in (
        "n up to 80", "<dd>6</dd>", "mu-GDP (local)",
        "Distance to the optimum", "last_exc", 'Excess loss</h2><div class="notes"><p>Our words.</p>',
        "None of 32 means lie above their proved bound.",
    ):  # fmt: skip
        assert said in shell
    assert shell.count('role="img"') == 2
    for absent in ("At a glance", "All cells", "nominal level", "Interval methods"):
        assert absent not in shell


def test_trajectories_are_exported(followed, tmp_path):
    file = tmp_path / "study.duckdb"
    export_duckdb(followed, file)
    with duckdb.connect(str(file), read_only=True) as db:
        assert len(db.execute("FROM trajectories").fetchall()) == 4 * 6 * 4
        assert len(db.execute("FROM trajectory_summary").fetchall()) == followed.trajectories.num_rows


def test_the_figure_of_protocols_has_default_intervals_and_the_bound(results):
    """LDP-SGD is drawn with the oracle. Intervals that mostly end at the range are left out."""
    own = [row | {"protocol": None, "efficient_se": 0.1} for row in results.rows]
    rows = [
        row | {"protocol": name, "method": "inversion", "series": "inversion", "limits": limits}
        for row in own
        for name in ("haar", "grr")
        for limits in ("outer", "line")
        if row["method"] == "oracle"
    ]
    lost = next(row for row in rows if (row["protocol"], row["limits"]) == ("grr", "outer"))
    lost["range_end_share"] = 0.8
    found = dataclasses.replace(results, rows=own + rows)
    chosen = default_rows(found)
    names = [row["series"] for row in chosen]
    assert {name: names.count(name) for name in names} == {"ldp_sgd": 8, "haar": 8, "grr": 7}
    assert not any(row.get("limits") == "line" for row in chosen)
    assert [row["bound"] for row in chosen] == pytest.approx([2 * 1.6448536 * 0.1] * 23, rel=1e-6)
    spec = FIGURES["protocols"].chart(found).to_dict()
    assert str(spec).count("'type': 'log'") >= 2
    data = values(spec)
    assert {row["series"] for row in data} == {*names} and len(data) == len(chosen)
    assert len({row["panel"] for row in data}) == 4 and {row["shared"] for row in data} == {0.328971}


@pytest.mark.parametrize("figure", ["length", "length-ratio", "choice"])
def test_lengths_of_zero_are_left_out_of_logarithmic_axes(results, figure):
    none = dict.fromkeys(("length_mean", "length_relative", "length_mcse", "oracle_length"), 0.0)

    def chart_of(zero_at):
        rows = [row | none if row["n"] in zero_at else row for row in results.rows]
        found = dataclasses.replace(results, rows=rows)
        zero = {"paired_length_ratio": 0.0}
        vars(found)["contrasts"] = {
            key: row | zero if dict(key)["n"] in zero_at else row for key, row in results.contrasts.items()
        }
        return FIGURES[figure].chart(found)

    chart = chart_of([100])
    assert ("mean length / oracle length" in str(chart.to_dict())) == (figure == "choice")
    assert "Left out: " in chart.usermeta["left_out"] and "NaN" not in json.dumps(chart.to_dict())
    assert {row.get("x", 1000) for row in values(chart.to_dict())} == {1000}
    with pytest.raises(InputError, match="^figure: "):
        chart_of([100, 1000])


def test_the_oracles_length_is_a_dash_and_named_where_it_is_drawn(results):
    study = {"collection": {"unit": "kWh"}}
    for x in ("n", "beta"):
        chart = FIGURES["length"].chart(dataclasses.replace(results, study=study), x=x)
        assert "mean length (kWh)" in str(chart.to_dict()["spec"])
        assert ("Grey dashes: the oracle" in chart.usermeta["marks"]) == (x == "n")
        drawn = vl_convert.vegalite_to_svg(chart.to_json())
        assert ('aria-roledescription="tick"' in drawn) == (x == "n")


def test_the_ratio_of_the_oracle_is_within_the_axis(results):
    for factor in (0.1, 10.0):
        rows = [row | {"length_relative": factor * (row["length_relative"] or 1.0)} for row in results.rows]
        spec = FIGURES["relative-length"].chart(dataclasses.replace(results, rows=rows)).to_dict()
        low, high = spec["spec"]["layer"][-1]["encoding"]["y"]["scale"]["domain"]
        assert low < 1.0 < high
