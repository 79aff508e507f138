"""The report, the page that follows a sweep and that of an analysis in a real browser."""

import dataclasses

import pytest

from ldpflow.cli.sheets import COVERAGE
from ldpflow.engine.run import run_study
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.report.analysis_page import analysis_html
from ldpflow.report.page import report_html
from ldpflow.report.results import Results, rank_series
from ldpflow.study import Study
from tests.oracles.transcript import SETTINGS, demo
from tests.report.browser import browser, complaints, missing, opened, prefer, requests, resize
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


def is_drawn(page):
    return page.execute_script("return document.documentElement.dataset.drawn")


def drawn_figures(page):
    """Names of the figures, each with marks. Nothing makes a reader scroll sideways but a wide table."""
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    marks = "svg .role-mark path, svg .role-mark line"
    counts = page.execute_script(
        "return [...document.querySelectorAll('.chart[role]')]"
        f".map(c => [c.dataset.figure, c.querySelectorAll('{marks}').length])"
    )
    assert all(count >= 3 for _, count in counts), counts
    return [name for name, _ in counts]


def pick(page, name, value):
    from selenium.webdriver.support.ui import WebDriverWait

    box = f"#picker details[data-name={name}] input[value='{value}']"
    page.execute_script(f'document.querySelector("{box}").click()')
    WebDriverWait(page, 60).until(is_drawn)


def test_the_report_from_disk(page, page_text, tmp_path):
    from selenium.webdriver.common.by import By

    file = tmp_path / "report.html"
    file.write_text(page_text, encoding="utf-8")
    for width in (1280, 390):
        resize(page, width)
        opened(page, file.as_uri())
        assert len(drawn_figures(page)) >= 7
        buttons = page.find_elements(By.CSS_SELECTOR, "#cell-table th button")
        (at,) = (at for at, button in enumerate(buttons) if button.text == "coverage ± MCSE")
        column = "return [...document.querySelectorAll('#cell-table tbody tr')]"
        column += f".map(r => parseFloat(r.cells[{at}].textContent)).filter(x => !isNaN(x))"
        for descending in (False, True):
            page.execute_script("arguments[0].click()", buttons[at])
            found = page.execute_script(column)
            # Eight of 48 cells have no finished replicate.
            assert found == sorted(found, reverse=descending) and len(found) == 40
        content = "return getComputedStyle(document.querySelector('{}'), '::before').content"
        # In a narrow window each row names its columns, and nothing is beyond the edge.
        hidden = "return [...document.querySelectorAll('#which td, #failures td, #cell-table td')].filter("
        hidden += (
            "td => td.scrollWidth > td.clientWidth || td.getBoundingClientRect().right > innerWidth).length"
        )
        label = page.execute_script(content.format("#which td"))
        # A drawing that was made for a wider window is no wider than this one.
        assert page.execute_script(
            "const svg = document.querySelector('svg.marks'); svg.setAttribute('width', 3000);"
            "return svg.getBoundingClientRect().right <= innerWidth"
        )
        assert (label != "none") == (width == 390) and (width > 390 or page.execute_script(hidden) == 0)

        pick(page, "epsilon", "1")
        # One choice filters figures, the table of cells, and the counts at a glance.
        words = page.find_element(By.CSS_SELECTOR, "[data-figure=coverage] svg").text
        assert "ε = 1" in words and "ε = 0.5" not in words
        assert page.find_element(By.ID, "picked").text == "24 of 48 cells"
        assert "Over all settings" in page.execute_script(content.format("#failures p"))
        assert page.find_element(By.ID, "chosen").text.startswith("Of the 20 chosen cells that are judged")
        glance = page.find_elements(By.CSS_SELECTOR, "#glance-table tbody td:nth-child(2)")
        assert {cell.text for cell in glance} == {"4"}

        # Axes have the chosen values alone, and a table without rows says so.
        labels = "return [...document.querySelectorAll('[data-figure=length] .role-axis-label text')]"
        labels += ".map(t => t.textContent)"
        assert "100" in page.execute_script(labels)
        empty = "return document.querySelector('#failures .scroll').classList.contains('empty')"
        assert not page.execute_script(empty)
        heights = "return document.querySelector('[data-figure=length] [aria-label^=\"Y-axis\"]').ariaLabel"
        before = page.execute_script(heights)
        pick(page, "n", "1000")
        pick(page, "series", "SN")
        found = page.execute_script(labels)
        assert "1000" in found and "100" not in found
        assert page.execute_script(heights) != before  # the range of what is chosen
        assert page.execute_script(empty)

        shade = "return getComputedStyle(document.body).backgroundColor"
        ink = "return getComputedStyle(document.querySelector('.role-axis-label text')).fill"
        light = (page.execute_script(shade), page.execute_script(ink))
        prefer(page, "dark")
        assert page.execute_script(shade) != light[0] and page.execute_script(ink) != light[1]
        prefer(page, "light")
        assert complaints(page) == []
        assert requests(page) == [file.as_uri()]


def test_paper_has_every_panel_and_open_details(page, results, tmp_path):
    from selenium.webdriver.support.ui import WebDriverWait

    lowest = {COVERAGE: min(row[COVERAGE] for row in results.rows)}
    rows = [
        row | {"gamma": 0.5 + at / 100} | (lowest if at == 5 else {})
        for at in range(6)
        for row in results.rows
    ]
    rank_series(rows, results.method_settings)
    file = tmp_path / "report.html"
    file.write_text(report_html(dataclasses.replace(results, rows=rows)), encoding="utf-8")
    resize(page, 1280)
    opened(page, file.as_uri())
    words = page.execute_script("return document.querySelector('#length .shown').textContent")
    assert "worst by coverage" in words
    # The sixth has the lowest coverage of all in each cell.
    headings = "return [...document.querySelectorAll('#length .chart:not(.supplement .chart) text')]"
    found = page.execute_script(f"{headings}.map((text) => text.textContent).join(' ')")
    assert found.count(" = 0.55") == 2, "of equal lowest coverages the row with the lower others"
    # Twelve rows of panels are two sheets of paper.
    drawn = "return document.querySelectorAll('#length .supplement svg.marks').length"
    WebDriverWait(page, 60).until(lambda p: p.execute_script(drawn) == 2)
    closed = "return [...document.querySelectorAll('main details:not([open])')]"
    closed += ".filter(d => !d.closest('form, .chart, #contents')).length"
    for event, is_open in (("afterprint", False), ("beforeprint", True), ("afterprint", False)):
        page.execute_script(f"window.dispatchEvent(new Event('{event}'))")
        count = page.execute_script(closed)
        assert count == 0 if is_open else count > 3


def test_a_legend_of_long_names_leaves_space_for_panels(page, page_text, tmp_path):
    file = tmp_path / "report.html"
    names = {f'"{name}"': f'"{name}{" long" * 15}"' for name in ("BM", "SN", "oracle")}
    for name, other in names.items():
        page_text = page_text.replace(name, other)
    file.write_text(page_text, encoding="utf-8")
    resize(page, 390)
    opened(page, file.as_uri())
    assert complaints(page) == [] and len(drawn_figures(page)) >= 7


def test_a_report_of_trajectories_alone(page, tmp_path):
    study = {**FOLLOWED, "problem": {"kind": "quadratic"}}
    run_study(Study.from_mapping(study), tmp_path / "run", engine="serial")
    file = tmp_path / "report.html"
    file.write_text(report_html(Results.load(tmp_path / "run")), encoding="utf-8")
    resize(page, 390)
    opened(page, file.as_uri())
    fits = "return [...document.querySelectorAll('.chart[role]')].map(c => c.scrollWidth <= c.clientWidth)"
    assert page.execute_script(fits) == [True, True]
    assert complaints(page) == []
    assert requests(page) == [file.as_uri()]


def test_a_page_that_follows_a_sweep_reads_itself_again(page, page_text, results, tmp_path, monkeypatch):
    from selenium.webdriver.support.ui import WebDriverWait

    monkeypatch.setattr("ldpflow.report.page.RELOAD_SECONDS", 1)
    file = tmp_path / "report.html"

    def rows():
        return int(page.execute_script("return document.querySelectorAll('#cell-table tbody tr').length"))

    few = dataclasses.replace(results, rows=[row for row in results.rows if row["n"] == 100])
    file.write_text(report_html(few, live=True), encoding="utf-8")
    opened(page, file.as_uri())
    assert rows() == 24
    pick(page, "series", "SN")
    file.write_text(page_text, encoding="utf-8")
    drawn = "return document.documentElement.dataset.drawn && document.getElementById('picked').textContent"
    WebDriverWait(page, 60).until(lambda p: p.execute_script(drawn) == "8 of 48 cells")
    assert rows() == 48
    assert complaints(page) == []
    assert set(requests(page)) == {file.as_uri()}


def test_the_page_of_an_analysis(page, tmp_path):
    from selenium.webdriver.common.by import By

    rows, _ = demo(n=4000)
    methods = [{"kind": "BM"}, {"kind": "TR"}, {"kind": "SN"}]
    file = tmp_path / "page.html"
    file.write_text(analysis_html(analyse(as_table(rows), SETTINGS | {"method": methods})), encoding="utf-8")
    for width in (1280, 390):
        resize(page, width)
        opened(page, file.as_uri())
        assert drawn_figures(page) == ["progress-0", "intervals-0"]
        head = page.find_element(By.CSS_SELECTOR, "#rows th button")
        page.execute_script("arguments[0].click()", head)
        names = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#rows tbody td:first-child")]
        assert names == sorted(names) and len(names) == 3
        assert complaints(page) == []
        assert requests(page) == [file.as_uri()]
