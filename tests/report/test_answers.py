"""What the report says first, its tables, panels by the design, paired differences, notes and sizes."""

import dataclasses
import itertools
import os
import re

import numpy as np
import pytest

import ldpflow as lf
from ldpflow.cli import main
from ldpflow.columns import with_error
from ldpflow.errors import InputError
from ldpflow.report import answers
from ldpflow.report.answers import findings, where
from ldpflow.report.charts import FORMATS, drawn_width, fit_texts, log_marks, resize, save, write_file
from ldpflow.report.figures import Asked, arrange
from ldpflow.report.page import insert_notes, report_html
from ldpflow.report.pictures import FIGURES, parts_of
from ldpflow.report.results import Names, rank_series
from ldpflow.results.arena import judge, settings_of
from tests.report.test_figures import values


def with_coverage(row, covered):
    row = row | {"replicates": 2000, "failures": 0, "coverage": covered}
    return row | {"coverage_failures_as_misses": covered}


def explained(results, rows, cause):
    found = dataclasses.replace(results, rows=rows)
    vars(found)["explained"] = {found.identity(row): {"cause_class": cause} for row in rows}
    return found


@pytest.fixture(scope="module")
def many(results):
    """A run of which SN covers 91% everywhere, BM 91% at n = 1000 and 80% at 100."""
    covered = {("SN", 100): 0.91, ("SN", 1000): 0.91, ("BM", 1000): 0.91, ("BM", 100): 0.8}
    rows = [with_coverage(row, covered.get((row["method"], row["n"]), 0.5)) for row in results.rows]
    return explained(results, rows, "too short")


def test_findings_say_what_holds_where_and_what_fails_and_why(many):
    found = findings(many)
    assert found.sentences == [
        "Shown to hold its level of 90%: SN in every setting; BM where n = 1000.",
        "Shown to fail: BB (β = 0.6; β = 0.75; β = 0.95) in every setting (intervals too short); "
        "BM where n = 100 (intervals too short).",
        "Even the oracle, which has the true asymptotic variance, fails in every setting. "
        "There the estimates do not yet follow the theory.",
    ]
    # The lowest cell of every method, also of those that share a clause.
    drawn = [(state.partition(",")[0], row["series"]) for state, row in found.cells]
    fails = ("BB, β = 0.6", "BB, β = 0.75", "BB, β = 0.95", "BM")
    assert drawn == [("holds", "SN"), ("holds", "BM"), *(("fails", name) for name in fails)]
    rows = [row | ({"failures": 2000} if row["method"] == "oracle" else {}) for row in many.rows]
    without = findings(explained(many, rows, "too short"))  # an oracle that has no intervals
    assert without.sentences == found.sentences[:2]
    for cause, words in (("unclear effects",) * 2, ("biased", "biased estimates"), (None, "not explained")):
        assert f"where n = 100 ({words})" in findings(explained(many, many.rows, cause)).sentences[1]


FACTORS = {"law": ("laplace", "normal", "uniform"), "tau": (0.5, 0.75, 0.9), "n": (1000, 10_000, 100_000)}


def read_condition(text, row):
    def holds(words):
        name, sign, texts = re.fullmatch(r"(\w+) ([=≤≥]) (.+)", words).groups()
        found, named = row[name], [t if name == "law" else float(t) for t in texts.split(" or ")]
        return bool({"=": found in named, "≤": found <= named[0], "≥": found >= named[0]}[sign])

    return all(map(holds, text.split(" and "))) if text else True


WORDS = re.compile(
    r"in (\d+) of (\d+) settings(: all)?(?: with (.*?))?(, and others)?"
    r"(?: \(shown to fail in (\d+) of the (\d+)\))?"
)


@pytest.mark.parametrize("seed", range(40))
def test_every_cell_is_as_the_words_on_patterns_say(seed):
    """The words are compared with each cell. The patterns of cells vary with the seed."""
    random = np.random.default_rng(seed)
    rows = [dict(zip(FACTORS, values, strict=True)) for values in itertools.product(*FACTORS.values())]
    rows = [row for row in rows if seed % 4 or random.random() < 0.7]  # not a full design
    noise = 0.02 * (seed % 5)
    chosen = [row for row in rows if (row["n"] == 1000 or row["tau"] > 0.8) != (random.random() < noise)]
    if seed > 25:
        chosen = [row for row in rows if random.random() < seed / 40]
    failing = [row for row in rows if row not in chosen][::2]
    text = where(Names(), list(FACTORS), rows, chosen, failing)
    if text.startswith("where "):
        assert chosen == [row for row in rows if read_condition(text.removeprefix("where "), row)]
    elif text == "in every setting":
        assert chosen == rows
    else:
        count, size, whole, condition, others, *lost = WORDS.fullmatch(text).groups()
        cells = [row for row in rows if read_condition(condition or "", row)]
        assert int(count) == len(chosen) and bool(whole) == bool(others)
        if whole:
            assert int(size) == len(rows) and len(chosen) <= 2 * len(cells)
            assert all(row in chosen for row in cells)
        else:
            assert int(size) == len(cells) and all(row in cells for row in chosen)
            assert 2 * len(chosen) >= len(cells) or cells == rows
            failed = sum(row in failing for row in cells)
            assert lost == ([str(failed), str(len(cells))] if failed else [None, None])


def read_sentence(sentence):
    """Methods that a sentence names, each with the words for its cells."""
    found = {}
    _, colon, clauses = sentence.removesuffix(".").partition(": ")
    for clause in re.split(r"; (?![^()]*\))", clauses) if colon else []:
        names, words = re.fullmatch(r"(.*?) ((?:in|at|where) .*)", clause).groups()
        for method, settings in re.findall(r"(B[BM]|SN)(?: \((.*?)\))?", names):
            found |= {f"{method}, {each}" if each else method: words for each in settings.split("; ")}
    return found


@pytest.mark.parametrize("seed", range(40))
def test_no_cell_that_fails_is_hidden(results, seed):
    """Every method that fails is named. If it also holds somewhere, its failing cells are described."""
    random = np.random.default_rng(seed)
    likely = {row["series"]: random.dirichlet([0.6, 0.6, 0.6]) for row in results.rows}
    rows = [
        with_coverage(row, random.choice([0.91, 0.885, 0.7], p=likely[row["series"]]))
        for row in results.rows
        if row["method"] != "oracle"
    ]
    own = {name: [row for row in rows if row["series"] == name] for name in results.series}
    states = {
        state: {name: [row for row in cells if judge(row) == state] for name, cells in own.items()}
        for state in ("holds", "fails")
    }
    praised, failed = map(read_sentence, findings(explained(results, rows, "biased")).sentences[:2])
    assert set(failed) == {name for name, cells in states["fails"].items() if cells}
    for name, words in praised.items():
        held, failing = states["holds"][name], states["fails"][name]
        place = where(results.names, results.varying(), own[name], held, failing)
        assert words in (place, "in some settings")
        assert failed.get(name) != "in some settings"


def test_a_coordinate_of_several_quantiles_is_named_by_its_level(results):
    for taus, words in ((["[0.5, 0.9]"], "τ = 0.9"), (["[0.5, 0.9]", "[0.2, 0.7]"], "coordinate 1")):
        rows = [row | {"taus": one, "coordinate": j} for row in results.rows for one in taus for j in (0, 1)]
        names = dataclasses.replace(results, rows=rows).names
        assert where(names, ["coordinate"], rows, rows[1::2]) == f"where {words}"
        assert names.settings(rows[1], ["coordinate"]) == words


def test_few_replicates_are_not_praised(results):
    first, *_, third = findings(results).sentences
    assert first == "No method is shown to hold its level of 90% in any setting."
    judged = [judge(row) for row in results.rows if row["method"] != "oracle"]
    undecided = judged.count("unclear")
    assert third.startswith(f"Too few replicates to say: {undecided} of 40 judged cells (a method whose true")
    assert "80% from 2,014 replicates on" in third


def test_replicates_without_an_interval_are_a_cause_and_misses(many):
    row = next(row for row in many.rows if row["method"] == "SN")
    row = row | {"failures": 600, "coverage": 0.91, "coverage_failures_as_misses": 0.64}
    failing = explained(many, [row], "failed")
    _, second = findings(failing).sentences
    assert second == "Shown to fail: SN in the one setting (missing intervals)."
    (shown,) = (
        dict(zip(answers.GLANCE, row, strict=True))
        for row in answers.glance(failing, settings_of(failing.rows))
    )
    assert shown["coverage, failures as misses"] == "0.640" and shown["failed"] == "600 (30.0%)"
    assert (shown["fails"], shown["holds its level*"]) == ("1", "0")
    assert [point["y"] for point in values(FIGURES["coverage"].chart(failing).to_dict())] == [0.64]


def test_the_table_of_failures_stands_by_the_coverage_and_says_why(results, shell):
    places = [shell.index(f'id="{name}"') for name in ("glance", "coverage", "failures", "length")]
    assert places == sorted(places) and shell.count('id="failures"') == 1
    found = answers.failures(results)["rows"]
    assert found and all(row[-1] == "there are fewer than two blocks" for row in found)


def places(results, **asked):
    place = arrange(results, results.rows, ["epsilon", "tau"], Asked.of(results, "n", **asked))
    return [place(row) for row in results.rows]


def test_rows_and_columns_are_those_of_the_design_or_as_asked(results):
    assert sorted(results.varying(without=("n",))) == ["epsilon", "tau"]
    assert {place["column"][1] for place in places(results)} == {"τ = 0.5", "τ = 0.9"}
    asked = places(results, rows="tau", cols="epsilon", color="method")
    assert {(p["row"][1], p["column"][1]) for p in asked} == {
        (f"τ = {tau}", f"ε = {epsilon}") for tau in (0.5, 0.9) for epsilon in (0.5, 1)
    }
    # What has no place goes to the rows: no panel is lost.
    assert {p["row"][1] for p in places(results, cols="epsilon")} == {"τ = 0.5", "τ = 0.9"}
    drawn = values(FIGURES["coverage"].chart(results, color="epsilon", rows="method").to_dict())
    assert len(drawn) == len(results.rows) and {row["series"] for row in drawn} == {"ε = 0.5", "ε = 1"}
    assert {row["panel"] for row in drawn} >= {"τ = 0.5, SN", "τ = 0.9, SN"}


def test_a_design_that_is_no_grid_has_no_empty_panels(results):
    rows = [row for row in results.rows if (row["tau"], row["epsilon"]) in ((0.5, 0.5), (0.9, 1.0))]
    found = places(dataclasses.replace(results, rows=rows))
    assert {(p["panel"], "column" in p) for p in found} == {
        ("ε = 0.5, τ = 0.5", False),
        ("ε = 1, τ = 0.9", False),
    }


def test_the_parts_of_every_bar_add_up(results):
    assert len(values(FIGURES["explanation"].chart(results).to_dict())) == len(results.rows)
    parts = [parts_of(results.explained[results.identity(row)]) for row in results.rows]
    gaps = [row["coverage_failures_as_misses"] - row["level"] for row in results.rows]
    found = [(sum(own.values()), gap) for own, gap in zip(parts, gaps, strict=True) if own]
    missing = {"coverage": 0.8, "coverage_failures_as_misses": 0.5, "bias_effect": 0.1}
    assert parts_of(missing) == {"bias": 0.1, "no interval": pytest.approx(-0.3)}
    assert len(found) > 30 and found == pytest.approx(np.array(found)[:, [1, 1]], abs=1e-9)


def test_paired_differences_are_those_of_compare(run, results):
    results = results.with_baseline("SN")
    keys = ("tau", "epsilon", "n", "method", "beta")
    compared = lf.open_run(run).compare("method", "SN").to_pylist()
    expected = {tuple(map(row.get, keys)): row for row in compared}
    others = [row for row in results.rows if row["series"] != "SN"]
    table = answers.pairs(results)["rows"]
    assert len(table) == len(expected) == 40
    for row, shown in zip(others, table, strict=True):
        found, own = expected[tuple(map(row.get, keys))], results.contrasts[results.identity(row)]
        difference = with_error(found["coverage_difference"], found["coverage_difference_mcse"])
        ratio = with_error(own["paired_length_ratio"], own["paired_length_ratio_mcse"])
        assert shown[-4:] == [row["series"], difference, ratio, "64"]
    one = dataclasses.replace(results, rows=[row for row in results.rows if row["series"] == "SN"])
    assert answers.pairs(one) is None


def test_a_person_chooses_the_baseline(run, results):
    assert results.with_baseline(None) is results
    for name, series in (("BB", "BB, β = 0.6"), ("BB beta=0.75", "BB, β = 0.75"), ("BB, β = 0.95",) * 2):
        assert results.with_baseline(name).baseline == series
    chart = lf.open_run(run).plot("coverage-difference", baseline="BM")
    assert "paired difference to BM" in str(chart.to_dict()["spec"])
    for refused in (lambda: results.with_baseline("BN"), lambda: lf.open_run(run).plot("zip", baseline="BM")):
        with pytest.raises(InputError, match="^baseline: "):
            refused()


def test_notes_stand_under_their_headings_and_run_no_script():
    notes = (
        "Why we did *this*.\n\n# Coverage\n\nSee <script>alert(1)</script> [a](javascript:alert(1)) ![p](http://x/p.png)"
        "\n\n# Discussion\n\nOurs & theirs.\n"
    )
    page = "<h1>t</h1><!-- prose --><section><h2>Coverage</h2><figure></figure></section><!-- notes -->"
    found = insert_notes(page, notes)
    assert "<script" not in found and 'href="javascript' not in found and "<img" not in found
    assert re.search(r"<h2>Coverage</h2><div class=\"notes\"><p>See &lt;script&gt;.*<figure>", found, re.S)
    assert '<h2>Discussion</h2><div class="notes"><p>Ours &amp; theirs.</p>' in found
    assert found.index("Why we did") < found.index("Coverage</h2>") < found.index("Discussion")


@pytest.mark.thorough
def test_a_thousand_cells_are_less_than_two_megabytes(results):
    """Every cell has other numbers, so that no repeated values make the page smaller."""
    measures = results.table.column_names[results.table.column_names.index("truth") + 1 :]
    rows = []
    for at in range(1000):
        row = results.rows[at % 40]
        noise = {n: row[n] * (1 - 1e-4 * at) for n in measures if isinstance(row[n], float)}
        rows.append(row | noise | {"gamma": 0.5 + 0.01 * (at // 40)})
    rank_series(rows, results.method_settings)
    text = report_html(dataclasses.replace(results, rows=rows))
    assert text.count("<tr>") > 1000 and len(text.encode()) < 2_000_000


def test_a_figure_says_its_condition_and_has_the_size_of_its_file(run, tmp_path, capsys):
    where = "epsilon==1 and tau==0.5"
    chart = lf.open_run(run).plot("coverage", where=where, title="Ours")
    assert chart.title.text == "Ours" and 0 < len(values(chart.to_dict())) <= 12
    # A file says what holds for all of it, and what its marks are.
    words = " ".join(chart.title.subtitle).replace("\u00a0", " ")
    assert words.startswith("level = 0.9, ε = 1, law = normal, τ = 0.5, 64 replicates. ")
    assert "Grey band: where 95% of such coverages lie" in words and words.endswith(f"Rows with {where}")
    left_out = lf.open_run(run).plot("coverage", "beta", where=where).title.subtitle
    assert left_out[0].startswith("Left out: ") and left_out[-1] == f"Rows with {where}"
    files = {suffix: tmp_path / f"a.{suffix}" for suffix in ("png", "pdf")}
    narrow = ["plot", str(run), "coverage", "--where", where, "--width", "85mm", "-o"]
    assert main([*narrow, str(files["png"])]) == 0
    save(lf.open_run(run).plot("relative-length", where=where, width="85mm"), files["pdf"])
    box = re.search(rb"/MediaBox ?\[0 0 ([\d.]+)", files["pdf"].read_bytes())
    assert float(box[1]) == pytest.approx(85 / 25.4 * 72, abs=1.5)
    assert int.from_bytes(files["png"].read_bytes()[16:20], "big") == pytest.approx(85 / 25.4 * 300, abs=6)
    capsys.readouterr()
    for width, words in (("5mm", "6mm to 5000mm"), ("wide", "85mm"), ("85", "It is 22.5 mm")):
        assert main([*narrow, str(files["png"]), "--width", width]) == 2
        text = capsys.readouterr().err
        assert words in text and "--width" in text


@pytest.mark.thorough
def test_headings_and_symbols_fit_into_narrow_columns(results):
    """Three columns of a figure of 85 mm are narrower than "law = lognormal"."""
    cells = [row for row in results.rows if (row["tau"], row["epsilon"], row["n"]) == (0.5, 1.0, 1000)]
    laws = ("lognormal", "normal", "exponential")
    several = dataclasses.replace(results, rows=[row | {"law": law} for row in cells for law in laws])
    for width, broken in (("85mm", True), ("250mm", False)):
        chart = resize(FIGURES["coverage"].chart(several, cols="law"), width)
        drawn = FORMATS[".svg"](chart.to_json())
        assert (">law =<" in drawn, ">law = lognormal<" in drawn) == (broken, not broken)
        assert chart.spec.layer[-1].mark.size == pytest.approx(17 if broken else 44, abs=7)
        assert drawn_width(chart) == pytest.approx(float(width[:-2]) * 96 / 25.4, abs=3)


def test_titles_of_narrow_panels_are_broken(results):
    chart = FIGURES["coverage"].chart(results, "epsilon", cols="tau", rows="n")
    chart.spec.width = 60
    fit_texts(chart, chart.spec)
    assert chart.spec.layer[-1].encoding.x._kwds["title"] == ["ε", "(privacy", "budget)"]


def test_logarithmic_axes_have_enough_ticks():
    assert log_marks(1 - 1e-12, 1 + 1e-12) == [1.0]
    for low, high in ((0.85, 1.6), (0.99, 1.01), (0.5, 40.0), (3.0, 3.5), (1e-4, 9e3)):
        marks = log_marks(low, high)
        assert len(marks) >= 4 and 0.99 * low <= marks[0] < marks[-1] <= 1.01 * high


def test_an_axis_of_names_has_points_and_no_lines(results):
    rows = [row | {"law": law} for row in results.rows for law in ("normal", "laplace")]
    two = dataclasses.replace(results, rows=rows)
    for figure in ("coverage", "length"):
        spec = FIGURES[figure].chart(two, "law").to_dict()
        assert {row["x"] for row in values(spec)} == {"normal", "laplace"}
        assert "line" not in {layer["mark"]["type"] for layer in spec["spec"]["layer"]}


def test_every_number_has_its_error_and_every_cause_is_in_the_table(results):
    table = answers.cell_table(results, [])
    for at, name in enumerate(table["head"]):
        assert "± MCSE" not in name or all("±" in row[at] or row[at] == "-" for row in table["rows"])
    at = table["head"].index("main cause")
    assert {row[at] for row in table["rows"]} == {row["cause"] or "-" for row in results.explained.values()}


def test_files_are_written_where_they_are(tmp_path):
    """A link still leads to its file, a pipe stays a pipe, and a folder is refused."""
    page, link, pipe = tmp_path / "page.html", tmp_path / "link.html", tmp_path / "pipe"
    link.symlink_to(page)
    write_file(link, b"first")
    assert link.is_symlink() and page.read_bytes() == b"first"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)
    write_file(pipe, b"second")
    assert pipe.is_fifo() and os.read(reader, 10) == b"second"
    os.close(reader)
    with pytest.raises(InputError, match=r"html: .* a file that can be written\. Is a directory"):
        write_file(tmp_path, b"", "html")
    assert not list(tmp_path.glob("*.unfinished"))
