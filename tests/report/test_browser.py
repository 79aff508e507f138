"""The report, the page that follows a sweep and that of an analysis in a real browser."""

import dataclasses

import pytest

from ldpflow.cli.sheets import COVERAGE
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.report.analysis_page import analysis_html
from ldpflow.report.page import report_html
from ldpflow.report.results import Results, rank_series
from tests.oracles.transcript import SETTINGS, demo
from tests.report.browser import browser, check_quiet, js, missing, open_page, prefer, wait
from tests.report.conftest import sweep
from tests.report.test_figures import FOLLOWED
from tests.transcripts.conftest import as_table

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def file(tmp_path):
    return tmp_path / "report.html"


def drawn_figures(page):
    """Names of the figures, each with marks. Nothing makes a reader scroll sideways but a wide table."""
    assert js(page, "document.documentElement.scrollWidth <= innerWidth")
    marks = "c.querySelectorAll('svg .role-mark path, svg .role-mark line').length"
    counts = js(page, f"{every('.chart[role]')}.map(c => [c.dataset.figure, {marks}])")
    assert all(count >= 3 for _, count in counts), counts
    return [name for name, _ in counts]


def every(selector):
    return f"[...document.querySelectorAll(`{selector}`)]"


def texts(page, selector):
    return js(page, f"{every(selector)}.map(x => x.textContent)")


def click(page, selector):
    page.execute_script(f"document.querySelector(`{selector}`).click()")
    wait(page)


def pick(page, name, value):
    click(page, f"#picker details[data-name={name}] input[value='{value}']")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_from_disk(page, page_text, file, width):
    file.write_text(page_text, encoding="utf-8")
    open_page(page, file, width)
    assert len(drawn_figures(page)) >= 7
    at = 1 + texts(page, "#cell-table th").index("coverage ± MCSE")
    for descending in (False, True):
        click(page, f"#cell-table th:nth-child({at}) button")
        found = [
            float(text.split()[0]) for text in texts(page, f"#cell-table td:nth-child({at})") if text != "-"
        ]
        # Eight of 48 cells have no finished replicate.
        assert found == sorted(found, reverse=descending) and len(found) == 40
    # In a narrow window each row names its columns, and nothing is beyond the edge.
    label = "getComputedStyle(document.querySelector('#which td'), '::before').content"
    assert (js(page, label) != "none") == (width == 390)
    if width == 390:
        hidden = "td.scrollWidth > td.clientWidth || td.getBoundingClientRect().right > innerWidth"
        assert js(page, f"{every('#which td, #failures td, #cell-table td')}.filter(td => {hidden})") == []
    # A drawing that was made for a wider window is no wider than this one.
    page.execute_script("document.querySelector('svg.marks').setAttribute('width', 3000)")
    assert js(page, "document.querySelector('svg.marks').getBoundingClientRect().right <= innerWidth")

    # One choice filters figures, the table of cells, and the counts at a glance.
    pick(page, "epsilon", "1")
    (words,) = texts(page, "[data-figure=coverage] svg.marks")
    assert "ε = 1" in words and "ε = 0.5" not in words
    assert texts(page, "#picked") == ["24 of 48 cells"]
    whole = "getComputedStyle(document.querySelector('#failures p'), '::before').content"
    assert "Over all settings" in js(page, whole)
    assert texts(page, "#chosen")[0].startswith("Of the 20 chosen cells that are judged")
    assert {*texts(page, "#glance-table tbody td:nth-child(2)")} == {"4"}

    # Axes have the chosen values alone, and a table without rows says so.
    labels = "[data-figure=length] .role-axis-label text"
    empty = "document.querySelector('#failures .scroll').classList.contains('empty')"
    heights = "document.querySelector('[data-figure=length] [aria-label^=\"Y-axis\"]').ariaLabel"
    assert "100" in texts(page, labels) and not js(page, empty)
    before = js(page, heights)
    pick(page, "n", "1000")
    pick(page, "series", "SN")
    assert "1000" in texts(page, labels) and "100" not in texts(page, labels) and js(page, empty)
    assert js(page, heights) != before  # the range of what is chosen

    shade = "getComputedStyle(document.body).backgroundColor"
    ink = "getComputedStyle(document.querySelector('.role-axis-label text')).fill"
    light = [js(page, shade), js(page, ink)]
    prefer(page, "dark")
    assert js(page, shade) != light[0] and js(page, ink) != light[1]
    prefer(page, "light")
    check_quiet(page, file)


def test_paper_has_every_panel_and_open_details(page, results, file):
    lowest = {COVERAGE: min(row[COVERAGE] for row in results.rows)}
    rows = [
        row | {"gamma": 0.5 + at / 100} | (lowest if at == 5 else {})
        for at in range(6)
        for row in results.rows
    ]
    rank_series(rows, results.method_settings)
    file.write_text(report_html(dataclasses.replace(results, rows=rows)), encoding="utf-8")
    open_page(page, file, 1280)
    assert "worst by coverage" in texts(page, "#length .shown")[0]
    # The sixth has the lowest coverage of all in each cell.
    found = " ".join(texts(page, "#length .chart:not(.supplement .chart) text"))
    assert found.count(" = 0.55") == 2, "of equal lowest coverages the row with the lower others"
    # Twelve rows of panels are two sheets of paper.
    wait(page, f"{every('#length .supplement svg.marks')}.length == 2")
    closed = f"{every('main details:not([open])')}.filter(d => !d.closest('form, .chart, #contents')).length"
    for event, is_open in (("afterprint", False), ("beforeprint", True), ("afterprint", False)):
        page.execute_script(f"window.dispatchEvent(new Event('{event}'))")
        assert js(page, closed) == 0 if is_open else js(page, closed) > 3


def test_a_legend_of_long_names_leaves_space_for_panels(page, page_text, file):
    for name in ("BM", "SN", "oracle"):
        page_text = page_text.replace(f'"{name}"', f'"{name}{" long" * 15}"')
    file.write_text(page_text, encoding="utf-8")
    open_page(page, file, 390)
    assert len(drawn_figures(page)) >= 7
    check_quiet(page, file)


def test_a_report_of_trajectories_alone(page, file, tmp_path_factory):
    run = sweep(tmp_path_factory, FOLLOWED | {"problem": {"kind": "quadratic"}})
    file.write_text(report_html(Results.load(run)), encoding="utf-8")
    open_page(page, file, 390)
    assert js(page, f"{every('.chart[role]')}.map(c => c.scrollWidth <= c.clientWidth)") == [True, True]
    check_quiet(page, file)


def test_a_page_that_follows_a_sweep_reads_itself_again(page, page_text, results, file, monkeypatch):
    monkeypatch.setattr("ldpflow.report.page.RELOAD_SECONDS", 1)
    rows = "document.querySelectorAll('#cell-table tbody tr').length"
    few = dataclasses.replace(results, rows=[row for row in results.rows if row["n"] == 100])
    file.write_text(report_html(few, live=True), encoding="utf-8")
    open_page(page, file, 1280)
    assert js(page, rows) == 24
    pick(page, "series", "SN")
    file.write_text(page_text, encoding="utf-8")
    picked = "document.getElementById('picked').textContent == '8 of 48 cells'"
    wait(page, f"document.documentElement.dataset.drawn && {picked}")
    assert js(page, rows) == 48
    check_quiet(page, file)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_an_analysis(page, file, width):
    rows, _ = demo(n=4000)
    methods = [{"kind": "BM"}, {"kind": "TR"}, {"kind": "SN"}]
    file.write_text(analysis_html(analyse(as_table(rows), SETTINGS | {"method": methods})), encoding="utf-8")
    open_page(page, file, width)
    assert drawn_figures(page) == ["progress-0", "intervals-0"]
    click(page, "#rows th button")
    names = texts(page, "#rows tbody td:first-child")
    assert names == sorted(names) and len(names) == 3
    check_quiet(page, file)
