"""The report and the live page in a real browser."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from ldpflow.engine import run_study
from ldpflow.report.page import report_html
from ldpflow.report.results import Results
from ldpflow.report.serve import server
from ldpflow.study import Study
from tests.report.browser import browser, complaints, missing, opened, requests, resize
from tests.report.test_trajectory_plot import STUDY as FOLLOWED

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.filterwarnings("ignore"),
]


def test_the_report_from_disk(results: Results, tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    file = tmp_path / "report.html"
    file.write_text(report_html(results), encoding="utf-8")
    with browser(tmp_path / "profile") as page:
        for width in (1280, 390):
            resize(page, width)
            opened(page, file.as_uri())
            charts = page.find_elements(By.CSS_SELECTOR, ".chart")
            assert len(charts) >= 7
            for chart in charts:
                marks = chart.find_elements(By.CSS_SELECTOR, "svg .role-mark path, svg .role-mark line")
                assert len(marks) > 3, chart.get_attribute("data-figure")
            # Nothing makes a reader scroll sideways; wide tables scroll by themselves.
            assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")

            def column(number: int) -> list[float]:
                cells = page.execute_script(
                    "return [...document.querySelectorAll('#cell-table tbody tr')]"
                    ".map(r => r.cells[arguments[0]].dataset.v)",
                    number,
                )
                return [float(cell) for cell in cells if cell]

            heads = [h.text for h in page.find_elements(By.CSS_SELECTOR, "#cell-table th")]
            at = heads.index("coverage ± MCSE")
            button = page.find_elements(By.CSS_SELECTOR, "#cell-table th button")[at]
            for descending in (False, True):
                page.execute_script("arguments[0].click()", button)
                assert column(at) == sorted(column(at), reverse=descending)

            page.find_element(By.ID, "filter").send_keys("SN")
            assert page.find_element(By.ID, "count").text == "8 of 48 rows"

            shade = "return getComputedStyle(document.body).backgroundColor"
            ink = "return getComputedStyle(document.querySelector('.role-axis-label text')).fill"
            before = (page.execute_script(shade), page.execute_script(ink))
            for _ in range(2):  # auto (light here), light, dark
                page.execute_script("document.getElementById('theme').click()")
            after = (page.execute_script(shade), page.execute_script(ink))
            assert page.find_element(By.ID, "theme").text == "Theme: dark"
            assert before[0] != after[0] and before[1] != after[1]
            assert complaints(page) == []
            assert requests(page) == [file.as_uri()]
            page.execute_script("localStorage.clear()")  # the theme


def test_a_report_of_trajectories_alone(tmp_path: Path) -> None:
    study = {**FOLLOWED, "problem": {"kind": "quadratic"}}
    run_study(Study.from_mapping(study), tmp_path / "run", engine="serial")
    file = tmp_path / "report.html"
    file.write_text(report_html(Results.load(tmp_path / "run")), encoding="utf-8")
    with browser(tmp_path / "profile", 390) as page:
        opened(page, file.as_uri())
        fits = "return [...document.querySelectorAll('.chart')].map(c => c.scrollWidth <= c.clientWidth)"
        assert page.execute_script(fits) == [True, True]
        assert complaints(page) == []
        assert requests(page) == [file.as_uri()]


def test_the_live_page_follows(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    monkeypatch.setattr("ldpflow.report.serve.PATIENCE", 0.0)

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    late = sorted((copy / "replicates").glob("*/*.parquet"))[0]
    late.rename(tmp_path / late.name)
    with server(str(copy), port=0) as live, browser(tmp_path / "profile") as page:
        thread = threading.Thread(target=live.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            address = f"http://127.0.0.1:{live.server_port}/"
            opened(page, address)
            count = "return document.querySelectorAll('#cell-table tbody tr').length"
            assert page.execute_script(count) == 36
            (tmp_path / late.name).rename(late)
            WebDriverWait(page, 60).until(lambda p: p.execute_script(count) == 48)
            drawn = "return document.querySelectorAll('.chart.drawn svg').length"
            WebDriverWait(page, 30).until(lambda p: p.execute_script(drawn) >= 7)
            assert complaints(page) == []
            assert set(requests(page)) == {address}
        finally:
            live.shutdown()
            thread.join()
