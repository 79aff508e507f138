"""The page of an analysed transcript in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.report.analysis_page import analysis_html
from tests.oracles.transcript import SETTINGS, demo
from tests.report.browser import browser, complaints, missing, opened, requests, resize
from tests.transcripts.conftest import as_table

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.filterwarnings("ignore"),
]


def test_the_page_from_disk(tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    rows, _ = demo(n=4000)
    methods = [{"kind": "BM"}, {"kind": "TR"}, {"kind": "SN"}]
    file = tmp_path / "page.html"
    file.write_text(analysis_html(analyse(as_table(rows), SETTINGS | {"method": methods})), encoding="utf-8")
    with browser(tmp_path / "profile") as page:
        for width in (1280, 390):
            resize(page, width)
            opened(page, file.as_uri())
            charts = page.find_elements(By.CSS_SELECTOR, ".chart")
            assert [chart.get_attribute("data-figure") for chart in charts] == ["progress-0", "intervals-0"]
            for chart in charts:
                marks = chart.find_elements(By.CSS_SELECTOR, "svg .role-mark path, svg .role-mark line")
                assert len(marks) >= 3, chart.get_attribute("data-figure")
            assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            head = page.find_element(By.CSS_SELECTOR, "#rows th button")
            page.execute_script("arguments[0].click()", head)
            names = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#rows tbody td:first-child")]
            assert names == sorted(names) and len(names) == 3
            assert complaints(page) == []
            assert requests(page) == [file.as_uri()]
