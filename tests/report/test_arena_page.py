"""The arena's page: from a run of several methods to a folder that opens offline."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from ldpflow.engine import run_study
from ldpflow.errors import InputError
from ldpflow.report.arena import write_site
from ldpflow.results.arena import UNDECIDED, settings_of
from ldpflow.run import open_run
from ldpflow.study import Study
from tests.report.browser import browser, complaints, missing, requests, resize

STUDY = {
    "name": "ring",
    "seed": 3,
    "replicates": 80,
    "problem": {"kind": "quantile", "tau": [0.5, 0.9]},
    "mechanism": {"kind": "randomized_response", "epsilon": 1},
    "algorithm": {"kind": "ldp_sgd"},
    "grid": {"n": [200, 1000], "level": 0.9},
    "method": [
        {"kind": ["oracle", "BM", "SN", "TRC"]},
        {"kind": "PAR", "K": 5},
        {"kind": "EBS", "block_rule": "150"},  # undefined at n = 200
        {"kind": "ACS", "base": "TRC"},
    ],
    "monitor": {},
}


class Tables(HTMLParser):
    """The tables of a page: lists of rows of texts, by the id of the section they stand in."""

    def __init__(self):
        super().__init__()
        self.found, self.section, self.text = {}, "", None

    def handle_starttag(self, tag, attrs):
        if tag == "section":
            self.section = dict(attrs)["id"]
        elif tag == "tr":
            self.found.setdefault(self.section, []).append([])
        elif tag in ("td", "th"):
            self.text = ""

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.found[self.section][-1].append(self.text)
            self.text = None

    def handle_data(self, data):
        if self.text is not None:
            self.text += data


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("arena") / "ring"
    run_study(Study.from_mapping(STUDY), out, engine="serial")
    return open_run(out)


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "new"
    files = run.arena(folder)
    assert files == [str(folder / "index.html"), str(folder / "arena.csv")]
    return folder


@pytest.fixture(scope="module")
def tables(page):
    parser = Tables()
    parser.feed((page / "index.html").read_text())
    return parser.found


def test_every_setting_has_its_table(run, tables):
    settings = settings_of(run.summary().to_pylist())
    assert len(settings) == 4
    for setting in settings:
        keys = setting.keys
        head, *rows = tables["-".join(str(keys[name]) for name in ("path", "n", "level", "coordinate"))]
        assert head[0] == "method" and len(rows) == len(setting.entries) == 7
        truth = " (needs the truth)"
        assert [row[0] for row in rows] == [
            entry.label + (truth if entry.label == "oracle" else "") for entry in setting.entries
        ]
        by_label = dict(zip((row[0].removesuffix(truth) for row in rows), rows, strict=True))
        for entry in setting.entries:
            row = dict(zip(head, by_label[entry.label], strict=True))
            shown = float(row["coverage"].split(" ")[0])
            assert shown == pytest.approx(entry.coverage, abs=6e-4)
            if keys["n"] == 200:
                assert row["undefined"] == ("100.0%" if entry.label == "EBS, 150" else "0")
            if row["coverage - best"] == "-":
                assert entry is setting.reference or row["undefined"] == "100.0%"
                continue
            unpaired = "unpaired" in row["coverage - best"]
            one = entry.row["method"], setting.reference.row["method"]
            assert unpaired == ("PAR" in one)
        reference = dict(zip(head, by_label[setting.reference.label], strict=True))
        assert reference["coverage - best"] == "-"
        assert by_label["SN"][head.index("running sums")] == "self_normalization"
        assert by_label["BM"][head.index("running sums")] == "none"


def test_the_recommendation_is_the_rules(run, tables):
    settings = settings_of(run.summary().to_pylist())
    head, *rows = tables["choice"]
    assert head == ["setting", "n = 200", "n = 1000"]
    assert [row[0] for row in rows] == ["τ = 0.5", "τ = 0.9"]
    for row, tau in zip(rows, (0.5, 0.9), strict=True):
        own = [s for s in settings if s.entries[0].row["tau"] == tau]
        for cell, setting in zip(row[1:], own, strict=True):
            none = UNDECIDED if setting.undecided else "none holds its level"
            name = setting.best.label if setting.best else f"{none}; nearest {setting.nearest.label}"
            assert cell.startswith(name)
            assert not (setting.best and setting.best.row["method"] == "oracle")
    head, *rows = tables["standings"]
    failures = dict(
        zip((row[0] for row in rows), (row[head.index("most failures")] for row in rows), strict=True)
    )
    assert failures["EBS, 150"] == "100.0%" and failures["BM"] == "0"
    assert {row[0] for row in rows} >= {"BM", "SN", "TRC", "oracle (needs the truth)"}


def test_the_page_needs_nothing_from_elsewhere(page):
    text = (page / "index.html").read_text()
    addresses = set(re.findall(r'(?:href|src)="([^"]+)"', text))
    assert all(a.startswith(("#", "data:", "arena.csv")) for a in addresses)
    outside = [word for word in re.findall(r"https?://[^\s\"'<)]+", text) if "w3.org" not in word]
    assert outside == []
    assert text.count("<svg") == 4 and "ldpflow arena" in text


def test_the_rows_are_those_of_the_summary(run, page):
    with (page / "arena.csv").open() as file:
        rows = list(csv.DictReader(file))
    summary = run.summary()
    assert list(rows[0]) == summary.column_names and len(rows) == summary.num_rows
    assert [float(r["coverage_failures_as_misses"]) for r in rows] == summary[
        "coverage_failures_as_misses"
    ].to_pylist()


def test_made_again_it_says_the_same(run, page, tmp_path):
    run.arena(tmp_path)
    clock = re.compile(r"Written [^.]*\.|ldpflow arena [^<]*")
    first, second = (clock.sub("", (f / "index.html").read_text()) for f in (page, tmp_path))
    assert first == second


def test_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="a folder that can be written"):
        run.arena(tmp_path / "file")


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.filterwarnings("ignore")
def test_the_page_in_a_browser(page, tmp_path):
    from selenium.webdriver.common.by import By

    with browser(tmp_path / "profile") as driver:
        for width in (1280, 390):
            resize(driver, width)
            driver.get("about:blank")
            driver.get_log("performance")  # the browser's own first page
            driver.get((page / "index.html").as_uri())
            assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            first = driver.find_element(By.CSS_SELECTOR, "section details")
            driver.execute_script("arguments[0].open = true", first)
            marks = first.find_elements(By.CSS_SELECTOR, "svg .role-mark path")
            assert len(marks) >= 6
            heads = first.find_elements(By.CSS_SELECTOR, "thead th")
            at = [head.get_attribute("textContent") for head in heads].index("length / oracle")
            button = first.find_elements(By.CSS_SELECTOR, "thead button")[at]
            for descending in (False, True):
                driver.execute_script("arguments[0].click()", button)
                cells = [
                    row.find_elements(By.CSS_SELECTOR, "td")[at].get_attribute("data-v")
                    for row in first.find_elements(By.CSS_SELECTOR, "tbody tr")
                ]
                lengths = [float(cell) for cell in cells if cell]
                # What has no length comes last either way.
                assert len(lengths) == 6 and cells[6] == ""
                assert lengths == sorted(lengths, reverse=descending)
            assert complaints(driver) == []
            assert requests(driver) == [(page / "index.html").as_uri()]


@pytest.mark.parametrize("formula", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_of_the_csv_is_a_formula(run, tmp_path, formula):
    table = run.summary()
    for name in ("law", "sampling"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array([formula] * table.num_rows))
    write_site(run.store, table, str(tmp_path / "site"), "made by a test")
    text = (tmp_path / "site" / "arena.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert {row["law"] for row in rows} == {row["sampling"] for row in rows}
    assert not any(row["law"].startswith(("=", "+", "-", "@", "\t")) for row in rows)
    assert formula.lstrip("\t") in rows[0]["law"]
    assert [float(row["coverage"] or "nan") for row in rows] == pytest.approx(
        [float("nan") if v is None else v for v in table["coverage"].to_pylist()], nan_ok=True
    )
